"""``python sanity_check.py --hunt`` and ``--quiz``, on the terminal.

How many bugs in a student's own function do the student's tests catch? And questions about that
code. It needs no torch: a process of its own runs all code (jobs.py).
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from checks.child import Child
from checks.findings import ROOT
from checks.graded_tasks import GRADED_TASKS, GradedTask
from checks.report import wrapped
from training.files.texts import read_text

TESTS, JOBS = "my_tests.py", "checks.hunt.jobs"
TEST_OF = {task.id: task.test for task in GRADED_TASKS if task.test}
LIMIT = 120.0  # seconds for the hunt in a function
MOST = 24  # bugs of a function
QUIZZED = (*TEST_OF, "classifier.forward")  # the tasks whose functions are asked about
COUNT, LETTERS = 5, "abcd"  # questions, options


def hunt(tasks: Sequence[GradedTask], seed: int, limit: float | None = None) -> int:
    """Hunt in some tasks' functions; the exit status is 0 if the test of each is worth something.

    In each for ``limit`` seconds at most. InputError where my_tests.py cannot be read.
    """
    read_text(ROOT / TESTS)
    trouble = False
    with Child(limit or LIMIT, JOBS) as child:
        for task in tasks:
            job = {"do": "hunt", "name": task.id, "seed": seed, "most": MOST}
            outcome = child.run(json.dumps(job), task.title)
            trouble |= outcome.status != "ok"
            about = outcome.about or f"the hunt ended early: {outcome.findings[0].text}"
            first, *lines = about.split("\n")
            details = [part for line in lines for part in wrapped(line)]
            print(f"  {task.title}: {first}", *details, sep="\n", flush=True)
    return int(trouble)


def quiz(tasks: Sequence[GradedTask], seed: int | None, limit: float) -> int:
    """Ask what can be made in ``limit`` seconds; exit status 1 unless all of it is answered."""
    seed = 1 + secrets.randbelow(10_000) if seed is None else seed
    print(f"{COUNT} questions about your own code; --seed {seed} asks the same ones again")
    job = {"do": "quiz", "seed": seed, "count": COUNT, "names": [task.id for task in tasks]}
    with Child(limit, JOBS) as child:
        outcome = child.run(json.dumps(job), "quiz")
    if outcome.status != "ok":
        print(f"no questions: {outcome.findings[0].text}")
        return 1
    made, shown, answers = json.loads(outcome.about), "", []
    try:
        for question in made["questions"]:
            if question["task"] != shown:  # a function is shown once
                shown = question["task"]
                print(made["shown"][shown])
            answers.append(ask(question))
    except (EOFError, KeyboardInterrupt):
        print(f"\ninterrupted after {len(answers)} of {len(made['questions'])}")
    for line in (*made["notes"], *[f"{sum(answers)} of {len(answers)} right"] * bool(answers)):
        print(line)
    return int(not 0 < len(answers) == len(made["questions"]))


def ask(question: Mapping[str, Any]) -> bool:
    """Ask a question, read the choice, show the answer; EOFError where there is no more input."""
    options = dict(zip(LETTERS, question["options"], strict=True))
    print(f"\n{question['text']}", *(f"  {x}) {text}" for x, text in options.items()), sep="\n")
    right, answer = LETTERS[question["key"]], ""
    while answer not in options:
        print("one letter: a, b, c or d\n" * bool(answer), end="your answer: ", flush=True)
        if not (line := sys.stdin.readline() if sys.stdin else ""):  # closed: it is None
            raise EOFError
        answer = line.strip().lower() or "?"
    print(f"{'right' if answer == right else 'no'}: {right}")
    print(question["why"])
    return answer == right
