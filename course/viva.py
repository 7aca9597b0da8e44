"""Questions for a viva: about each group's own code, with keys that were computed by running it.

    python course/viva.py SUBMISSIONS --questions 5 --seed 7 --out VIVA

VIVA then holds sheets/GROUP.html, a page to print, and keys/GROUP.html, the same with the keys,
what came out for each option, and why. Another seed asks other questions: keep it to yourself,
since it makes the same ones again. No code of a student runs in this process. Questions, options
and keys come from the sandbox, so a submission can forge its own page, and no other one.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from checks.graded_tasks import GRADED_TASKS
from course.grading import batch
from course.grading.intake import submissions as intake
from course.grading.pages import sheets
from course.grading.pages.output import clean
from course.grading.sandbox import isolation, protocol
from course.grading.sandbox.context import SECONDS, GradingContext, open_context
from course.grading.types import STATUSES, Submission
from training.cli.flags import OneLineParser, seed
from training.cli.scripts import run_script
from training.files.errors import InputError, trouble_in_one_line

OF_A_PAGE, ROWS = 5, 140  # questions on a page to print, and rows of text in its two columns
CLOCK = 10  # times the seconds of processor


def sheet_of(
    context: GradingContext, submission: Submission, secret: int, count: int
) -> sheets.Sheet:
    """The sheet of one group; where nothing can be asked, a line says why."""
    if submission.refused:
        return sheets.Sheet(submission, [], [submission.refused])
    files = submission.sources()
    tasks = [t.number for t in GRADED_TASKS if t.part <= submission.part and t.file in files]
    # what a submission learns of its seed does not help another one
    digest = hashlib.sha256(f"{secret}:{submission.student}".encode()).hexdigest()
    room = ROWS * math.ceil(count / OF_A_PAGE)
    arguments = {"seed": digest, "count": count, "tasks": tasks, "room": room}
    reply = protocol.ask(context, [protocol.job("viva", "viva", arguments, files)], {})["viva"]
    if reply.status in STATUSES:
        why = STATUSES[reply.status] + " (see --seconds)" * (reply.status == "timeout")
        return sheets.Sheet(submission, [], [why])
    return read_answer(submission, reply.outputs.get("questions"), count)


def read_answer(submission: Submission, output: Any, count: int) -> sheets.Sheet:
    """The sheet of what the sandbox sent: the bytes of a JSON text, of which nothing is trusted."""
    try:
        made = json.loads(bytes(output.tolist())) if isinstance(output, Tensor) else {}
        questions = [sheets.Question(**question) for question in made["questions"][:count]]
        notes = [str(note)[:400] for note in made["notes"][:20]]
        if all(question.can_be_shown(submission) for question in questions):
            return sheets.Sheet(submission, questions, notes)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        pass
    return sheets.Sheet(submission, [], ["what its code gave back are not questions"])


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(description="Questions about each group's own code, with keys.")
    about = f"of the processor for a group; by the clock {CLOCK} times that"
    batch.add_flags(parser, 2 * SECONDS, about)
    parser.add_argument("--out", type=Path, required=True, help="new folder for the pages")
    parser.add_argument("--seed", type=seed, required=True, help="whole number; keep it")
    parser.add_argument("--questions", type=int, choices=range(1, 21), default=5, metavar="1–20")
    parser.add_argument("--part", type=int, choices=(1, 2), default=1, help="2: both parts")
    args = parser.parse_args()
    if args.out.exists() and not (args.out.is_dir() and not any(args.out.iterdir())):
        raise InputError(f"--out {args.out} is there already: name a new folder")
    return args


@trouble_in_one_line(batch.MAKE_ROOM)
def main() -> None:
    """Make the questions of all groups and write their pages."""
    args, around = get_args(), isolation.Bubblewrap()
    found = intake.find(args.submissions, ours=[args.out])
    clock = CLOCK * args.seconds  # of a busy machine
    limits = isolation.Limits(cpu_s=math.ceil(args.seconds), wall_s=clock)
    with contextlib.ExitStack() as opened:
        opened.enter_context(batch.ended_by_signals())
        context = opened.enter_context(open_context(args.part, "", limits, clock, around))
        batch.require_safe_machine(around, [args.submissions, args.out, ROOT])
        args.out.mkdir(parents=True, exist_ok=True)
        args.out.chmod(0o700)

        def make(one: intake.Found) -> sheets.Sheet:
            submission = intake.take(one.student, one.path, args.part)
            return sheet_of(context, submission, args.seed, args.questions)

        counts = []
        with ThreadPoolExecutor(args.j) as pool:
            for sheet in pool.map(make, found):
                sheets.write_pages(args.out, sheet, args.questions)
                counts.append(len(sheet.questions))
                lines = [f"{sheet.submission.student}: {counts[-1]} questions", *sheet.notes]
                print(*map(clean, lines), sep="\n    ", flush=True)
    print(f"see {args.out}")
    sys.exit(0 if all(counts) else 1)


if __name__ == "__main__":
    run_script(main)
