"""What the process of the hunt and the quiz does with a student's code, one job at a time.

A job is a line of JSON: {"do": the name of a function here, and what it is given}. A test is read
again for each run, with ``bert`` or ``optimizer`` as a source makes it: whatever it imports from
there is what it has to test.
"""

from __future__ import annotations

import importlib
import json
import random
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from checks import jobs
from checks.compare import is_close
from checks.errors import attempt, describe
from checks.findings import ROOT, Finding, Outcome
from checks.graded_tasks import GradedTask, graded_task
from checks.hunt.edits import Function, in_turns, installed_source
from checks.hunt.hunt import TESTS
from checks.inputs import in_words
from checks.quiz import questions
from checks.task import Outputs
from training.files.errors import InputError
from training.files.texts import read_text

SEED = 11711  # of a test
INPUTS = 101  # the seed of the inputs on which functions are compared
WHERE = {  # an input worth a test, by the kind of the first output that differs
    "gradients": "the gradient of `{}`",
    "padding": "{} with other numbers in the padding",
    "inputs": "`{}` after the call",
}
SILENT = "{} is left out: it is not written yet, or raises an exception ({})"


def run(job: str) -> Outcome:
    """The outcome of a job."""
    given = json.loads(job)
    with warnings.catch_warnings(action="ignore"):
        return JOBS[given.pop("do")](**given)


def bugs(name: str, seed: int, most: int) -> Outcome:
    """As JSON, the first edits of a task's function that compute what none before them did."""
    task, seen, made = graded_task(name), [], []
    function = Function(task, read_text(ROOT / task.file))
    edits = in_turns(function.edits(), random.Random(seed))
    runs = questions.versions(task, function.lines, edits, INPUTS)
    right, inputs = next(runs), in_words(name, INPUTS)
    for edit, run in zip(edits, runs, strict=False):
        key = first_difference(right, run) if run else ""  # any call shows what raises
        if key and all(first_difference(old, run) for old in seen):
            seen.append(run)
            kind, _, what = key.partition("|")[2].partition("/")
            words = questions.options_of(name).get(key) or WHERE.get(kind, "{}").format(what)
            _, why = questions.difference(function.names, edit.first, right, run, key)
            bug = {"source": "\n".join(edit.of(function.lines)), "why": f"{words}: {why}"}
            bug["where"] = f"{words}, for {inputs}" if inputs else words
            made.append(asdict(edit) | bug)
        if len(made) == most:
            break
    return Outcome(task.title, "ok", json.dumps(made))


def first_difference(before: Outputs, after: Outputs) -> str:
    """The first output, not a variable, that is not the same in two runs; "" if there is none."""
    for key in before | after:
        is_same = is_close(after.get(key), before.get(key), questions.TOLERANCE)
        if key.count("|") == 1 and not is_same:
            return key
    return ""


def test(name: str, function: str, source: str) -> Outcome:
    """Run a test of my_tests.py on a source, or without one on the student's own file."""
    task = graded_task(name)
    torch.set_default_dtype(torch.float32)
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(SEED)
    source = source or read_text(ROOT / task.file)
    with torch.enable_grad(), installed_source(task.file, source):
        error = attempt(run_test, task, function)
    if not isinstance(error, BaseException):
        return Outcome(task.title, "passed")
    finding = describe(error)
    if isinstance(error, SystemExit):
        finding = Finding("exit", f"it ends Python ({finding.text})")
    return Outcome(task.title, "failed", findings=(finding,))


def run_test(task: GradedTask, function: str) -> None:
    """Run a test on what the module of the task's file has."""
    names: dict[str, Any] = {"__name__": TESTS.removesuffix(".py")}
    exec(compile(read_text(ROOT / TESTS), str(ROOT / TESTS), "exec"), names)
    if function not in names:
        raise NotImplementedError
    owner, method = task.function.split(".")
    tested = getattr(importlib.import_module(task.module), owner)
    names[function](tested if task.id == "optimizer.step" else getattr(tested, method))


def quiz(seed: int, count: int, names: Sequence[str]) -> Outcome:
    """As JSON, questions about the functions of some tasks, and what is shown with them."""
    rng, groups, subjects, notes = random.Random(seed), [], {}, []
    for task in map(graded_task, rng.sample(names, len(names))):
        try:
            subject = questions.subject_of(task, read_text(ROOT / task.file), rng)
        except InputError as error:
            notes.append(f"{task.title} is left out: {error}")
            continue
        subjects[task.id] = {key: subject[key] for key in ("code", "given")}
        groups.append(list(questions.questions_of(subject, questions.numbers(subject), rng)))
        notes += [SILENT.format(task.title, task.check)] * (not groups[-1])
        if sum(len(group[:2]) for group in groups) >= count:
            break
    chosen = [asdict(question) for question in questions.choose(groups, count)]
    made = {"subjects": subjects, "questions": chosen, "notes": notes}
    return Outcome("quiz", "ok", json.dumps(made))


JOBS = {"check": jobs.run, "bugs": bugs, "test": test, "quiz": quiz}
