"""Grade a folder of submissions.

    python -m course.grade SUBMISSIONS --gold DIR --out DIR              part 1
    python -m course.grade SUBMISSIONS --gold DIR --out DIR --part 2

Interrupted, the same command goes on where it was. OUT then holds
    feedback/ID.html                       for the student
    leaderboard.html, leaderboard.csv      for everybody
    staff.html, grades.csv                 for staff
    marks.csv                              part 2: for people's points; the same command adds them
    results/ID.json                        all there is to know; without it, ID is graded again
    assignment.json                        its secret makes the hidden inputs: keep OUT private
docs/staff.md explains all, docs/threat-model.md what is defended and what is not. No code of a
student runs in this process: see course/grading/sandbox/isolation.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import sys
import time
import traceback
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from course.grading import batch, marks, points
from course.grading.intake import submissions as intake
from course.grading.judging import canaries, predictions
from course.grading.pages import pages
from course.grading.pages.output import clean
from course.grading.sandbox import isolation
from course.grading.sandbox.context import SECONDS, GradingContext, open_context
from course.grading.types import GRADED, STAFF_ERROR, Result
from course.settings import read_settings
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import trouble_in_one_line
from training.files.writing import write_json

ROOT = Path(__file__).resolve().parent.parent


def result_path(out: Path, student: str) -> Path:
    """Where the result of a submission is kept."""
    return out / "results" / f"{student}.json"


def grader_digest() -> str:
    """Of all that decides a grade: results of another grader or other settings are not reused."""
    patterns = ["*.py", "course/**/*.py", "course/*.toml", "training/**/*.py"]
    patterns += ["checks/**/*.py", "checks/*.toml", "sanity_check.data", "optimizer_test.npy"]
    digest = hashlib.sha256()
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def read_result(out: Path, student: str) -> Result | None:
    """A result that was written before; None where there is none that this version reads."""
    try:
        return Result.from_json(json.loads(result_path(out, student).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def grade_one(
    out: Path, context: GradingContext, gold: Mapping, grader: str, found: tuple[str, Path]
) -> str:
    """Grade a submission unless its result is there already; a line about it, or "".

    Args:
        grader: its digest.
        found: the submission's id, and its zip or folder.
    """
    student, begun = found[0], time.monotonic()
    try:
        submission, before = intake.take(*found, context.part), read_result(out, student)
        if before and before.status != STAFF_ERROR:
            if (before.sha256, before.grader) == (submission.sha256, grader):
                return ""
        result = batch.grade(context, submission, gold, grader)
    except Exception:  # ours, whatever it is: the others go on
        why = traceback.format_exc(limit=-4)
        result = Result(student, context.part, STAFF_ERROR, why=why)
    write_json(result_path(out, student), dataclasses.asdict(result))
    outcome = result.status
    if outcome == GRADED:
        outcome = f"{result.points:g} of {result.of:g} points"
    return f"{student}: {outcome} ({time.monotonic() - begun:.1f} s)"


def report(out: Path, students: Collection[str], part: int, settings: Mapping) -> int:
    """Write all pages and tables from the results; how many staff errors there are."""
    given = marks.read_marks(out, students, points.marked_rows(part, settings))
    read = filter(None, (read_result(out, student) for student in students))
    results = [points.with_marks(result, settings, given) for result in read]
    pages.write_all(out, results, settings)
    open_rows = [(result.student, row) for result in results for row in result.unmarked]
    if open_rows:
        marks.add_rows(out, given, open_rows)
        print(f"{len(open_rows)} rows have no mark yet: fill in {out / marks.NAME} and repeat")
    failed = [result for result in results if result.status == STAFF_ERROR]
    for result in failed:
        why = result.why.strip().splitlines()[-1:]
        print(clean(f"{result.student}: {STAFF_ERROR}: {' '.join(why)}"))
    print(pages.overview(results))
    print(f"see {out / 'staff.html'}")
    return len(failed)


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(description="Grade a folder of submissions.")
    batch.add_flags(parser, SECONDS, "that one task may take")
    add = parser.add_argument
    add("--gold", type=Path, required=True, nargs="+", help="folders of labelled data files")
    add("--out", type=Path, required=True, help="folder for results and pages")
    add("--part", type=int, choices=(1, 2, 3), default=1, help="of the course")
    return parser.parse_args()


@trouble_in_one_line(batch.MAKE_ROOM)
def main() -> None:
    """Grade, then write the pages; exit status 1 if anything was a staff error."""
    args, around = get_args(), isolation.Bubblewrap()
    found = intake.find(args.submissions, ours=[args.out, *args.gold])
    settings, gold = read_settings(ROOT), predictions.load_gold(*args.gold)
    batch.require_safe_machine(around, [*args.gold, args.submissions, args.out, ROOT])
    secret = batch.secret_of(args.out, args.part)
    marks.read_marks(args.out, found, points.marked_rows(args.part, settings))  # before all
    with open_context(args.part, secret, seconds=args.seconds, isolation=around) as context:
        canaries.check(context)
        grade_found = partial(grade_one, args.out, context, gold, grader_digest())
        for line in filter(None, batch.in_parallel(grade_found, found.items(), args.j)):
            print(clean(line, 400), flush=True)
    failed = report(args.out, found, args.part, settings)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    run_script(main)
