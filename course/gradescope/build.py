"""Make the autograder's zip for Gradescope.

    python -m course.gradescope.build --part 1 --gold course/gold data/practice --out OUT

OUT/autograder.zip is what to upload. OUT may be the folder of course/grade.py's results: both then
share the assignment's secret, and with it the hidden inputs. The zip holds the labels and the
solution, so keep it private.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from pathlib import Path

from course.grading import batch
from course.grading.judging import predictions
from course.handout import files_of
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.writing import atomic_write

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
NOT_NEEDED = ("tests", "variants")  # folders of course/
SUFFIXES = (".py", ".toml", ".html", ".css", ".md", ".yml")


def all_files(args: argparse.Namespace) -> dict[str, bytes]:
    """Everything in the zip, by name: the solution, the grader, the labels."""
    files = {name: (HERE / name).read_bytes() for name in ("setup.sh", "run_autograder")}
    shipped = {path for _, path in files_of(ROOT, 3)}
    grader = {path for path in (ROOT / "course").rglob("*") if path.suffix in SUFFIXES}
    for path in shipped | grader | set(ROOT.glob("*.py")):
        name = path.relative_to(ROOT)
        if name.parts[0] != "course" or name.parts[1] not in NOT_NEEDED:
            files[f"repo/{name.as_posix()}"] = path.read_bytes()
    for gold in predictions.load_gold(*args.gold).values():
        path = next(path for folder in args.gold if (path := folder / gold.file).is_file())
        files[f"gold/{gold.file}"] = path.read_bytes()
    assignment = {"part": args.part, "secret": batch.secret_of(args.out, args.part)}
    files["assignment.json"] = json.dumps(assignment).encode()
    return dict(sorted(files.items()))


def main() -> None:
    """Write the zip."""
    parser = OneLineParser(description="Make the autograder's zip for Gradescope.")
    parser.add_argument("--part", type=int, choices=(1, 2, 3), default=1, help="of the course")
    gold = "folders of labelled data files"
    parser.add_argument("--gold", type=Path, required=True, nargs="+", help=gold)
    parser.add_argument("--out", type=Path, required=True, help="folder for the zip and the secret")
    args = parser.parse_args()
    files, target = all_files(args), args.out / "autograder.zip"
    with atomic_write(target, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    print(f"{target}: {len(files)} files, {target.stat().st_size / 1e6:.1f} MB; keep it private")


if __name__ == "__main__":
    run_script(main)
