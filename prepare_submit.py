"""Check everything a submission needs, then zip it.

    python prepare_submit.py
    python prepare_submit.py --part 2 --name 1234_groupname

All faults are listed at once, and with any fault no zip is written. This file knows the names and
formats of what is handed in, not how it was made: it imports no student's code, it only parses it.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.graded_tasks import GRADED_TASKS
from datasets import load_data, load_pairs
from evaluation import accuracy_and_f1, pearson, read_predictions
from training.arguments import OneLineParser, run_script
from training.course_files import data_folder, multitask_files
from training.errors import InputError
from training.files import atomic_write

ZIP_NAME = "dnlp_final_project_submission.zip"
CODE = ("bert.py", "classifier.py", "optimizer.py", "setup.sh")
CODE_PART_2 = (*CODE, "multitask_classifier.py", "README.md")
# A task's column of predictions, its data files' column of labels, how many classes it has
MULTITASK = {
    "sst": ("Predicted_Sentiment", "sentiment", 5),
    "para": ("Predicted_Is_Paraphrase", "is_duplicate", 2),
    "sts": ("Predicted_Similarity", "similarity", None),
}
# Files of predictions. Part 1's: the data, the split, how many classes; part 2's: task and split
PART_1_FILES = {
    f"predictions/{option}-{name}-{split}-out.csv": (name, split, classes)
    for name, classes in (("sst", 5), ("cfimdb", 2))
    for option in ("pretrain", "finetune")
    for split in ("dev", "test")
}
PART_2_FILES = {
    f"predictions/{task}-{split}-output.csv": (task, split)
    for task in MULTITASK
    for split in ("dev", "test")
}
FIXED_DATE = (2020, 1, 1, 0, 0, 0)  # the same files give the same zip, byte for byte


@dataclass(frozen=True)
class Prediction:
    """A file of predictions and the data file whose ids it must cover."""

    path: str
    data_file: Path
    split: str
    column: str
    label: str
    classes: int | None  # None: any finite number will do
    required: bool = True

    def rows(self) -> list[tuple]:
        """The rows it predicts: (text …, label, id), without label in the test split."""
        if self.label == "sentiment":
            return load_data(self.data_file, self.split)
        return load_pairs(self.data_file, self.split, self.label)


def part1_predictions(data_dir: str | None) -> list[Prediction]:
    """SST's four files, which are required, and CFIMDB's four, checked where present."""
    data = data_folder(data_dir)
    return [
        Prediction(
            path,
            data / f"ids-{name}-{'test-student' if split == 'test' else split}.csv",
            split,
            "Predicted_Sentiment",
            "sentiment",
            classes,
            required=name == "sst",
        )
        for path, (name, split, classes) in PART_1_FILES.items()
    ]


def part2_predictions(data_dir: str | None) -> list[Prediction]:
    """The six files of the three tasks."""
    files = multitask_files(data_dir)
    return [
        Prediction(
            path,
            Path(files[f"{task}_{split}"] or "quora-test-student.csv"),  # '': it is nowhere
            split,
            *MULTITASK[task],
        )
        for path, (task, split) in PART_2_FILES.items()
    ]


def check_code(path: Path) -> list[str]:
    """Faults of a source file: missing, empty, or not Python."""
    if not path.is_file():
        return [f"{path} is missing"]
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            ast.parse(text)
    except (SyntaxError, UnicodeDecodeError, ValueError) as error:
        return [f"{path} does not parse: {error}"]
    return [] if text.strip() or path.name == "__init__.py" else [f"{path} is empty"]


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


def all_code(given: Sequence[str]) -> list[Path]:
    """These files and every further one they import, also by way of others, in a fixed order."""
    files = [Path(name) for name in given]
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
    found = [Path(given)] if given else [p for p in _files() if p.suffix.lower() == ".pdf"]
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


def _files() -> list[Path]:
    return sorted(path for path in Path(".").iterdir() if path.is_file())


def unfinished(path: Path) -> list[str]:
    """Titles of the tasks whose function in this file still raises NotImplementedError."""
    text = path.read_text(encoding="utf-8")
    return [
        task.title
        for task in GRADED_TASKS
        if task.file == path.name and f'NotImplementedError("{task.title}' in text
    ]


def check_predictions(wanted: Prediction) -> tuple[list[str], str]:
    """(faults, what the grader will see) of one file of predictions."""
    path = Path(wanted.path)
    if not path.is_file():
        return ([f"{path} is missing"], "") if wanted.required else ([], "")
    try:
        predicted = read_predictions(path, wanted.column)
        rows = wanted.rows()
    except InputError as error:
        return [str(error)], ""
    ids = {row[-1] for row in rows}
    faults = []
    for what, keys in (
        ("lacks", ids - predicted.keys()),
        ("has unknown", predicted.keys() - ids),
    ):
        if keys:
            faults.append(f"{path} {what} {len(keys)} ids of {wanted.data_file}: {_some(keys)}")
    if wanted.classes:
        wrong = [key for key, value in predicted.items() if value not in range(wanted.classes)]
        if wrong:
            faults.append(
                f"{path} has {len(wrong)} values that are not classes 0 to {wanted.classes - 1}: "
                f"{_some(f'{key}={predicted[key]:g}' for key in wrong)}"
            )
    return (faults, "") if faults else ([], describe(wanted, rows, predicted))


def describe(wanted: Prediction, rows: list[tuple], predicted: dict[str, float]) -> str:
    """How many predictions, how they spread, and on dev how good they are."""
    values = [predicted[row[-1]] for row in rows]
    if wanted.classes:
        counts = Counter(int(value) for value in values)
        shares = " ".join(f"{label}:{counts[label]}" for label in range(wanted.classes))
        seen = f"{len(values):5d} predictions, classes {shares}"
    else:
        seen = f"{len(values):5d} predictions from {min(values):g} to {max(values):g}"
    if wanted.split != "dev":
        return seen
    gold = [row[-2] for row in rows]
    if wanted.classes:
        return f"{seen}, accuracy {accuracy_and_f1(gold, values)[0]:.3f}"
    return f"{seen}, Pearson {pearson(gold, values):.3f}"


def _some(items) -> str:
    items = sorted(items)
    return ", ".join(items[:3]) + (" …" if len(items) > 3 else "")


def build_zip(files: Sequence[Path], target: Path, part: int) -> None:
    """Zip files under their paths in the repository; only ever over an older zip of this part."""
    if target.is_file():
        try:
            with zipfile.ZipFile(target) as old:
                comment = old.comment
        except zipfile.BadZipFile:
            comment = b""
        if comment != _comment(part):
            other = any(comment == _comment(number) for number in (1, 2))
            what = comment.decode() if other else f"no zip that part {part} of this script wrote"
            raise InputError(f"{target} is {what}; move it away, or give --name to this one")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = _comment(part)
        for file in files:
            info = zipfile.ZipInfo(name_in_zip(file), FIXED_DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())
    with atomic_write(target, "wb") as file:
        file.write(content.getvalue())


def name_in_zip(file: Path) -> str:
    """Its path in the current folder; of a file from elsewhere the name alone."""
    path = Path(os.path.abspath(file))  # symbolic links, as of a predictions folder, stay
    inside = path.is_relative_to(Path.cwd())
    return path.relative_to(Path.cwd()).as_posix() if inside else path.name


def _comment(part: int) -> bytes:
    return f"a submission of part {part}".encode()


def zip_name(name: str | None) -> str:
    """The zip's file name; ``name`` goes before it."""
    if name is None:
        return ZIP_NAME
    if not name.replace("_", "").replace("-", "").isalnum() or not name.isascii():
        raise InputError(f"--name {name!r}: only letters, digits, - and _")
    return f"{name}_{ZIP_NAME}"


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(prog="prepare_submit.py", description="Check and zip a submission.")
    parser.add_argument("--part", type=int, choices=(1, 2), default=1, help="of the course")
    parser.add_argument("--name", help="ID_GROUP, goes in front of the zip's name")
    parser.add_argument("--data_dir", help="folder of the data files predicted on")
    parser.add_argument("--ai_card", help="part 2: the AI-usage card, if there are several PDFs")
    args = parser.parse_args()
    if args.ai_card and args.part == 1:
        parser.error("--ai_card belongs to --part 2")
    return args


def main() -> None:
    """Check the files of one part in the current folder and zip them."""
    args = get_args()
    target = Path(zip_name(args.name))
    if args.part == 1:
        code, predictions = [Path(name) for name in CODE], part1_predictions(args.data_dir)
    else:
        code, predictions = all_code(CODE_PART_2), part2_predictions(args.data_dir)
    faults = [fault for path in code for fault in check_code(path)]
    cards = []
    if args.part == 2:
        try:
            cards = [find_ai_card(args.ai_card)]
        except InputError as error:
            faults.append(str(error))
    seen = {}
    for wanted in predictions:
        more_faults, line = check_predictions(wanted)
        faults += more_faults
        if line:
            seen[wanted.path] = line
    if faults:
        listed = "\n".join(f"  - {fault}" for fault in faults)
        raise InputError(f"no zip written, {len(faults)} faults:\n{listed}")
    files = [*code, *cards, *(Path(path) for path in seen)]
    build_zip(files, target, args.part)
    print(f"{target} ({target.stat().st_size:,} bytes), which the grader will see as:")
    for path in files:
        print(f"  {name_in_zip(path):45s} {seen.get(path.as_posix(), '')}")
    for title in (title for path in code for title in unfinished(path)):
        print(f"  note: {title} is still not written")


if __name__ == "__main__":
    run_script(main)
