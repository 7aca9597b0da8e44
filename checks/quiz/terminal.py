"""``python sanity_check.py --quiz``: questions about one's own code, answered on the terminal.

It needs no torch: the code runs in a process of its own (checks/child.py).
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Sequence
from typing import Any

from checks.child import Child
from checks.findings import ROOT
from checks.graded_tasks import GradedTask
from checks.quiz.listing import LETTERS, listing
from training.files.texts import read_text

COUNT = 5  # questions


def quiz(tasks: Sequence[GradedTask], seed: int | None, limit: float) -> int:
    """Ask about these tasks' functions; the exit status, 1 if there was nothing to ask.

    Args:
        limit: seconds that making the questions may take.
    """
    seed = 1 + secrets.randbelow(10_000) if seed is None else seed
    print(f"{COUNT} questions about your own code; --seed {seed} asks the same ones again")
    made: dict[str, list] = {"questions": [], "notes": []}
    right = answered = 0
    try:
        with Child(limit, "checks.quiz.generate") as child:
            numbers = " ".join(task.number for task in tasks)
            outcome = child.run(f"{seed} {COUNT} {numbers}", "quiz")
        if outcome.status != "ok":
            print(f"no questions: {outcome.findings[0].text}")
            return 1
        made = json.loads(outcome.about)
        for question in made["questions"]:
            correct = ask(question)
            right, answered = right + correct, answered + 1
    except (EOFError, KeyboardInterrupt):
        print()
    print(*made["notes"], f"{right} of {answered} right", sep="\n")
    return 0 if made["questions"] else 1


def ask(question: dict[str, Any]) -> bool:
    """Show the code and a question, read the choice, show the answer; whether it was right."""
    print(f"\n{question['file']}, Task {question['task']} ({question['level']})")
    source = read_text(ROOT / question["file"], plain=True)
    for number, line in listing(source, question["lines"]):
        print(f"{number:5}  {line}")
    print(f"\n{question['text']}")
    for letter, option in zip(LETTERS, question["options"], strict=True):
        print(f"  {letter}) {option}")
    right = LETTERS[question["key"]]
    while (answer := choice()) not in LETTERS:
        print("one letter: a, b, c or d")
    print(f"{'right' if answer == right else 'no'}: {right}. {question['why']}")
    for letter, executed in zip(LETTERS, question["executed"], strict=True):
        print(f"  {letter}) {executed}")
    return answer == right


def choice() -> str:
    """What is typed, or piped in; EOFError at the end."""
    print("your answer: ", end="", flush=True)
    line = sys.stdin.readline() if sys.stdin else ""  # closed: it is None
    if not line:
        raise EOFError
    return line.strip().lower() or "?"
