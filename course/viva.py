"""Questions for a viva: about each group's own code, with keys that were computed by running it.

    python course/viva.py SUBMISSIONS --questions 5 --seed 7 --out VIVA

VIVA then holds
    sheets/GROUP.html        for each group one page to print
    keys/GROUP.html          the same with the keys, what came out for each option, and why; it is
                             printed without the code
    questions.gift           all questions of all groups for a learning platform
    moodle.xml               the same for Moodle
Five questions fit a page of A4. It shows the functions they are about, as they stand, without the
docstrings. A function that leaves no room for five questions is left out, and a line says so.
Another seed asks other questions. Keep the seed to yourself: who has it can make the questions.
No code of a student runs in this process: see course/grading/sandbox/sandbox.py.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from checks.graded_tasks import GRADED_TASKS
from checks.quiz.generate import KINDS
from course.grade import MAKE_ROOM, add_flags, ended_by_signals, refuse
from course.grading.intake import intake
from course.grading.judging.types import Submission
from course.grading.pages import output, sheets
from course.grading.sandbox import isolation, packages, protocol
from course.grading.sandbox.confine import Limits
from course.grading.sandbox.context import SECONDS, GradingContext, open_context
from training.cli.flags import OneLineParser, positive_int
from training.cli.flags import seed as seed_number
from training.cli.scripts import run_script
from training.files.errors import InputError, trouble_in_one_line

MOST_QUESTIONS = 20  # of a group
OF_A_PAGE, ROWS = 5, 140  # questions on a page to print, and rows of text in its two columns
TEXTS = {"text": 1500, "why": 600}  # characters that each may have
OPTION, NOTE = 400, 400
CLOCK = 10  # times the seconds of processor


def questions_for(
    context: GradingContext, submission: Submission, seed: str, count: int
) -> sheets.Sheet:
    """The sheet of one group; where nothing can be asked, a line says why."""
    if submission.refused:
        return sheets.Sheet(submission, [], [submission.refused])
    files = submission.sources()
    tasks = [t.number for t in GRADED_TASKS if t.part <= submission.part and t.file in files]
    # what a submission learns of its seed does not help another one
    digest = hashlib.blake2b(f"{seed}:{submission.student}".encode(), digest_size=8).hexdigest()
    room = ROWS * math.ceil(count / OF_A_PAGE)
    arguments = {"seed": digest, "count": count, "tasks": tasks, "room": room}
    reply = protocol.ask(context, [protocol.job("viva", "viva", arguments, files)], {})["viva"]
    if reply.status != "ran":
        why = protocol.LACKING.get(reply.status, reply.status)
        why += f" (--seconds {context.limits.cpu_s})" * (reply.status == "timeout")
        return sheets.Sheet(submission, [], [why])
    made = read_answer(reply.outputs.get("questions"))
    if not made or not all(is_question(q, submission) for q in made["questions"][:count]):
        return sheets.Sheet(submission, [], ["what its code gave back are no questions"])
    notes = [str(note)[:NOTE] for note in made["notes"][:MOST_QUESTIONS]]
    return sheets.Sheet(submission, made["questions"][:count], notes)


def read_answer(output: Any) -> dict[str, list] | None:
    """What the sandbox sent as bytes; None where it is not what it should be."""
    if not isinstance(output, Tensor) or output.dim() != 1:
        return None
    try:
        made = json.loads(bytes(output.tolist()))
    except (ValueError, TypeError, RecursionError):
        return None
    lists = isinstance(made, dict) and (made.get("questions"), made.get("notes"))
    return made if lists and all(isinstance(part, list) for part in lists) else None


def is_question(question: Any, submission: Submission) -> bool:
    """Whether this is a question about a submission's file: types, sizes, known names."""
    if not isinstance(question, Mapping):
        return False
    file, key = question.get("file"), question.get("key")
    listed = [question.get(name) for name in ("options", "executed", "lines")]
    if not all(isinstance(part, list) and len(part) == 4 for part in listed):
        return False
    options, executed, lines = listed
    texts = [(question.get(name), most) for name, most in TEXTS.items()]
    texts += [(text, OPTION) for text in (*options, *executed)]
    return (
        all(isinstance(text, str) and 0 < len(text) <= most for text, most in texts)
        and len(set(options)) == 4
        and any((k.name, k.level) == (question.get("kind"), question.get("level")) for k in KINDS)
        and any((t.number, t.file) == (question.get("task"), file) for t in GRADED_TASKS)
        and file in submission.files
        and all(type(number) is int and 0 <= number < 10_000 for number in (*lines, key))
        and 0 < lines[0] <= lines[1] <= lines[0] + sheets.MOST_LINES
        and key < 4
    )


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(description="Questions about each group's own code, with keys.")
    add_flags(parser, 2 * SECONDS, f"of the processor for a group; by the clock {CLOCK} times that")
    parser.add_argument("--out", type=Path, required=True, help="new folder for the pages")
    parser.add_argument("--seed", type=seed_number, required=True, help="whole number; keep it")
    parser.add_argument("--questions", type=positive_int, default=5, help="for each group")
    parser.add_argument("--part", type=int, choices=(1, 2), default=1, help="2: both parts")
    args = parser.parse_args()
    if args.questions > MOST_QUESTIONS:
        parser.error(f"--questions {args.questions} is more than {MOST_QUESTIONS}")
    return args


@trouble_in_one_line(MAKE_ROOM)
def main() -> None:
    """Make the questions of all groups, then write the pages and files."""
    args = get_args()
    if args.out.exists() and not (args.out.is_dir() and not any(args.out.iterdir())):
        raise InputError(f"--out {args.out} is there already: name a new folder")
    clashes: dict[str, str] = {}
    submissions = intake.find(args.submissions, ours=[args.out], clashes=clashes)
    around = isolation.KINDS[args.isolation]()
    with contextlib.ExitStack() as opened:
        opened.enter_context(ended_by_signals())
        clock = CLOCK * args.seconds  # of a busy machine
        limits = Limits(cpu_s=math.ceil(args.seconds), wall_s=clock + Limits.quiet_s)
        # part 1's, whatever is asked: the other one shows our part 1 to who lacks it
        context = opened.enter_context(open_context(1, "", limits, clock, around))
        allowed = packages.allowed_by(context.settings)
        refuse(around, [args.submissions, args.out, ROOT], allowed)
        args.out.mkdir(parents=True, exist_ok=True)
        args.out.chmod(0o700)

        def sheet_of(pair: tuple[str, Path]) -> sheets.Sheet:
            submission = intake.take(*pair, args.part)
            return questions_for(context, submission, str(args.seed), args.questions)

        made = []
        with ThreadPoolExecutor(args.j) as pool:
            for sheet in pool.map(sheet_of, submissions):
                sheets.write_pages(args.out, sheet, args.questions)
                print(output.clean(f"{sheet.group}: {len(sheet.questions)} questions"), flush=True)
                for note in sheet.notes:
                    print(f"    {output.clean(note, NOTE)}")
                made.append(sheet)
        sheets.write_exports(args.out, made)
    for group, why in clashes.items():
        print(output.clean(f"{group}: no questions: {why}"))
    print(f"see {args.out}")
    sys.exit(1 if clashes or not all(sheet.questions for sheet in made) else 0)


if __name__ == "__main__":
    run_script(main)
