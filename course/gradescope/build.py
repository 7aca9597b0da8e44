"""Make the autograder's zip for Gradescope.

    python course/gradescope/build.py --part 1 --gold course/gold data/practice --out OUT

OUT/autograder.zip is what to upload. OUT may be the folder of course/grade.py's results: both then
share the assignment's secret, and with it hidden inputs and the halves of the test data. It holds
the labels and the solution, so keep it private. The same source and secret give the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from course import grade, table
from course.gradescope import results
from course.grading.judging import predictions
from course.grading.sandbox import packages
from course.grading.sandbox.context import open_context
from course.handout_repository import zipped
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import write_whole

HERE = Path(__file__).resolve().parent
NOT_NEEDED = ("gold", "attacks")  # of course/
TO_RUN = ("setup.sh", "run_autograder")


def repository_files() -> Iterator[tuple[str, bytes]]:
    """The grader's own files, the solution, and what ships, which students may hand in as well."""
    paths = {*ROOT.glob("*.py"), ROOT / "sanity_check.data", ROOT / "optimizer_test.npy"}
    for pattern in ("*.py", "*.toml", "*.txt", "*.md", "*.html", "*.css", "*.js"):
        paths |= set((ROOT / "course").rglob(pattern))
    marked = table.read_table(ROOT)
    paths |= {
        path for name, path in table.files_of(ROOT, marked, 3) if not name.startswith("data/")
    }
    for path in sorted(paths):
        name = path.relative_to(ROOT)
        if name.parts[0] != "course" or name.parts[1] not in NOT_NEEDED:
            yield f"repo/{name.as_posix()}", path.read_bytes()


def gold_files(folders: Sequence[Path], secret: str) -> Iterator[tuple[str, bytes]]:
    """The labelled files that count."""
    for gold in predictions.load_gold(*folders, secret=secret).values():
        path = next(folder / gold.file for folder in folders if (folder / gold.file).is_file())
        yield f"gold/{gold.file}", path.read_bytes()


def requirements(options: str, allowed: Iterable[str]) -> bytes:
    """What pip installs; options go first, each in a line of its own.

    Args:
        allowed: packages that submissions may use besides.
    """
    lines = re.split(r"\s+(?=--)", options.strip()) if options.strip() else []
    if any(not line.startswith("--") for line in lines):
        raise InputError(
            f"--pip {options!r}: options that begin with --, as a requirements file has"
        )
    pinned = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    return "\n".join([*lines, pinned, *allowed]).encode()


def all_files(part: int, gold: Sequence[Path], made: dict, options: str) -> dict[str, bytes]:
    """Everything in the zip, by name."""
    files = {name: (HERE / name).read_bytes() for name in TO_RUN}
    files |= {**dict(repository_files()), **dict(gold_files(gold, made["secret"]))}
    files["assignment.json"] = json.dumps(made).encode()
    with open_context(part, made["secret"]) as context:
        allowed = packages.allowed_by(context.settings)
        files["requirements.txt"] = requirements(options, allowed)
        empty = results.skeleton(part, context.settings)
        files["skeleton.json"] = json.dumps(empty, indent=2).encode()
        for path in (path for path in context.stage.rglob("*") if path.is_file()):
            files[f"stage/{path.relative_to(context.stage).as_posix()}"] = path.read_bytes()
    return dict(sorted(files.items()))


def main() -> None:
    """Write the zip."""
    parser = OneLineParser(description="Make the autograder's zip for Gradescope.")
    parser.add_argument("--part", type=int, choices=(1, 2, 3), default=1, help="of the course")
    parser.add_argument(
        "--gold", type=Path, required=True, nargs="+", help="folders of labelled data files"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the zip and the secret")
    parser.add_argument(
        "--pip", default="", help="pip's options, as for a build of torch without CUDA"
    )
    args = parser.parse_args()
    made = grade.assignment(args.out, args.part)
    files = all_files(args.part, args.gold, made, args.pip)
    target = args.out / "autograder.zip"
    write_whole(target, zipped(files, zipfile.ZIP_DEFLATED, 0o100600, executable=TO_RUN))
    print(f"{target}: {len(files)} files, {target.stat().st_size / 1e6:.1f} MB; keep it private")


if __name__ == "__main__":
    run_script(main)
