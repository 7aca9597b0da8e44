"""The questions for one student or group: other kinds, tasks, sizes and options for each seed."""

from __future__ import annotations

import json
import math
import random
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from checks.errors import describe, nul_fault
from checks.findings import Outcome
from checks.graded_tasks import GradedTask, graded_task
from checks.quiz import calls, edits, gradients, values
from checks.quiz.functions import Function
from checks.quiz.questions import Pool, Question
from training.files.errors import InputError

OF_VALUES = ("bert.attention", "bert.add_norm", "bert.layer", "bert.embed", "classifier.forward")
MOST_TRIES = 4  # for each question
ROWS = 14  # of print, that are kept free for each question to come
EASY, MEDIUM, HARD = "easy", "medium", "hard"


@dataclass(frozen=True)
class Kind:
    """One kind of question."""

    name: str
    level: str
    tasks: tuple[str, ...]
    pool: Callable[[Function, random.Random], Pool | None]


KINDS = (
    Kind("shape", EASY, OF_VALUES, values.shape),
    Kind("sums", MEDIUM, OF_VALUES, values.sums),
    Kind("chance", EASY, OF_VALUES, values.chance),
    Kind("change", HARD, tuple(edits.SITUATIONS), edits.changes),
    Kind("property", HARD, tuple(edits.SITUATIONS), edits.properties),
    Kind("number", MEDIUM, ("optimizer.step",), values.steps),
    Kind("rows", EASY, ("bert.embed",), gradients.rows),
    Kind("gradient", MEDIUM, tuple(gradients.LOSS_OF), gradients.parameters),
    Kind("error", HARD, tuple(edits.SITUATIONS), edits.raises),
)


def runs(function: Function) -> None:
    """Call a function once; what it raises passes through."""
    task = function.task
    if task.id in (*calls.CALLS, "optimizer.step"):
        calls.run(task.id, calls.Sizes(), 1)
    else:
        gradients.model_and_result(task, "finetune", gradients.LOSS_OF[task.id][0])


def functions_of(tasks: Sequence[GradedTask]) -> tuple[dict[str, Function], list[str]]:
    """The functions that run, by task, and a line for each that does not."""
    functions, notes = {}, []
    for task in tasks:
        if not any(task.id in kind.tasks for kind in KINDS):
            continue
        try:
            function = Function(task)
            runs(function)
            functions[task.id] = function
        except InputError as missing:
            notes.append(f"{task.title} is left out: {missing}")
        except (Exception, SystemExit) as error:
            finding = describe(error)
            reason = nul_fault(error, task.file) or finding.text
            if finding.kind == "not started":  # the text is the title of the stub's task, or empty
                stub = "it" if reason in ("", task.title) else reason
                reason = f"{stub} is not written yet"
            notes.append(f"{task.title} is left out: {reason}")
    return functions, notes


def asked(kind: Kind, function: Function, rng: random.Random) -> Question | None:
    """A question of a kind; None where there is none, or the function fails meanwhile."""
    with warnings.catch_warnings(action="ignore"):  # what edits do is not the student's
        try:
            pool = kind.pool(function, rng)
        except (Exception, SystemExit):
            return None
    enough = pool is not None and pool.is_enough
    return pool.question(function, rng, kind.name, kind.level) if enough else None


def generate(
    seed: str, count: int, tasks: Sequence[GradedTask], room: float = math.inf
) -> tuple[list[Question], list[str]]:
    """So many questions, of kinds and tasks in turn, and lines about what was left out.

    Args:
        room: rows of print that the questions, and the functions they are about, may take.
    """
    rng = random.Random(seed)
    functions, notes = functions_of(tasks)
    for task, function in [*functions.items()]:
        if function.rows + ROWS * count > room:
            notes.append(f"{function.task.title} is left out: it is too long for the page")
            del functions[task]
    waiting = [(kind, task) for kind in KINDS for task in kind.tasks if task in functions]
    rng.shuffle(waiting)
    questions: dict[str, Question] = {}  # by text
    used: Counter[Any] = Counter()  # how often a kind, a task and both together were asked for
    for _ in range(MOST_TRIES * count):
        if not waiting or len(questions) == count:
            break
        pair = min(waiting, key=lambda pair: (used[pair], used[pair[0].name] + used[pair[1]]))
        kind, task = pair
        question = asked(kind, functions[task], rng)
        rows = question.rows + (not used[task]) * functions[task].rows if question else 0.0
        if not question or rows + ROWS * (count - len(questions) - 1) > room:
            waiting.remove(pair)
            continue
        if question.text not in questions:
            questions[question.text], room = question, room - rows
        used.update((pair, kind.name, task))
    if len(questions) < count:
        notes.append(f"{len(questions)} of {count} questions: the functions give no more")
    return [*questions.values()], notes


def as_json(seed: str, count: int, tasks: Sequence[str], room: float = math.inf) -> str:
    """The same of tasks by number, as JSON."""
    questions, notes = generate(seed, count, [graded_task(task) for task in tasks], room)
    return json.dumps({"questions": [*map(asdict, questions)], "notes": notes})


def run(job: str) -> Outcome:
    """The same as a job of checks/child.py: a seed, how many, and numbers of tasks."""
    seed, count, *tasks = job.split()
    return Outcome("quiz", "ok", as_json(seed, int(count), tasks))
