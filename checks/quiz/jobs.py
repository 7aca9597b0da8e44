"""What the process of the quiz does: all three steps, for a student's own files."""

from __future__ import annotations

import json
import random
from dataclasses import asdict

from checks.findings import ROOT, Outcome
from checks.graded_tasks import graded_task
from checks.quiz.questions import choose, questions_of, subject_of
from checks.quiz.runs import numbers
from training.files.errors import InputError
from training.files.texts import read_text

SILENT = "{} is left out: it is not written yet, or raises an exception ({})"


def run(job: str) -> Outcome:
    """The questions as JSON. A job is a seed, how many, and the numbers of tasks."""
    seed, count, *tasks = job.split()
    rng, groups, subjects, notes = random.Random(int(seed)), [], {}, []
    for task in map(graded_task, rng.sample(tasks, len(tasks))):
        try:
            subject = subject_of(task, read_text(ROOT / task.file), rng)
        except InputError as error:
            notes.append(f"{task.title} is left out: {error}")
            continue
        asked = list(questions_of(subject, numbers(subject), rng))
        groups += [asked] * bool(asked)
        subjects[task.id] = {key: subject[key] for key in ("code", "given")}
        notes += [SILENT.format(task.title, task.check)] * (not asked)
        if len(choose(groups, int(count), (2,))) == int(count):
            break
    chosen = choose(groups, int(count), (2, int(count)))
    made = {"subjects": subjects, "questions": [*map(asdict, chosen)], "notes": notes}
    return Outcome("quiz", "ok", json.dumps(made))
