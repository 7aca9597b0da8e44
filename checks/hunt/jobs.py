"""What the process of the hunt does, one job at a time: check, compare with a bug, run a test.

A job is a line of JSON, see ``ask`` in hunt.py. A test is read again for each run, with ``bert`` or
``optimizer`` as a source makes it: whatever it imports from there is what it has to test.
"""

from __future__ import annotations

import importlib
import json
import random
import warnings
from typing import Any

import numpy as np
import torch

from checks import jobs
from checks.compare import TOLERANCES, difference, same
from checks.errors import attempt, describe
from checks.findings import ROOT, Finding, Outcome
from checks.graded_tasks import GradedTask, graded_task
from checks.hunt.hunt import TESTS
from checks.hunt.installed import installed_source
from checks.inputs import in_words, make_inputs
from checks.task import ERROR, Outputs, outputs_of
from training.files.texts import read_text

SEED = 11711  # of a test
INPUTS = 101  # the seed of the inputs on which functions are compared
WHERE = {  # an input worth a test, by the kind of the first output that differs
    "values": "{} in evaluation mode",
    "gradients": "the gradients of {}",
    "padding": "{}, with other numbers in the padding",
    "dropout": "{} in training mode",
    "inputs": "{}, looked at after the call",
}
SEEN: dict[str, list[Outputs]] = {}  # by task: of the student's function, of each bug so far


def run(job: str) -> Outcome:
    """The outcome of a job, with the seed and the settings of torch as they were at first."""
    asked = json.loads(job)
    task = graded_task(asked["task"])
    if asked["do"] == "check":
        return jobs.run(task.id)
    right = read_text(ROOT / task.file)
    with warnings.catch_warnings(action="ignore"):
        if asked["do"] == "compare":
            return compared(task, asked["source"], right)
        torch.set_default_dtype(torch.float32)
        for seed in (torch.manual_seed, random.seed, np.random.seed):
            seed(SEED)
        with torch.enable_grad(), installed_source(task.file, asked["source"] or right):
            error = attempt(run_test, task, asked["test"])
    if not isinstance(error, BaseException):
        return Outcome(task.title, "passed")
    finding = describe(error)
    if isinstance(error, SystemExit):
        finding = Finding("exit", f"it ends Python ({finding.text})")
    return Outcome(task.title, "failed", findings=(finding,))


def compared(task: GradedTask, source: str, right: str) -> Outcome:
    """Whether a source "differs" from the student's and from all before that did, and where."""
    if task.id not in SEEN:
        SEEN[task.id] = [computed(task, right)]
    outputs, wanted = computed(task, source), SEEN[task.id][0]
    failed = [n for n, x in outputs.items() if x is None and not n.startswith("gradients/")]
    if ERROR in outputs or failed:
        return Outcome(task.title, "broken")  # any call shows it
    if any(same(outputs, seen) for seen in SEEN[task.id]):
        return Outcome(task.title, "same")
    SEEN[task.id].append(outputs)
    for name, output in outputs.items():
        (kind, _, what), tolerance = name.partition("/"), TOLERANCES[torch.float64]
        if finding := difference(kind, what, output, wanted.get(name), tolerance):
            where, inputs = (
                f"case {what!r} of checks/part1/adamw_cases.py",
                in_words(task.id, INPUTS),
            )
            where = WHERE[kind].format(inputs) if inputs else where
            return Outcome(task.title, "differs", where, (finding,))
    return Outcome(task.title, "same")


def computed(task: GradedTask, source: str) -> Outputs:
    """What a source's function computes on random inputs; AdamW on the cases of its check."""
    inputs = None if task.id == "optimizer.step" else make_inputs(INPUTS)
    way = "bert.layer, whole" if task.id == "bert.layer" else task.id
    with installed_source(task.file, source):
        return outputs_of(way, inputs)


def run_test(task: GradedTask, test: str) -> None:
    """Run a test of my_tests.py on what the module of the task's file has."""
    names: dict[str, Any] = {"__name__": TESTS.removesuffix(".py")}
    exec(compile(read_text(ROOT / TESTS), str(ROOT / TESTS), "exec"), names)
    if test not in names:
        raise NotImplementedError
    owner, method = task.function.split(".")
    tested = getattr(importlib.import_module(task.module), owner)
    names[test](tested if task.id == "optimizer.step" else getattr(tested, method))
