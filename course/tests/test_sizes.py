"""The four numbers of sizes.toml: each failure says what the size is and what it may be."""

import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
from factories import ROOT

from course import handout

SIZES = tomllib.loads((ROOT / "sizes.toml").read_text(encoding="utf-8"))
SLACK = 1.02
LIST_MODULES = """
import sys, classifier
files = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
print(*filter(None, files), sep="\\n")
"""


def lines_of(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    """The sizes of this clone, in lines of the Python files that git tracks."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", "*.py"]
    names = subprocess.run(command, capture_output=True, check=False).stdout.decode()
    if not names:
        pytest.skip("git lists no files here: sizes are those of a clone")
    python = [path for name in names.split("\0")[:-1] if (path := ROOT / name).is_file()]
    command = [sys.executable, "-c", LIST_MODULES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    loaded = {Path(line) for line in done.stdout.decode().splitlines()} & set(python)
    assert ROOT / "classifier.py" in loaded
    handed_out = handout.build(ROOT, "1").files
    return {
        "all": lines_of(python),
        "tests": lines_of(path for path in python if "tests" in path.relative_to(ROOT).parts),
        "handout_1": sum(len(handed_out[n].splitlines()) for n in handed_out if n[-3:] == ".py"),
        "import_classifier": lines_of(loaded),
    }


@pytest.mark.parametrize("name", SIZES)
def test_a_size_is_within_its_ceiling(sizes, name):
    assert sizes[name] <= SLACK * SIZES[name], (
        f"{name}: {sizes[name]:,} lines of Python, sizes.toml has {SIZES[name]:,}: remove as many"
    )
