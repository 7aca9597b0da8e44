"""The fixtures of fixtures.py for the tests of this folder, and the order in which they run."""

import pytest
from fixtures import (  # noqa: F401
    browser,
    check_here,
    chromium,
    message,
    model_without_dropout,
    offline_model,
    real_data,
    run_script_here,
    tiny_data,
    tiny_model_folder,
)

FAST = """
    bert config weights tokenizer optimizer fast datasets evaluation masking training structure docs
    sanity_hints extensions ext_efficient ext_features
    ext_multitask ext_regularisers ext_similarity
""".split()  # files; no test in them takes long, and few start a program
LONGEST = "techniques processes resume sanity_part2".split()  # files


def pytest_addoption(parser: pytest.Parser) -> None:
    """What changes the reviewed messages; see fixtures.message."""
    parser.addoption("--write-messages", action="store_true", help="write tests/messages.txt")


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-xdist hand out files in the order below, not those with the most tests first."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what ``-m fast`` runs; put the files that take longest first, lest one worker waits."""
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.stem.removeprefix("test_"), len(ranks)))
    for item in items:
        if item.path.stem.removeprefix("test_") in FAST:
            item.add_marker("fast")
