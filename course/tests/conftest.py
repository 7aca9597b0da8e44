"""The fixtures of tests/fixtures.py, for the tests of this folder."""

from fixtures import (  # noqa: F401
    browser,
    check_here,
    chromium,
    fit_sandbox,
    run_script_here,
    tiny_data,
    tiny_model_folder,
)
