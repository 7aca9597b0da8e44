"""Grade a folder of submissions.

    python course/grade.py SUBMISSIONS --gold DIR --out DIR              part 1, one after the other
    python course/grade.py SUBMISSIONS --gold DIR --out DIR --part 2 -j 4
    python course/grade.py SUBMISSIONS --gold DIR --out DIR --part 3
    python course/grade.py SUBMISSIONS --gold DIR --out DIR --only 1234_group     one again

About 3.4 seconds of a core each: two cores grade 300 submissions in less than ten minutes.
Interrupted, the same command goes on where it was. OUT then holds
    feedback/ID.md, feedback/ID.html       for the student
    leaderboard.html, leaderboard.csv      for everybody, under pseudonyms
    staff.html, staff-leaderboard.html, grades.csv, statistics.csv, similarity.csv     for staff
    canvas.csv, moodle.csv, upload/        with --roster: for gradebooks, by student
    canvas/                                feedback to upload, of submissions that Canvas exported
    pseudonyms.json                        who is who on the leaderboard
    results/ID.json, history.jsonl         all there is to know
    assignment.json                        its secret makes the hidden inputs: keep OUT private
docs/staff.md explains all, docs/threat-model.md what is defended and what not. No code of a student
runs in this process: see course/grading/sandbox/sandbox.py.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import math
import os
import secrets
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from course import table
from course.grading import points
from course.grading.earlier import STAFF_ERROR, grader_digest, is_graded
from course.grading.intake import intake, lists, names
from course.grading.judging import canaries, extra, predictions, similarity
from course.grading.judging.library_calls import library_calls
from course.grading.judging.submission import grade_tasks, task_result
from course.grading.judging.types import Submission
from course.grading.pages import leaderboard, output, pages
from course.grading.sandbox import isolation, packages, sandbox
from course.grading.sandbox.context import SECONDS, GradingContext, open_context
from training.cli.flags import OneLineParser, positive_float, positive_int
from training.cli.scripts import run_script
from training.files.errors import InputError, trouble_in_one_line
from training.files.writing import write_json, write_whole

MAKE_ROOM = "choose another --out or TMPDIR, or make room"


def assignment(out: Path, part: int) -> dict[str, Any]:
    """The assignment's part and secret, made once and kept in OUT."""
    path = out / "assignment.json"
    if path.is_file():
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["part"] != part:
            raise InputError(
                f"{out} holds part {content['part']}; grade part {part} into another --out"
            )
        return content
    out.mkdir(parents=True, exist_ok=True)
    out.chmod(0o700)
    content = {"part": part, "secret": secrets.token_hex(16)}
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    write_json(temporary, content)
    try:
        os.link(temporary, path)  # of several commands that begin together the first one counts
    except FileExistsError:
        return assignment(out, part)
    finally:
        temporary.unlink()
    return content


@contextlib.contextmanager
def alone_in(out: Path, shared: bool = False) -> Iterator[None]:
    """InputError if another grading writes into OUT.

    Args:
        shared: others may write results while this one does, but none the pages.
    """
    number = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(number, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another grading writes into {out}; wait until it has ended"
            ) from None
        yield
    finally:
        os.close(number)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM ends as Ctrl-C does: sandboxes first, nothing is left."""

    def end(*_: object) -> None:
        if not sandbox.STOP.is_set():  # a second signal would interrupt the wait for the sandboxes
            sandbox.STOP.set()
            raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        sandbox.STOP.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def refuse(
    around: isolation.Isolation, secrets: Iterable[Path | None], allowed: Iterable[str]
) -> None:
    """Fail closed where submissions could read what they must not, or right ones would lose points.

    Args:
        around: what isolates them.
        secrets: files and folders that have to be out of their reach.
        allowed: packages that they may use besides those of requirements.txt.

    Raises:
        InputError: all reasons, in a line.
    """
    reasons = isolation.problems(around)
    reached = [path for path in filter(None, secrets) if around.reaches(path)]
    if reached:
        named = " ".join(shlex.quote(str(path)) for path in reached)
        reasons.append(f"{named} could be read by the code that is graded: move it elsewhere")
    if missing := " ".join(packages.not_installed(allowed)):
        reasons.append(
            f"{table.SETTINGS} allows packages that are not installed: pip install {missing}"
        )
    if reasons:
        raise InputError(f"nothing is graded: {'; '.join(reasons)}")


# ---------------------------------------------------------------------------------------------
# One submission


def grade(context: GradingContext, submission: Submission, gold: dict) -> dict[str, Any]:
    """The result of one submission."""
    result, begun = outline(context, submission), time.monotonic()
    if submission.refused:
        return result | {"status": "refused", "why": submission.refused}
    verdicts = grade_tasks(context, submission)
    tasks = [task_result(entry, verdicts[entry.id], context.settings) for entry in context.tasks]
    allowed = packages.allowed_by(context.settings)
    flags = [text for entry in context.tasks for text in verdicts[entry.id].flags]
    result |= {
        "layers": isolation.layers(context.isolation),
        "tasks": tasks,
        "extra": extra.award(context, submission),
        "flags": [*library_calls(submission, allowed), *flags],
        "predictions": predictions.score(submission, gold),
    }
    sheet = points.points_of(result, context.settings)
    result |= {"points": round(sheet.total, 2), "of": sheet.maximum}
    return result | {"seconds": round(time.monotonic() - begun, 1)}


def outline(context: GradingContext, submission: Submission) -> dict[str, Any]:
    """A result in which nothing is right yet."""
    return {
        "student": submission.student,
        "part": context.part,
        "sha256": submission.sha256,
        "status": "graded",
        "why": "",
        "notes": list(submission.notes),
        "layers": [],
        "tasks": [],
        "flags": [],  # what staff should look at
        "predictions": [],
        "points": 0.0,  # without manual marks and lateness
        "of": 0.0,
    }


# ---------------------------------------------------------------------------------------------
# The batch


def grade_one(
    context: GradingContext,
    gold: dict,
    args: argparse.Namespace,
    grader: str,
    later: Collection[str],
    student: str,
    path: Path,
) -> tuple[Submission, str]:
    """Grade a submission unless it has a result, which is written at once.

    Args:
        grader: its digest.
        later: digests of later hand-ins that were graded before.

    Returns:
        its code, and a line about it; "": nothing was done.
    """
    if sandbox.STOP.is_set():
        raise KeyboardInterrupt
    target = args.out / "results" / f"{student}.json"
    start = time.monotonic()
    submission = intake.take(student, path, context.part)
    code = {name: text for name, text in submission.files.items() if name.endswith(".py")}
    kept = replace(submission, files=code)  # the rest of 300 submissions would fill the memory
    if args.only not in (None, student):
        return kept, ""
    is_older = later and submission.sha256 not in later
    if is_older and not args.only and target.is_file():
        return kept, f"{student}: older than what was graded before, which counts; --only grades it"
    if not args.only and is_graded(target, grader, submission):
        return kept, ""
    result = grade(context, submission, gold)
    write_json(target, result | {"grader": grader})
    outcome = result["status"]
    if outcome == "graded":
        outcome = f"{result['points']:g} points by program"  # without marks, lateness, corrections
    return kept, f"{student}: {outcome} ({time.monotonic() - start:.1f} s)"


def grade_all(
    args: argparse.Namespace,
    context: GradingContext,
    gold: dict,
    submissions: Sequence[tuple[str, Path]],
    times: Mapping[str, float],
) -> list[Submission]:
    """Grade what has no result yet, some at a time; the code of all.

    Args:
        times: when each student's submission was handed in, by the file's time.
    """
    (args.out / "results").mkdir(exist_ok=True)
    later, digest = leaderboard.graded_later(args.out, times), grader_digest()
    taken = []

    def grade_or_note(pair: tuple[str, Path]) -> tuple[Submission, str]:
        student, path = pair
        try:
            return grade_one(context, gold, args, digest, later[student], student, path)
        except Exception as error:  # ours, whatever it is: the others go on
            trace = traceback.format_exc(limit=-4)
            return note_failure(args.out, context, student, repr(error), trace)

    with (
        ThreadPoolExecutor(args.j) as pool,
        tqdm(total=len(submissions), desc="graded", disable=None) as bar,
    ):
        for submission, line in pool.map(grade_or_note, submissions):
            taken.append(submission)
            bar.update()
            if line:
                bar.write(output.clean(line, 400), file=sys.stdout)
    return taken


def note_failure(
    out: Path, context: GradingContext, student: str, why: str, trace: str = ""
) -> tuple[Submission, str]:
    """Write the result of a submission that could not be graded: not a zero; as grade_one."""
    submission = Submission(student, context.part)
    failed = {"status": STAFF_ERROR, "why": why, "trace": trace}
    write_json(out / "results" / f"{student}.json", outline(context, submission) | failed)
    return submission, f"{student}: {STAFF_ERROR}"


def write_for_canvas(out: Path, submissions: Iterable[tuple[str, Path]]) -> None:
    """OUT/canvas/: feedback under the names that Canvas gave, the only ones it takes back."""
    for student, path in submissions:
        page = out / "feedback" / f"{student}.html"
        if names.CANVAS.match(path.name) and page.is_file():
            name = names.cut_to(path.stem, names.NAME_BYTES)
            write_whole(out / "canvas" / f"{name}.html", page.read_text("utf-8"))


def results_of(out: Path, taken: Iterable[Submission]) -> list[dict[str, Any]]:
    """What is there of these submissions."""
    paths = [out / "results" / f"{submission.student}.json" for submission in taken]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


def report(
    args: argparse.Namespace,
    context: GradingContext,
    gold: dict,
    taken: list[Submission],
    times: dict[str, float],
    listed: lists.Lists,
) -> int:
    """Write all pages and tables from the results; how many staff errors there are.

    Args:
        times: when each student's submission was handed in, by the file's time.
        listed: what staff gave besides submissions.
    """
    results = results_of(args.out, taken)
    times |= leaderboard.times_of_others(args.out, results, taken)
    bad = [(r["student"], r["why"]) for r in results if r["status"] == STAFF_ERROR]

    alike, why = similarity.compared(taken, context.part)
    similarity.write(args.out, alike)
    more = [similarity.section(alike, why)]
    batch = (args.out, results, context.settings, times, listed, context.secret, gold, more)
    for line in pages.write_all(*batch):
        print(line)
    for student, why in bad:
        print(output.clean(f"{student}: {STAFF_ERROR}: {why}", 300))
    print(f"see {args.out}")
    return len(bad)


def add_flags(parser: argparse.ArgumentParser, seconds: float, about_seconds: str) -> None:
    """The flags of every command that runs submissions."""
    parser.add_argument("submissions", type=Path, help="folder with zips or folders")
    parser.add_argument(
        "-j",
        type=positive_int,
        default=os.cpu_count() or 1,
        help="how many at a time; without it, the number of processors",
    )
    parser.add_argument("--seconds", type=positive_float, default=seconds, help=about_seconds)
    parser.add_argument(
        "--isolation",
        choices=isolation.KINDS,
        default=isolation.Bubblewrap.name,
        help="what is put around submitted code",
    )


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(description="Grade a folder of submissions.")
    add_flags(parser, SECONDS, "that one task may take")
    parser.add_argument(
        "--gold", type=Path, required=True, nargs="+", help="folders of labelled data files"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for results and pages")
    parser.add_argument("--part", type=int, choices=(1, 2, 3), default=1, help="of the course")
    parser.add_argument("--only", metavar="STUDENT", help="grade this one again, keep the others")
    parser.add_argument(
        "--results-only",
        action="store_true",
        help="write results and no pages; several such commands may share an --out",
    )
    parser.add_argument(
        "--marks", type=Path, help="CSV of manual marks: student,row,points,comment"
    )
    parser.add_argument(
        "--corrections",
        type=Path,
        help="CSV student,row,points,reason: points to add, or, negative, to take away",
    )
    parser.add_argument(
        "--roster", type=Path, help="CSV group,student,id: also Canvas's and Moodle's gradebooks"
    )
    parser.add_argument("--times", type=Path, help="CSV group,time: when each was handed in")
    args = parser.parse_args()
    if args.marks and args.part != 2:
        parser.error("--marks is for part 2; --corrections changes points of other parts")
    return args


@trouble_in_one_line(MAKE_ROOM)
def main() -> None:
    """Grade, then write the pages; exit status 1 if anything was a staff error."""
    args = get_args()
    around = isolation.KINDS[args.isolation]()
    clashes: dict[str, str] = {}
    submissions = intake.find(args.submissions, ours=[args.out, *args.gold], clashes=clashes)
    if args.only:
        args.only = names.student_id(args.only)
        if args.only not in dict(submissions):
            raise InputError(f"--only {args.only}: no such submission in {args.submissions}")
        if args.results_only:
            submissions = [pair for pair in submissions if pair[0] == args.only]
    files = (args.marks, args.roster, args.times, args.corrections)
    settings = table.read_settings(ROOT)
    extra.functions_of(args.part, settings)
    correctable = points.correctable(args.part, settings)
    groups = dict(submissions) | clashes
    listed = lists.read(groups, settings["manual"], *files, correctable, args.out)
    due = settings["late"][f"part{args.part}"]
    deadline = table.moment(due).timestamp() if due else math.inf
    times = lists.times_of(submissions, args.submissions, listed.times, deadline)
    made = assignment(args.out, args.part)
    lists.keep(args.out, args.marks, args.corrections)
    gold = predictions.load_gold(*args.gold, secret=made["secret"])
    with contextlib.ExitStack() as opened:
        opened.enter_context(ended_by_signals())
        opened.enter_context(alone_in(args.out, args.results_only))
        print(f"isolation: {', '.join(isolation.layers(around))}", flush=True)
        ours = [*args.gold, args.submissions, args.out, ROOT, *files]
        refuse(around, ours, packages.allowed_by(settings))
        context = opened.enter_context(
            open_context(args.part, made["secret"], seconds=args.seconds, isolation=around)
        )
        canaries.check(context, args.j)
        taken = grade_all(args, context, gold, submissions, times)
        taken += [note_failure(args.out, context, *clash)[0] for clash in clashes.items()]
        if args.results_only:
            bad = sum(result["status"] == STAFF_ERROR for result in results_of(args.out, taken))
        else:
            bad = report(args, context, gold, taken, times, listed)
            write_for_canvas(args.out, submissions)
        sys.exit(1 if bad else 0)


if __name__ == "__main__":
    run_script(main)
