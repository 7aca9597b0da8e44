"""The ceilings of sizes.toml: each failure says what the size is and what it may be."""

import ast
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from support import ROOT

from course import handout

SIZES = tomllib.loads((ROOT / "sizes.toml").read_text(encoding="utf-8"))
TESTS = ("tests", "course/tests", "research/tests")
SAMPLES = ("course/attacks", "course/mistakes", "course/variants")  # each is read alone
NOT_CODE = (*TESTS, *SAMPLES, "docs", "data")  # whose folders are lists of things


def tracked(pattern: str = "*") -> list[Path]:
    """The files that git tracks; of a copy without git, all."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", pattern]
    names = subprocess.run(command, capture_output=True, check=False).stdout.decode()
    if not names:
        pytest.skip("git lists no files here: sizes are those of a clone")
    paths = (ROOT / name for name in names.split("\0") if name)
    return sorted(path for path in paths if path.is_file())


def is_below(path: Path, folders: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(ROOT / folder) for folder in folders)


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def hold(ceiling: int, sizes: dict[str, int], unit: str) -> None:
    """No size is above the ceiling; else all that are, the largest first."""
    too_large = sorted(((n, name) for name, n in sizes.items() if n > ceiling), reverse=True)
    listed = "".join(f"\n  {name} has {n:,}" for n, name in too_large)
    remedy = "sizes.toml; raise it there, with a sentence in CHANGELOG.md"
    assert not too_large, f"{unit}, at most {ceiling:,} ({remedy}):{listed}"


@pytest.fixture(scope="module")
def python() -> list[Path]:
    return tracked("*.py")


@pytest.fixture(scope="module")
def product(python) -> list[Path]:
    """What is neither a test nor a sample."""
    return [path for path in python if not is_below(path, (*TESTS, *SAMPLES))]


@pytest.mark.parametrize("what", SIZES["python"])
def test_python_lines(python, what):
    files = [path for path in python if what == "all" or is_below(path, TESTS)]
    hold(SIZES["python"][what], {what: sum(map(lines_of, files))}, "lines of Python")


@pytest.mark.parametrize("folder", SIZES["folders"])
def test_lines_of_a_folder(python, folder):
    """Those at the root are its own alone."""
    files = [path for path in python if not is_below(path, TESTS)]
    if folder == ".":
        files = [path for path in files if path.parent == ROOT]
    else:
        files = [path for path in files if is_below(path, (folder,))]
    assert files, f"sizes.toml has a ceiling for {folder}, which holds no Python"
    hold(SIZES["folders"][folder], {folder: sum(map(lines_of, files))}, "lines of a folder")


def test_every_folder_has_a_ceiling(python):
    folders = {name_of(path).split("/")[0] for path in python if path.parent != ROOT}
    assert folders - {"tests"} == SIZES["folders"].keys() - {"."}


def test_the_longest_function(product):
    sizes = {}
    for path in product:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                sizes[f"{name_of(path)}:{node.lineno} {node.name}"] = (
                    node.end_lineno - node.lineno + 1
                )
    hold(SIZES["longest"]["function"], sizes, "lines of a function")


def test_the_longest_file(product):
    hold(SIZES["longest"]["file"], {name_of(p): lines_of(p) for p in product}, "lines of a file")


def test_files_in_a_folder(product):
    """But at the root, where tools look for their files."""
    with_code = {path.parent for path in product if not is_below(path, NOT_CODE)} - {ROOT}
    counts = defaultdict(int)
    for path in tracked():
        if path.parent in with_code:
            counts[name_of(path.parent)] += 1
    hold(SIZES["longest"]["files_in_folder"], counts, "files in a folder")


@pytest.mark.parametrize("name", SIZES["scripts"])
def test_lines_of_a_script(name):
    hold(SIZES["scripts"][name], {name: lines_of(ROOT / name)}, "lines of a script")


def test_what_importing_classifier_loads():
    """In a fresh process, without --fast; empty files are no modules to read."""
    program = (
        "import sys, classifier\n"
        "files = (getattr(module, '__file__', None) for module in [*sys.modules.values()])\n"
        "print(*{file for file in files if file}, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    python = set(tracked("*.py"))
    files = [path for path in map(Path, done.stdout.splitlines()) if path in python]
    sizes = {name_of(path): lines_of(path) for path in files if path.read_text(encoding="utf-8")}
    assert "classifier.py" in sizes
    listed = ", ".join(sorted(sizes))
    ceilings = SIZES["import_classifier"]
    hold(ceilings["modules"], {f"`import classifier` ({listed})": len(sizes)}, "modules")
    hold(ceilings["lines"], {"`import classifier`": sum(sizes.values())}, "lines")


def test_lines_to_read_for_part_1():
    total = sum(lines_of(ROOT / f"{name}.py") for name in SIZES["part1"]["files"])
    hold(SIZES["part1"]["lines"], {"part 1": total}, "lines to read")


@pytest.mark.parametrize("part", SIZES["handout"])
def test_python_lines_of_a_handout(part):
    files = handout.build(ROOT, part).files
    total = sum(len(text.splitlines()) for name, text in files.items() if name.endswith(".py"))
    hold(SIZES["handout"][part], {f"the handout of part {part}": total}, "lines of Python")


def test_bytes_of_the_tree():
    total = sum(path.stat().st_size for path in tracked())
    hold(SIZES["tree"]["bytes"], {"the tree": total}, "bytes")
