"""Questions for a viva: about each group's own code, with keys that were computed by running it.

    python -m course.viva SUBMISSIONS --questions 5 --seed 7 --out VIVA

VIVA then holds sheets/GROUP.html, a page to print, and keys/GROUP.html, the same with the keys and
why they are. Another seed asks other questions: keep it to yourself, since it makes the same ones
again. What is asked is read from the group's text in one sandbox, where none of its code runs;
another one runs that code and gives back numbers, of which the questions are made here.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checks.findings import ROOT
from checks.graded_tasks import graded_task
from checks.hunt.terminal import LETTERS, QUIZZED
from checks.quiz.questions import Question, choose, questions_of
from course.grading import batch
from course.grading.intake import submissions as intake
from course.grading.pages.output import clean, page
from course.grading.sandbox import isolation, protocol
from course.grading.sandbox.context import SECONDS, GradingContext, open_context
from course.grading.types import STATUSES, Submission
from training.cli.flags import OneLineParser, seed
from training.cli.scripts import run_script
from training.files.errors import InputError, trouble_in_one_line
from training.files.writing import write_whole

WIDEST = 160  # characters of a line of code
CLOCK = 10  # times the seconds of the processor: of a busy machine


@dataclass(frozen=True)
class Sheet:
    """The questions of one group."""

    student: str
    questions: Sequence[Question] = ()  # those about one function in a row
    notes: Sequence[str] = ()  # about what was left out
    subjects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by task: its "code" …


def sheet_of(context: GradingContext, submission: Submission, secret: int, count: int) -> Sheet:
    """The sheet of one group; where nothing can be asked, its notes say why."""
    student = submission.student
    if submission.refused:
        return Sheet(student, notes=[submission.refused])
    files = submission.sources()
    tasks = [name for name in QUIZZED if graded_task(name).file in files]
    # what a submission learns of its seed does not help another one
    digest = hashlib.sha256(f"{secret}:{student}".encode()).hexdigest()
    rng = random.Random(digest)
    asked = {"sources": files, "seed": digest, "tasks": rng.sample(tasks, len(tasks))}
    reply = protocol.ask(context, [protocol.job("text", "viva_subjects", asked, {})], {})["text"]
    if reply.status in STATUSES:
        return Sheet(student, notes=[STATUSES[reply.status]])
    subjects = {s["task"]: s for s in json.loads(bytes(reply.outputs["subjects"].tolist()))}
    jobs = [protocol.job(n, "viva_numbers", {"subject": s}, files) for n, s in subjects.items()]
    groups, notes = [], []
    for name, reply in protocol.ask(context, jobs, {}).items():
        groups.append([])
        with contextlib.suppress(Exception):  # what the sandbox sent may be no such numbers
            groups[-1] = list(questions_of(subjects[name], reply.outputs, rng))
        if not groups[-1]:
            why = "there is nothing to ask about it"
            if "wrong" in reply.outputs:
                why = "python sanity_check.py does not find it, and what it calls, right"
            why = STATUSES.get(reply.status, why)
            notes.append(f"{graded_task(name).title} is left out: {why}")
    return Sheet(student, choose(groups, count), notes, subjects)


def by_function(sheet: Sheet) -> Iterator[tuple[str, list[str], str, list[Question]]]:
    """Title, code, what is given and questions of each function."""
    for task, group in itertools.groupby(sheet.questions, lambda question: question.task):
        subject, entry = sheet.subjects[task], graded_task(task)
        lines = [f"{n:4}  {clean(line, WIDEST, lines=True)}" for n, line in subject["code"]]
        yield f"Task {entry.number}, {entry.file}", lines, subject["given"], list(group)


def write_pages(out: Path, sheet: Sheet, asked: int) -> None:
    """OUT/sheets/GROUP.html, a page to print, and OUT/keys/GROUP.html, the same with the keys."""
    fewer = f"{len(sheet.questions)} of {asked} questions. " * (len(sheet.questions) < asked)
    more = {"functions": [*by_function(sheet)], "letters": LETTERS, "marks": len(sheet.questions)}
    lead = ". ".join(["Exactly one option of each question is true", *sheet.notes])
    for folder in ("sheets", "keys"):
        title = f"{sheet.student}: viva{', keys' * (folder == 'keys')}"
        html = page("sheet.html", title, fewer + lead, keys=folder == "keys", **more)
        write_whole(out / folder / f"{sheet.student}.html", html)


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(description="Questions about each group's own code, with keys.")
    about = f"for a function, and of the processor for a group; {CLOCK} times that for a group"
    batch.add_flags(parser, 2 * SECONDS, about)
    parser.add_argument("--out", type=Path, required=True, help="new folder for the pages")
    parser.add_argument("--seed", type=seed, required=True, help="whole number; keep it")
    parser.add_argument("--questions", type=int, choices=range(1, 21), default=5, metavar="1–20")
    args = parser.parse_args()
    if args.out.exists() and not (args.out.is_dir() and not any(args.out.iterdir())):
        raise InputError(f"--out {args.out} is there already: name a new folder")
    return args


@trouble_in_one_line(batch.MAKE_ROOM)
def main() -> None:
    """Make the questions of all groups and write their pages."""
    args, around = get_args(), isolation.Bubblewrap()
    found = intake.find(args.submissions, ours=[args.out])
    wall_s = CLOCK * args.seconds
    limits = isolation.Limits(cpu_s=math.ceil(args.seconds), wall_s=wall_s, file_mib=64)
    with open_context(1, "", limits, args.seconds, around) as context:
        batch.require_safe_machine(around, [args.submissions, args.out, ROOT])
        args.out.mkdir(parents=True, exist_ok=True)
        args.out.chmod(0o700)

        def make(one: tuple[str, Path]) -> Sheet:
            return sheet_of(context, intake.take(*one, 1), args.seed, args.questions)

        made = []
        for sheet in batch.in_parallel(make, found.items(), args.j):
            made.append(sheet)
            write_pages(args.out, sheet, args.questions)
            told = f"{sheet.student}: {len(sheet.questions)} questions"
            print(*map(clean, [told, *sheet.notes]), sep="\n    ", flush=True)
    print(f"see {args.out}")
    sys.exit(0 if all(sheet.questions for sheet in made) else 1)


if __name__ == "__main__":
    run_script(main)
