"""The bug hunt: how many bugs in a student's own function do the student's tests catch?

A bug is an edit after which the function computes something else, and something else than every
bug before it; what raises an exception is none, since any call shows it. A process of its own runs
all code.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from checks.child import Child
from checks.findings import ROOT, Finding, Outcome
from checks.graded_tasks import GradedTask, graded_task
from checks.hunt.edits import Edit, Function, in_turns
from checks.report import INDENT, MOST_PRINTED, wrapped
from training.files.errors import InputError
from training.files.texts import read_text

TESTS = "my_tests.py"
TEST_OF = {  # the function that tests each task's
    "bert.attention": "test_attention",
    "bert.add_norm": "test_add_norm",
    "bert.layer": "test_layer",
    "bert.embed": "test_embed",
    "optimizer.step": "test_adamw",
}
NEEDS = {"bert.layer": ("bert.attention", "bert.add_norm")}  # what a function calls
LIMIT = 20.0  # seconds for a test of one bug
MOST = 24  # bugs of a function


class Worthless(Exception):
    """Why a test says nothing about a function."""


@dataclass(frozen=True)
class Bug:
    """An edit, the file's source with it, and what it changes first: where, and how."""

    edit: Edit
    source: str
    where: str
    text: str


def hunt(tasks: Sequence[GradedTask], seed: int, limit: float | None = None) -> int:
    """Hunt in some tasks' functions; the exit status is 0 if the test of each is worth something.

    Args:
        limit: seconds for a test of one bug; without it, LIMIT.

    Raises:
        InputError: there is no my_tests.py, or it is not a text.
    """
    if not (ROOT / TESTS).is_file():
        raise InputError(f"{TESTS} is not here: the handout of part 1 has one to begin with")
    read_text(ROOT / TESTS)
    trouble = False
    with Child(limit or LIMIT, "checks.hunt.jobs") as child:
        for task in tasks:
            try:
                lines = Hunt(task, child).run(seed)
            except Worthless as error:
                trouble, lines = True, [str(error)]
            print(f"  {task.title}: {lines[0]}", *lines[1:], sep="\n", flush=True)
    return int(trouble)


class Hunt:
    """The hunt in one function."""

    def __init__(self, task: GradedTask, child: Child):
        self.task, self.child, self.test = task, child, TEST_OF[task.id]

    def run(self, seed: int) -> list[str]:
        """What is said about the function's test, in lines; Worthless where it says nothing."""
        for name in (*NEEDS.get(self.task.id, ()), self.task.id):
            outcome, task = self.ask("check", task=name), graded_task(name)
            if outcome.status != "ok":
                why = f": {outcome.findings[0].text}" if outcome.status == "wrong" else ""
                raise Worthless(f"the hunt begins once {task.function} is ok ({task.check}){why}")
        self.child.printed()  # by what was checked
        self.try_on_right("your own function, which is right")
        lines = [f"{INDENT}your test printed: {x}" for x in self.child.printed()[:MOST_PRINTED]]
        function = Function(self.task, read_text(ROOT / self.task.file))
        bugs, survivors = self.bugs_in(function, seed), []
        for number, bug in enumerate(bugs, start=1):
            survivors += [bug] * (not self.failure(bug.source))
            if number in (len(bugs) // 2, len(bugs)):
                self.try_on_right("your own function at a later run: by chance, or by memory")
        return [*self.summary(bugs, survivors), *lines, *self.listed(function, survivors)]

    def ask(self, do: str, task: str = "", source: str = "") -> Outcome:
        """What comes of a job (jobs.py); without a source, of the student's own file."""
        job = {"do": do, "task": task or self.task.id, "source": source, "test": self.test}
        return self.child.run(json.dumps(job), self.task.title)

    def bugs_in(self, function: Function, seed: int) -> list[Bug]:
        """The first bugs, those about each subject in turns."""
        bugs: list[Bug] = []
        for edit in in_turns(function.edits(), random.Random(seed)):
            source = "\n".join(edit.of(function.lines))
            outcome = self.ask("compare", source=source)
            if outcome.status == "differs":
                bugs.append(Bug(edit, source, outcome.about, outcome.findings[0].text))
            if len(bugs) == MOST:
                break
        return bugs

    def try_on_right(self, what: str) -> None:
        """Run the test on the student's own function; Worthless if it fails."""
        if failure := self.failure():
            if failure.kind == "not started":
                raise Worthless(f"{self.test} is not started")
            raise Worthless(f"{self.test} fails {what}: {failure.text}")

    def failure(self, source: str = "") -> Finding | None:
        """How the test fails; Worthless where it ends Python, or does not end itself."""
        outcome = self.ask("test", source=source)
        (finding,) = outcome.findings or [None]
        if finding and (outcome.status != "failed" or finding.kind == "exit"):
            on = "a wrong function" if source else "your own function"
            raise Worthless(f"{self.test} on {on}: {finding.text}")
        return finding

    def summary(self, bugs: Sequence[Bug], survivors: Sequence[Bug]) -> list[str]:
        """How many were caught, what survived by subject, and an input that the test lacks."""
        caught = f"caught {len(bugs) - len(survivors)} of {len(bugs)}"
        if not survivors:
            return [caught]
        kinds = Counter(bug.edit.about for bug in survivors).most_common()
        grouped = f"{len(survivors)} survived: {', '.join(f'{n} {about}' for about, n in kinds)}"
        never = f": {self.test} never fails" * (len(survivors) == len(bugs))
        every, left = (Counter(bug.where for bug in group) for group in (bugs, survivors))
        where = max(left, key=lambda where: (left[where] / every[where], left[where]))
        worth = f"worth a test: {where}: {left[where]} of {every[where]} bugs there survived"
        return [f"{caught}{never}; {grouped}", *wrapped(worth)]

    def listed(self, function: Function, survivors: Sequence[Bug]) -> list[str]:
        """Each survivor with its line, before and after, and what shows it."""
        lines = []
        for edit, text in ((bug.edit, bug.text) for bug in survivors):
            code = [x.partition("  #")[0] for x in function.lines[edit.first - 1 : edit.last]]
            before = " ".join(" ".join(code).split())
            lines += [
                f"{INDENT}survived  {self.task.file}:{edit.first}  {before}",
                f"{INDENT} becomes  {edit.text.strip() or '(nothing)'}",
                *wrapped(text),
            ]
        return lines
