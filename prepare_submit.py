"""Check everything a submission needs, then zip it.

    python prepare_submit.py
    python prepare_submit.py --part 2 --name 1234_groupname
    python prepare_submit.py --part 3 --name 1234_groupname    functions alone, no predictions
    python prepare_submit.py --code-only    the same for parts 1 and 2, while a run is unfinished

All faults are listed at once, and with any fault no zip is written. A function that fails its check
is no such fault: sanity_check.py names it, once the zip is there. This file imports no code of
students, it only parses it.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from checks.graded_tasks import GRADED_TASKS
from datasets import load_data, load_pairs
from evaluation import accuracy, pearson
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.course_files import SETS, SPLITS, data_folder
from training.files.errors import InputError
from training.files.imports import with_imported
from training.files.predictions import in_order, read_predictions
from training.files.texts import read_text
from training.files.writing import atomic_write

ROOT = Path(__file__).resolve().parent
ZIP_NAME = "dnlp_final_project_submission.zip"
CODE = ("bert.py", "classifier.py", "optimizer.py", "setup.sh")
TESTS = "my_tests.py"  # of part 1, optional
PART_3_CODE = sorted({task.file for task in GRADED_TASKS if task.part == 3})  # if it is here
PART_1_FILES = {  # of predictions: data set and split
    f"predictions/{option}-{task}-{split}-out.csv": (task, split)
    for task in ("sst", "cfimdb")
    for option in ("pretrain", "finetune")
    for split in ("dev", "test")
}
RATES = {"pretrain": "1e-3", "finetune": "1e-5"}  # of the course
# What part 2 hands in; a handout may lack part 2 or 3
HAS_PART_2 = (ROOT / "checks" / "part2").is_dir()
part_2: Any = importlib.import_module("checks.part2.submission") if HAS_PART_2 else None
PARTS = [1] + [2] * HAS_PART_2 + [3] * bool(PART_3_CODE)
# Files and folders of the handout that are not handed in
GIVEN = {"base_bert.py", "config.py", "datasets.py", "evaluation.py", "tokenizer.py", "utils.py"}
GIVEN |= {"sanity_check.py", "optimizer_test.py", "prepare_submit.py"}
GIVEN |= {"checks", "lessons", "pretraining", "training"}
COMMENT = b"a submission of part %d"  # a zip's, so that no part replaces another one's


def code_of(part: int) -> list[Path]:
    """The scripts of a part, and the student's own files that they import."""
    if part == 1:
        return with_imported((*CODE, *[TESTS] * Path(TESTS).is_file()), GIVEN)
    if part == 3:
        return [Path(name) for name in PART_3_CODE]
    return with_imported((*CODE, *part_2.CODE))


def predictions_of(part: int) -> dict[str, tuple[str, str]]:
    """Part 2's six files; part 1's are SST's four and those of CFIMDB that are there."""
    if part == 2:
        return part_2.FILES
    files = PART_1_FILES if part == 1 else {}
    return {path: of for path, of in files.items() if of[0] == "sst" or Path(path).is_file()}


def command_for(path: Path, task: str, data_dir: str | None) -> str:
    """The command that writes a file of predictions."""
    option = path.name.split("-")[0]
    if option in RATES:
        command = f"python classifier.py --only {task} --option {option} --lr {RATES[option]}"
    else:
        command = part_2.COMMAND
    return f"{command} --data_dir {shlex.quote(data_dir)}" if data_dir else command


def check_code(path: Path) -> None:
    """InputError where a source file is missing, or is not Python."""
    if not path.is_file():
        raise InputError(f"{path} is missing: git checkout -- {path} restores it")
    text = read_text(path)
    try:
        if path.suffix == ".py":
            ast.parse(text, path.name)
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path} does not parse: {error}") from None


def summary_of(path: Path, task: str, split: str, folder: Path, command: str) -> str:
    """What the grader will see in a file of predictions; InputError where it refuses the file.

    Args:
        folder: of the data files, whose ids the predictions must cover.
        command: which writes the file.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing: {command} writes it")
    stem, column, label, classes = SETS[task]
    data_file = folder / f"{stem}-{SPLITS[split]}.csv"
    is_single = label == "sentiment"
    rows = load_data(data_file, split) if is_single else load_pairs(data_file, split, label)
    ids = [row[-1].lower() for row in rows]  # as read_predictions gives them
    remedy = f"{command} writes it again"
    try:
        predicted = read_predictions(path, column)
        remedy += "; if it is of other data, name them by --data_dir"
        values = in_order(predicted, ids, str(data_file), classes, str(path))
    except InputError as error:
        raise InputError(f"{error}; {remedy}") from None
    summary = f"{len(values):5d} predictions from {min(values):g} to {max(values):g}"
    if split == "dev":
        labels = [row[-2] for row in rows]
        name, metric = ("accuracy", accuracy) if classes else ("Pearson", pearson)
        score = metric(labels, values)
        guess = max(map(labels.count, {*labels})) / len(labels) if classes else 0.0
        summary += f", {name} {score:.3f}"
        if score <= guess:
            summary += f"; the same answer in every row reaches {guess:.3f}"
    elif min(values) == max(values):
        summary += ", the same answer in every row"
    return summary


def build_zip(files: Sequence[Path], target: Path, part: int) -> None:
    """Zip files under their paths in the repository."""
    options = {"compression": zipfile.ZIP_DEFLATED, "strict_timestamps": False}
    with atomic_write(target, "wb") as file, zipfile.ZipFile(file, "w", **options) as archive:
        archive.comment = COMMENT % part
        for path in files:
            archive.write(path)


def zip_path(name: str | None, part: int) -> Path:
    """Where the zip goes: ``name`` before its name, and the part if another file has that name."""
    if name is not None and (name == "ID_GROUP" or not re.fullmatch("[A-Za-z0-9_-]+", name)):
        raise InputError(f"--name {name!r}: put your ID and group there (letters, digits, -, _)")
    front = f"{name}_" if name else ""
    path = Path(f"{front}{ZIP_NAME}")
    try:
        with zipfile.ZipFile(path) as archive:
            is_ours = archive.comment == COMMENT % part
    except (OSError, zipfile.BadZipFile):
        is_ours = not path.exists()
    return path if is_ours else Path(f"{front}part{part}_{ZIP_NAME}")


def functions_are_right(part: int) -> bool:
    """Whether the functions up to a part (of part 3 its own) pass the checks, if these are here."""
    command = [sys.executable, "sanity_check.py", "--part"]
    parts = [part] if part == 3 else range(1, part + 1)  # part 3 is handed in alone
    if not Path("sanity_check.py").is_file():
        return True
    print("the checks of your functions, under a minute:", flush=True)
    codes = [subprocess.run([*command, str(n)], check=False).returncode for n in parts]
    return not any(codes)


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(description="Check and zip a submission.")
    parser.add_argument("--part", type=int, choices=PARTS, default=1, help="of the course")
    parser.add_argument("--name", help="ID_GROUP, goes in front of the zip's name")
    parser.add_argument("--data_dir", help="folder of the data files predicted on")
    parser.add_argument("--code-only", action="store_true", help="leave out the predictions")
    return parser.parse_args()


def main() -> None:
    """Check the files of one part in the current folder and zip them."""
    args = get_args()
    target = zip_path(args.name, args.part)
    code = code_of(args.part)
    if not (ROOT.samefile(".") or any(path.is_file() for path in code)):
        raise InputError(f"no file of part {args.part} is in this folder; run it in {ROOT}")
    faults: list[str] = []

    def noted(check: Callable[..., Any], *arguments: Any) -> Any:
        """What a check returns; what it refuses is one of the faults."""
        try:
            return check(*arguments)
        except InputError as error:
            faults.append(str(error))

    for path in code:
        noted(check_code, path)
    cards = []
    if args.part == 2:
        noted(part_2.check_readme, Path("README.md"))
        cards = [noted(part_2.find_ai_card)]
    wanted = {} if args.code_only else predictions_of(args.part)
    folder = data_folder(args.data_dir) if wanted else Path()
    summaries = {}
    for name, (task, split) in wanted.items():
        path = Path(name)
        command = command_for(path, task, args.data_dir)
        summaries[path] = noted(summary_of, path, task, split, folder, command)
    if faults:
        listed = "\n".join(f"  - {fault}" for fault in faults)
        raise InputError(f"no zip written; faults ({len(faults)}):\n{listed}")
    if not args.name:
        print(f"hint: with --name ID_GROUP the zip is called ID_GROUP_{ZIP_NAME}, as staff expect")
    files = [*code, *cards, *summaries]
    done = "replaced" if target.exists() else "wrote"
    build_zip(files, target, args.part)
    print(f"{done} {target} ({target.stat().st_size:,} bytes), which the grader will see as:")
    for path in files:
        print(f"  {path.as_posix():45s} {summaries.get(path, '')}")
    if args.code_only:
        print("without predictions, which are graded, too: hand in a complete zip later")
    if not functions_are_right(args.part):
        print("WRONG: some functions in this zip fail their checks, see above. Correct them and")
        print("zip again; without time for it, hand it in: each function is graded alone.")


if __name__ == "__main__":
    run_script(main)
