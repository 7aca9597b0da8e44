"""The fixtures of fixtures.py for the tests of this folder, and the order in which they run."""

import pytest
from fixtures import (  # noqa: F401
    check_here,
    in_browser,
    interruptible,
    resumable,
    run_script_here,
    sst_line,
    tiny_data,
    tiny_model_folder,
)


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-xdist hand out files in the order below, not those with the most tests first."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what ``-m fast`` runs; begin with the contract, which takes longest."""
    items.sort(key=lambda item: "scripts" not in item.path.parts)
    for item in items:
        if "references" in item.path.parts:
            item.add_marker("fast")
