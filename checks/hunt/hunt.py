"""The bug hunt: how many mutants of a student's own function do the student's tests catch?

Mutants that compute the same as the function, or as an earlier mutant, are left out, and those
that raise an exception, which any call shows. It needs no torch: a worker runs the code.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from checks.child import Child
from checks.findings import ROOT
from checks.graded_tasks import GradedTask, graded_task
from checks.hunt.mutants import Edit, FunctionText, in_turns
from checks.hunt.student_tests import TEST_OF, TESTS, faults_of
from checks.report import INDENT, MOST_PRINTED, wrapped
from training.files.errors import InputError
from training.files.texts import read_text

JOBS = "checks.hunt.jobs"
LIMIT = 20.0  # seconds for a test of one mutant
MOST = 24  # mutants of a function
NEEDS = {"bert.layer": ("bert.attention", "bert.add_norm")}  # what a function calls


class Worthless(Exception):
    """Why a test says nothing about a function."""


@dataclass(frozen=True)
class Bug:
    """A mutant that is wrong, and an input that shows it."""

    edit: Edit
    source: str  # of the file with the edit
    where: str
    inputs: str  # what ``where`` speaks of


def hunt(entries: Sequence[GradedTask], seed: int, limit: float | None = None) -> int:
    """Hunt in some tasks' functions; the exit status is 0 if the test of each is worth something.

    Args:
        limit: seconds for a test of one mutant; without it, LIMIT.

    Raises:
        InputError: there is no my_tests.py, or it uses what tests may not use.
    """
    path = ROOT / TESTS
    if not path.is_file():
        raise InputError(f"{TESTS} is not here: the handout of part 1 has one to begin with")
    if faults := faults_of(read_text(path, plain=True)):
        more = f"; and {len(faults) - 1} more" if faults[1:] else ""
        raise InputError(f"{faults[0]}; nothing is hunted{more}")
    trouble = False
    with Child(limit or LIMIT, JOBS) as child:
        for entry in entries:
            try:
                lines = hunt_in(entry, seed, child)
            except Worthless as error:
                trouble, lines = True, [str(error)]
            print(f"  {entry.title}: {lines[0]}", *lines[1:], sep="\n", flush=True)
    return int(trouble)


def hunt_in(entry: GradedTask, seed: int, child: Child) -> list[str]:
    """What is said about the test of one function, in lines; Worthless where it says nothing."""
    for name in (*NEEDS.get(entry.id, ()), entry.id):
        outcome = child.run(job_for("check", name), entry.title)
        if outcome.status != "ok":
            task = graded_task(name)
            why = f": {outcome.findings[0].text}" if outcome.status == "wrong" else ""
            raise Worthless(f"the hunt begins once {task.function} is ok ({task.check}){why}")
    child.printed()  # by what was checked
    try_on_right(entry, child, "your own function, which is right")
    lines = [f"{INDENT}your test printed: {line}" for line in child.printed()[:MOST_PRINTED]]
    text = FunctionText(entry, read_text(ROOT / entry.file, plain=True))
    bugs, survivors = bugs_in(text, seed, child), []
    for number, bug in enumerate(bugs, start=1):
        if not fails(entry, child, bug.source):
            survivors.append(bug)
        if number in (len(bugs) // 2, len(bugs)):
            try_on_right(entry, child, "your own function at a later run: by chance, or by memory")
    caught = f"caught {len(bugs) - len(survivors)} of {len(bugs)}"
    never = f": {TEST_OF[entry.id]} never fails" if bugs and len(survivors) == len(bugs) else ""
    lines += wrapped(survivors[0].inputs) if survivors else []
    for bug in survivors:
        first, last = bug.edit.first, bug.edit.last
        lines += [
            f"{INDENT}survived  {entry.file}:{first}  {on_one_line(text.lines[first - 1 : last])}",
            f"{INDENT} becomes  {on_one_line(bug.edit.text.splitlines()) or '(nothing)'}",
            *wrapped(bug.where),
        ]
    return [f"{caught}{never}", *lines]


def on_one_line(lines: Sequence[str]) -> str:
    """Lines of code without their comments; what brackets hold is not divided."""
    code = [line.partition("  #")[0].strip() for line in lines]
    text = " / ".join(filter(None, code)).replace(", / ", ", ")
    return re.sub(r"(?<=[(\[{]) / | / (?=[)\]}])", "", text)


def bugs_in(text: FunctionText, seed: int, child: Child) -> list[Bug]:
    """The first mutants that compute something else than the function, each in its own way."""
    bugs: dict[str, Bug] = {}
    edits = itertools.chain.from_iterable(text.edits().values())
    for edit in text.distinct(in_turns(edits, lambda edit: edit.first, seed)):
        source = text.source(edit)
        outcome = child.run(job_for("compare", text.task.id, source), text.task.title)
        if outcome.status == "differs":
            (finding,) = outcome.findings
            bugs.setdefault(finding.name, Bug(edit, source, finding.text, outcome.about))
        if len(bugs) == MOST:
            break
    return list(bugs.values())


def try_on_right(entry: GradedTask, child: Child, what: str) -> None:
    """Run a test on the student's own function; Worthless if it fails."""
    if why := fails(entry, child):
        if why == "not started":
            raise Worthless(f"{TEST_OF[entry.id]} is not started")
        raise Worthless(f"{TEST_OF[entry.id]} fails {what}: {why}")


def fails(entry: GradedTask, child: Child, source: str = "") -> str:
    """How a test fails, "" if it does not; Worthless where it ends Python, or does not end itself.

    Args:
        source: of the task's file; "" is the student's own.
    """
    outcome = child.run(job_for("test", entry.id, source), entry.title)
    if outcome.status == "passed":
        return ""
    (finding,) = outcome.findings
    if outcome.status != "failed" or finding.kind == "exit":
        on = "a wrong function" if source else "your own function"
        raise Worthless(f"{TEST_OF[entry.id]} on {on}: {finding.text}")
    return "not started" if finding.kind == "not started" else finding.text


def job_for(what: str, task_id: str, source: str = "") -> str:
    """A job for the worker, in a line."""
    return json.dumps({"do": what, "task": task_id, "source": source})
