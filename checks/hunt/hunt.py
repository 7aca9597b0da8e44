"""The bug hunt: how many bugs in a student's own function do the student's tests catch?

A bug is an edit after which the function computes something else, and something else than every
bug before it; what raises an exception is none, since any call shows it. A process of its own runs
all code (jobs.py).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from checks.child import Child
from checks.findings import ROOT, Finding, Outcome
from checks.graded_tasks import GradedTask, graded_task
from checks.report import INDENT, MOST_PRINTED, wrapped
from training.files.errors import InputError
from training.files.texts import read_text

TESTS, JOBS = "my_tests.py", "checks.hunt.jobs"
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
    with Child(limit or LIMIT, JOBS) as child:
        for task in tasks:
            try:
                lines = result(task, child, seed)
            except Worthless as error:
                trouble, lines = True, [str(error)]
            print(f"  {task.title}: {lines[0]}", *lines[1:], sep="\n", flush=True)
    return int(trouble)


def result(task: GradedTask, child: Child, seed: int) -> list[str]:
    """What is said about a function's test, in lines; Worthless where it says nothing."""
    test = TEST_OF[task.id]
    for name in (*NEEDS.get(task.id, ()), task.id):
        outcome, needed = ask(child, do="check", name=name), graded_task(name)
        if outcome.status != "ok":
            why = f": {outcome.findings[0].text}" if outcome.status == "wrong" else ""
            raise Worthless(f"the hunt begins once {needed.function} is ok ({needed.check}){why}")
    child.printed()  # by what was checked
    if finding := failure(task, child):
        fails = f"fails your own function, which is right: {finding.text}"
        raise Worthless(f"{test} {'is not started' if finding.kind == 'not started' else fails}")
    printed = [f"{INDENT}your test printed: {x}" for x in child.printed()[:MOST_PRINTED]]
    outcome = ask(child, do="bugs", name=task.id, seed=seed, most=MOST)
    if outcome.status != "ok":
        raise Worthless(f"no bugs can be made: {outcome.findings[0].text}")
    bugs = json.loads(outcome.about)
    survivors = [bug for bug in bugs if not failure(task, child, bug["source"])]
    if failure(task, child):
        raise Worthless(f"{test} fails your own function at a later run: by chance, or by memory")
    return [*summary(task, bugs, survivors), *printed, *listed(task, survivors)]


def ask(child: Child, **job: Any) -> Outcome:
    """The outcome of a job: what to do, and what that is given."""
    return child.run(json.dumps(job), job["name"])


def failure(task: GradedTask, child: Child, source: str = "") -> Finding | None:
    """How the test fails; Worthless where it ends Python, or does not end itself."""
    test = TEST_OF[task.id]
    outcome = ask(child, do="test", name=task.id, function=test, source=source)
    (finding,) = outcome.findings or [None]
    if finding and (outcome.status != "failed" or finding.kind == "exit"):
        on = "a wrong function" if source else "your own function"
        raise Worthless(f"{test} on {on}: {finding.text}")
    return finding


def summary(task: GradedTask, bugs: Sequence[dict], survivors: Sequence[dict]) -> list[str]:
    """How many were caught, what survived by subject, and an input that the test lacks."""
    caught = f"caught {len(bugs) - len(survivors)} of {len(bugs)}"
    if not survivors:
        return [caught]
    kinds = Counter(bug["about"] for bug in survivors).most_common()
    grouped = f"{len(survivors)} survived: {', '.join(f'{n} {about}' for about, n in kinds)}"
    never = f": {TEST_OF[task.id]} never fails" * (len(survivors) == len(bugs))
    every, left = (Counter(bug["where"] for bug in group) for group in (bugs, survivors))
    where = max(left, key=lambda where: (left[where] / every[where], left[where]))
    worth = f"worth a test: {where}: {left[where]} of {every[where]} bugs there survived"
    return [f"{caught}{never}; {grouped}", *wrapped(worth)]


def listed(task: GradedTask, survivors: Sequence[dict]) -> list[str]:
    """Each survivor with its line, before and after, and what shows it."""
    lines, own = [], read_text(ROOT / task.file).split("\n")
    for bug in survivors:
        before = " ".join(
            x.partition("  #")[0].strip() for x in own[bug["first"] - 1 : bug["last"]]
        )
        lines += [
            f"{INDENT}survived  {task.file}:{bug['first']}  {before}",
            f"{INDENT} becomes  {bug['text'].strip()}",
            *wrapped(bug["why"]),
        ]
    return lines
