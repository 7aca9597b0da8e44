"""Check what you write, one function at a time: ``python sanity_check.py``.

Each function is checked alone, so a mistake in one task does not fail another; no pretrained
weights and no network are needed. This file is the command line. Your code runs in a process of its
own (checks/child.py), where it may hang or crash; the checks are in checks/:
part1 (bert.py, optimizer.py, classifier.py) and part2 (multitask_classifier.py, its functions and
its training loop).

    checks                                  minutes   expected
    python sanity_check.py                  < 1       "ok" for every task of part 1, exit status 0
    python sanity_check.py --part 2         < 1       the same for the tasks of another part
    python sanity_check.py --task 1.2       < 1       the same for one task, by number or id
    python sanity_check.py --hint           < 1       also the property that does not hold
    python sanity_check.py --hints all      < 1       also what the mistake probably is
    python sanity_check.py --all            < 1       all findings, not the first of each kind
    python sanity_check.py --hunt           1         how many bugs your my_tests.py catches
    python sanity_check.py --quiz           < 1       questions about your own code, with answers
    python sanity_check.py --trace          < 1       where the whole model first goes wrong
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from checks.child import Child
from checks.findings import ALL, ROOT, Outcome, is_unknown
from checks.graded_tasks import FIRST_HINT, GRADED_TASKS, PAGES, GradedTask, graded_task
from checks.hunt.terminal import QUIZZED, TEST_OF, hunt, quiz
from checks.report import LABELS, Report, label_of, wrapped
from training.cli.flags import OneLineParser, positive_float, positive_int
from training.files.errors import InputError, output_fault
from training.files.writing import write_whole

PARTS = sorted({entry.part for entry in GRADED_TASKS})
ADDED = {  # by the handout of a part
    2: ("multitask_classifier.py", "checks/part2"),
    3: ("lessons/modern_bert.py", "checks/part3"),
}
TRACE = "python sanity_check.py --trace"
LIMIT = 60.0  # seconds for a job
TRACED = "largest difference of each state from the reference, relative where that is above 1"
LAST = {  # of a part: the job, its title, and the file whose tasks have to be right before
    1: ("whole", "the whole BertModel", "bert.py"),
    2: ("loop", "the training loop", "multitask_classifier.py"),
}
TRAINING = {  # of a part: what comes next when its tasks are right, and which files it makes
    1: ("python classifier.py --only sst --option pretrain --lr 1e-3", "predictions/*-out.csv"),
    2: ("python multitask_classifier.py --option pretrain --lr 1e-3", "predictions/*-output.csv"),
}


class Session:
    """What was checked so far, and what came out.

    Args:
        child: runs the jobs.
        report: prints their outcomes.
    """

    def __init__(self, child: Child, report: Report):
        self.child, self.report = child, report
        self.trouble = False
        self.outcomes: list[tuple[GradedTask, Outcome]] = []

    def run(self, job: str, title: str) -> Outcome:
        """The outcome of a job, which is also printed. Ctrl-C ends the script, saying where."""
        try:
            outcome = self.child.run(job, title)
        except KeyboardInterrupt:
            time.sleep(0.2)  # until the process has written where it was
            print(f"\ninterrupted: {title}{self.child.where()}")
            sys.exit(1)
        self.report.end(outcome, self.child.printed())
        self.trouble |= outcome.status not in ("ok", "skipped")
        return outcome

    def run_tasks(self, entries: Sequence[GradedTask]) -> None:
        """Check tasks in order."""
        self.outcomes = [(entry, self.run(entry.id, entry.title)) for entry in entries]

    def run_last(self, part: int) -> None:
        """What is checked of a part once its tasks are right: the model, the training loop."""
        job, title, file = LAST[part]
        if any(each.status != "ok" for entry, each in self.outcomes if entry.file == file):
            print(f"  --    {title} is checked once all of {file} is right")
        else:
            self.run(job, title)

    def finish(self, part: int | None) -> int:
        """Print what is right and what is next; the exit status.

        Args:
            part: whose tasks were checked, if all of them were.
        """
        todo = [(entry, each) for entry, each in self.outcomes if each.status != "ok"]
        checked = len(self.outcomes)
        print(f"{checked - len(todo)} of {checked} task{'s' * (checked > 1)} right")
        if todo:
            following, outcome = todo[0]
            statuses = {"wrong" if each.findings else each.status for _, each in self.outcomes}
            if statuses <= {"not started", "waits"} and checked > 1:
                print("nothing is filled in yet: this is where you begin")
            where = f"{following.page}; {following.check}"
            what = f"{following.title}, about {following.minutes} minutes ({where})"
            if outcome.status == "waits":
                fault = "correct what is WRONG above, which the rest waits for"
                what = fault if outcome.findings else outcome.about.removeprefix("for ")
            print(f"next: {what}")
            if following.file == "bert.py" and is_unknown(outcome.findings):
                print(f"or: {TRACE} compares the whole BertModel, state by state")
        elif not self.trouble and part in TRAINING:
            command, made = TRAINING[part]
            if not any(ROOT.glob(made)):
                print(f"next: train it: {command} ({PAGES[part]})")
        elif part == 1:  # only the whole model is wrong
            print(f"next: {TRACE} says where it first differs")
        return int(self.trouble)


def missing_of(part: int) -> list[str]:
    """What is not here of what a part's handout adds."""
    return [name for name in ADDED.get(part, ()) if not (ROOT / name).exists()]


def get_args(arguments: Sequence[str] | None = None) -> Namespace:
    """The command line; ``tasks`` are those that it asks for."""
    parser = OneLineParser(description="Check the functions of the tasks, each alone.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--task", help="number or id of one task: 1.2 or bert.add_norm")
    choice.add_argument("--part", type=int, choices=PARTS, help="the tasks of this part (1)")
    which = "say at least which property does not hold; given twice, also the probable mistake"
    parser.add_argument("--hint", action="count", default=0, help=which)
    parser.add_argument("--hints", choices=["all"], help="the same as --hint twice")
    parser.add_argument("--all", action="store_true", help="show all findings")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--quiz", action="store_true", help="ask about your own code instead")
    instead.add_argument(
        "--hunt", action="store_true", help="run my_tests.py on bugs made in your own functions"
    )
    instead.add_argument("--trace", action="store_true", help="compare the whole model's states")
    parser.add_argument("--html", metavar="FILE", help="of --trace: draw them on this page (.html)")
    parser.add_argument("--seed", type=positive_int, help="of --hunt and --quiz: the same again")
    parser.add_argument(
        "--limit", type=positive_float, help="seconds that one check, or hunt, may take"
    )
    args = parser.parse_args(arguments)
    args.level = ALL if args.hints else max(FIRST_HINT, 1 + args.hint)
    try:
        of_part = [entry for entry in GRADED_TASKS if entry.part == (args.part or 1)]
        args.tasks = of_part if args.task is None else [graded_task(args.task)]
    except KeyError as error:
        parser.error(error.args[0])
    if args.seed and not (args.hunt or args.quiz):
        parser.error("--seed is for --hunt and --quiz")
    if args.trace and (args.task or args.part or args.hint or args.hints):
        parser.error("--trace runs the whole model: it goes with no --task, --part or --hint")
    if args.html and not (args.trace and args.html.endswith(".html")):
        parser.error("--html is for --trace, and its file's name ends in .html")
    if args.hunt or args.quiz:
        able = TEST_OF if args.hunt else QUIZZED
        args.tasks = [entry for entry in args.tasks if entry.id in able]
        if not args.tasks:
            numbers = ", ".join(graded_task(task_id).number for task_id in able)
            parser.error(f"--{'hunt' if args.hunt else 'quiz'} is for tasks {numbers}")
    part = args.tasks[0].part
    if missing := missing_of(part):
        raise InputError(f"{missing[0]} is not here: it comes with the handout of part {part}")
    return args


def check(args: Namespace) -> int:
    """Check one task or more; the exit status is 0 only if all that were checked are right."""
    with Child(args.limit or LIMIT) as child:
        session = Session(child, Report(args.all, args.level))
        session.run_tasks(args.tasks)
        part = None if args.task else args.part or 1
        if part in LAST:
            session.run_last(part)
        if not args.task and not args.part:
            for later in (number for number in ADDED if not missing_of(number)):
                print(f"  --    part {later} is checked with --part {later}")
        return session.finish(part)


def trace(args: Namespace) -> int:
    """Compare the states of the whole model; the exit status is 0 only if all of them are right."""
    with Child(args.limit or LIMIT, "checks.trace.states") as child:
        outcome, printed = child.run("page" * bool(args.html), LAST[1][1]), child.printed()
    texts = {kind: [f.text for f in outcome.findings if f.kind == kind] for kind in ("page", "why")}
    errors = tuple(finding for finding in outcome.findings if finding.kind == "error")
    print(f"{TRACED}\n" * (not errors), end="")
    for finding in outcome.findings:
        if finding.kind in LABELS:
            print(f"  {label_of(finding.kind)} {finding.text}")
        elif finding.kind == "why":
            print(*wrapped(finding.text), sep="\n")
    Report(args.all).end(replace(outcome, findings=errors), printed)
    for page in texts["page"]:
        write_whole(args.html, page)
    if args.html:
        is_written = "wrote {}" if texts["page"] else "{} is not written: there is nothing to draw"
        print(is_written.format(args.html))
    opened = next((text for text in texts["why"] if ": open " in text), "")
    for task in GRADED_TASKS:
        if f": open {task.function} " in opened:
            print(f"next: python sanity_check.py --task {task.number} --hint")
    return int(outcome.status != "ok")


def main(arguments: Sequence[str] | None = None) -> None:
    """The script: not by run_script, which needs torch."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a console without UTF-8 shows ? for ·
    try:
        args = get_args(arguments)
        if args.quiz:
            sys.exit(quiz(args.tasks, args.seed, args.limit or LIMIT))
        if args.trace:
            sys.exit(trace(args))
        sys.exit(hunt(args.tasks, args.seed or 0, args.limit) if args.hunt else check(args))
    except InputError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:  # in a hunt: check and quiz say more
        sys.exit("\ninterrupted")
    except OSError:
        fault = output_fault()
        if fault is None:
            raise
        sys.exit(fault or 1)


if __name__ == "__main__":
    main()
