"""Check everything a submission needs, then zip it.

    python prepare_submit.py
    python prepare_submit.py --name 1234_groupname

All faults are listed at once, and with any fault no zip is written.
"""

from __future__ import annotations

import argparse
import ast
import io
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from datasets import data_folder, load_data
from evaluation import accuracy_and_f1, read_predictions
from tasks import TASKS
from utils import InputError, OneLineParser, atomic_write, run_script

ZIP_NAME = "dnlp_final_project_submission.zip"
CODE = ("bert.py", "classifier.py", "optimizer.py", "setup.sh")
FIXED_DATE = (2020, 1, 1, 0, 0, 0)  # the same files give the same zip, byte for byte


@dataclass(frozen=True)
class Prediction:
    """A file of predictions and the data file whose ids it must cover."""

    path: str
    data_file: str
    split: str
    column: str
    classes: int
    required: bool


def part1_predictions() -> list[Prediction]:
    """SST's four files, which are required, and CFIMDB's four, checked where present."""
    return [
        Prediction(
            f"predictions/{option}-{name}-{split}-out.csv",
            f"ids-{name}-{'test-student' if split == 'test' else split}.csv",
            split,
            "Predicted_Sentiment",
            classes,
            required=name == "sst",
        )
        for name, classes in (("sst", 5), ("cfimdb", 2))
        for option in ("pretrain", "finetune")
        for split in ("dev", "test")
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
    return [] if text.strip() else [f"{path} is empty"]


def unfinished(path: Path) -> list[str]:
    """Titles of the tasks whose function in this file still raises NotImplementedError."""
    text = path.read_text(encoding="utf-8")
    return [
        task.title
        for task in TASKS
        if task.file == path.name and f'NotImplementedError("{task.title}' in text
    ]


def check_predictions(wanted: Prediction, data: Path) -> tuple[list[str], str]:
    """(faults, what the grader will see) of one file of predictions."""
    path = Path(wanted.path)
    if not path.is_file():
        return ([f"{path} is missing"], "") if wanted.required else ([], "")
    try:
        predicted = read_predictions(path, wanted.column)
    except InputError as error:
        return [str(error)], ""
    rows = load_data(data / wanted.data_file, wanted.split)
    ids = {row[-1] for row in rows}
    faults = []
    for what, keys in (
        ("lacks", ids - predicted.keys()),
        ("has unknown", predicted.keys() - ids),
    ):
        if keys:
            faults.append(
                f"{path} {what} {len(keys)} ids of {data / wanted.data_file}: {_some(keys)}"
            )
    wrong = [key for key, value in predicted.items() if value not in range(wanted.classes)]
    if wrong:
        faults.append(
            f"{path} has {len(wrong)} values that are not classes 0 to {wanted.classes - 1}: "
            f"{_some(f'{key}={predicted[key]:g}' for key in wrong)}"
        )
    if faults:
        return faults, ""
    counts = Counter(int(value) for value in predicted.values())
    shares = " ".join(f"{label}:{counts[label]}" for label in range(wanted.classes))
    seen = f"{len(predicted):5d} predictions, classes {shares}"
    if wanted.split == "dev":
        accuracy, _ = accuracy_and_f1(
            [row[1] for row in rows], [predicted[row[-1]] for row in rows]
        )
        seen += f", accuracy {accuracy:.3f}"
    return [], seen


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
            info = zipfile.ZipInfo(file.as_posix(), FIXED_DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())
    with atomic_write(target, "wb") as file:
        file.write(content.getvalue())


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
    parser.add_argument("--name", help="ID_GROUP, goes in front of the zip's name")
    parser.add_argument("--data_dir", help="folder of the data files predicted on")
    return parser.parse_args()


def main() -> None:
    """Check the files of part 1 in the current folder and zip them."""
    args = get_args()
    target = Path(zip_name(args.name))
    code = [Path(name) for name in CODE]
    faults = [fault for path in code for fault in check_code(path)]
    data = data_folder(args.data_dir)
    seen = {}
    for wanted in part1_predictions():
        more_faults, line = check_predictions(wanted, data)
        faults += more_faults
        if line:
            seen[wanted.path] = line
    if faults:
        listed = "\n".join(f"  - {fault}" for fault in faults)
        raise InputError(f"no zip written, {len(faults)} faults:\n{listed}")
    files = [*code, *(Path(path) for path in seen)]
    build_zip(files, target, part=1)
    print(f"{target} ({target.stat().st_size:,} bytes), which the grader will see as:")
    for path in files:
        print(f"  {path.as_posix():45s} {seen.get(path.as_posix(), '')}")
    for title in (title for path in code for title in unfinished(path)):
        print(f"  note: {title} is still not written")


if __name__ == "__main__":
    run_script(main)
