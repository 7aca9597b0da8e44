"""The fixtures of tests/support.py, for the tests of this folder, and an option of CI's."""

import pytest
from support import (  # noqa: F401
    browser,
    check_here,
    chromium,
    fit_sandbox,
    run_script_here,
    tiny_data,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """What CI asks for besides."""
    parser.addoption("--all-mistakes", action="store_true", help="judge all of course/mistakes")
