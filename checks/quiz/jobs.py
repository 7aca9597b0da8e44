"""What the process of a student's code runs for the quiz: all questions, as one outcome."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict

from checks.findings import Outcome
from checks.graded_tasks import graded_task
from checks.quiz.generate import generate


def run(job: str) -> Outcome:
    """The questions as JSON, in ``about``; the job is a seed, how many, and numbers of tasks."""
    seed, count, *tasks = job.split()
    return Outcome("quiz", "ok", as_json(seed, int(count), tasks))


def as_json(seed: str, count: int, tasks: Sequence[str], room: float = math.inf) -> str:
    """Questions, and lines about what was left out; ``room`` is that of generate."""
    questions, notes = generate(seed, count, [graded_task(task) for task in tasks], room)
    return json.dumps({"questions": [*map(asdict, questions)], "notes": notes})
