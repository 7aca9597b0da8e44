"""The fixtures of tests/fixtures.py, for the tests of this folder."""

from fixtures import browser, check_here, chromium, fit_sandbox, run_script_here, tiny_data  # noqa: F401
