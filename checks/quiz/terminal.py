"""``python sanity_check.py --quiz``: questions about one's own code, answered on the terminal.

It needs no torch: the code runs in a process of its own (checks/child.py).
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from checks.child import Child
from checks.graded_tasks import GradedTask, graded_task

COUNT, LETTERS = 5, "abcd"  # questions, options


def quiz(tasks: Sequence[GradedTask], seed: int | None, limit: float) -> int:
    """Ask about these tasks' functions; the exit status, 1 if there was nothing to ask.

    Args:
        limit: seconds that making the questions may take.
    """
    seed = 1 + secrets.randbelow(10_000) if seed is None else seed
    print(f"{COUNT} questions about your own code; --seed {seed} asks the same ones again")
    made: dict[str, Any] = {"questions": [], "notes": []}
    right = answered = 0
    try:
        with Child(limit, "checks.quiz.jobs") as child:
            outcome = child.run(" ".join([f"{seed} {COUNT}", *(t.number for t in tasks)]), "quiz")
        if outcome.status != "ok":
            print(f"no questions: {outcome.findings[0].text}")
            return 1
        made, shown = json.loads(outcome.about), ""
        for question in made["questions"]:
            if question["task"] != shown:
                shown = question["task"]
                show(graded_task(shown), made["subjects"][shown])
            right, answered = right + ask(question), answered + 1
    except (EOFError, KeyboardInterrupt):
        print()
    print(*made["notes"], f"{right} of {answered} right", sep="\n")
    return 0 if made["questions"] else 1


def show(task: GradedTask, subject: Mapping[str, Any]) -> None:
    """Show a function once, before the first question about it."""
    print(f"\n{task.file}, {task.title}")
    print(*(f"{number:5}  {line}" for number, line in subject["code"]), subject["given"], sep="\n")


def ask(question: Mapping[str, Any]) -> bool:
    """Ask a question, read the choice, show the answer; whether it was right."""
    print(f"\n{question['text']}")
    for letter, option in zip(LETTERS, question["options"], strict=True):
        print(f"  {letter}) {option}")
    right = LETTERS[question["key"]]
    while (answer := choice()) not in LETTERS:
        print("one letter: a, b, c or d")
    print(f"{'right' if answer == right else 'no'}: {right}")
    for letter, reason in zip(LETTERS, question["reasons"], strict=True):
        print(f"  {letter}) {reason}" if reason else "", end="\n" * bool(reason))
    return answer == right


def choice() -> str:
    """What is typed, or piped in; EOFError at the end."""
    print("your answer: ", end="", flush=True)
    line = sys.stdin.readline() if sys.stdin else ""  # closed: it is None
    if not line:
        raise EOFError
    return line.strip().lower() or "?"
