"""What part 2 hands in, besides the files of part 1; prepare_submit.py checks and zips it.

It only parses a student's code, and imports none of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from training.course_files import multitask_files
from training.errors import InputError

CODE = ("multitask_classifier.py", "README.md")
# A task's column of predictions, its data files' column of labels, how many classes it has
COLUMNS = {
    "sst": ("Predicted_Sentiment", "sentiment", 5),
    "para": ("Predicted_Is_Paraphrase", "is_duplicate", 2),
    "sts": ("Predicted_Similarity", "similarity", None),
}
FILES = {  # of predictions: task and split
    f"predictions/{task}-{split}-output.csv": (task, split)
    for task in COLUMNS
    for split in ("dev", "test")
}


def predictions(data_dir: str | None) -> Iterator[tuple]:
    """Of the six files the path, the data file, the split, and the task's COLUMNS."""
    files = multitask_files(data_dir)
    for path, (task, split) in FILES.items():
        data = Path(files[f"{task}_{split}"] or "quora-test-student.csv")  # '': it is nowhere
        yield path, data, split, *COLUMNS[task]


def imported_files(path: Path) -> list[Path]:
    """The Python files in the current folder and its packages that a source file imports."""
    try:
        return [file for file in imports(path.read_text("utf-8"), path) if file.is_file()]
    except (OSError, SyntaxError, ValueError):  # a fault that check_code names
        return []


def imports(source: str, path: Path) -> Iterator[Path]:
    """Where the modules that ``source``, the text of ``path``, imports would lie in this folder."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            depth = len(path.parent.parts) - node.level + 1  # of what the dots stand for
            here = path.parent.parts[: max(0, depth)] if node.level else ()
            module = ".".join([*here, *filter(None, [node.module])])
            # ``from package import name``: the name may be a file of the package
            names = [module, *(f"{module}.{name.name}".strip(".") for name in node.names)]
        else:
            continue
        for name in filter(None, names):
            module = Path(*name.split("."))
            yield from (parent / "__init__.py" for parent in (*module.parents[:-1], module))
            yield module.with_suffix(".py")


def all_code(part_1: Sequence[str]) -> list[Path]:
    """All scripts and every further file they import, also by way of others, in a fixed order."""
    files = [Path(name) for name in (*part_1, *CODE)]
    for path in files:  # the list grows while it is read
        if path.suffix == ".py":
            files += sorted(set(imported_files(path)) - set(files))
    return files


def find_ai_card(given: str | None) -> Path:
    """The AI-usage card: ``given``, or the one PDF of the current folder.

    Raises:
        InputError: no such file, no PDF, or several to choose from.
    """
    remedy = "hand in the AI-usage card as a PDF, named by --ai_card PATH"
    here = sorted(path for path in Path(".").iterdir() if path.is_file())
    found = [Path(given)] if given else [path for path in here if path.suffix.lower() == ".pdf"]
    if not found:
        raise InputError(f"no PDF in this folder; {remedy}")
    if len(found) > 1:
        raise InputError(f"several PDFs ({', '.join(map(str, found))}); {remedy}")
    if not found[0].is_file():
        raise InputError(f"{found[0]} is missing; {remedy}")
    with found[0].open("rb") as file:
        if file.read(5) != b"%PDF-":
            raise InputError(f"{found[0]} is no PDF, whatever its name; {remedy}")
    return found[0]
