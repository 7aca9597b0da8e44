"""The fixtures of tests/support.py, for the tests of this folder."""

from support import (  # noqa: F401
    browser,
    check_here,
    chromium,
    fit_sandbox,
    run_script_here,
    tiny_data,
)
