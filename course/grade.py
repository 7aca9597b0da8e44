"""Grade a folder of submissions.

    python -m course.grade SUBMISSIONS --gold DIR --out DIR              part 1
    python -m course.grade SUBMISSIONS --gold DIR --out DIR --part 2 --marks marks.csv
    python -m course.grade SUBMISSIONS --gold DIR --out DIR --only 1234_group     one again

Interrupted, the same command goes on where it was. OUT then holds
    feedback/ID.html                       for the student
    leaderboard.html, leaderboard.csv      for everybody
    staff.html, grades.csv                 for staff
    marks.csv, marks-template.csv          part 2: the marks that count, the rows without one
    results/ID.json                        all there is to know
    assignment.json                        its secret makes the hidden inputs: keep OUT private
docs/staff.md explains all, docs/threat-model.md what is defended and what is not. No code of a
student runs in this process: see course/grading/sandbox/isolation.py.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from course.grading import batch, cache, marks, points
from course.grading.intake import submissions as intake
from course.grading.intake.submissions import Found
from course.grading.judging import canaries, predictions
from course.grading.pages import pages
from course.grading.pages.output import clean
from course.grading.sandbox import isolation
from course.grading.sandbox.context import SECONDS, GradingContext, open_context
from course.grading.types import GRADED, STAFF_ERROR, Result
from course.settings import read_settings
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError, trouble_in_one_line
from training.files.writing import write_json

ROOT = Path(__file__).resolve().parent.parent


def result_path(out: Path, student: str) -> Path:
    """Where the result of a submission is kept."""
    return out / "results" / f"{student}.json"


def grade_one(
    args: argparse.Namespace, context: GradingContext, gold: Mapping, grader: str, found: Found
) -> str:
    """Grade a submission unless its result is there already; a line about it, or "".

    Args:
        grader: its digest.
    """
    if isolation.STOP.is_set():
        raise KeyboardInterrupt
    student, begun = found.student, time.monotonic()
    target = result_path(args.out, student)
    try:
        submission = intake.take(student, found.path, context.part)
        if not args.only and cache.is_current(cache.read_result(target), submission, grader):
            return ""
        result = batch.grade(context, submission, gold, grader)
        write_json(target, result.to_json())
    except Exception:  # ours, whatever it is: the others go on
        why = traceback.format_exc(limit=-4)
        result = Result(student, context.part, STAFF_ERROR, why=why)
        write_json(target, result.to_json())
    outcome = result.status
    if outcome == GRADED:
        outcome = f"{result.points:g} of {result.of:g} points"
    return f"{student}: {outcome} ({time.monotonic() - begun:.1f} s)"


def grade_all(
    args: argparse.Namespace, context: GradingContext, gold: Mapping, todo: Sequence[Found]
) -> None:
    """Write a result for each submission that has none yet, some at a time."""
    grader = cache.grader_digest()
    with (
        ThreadPoolExecutor(args.j) as pool,
        tqdm(total=len(todo), desc="graded", disable=None) as bar,
    ):
        for line in pool.map(lambda one: grade_one(args, context, gold, grader, one), todo):
            bar.update()
            if line:
                bar.write(clean(line, 400), file=sys.stdout)


def report(out: Path, students: Sequence[str], settings: Mapping, given: points.Given) -> int:
    """Write all pages and tables from the results; how many staff errors there are."""
    read = (cache.read_result(result_path(out, student)) for student in students)
    results = [points.with_marks(result, settings, given) for result in read if result]
    pages.write_all(out, results, settings)
    open_rows = [(r.student, row) for r in results for row in r.unmarked]
    if open_rows:
        marks.write_template(out, open_rows)
        print(f"{len(open_rows)} rows have no mark yet: see {out / marks.TEMPLATE}")
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
    add("--only", metavar="ID", help="grade this one again, keep the others")
    add("--marks", type=Path, help="part 2: CSV of people's marks: student,row,points,comment")
    args = parser.parse_args()
    if args.marks and args.part != 2:
        parser.error("--marks is for part 2")
    return args


@trouble_in_one_line(batch.MAKE_ROOM)
def main() -> None:
    """Grade, then write the pages; exit status 1 if anything was a staff error."""
    args, around = get_args(), isolation.Bubblewrap()
    found = intake.find(args.submissions, ours=[args.out, *args.gold])
    students, todo = [one.student for one in found], found
    if args.only:
        only = intake.student_id(args.only)
        todo = [one for one in found if one.student == only]
        if not todo:
            raise InputError(f"--only {only}: no such submission in {args.submissions}")
    settings = read_settings(ROOT)
    rows = points.marked_rows(args.part, settings)
    gold = predictions.load_gold(*args.gold)
    with contextlib.ExitStack() as opened:
        opened.enter_context(batch.ended_by_signals())
        opened.enter_context(batch.alone_in(args.out))
        secret = batch.assignment(args.out, args.part)["secret"]
        given = marks.read_marks(args.out, args.marks, students, rows) if rows else {}
        ours = [*args.gold, args.submissions, args.out, ROOT, args.marks]
        batch.require_safe_machine(around, ours)
        context = opened.enter_context(
            open_context(args.part, secret, seconds=args.seconds, isolation=around)
        )
        canaries.check(context)
        grade_all(args, context, gold, todo)
        sys.exit(1 if report(args.out, students, settings, given) else 0)


if __name__ == "__main__":
    run_script(main)
