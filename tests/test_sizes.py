"""The four numbers of sizes.toml: each failure says what the size is and what it may be."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from factories import ROOT

from course import handout

SIZES = tomllib.loads((ROOT / "sizes.toml").read_text(encoding="utf-8"))
SLACK = 1.02


def hold(name: str, size: int) -> None:
    """Compare a size with its ceiling."""
    assert size <= SLACK * SIZES[name], (
        f"{name}: {size:,} lines of Python, sizes.toml has {SIZES[name]:,}: remove as many first"
    )


def lines_of(paths: list[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


@pytest.fixture(scope="module")
def python() -> list[Path]:
    """The Python files that git tracks."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", "*.py"]
    names = subprocess.run(command, capture_output=True, check=False).stdout.decode()
    if not names:
        pytest.skip("git lists no files here: sizes are those of a clone")
    return [path for name in names.split("\0")[:-1] if (path := ROOT / name).is_file()]


def test_python_lines(python):
    hold("all", lines_of(python))


def test_lines_of_tests(python):
    hold("tests", lines_of([path for path in python if "tests" in path.relative_to(ROOT).parts]))


def test_lines_of_the_handout_of_part_1():
    files = handout.build(ROOT, "1").files
    hold("handout_1", sum(len(files[n].splitlines()) for n in files if n.endswith(".py")))


def test_lines_that_importing_classifier_loads(python):
    program = (
        "import sys, classifier\n"
        "files = (getattr(module, '__file__', None) for module in [*sys.modules.values()])\n"
        "print(*{file for file in files if file}, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = [path for path in map(Path, done.stdout.splitlines()) if path in set(python)]
    assert ROOT / "classifier.py" in loaded
    hold("import_classifier", lines_of(loaded))
