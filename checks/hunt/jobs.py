"""What the process of the hunt and the quiz does with a student's code, one job at a time.

A job is a line of JSON: {"do": the name of a function here, and what it is given}. In the hunt a
bug is an edit after which the function computes something else, and something else than every bug
before it; what raises an exception is none, since any call shows it. A test is read again for each
bug, with ``bert`` or ``optimizer`` as a source makes it: whatever it imports from there is what it
has to test.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from types import ModuleType
from typing import Any

import numpy as np
import torch

from checks import jobs
from checks.compare import is_close
from checks.errors import attempt, describe
from checks.findings import ROOT, Finding, Outcome
from checks.graded_tasks import GradedTask, graded_task
from checks.hunt.edits import Edit, Function, in_turns, installed_source
from checks.hunt.terminal import TEST_OF, TESTS
from checks.quiz import questions
from checks.task import Outputs
from training.files.errors import InputError
from training.files.texts import read_text

SEED = 11711  # of a test
INPUTS = 101  # the seed of the inputs on which functions are compared
SHOWN_BY = {  # an output that is no result, by its kind
    "gradients": "the gradient of `{}`",
    "padding": "{} with other numbers in the padding",
    "inputs": "`{}` after the call",
}


def run(job: str) -> Outcome:
    """The outcome of a job."""
    given = json.loads(job)
    return {"hunt": hunt, "quiz": quiz}[given.pop("do")](**given)


def hunt(name: str, seed: int, most: int) -> Outcome:
    """What is said about a function's test, in lines; the status is "ok" if it is worth something.

    Args:
        most: bugs that are made.
    """
    task, test = graded_task(name), TEST_OF[name]
    checked, own = jobs.run(name), read_text(ROOT / task.file)
    if checked.status != "ok":
        why = f": {checked.findings[0].text}" if checked.status == "wrong" else ""
        text = f"the hunt begins once {task.function} is ok ({task.check}){why}"
        return Outcome(task.title, "waits", text)
    if finding := failure(task, own):
        fails = f"fails with your own file: {finding.text}"
        text = f"{test} {'is not started' if finding.kind == 'not started' else fails}"
        return Outcome(task.title, "wrong", text)
    function = Function(task, own)
    made = [*bugs(function, in_turns(function.edits(), random.Random(seed)), most)]
    survivors = [bug for bug in made if not failure(task, bug[0].of(own))]
    if failure(task, own):
        text = f"{test} fails with your own file at a later run: by chance, or by memory"
        return Outcome(task.title, "wrong", text)
    caught = f"caught {len(made) - len(survivors)} of {len(made)}"
    if survivors:
        kinds = Counter(edit.about for edit, _ in survivors).most_common()
        caught += f": {test} never fails" * (len(survivors) == len(made))
        caught += f"; {len(survivors)} survived: {', '.join(f'{n} {about}' for about, n in kinds)}"
    lines = [f"survived: {edit}\n{why}" for edit, why in survivors]
    return Outcome(task.title, "ok", "\n".join([caught, *lines]))


def bugs(function: Function, edits: Sequence[Edit], most: int) -> Iterator[tuple[Edit, str]]:
    """The first edits after which a function computes what it does after no other; what differs."""
    task, seen = function.task, []
    runs = questions.versions(task, function.source, edits, INPUTS)
    right = next(runs)
    for edit, run in zip(edits, runs, strict=False):
        key = first_difference(right, run) if run else ""
        if key and all(first_difference(old, run) for old in seen):
            seen.append(run)
            kind, _, what = key.partition("|")[2].partition("/")
            words = questions.options_of(task.id).get(key) or SHOWN_BY.get(kind, "{}")
            yield edit, f"it changes {words.format(what)}"
        if len(seen) == most:
            break


def first_difference(before: Outputs, after: Outputs) -> str:
    """The first output that is not the same in two runs; "" if there is none."""
    tolerance, keys = questions.TOLERANCE, before | after
    return next((k for k in keys if not is_close(after.get(k), before.get(k), tolerance)), "")


def failure(task: GradedTask, source: str) -> Finding | None:
    """How the test of my_tests.py fails with a source of the task's file; None if it passes."""
    torch.set_default_dtype(torch.float32)
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(SEED)
    with torch.enable_grad(), installed_source(task.file, source) as module:
        error = attempt(run_test, task, module)
    return describe(error) if isinstance(error, BaseException) else None


def run_test(task: GradedTask, module: ModuleType) -> None:
    """Run a test on what the module of the task's file has."""
    names: dict[str, Any] = {"__name__": TESTS.removesuffix(".py")}
    exec(compile(read_text(ROOT / TESTS), str(ROOT / TESTS), "exec"), names)
    if TEST_OF[task.id] not in names:
        raise NotImplementedError
    owner, method = task.function.split(".")
    tested = getattr(module, owner)
    names[TEST_OF[task.id]](tested if task.id == "optimizer.step" else getattr(tested, method))


def quiz(seed: int, count: int, names: Sequence[str]) -> Outcome:
    """As JSON, questions about the functions of some tasks, and what is shown with them."""
    rng, groups, shown, notes = random.Random(seed), [], {}, []
    for task in map(graded_task, rng.sample(names, len(names))):
        try:
            subject = questions.subject_of(task, read_text(ROOT / task.file), rng)
        except InputError as error:
            notes.append(f"{task.title} is left out: {error}")
            continue
        numbers, why = questions.numbers_if_right(subject)
        groups.append(questions.questions_of(subject, numbers, rng))
        notes += [f"{task.title} is left out: {why}"] * (not groups[-1])
        lines = [f"\n{task.file}, {task.title}", *(f"{n:5}  {x}" for n, x in subject["code"])]
        shown[task.id] = "\n".join([*lines, subject["given"]])
        if sum(len(group[:2]) for group in groups) >= count:
            break
    chosen = [asdict(question) for question in questions.choose(groups, count)]
    return Outcome("quiz", "ok", json.dumps({"shown": shown, "questions": chosen, "notes": notes}))
