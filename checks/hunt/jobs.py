"""What the process of the hunt does, one job at a time: check, compare with a mutant, test.

A job is a line of JSON, see ``ask`` in hunt.py. A test is read again for each run, with ``bert`` or
``optimizer`` as a source makes it: whatever it imports from there is what it has to test.
"""

from __future__ import annotations

import importlib
import json
import random
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from checks import jobs
from checks.errors import attempt, describe
from checks.findings import ROOT, Finding, Outcome
from checks.graded_tasks import GradedTask, graded_task
from checks.hunt.adapter import outputs_of, same
from checks.hunt.installed import installed_source
from training.files.texts import read_text

SEED = 11711
TESTS = ROOT / "my_tests.py"
WORDS = {  # where outputs of a kind come from
    "values": "in evaluation mode",
    "gradients": "the gradient",
    "padding": "with other numbers in the padding",
    "dropout": "in training mode",
    "inputs": "what is given, after the call",
}
SEEN: dict[str, list] = {}  # by task: what the student's function and the bugs so far compute


def run(job: str) -> Outcome:
    """The outcome of a job, with the seed and the settings of torch as they were at first."""
    asked = json.loads(job)
    task = graded_task(asked["task"])
    if asked["do"] == "check":
        return jobs.run(task.id)
    source = asked["source"] or read_text(ROOT / task.file, plain=True)
    with warnings.catch_warnings(action="ignore"):
        if asked["do"] == "compare":
            return compare(task, source)
        torch.set_default_dtype(torch.float32)
        for seed in (torch.manual_seed, random.seed, np.random.seed):
            seed(SEED)
        with torch.enable_grad(), installed_source(task.file, source):
            error = attempt(run_test, task, asked["test"])
    if not isinstance(error, BaseException):
        return Outcome(task.title, "passed")
    finding = describe(error)
    if isinstance(error, SystemExit):
        finding = Finding("exit", f"it ends Python ({finding.text})")
    return Outcome(task.title, "failed", findings=(finding,))


def compare(task: GradedTask, source: str) -> Outcome:
    """Whether a mutant is a bug of its own: "differs" from the function and all bugs before it.

    Of a bug there is a finding for each input that shows it; its name says which input.
    """
    if task.id not in SEEN:
        SEEN[task.id] = [outputs_of(task, read_text(ROOT / task.file, plain=True))]
    outputs = attempt(outputs_of, task, source)
    if isinstance(outputs, BaseException):
        return Outcome(task.title, "broken")  # any call shows it
    found = [unlike(seen, outputs) for seen in SEEN[task.id]]
    if not all(found):
        return Outcome(task.title, "same")
    SEEN[task.id].append(outputs)
    findings = tuple(Finding("fact", text, name=name) for name, text in found[0].items())
    return Outcome(task.title, "differs", findings=findings)


def unlike(wanted: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, str]:
    """On which inputs outputs differ, with the first number that does."""
    found = {}
    for name, right in wanted.items():
        if same(right, outputs.get(name)):
            continue
        seed, kind, what = name.split("/", 2)
        words = WORDS.get(kind, f"the {kind}").format(what)
        found[f"input {seed}, {words}"] = numbers(what, right, outputs.get(name))
    return found


def numbers(what: str, right: Any, output: Any) -> str:
    """Where two outputs differ, and what yours and the mutant have there."""
    if not isinstance(right, Tensor) or not isinstance(output, Tensor):
        return f"{what}: no tensor, where there was one" if right is not None else f"{what}"
    if right.shape != output.shape:
        return f"{what} is {tuple(right.shape)} and becomes {tuple(output.shape)}"
    off = (right.double() - output.double()).abs().nan_to_num(torch.inf)
    place = np.unravel_index(int(off.argmax()), off.shape)
    at = [*map(int, place)]
    return f"{what}{at} is {right[place].item():.4g} and becomes {output[place].item():.4g}"


def run_test(task: GradedTask, test: str) -> None:
    """Run a test of my_tests.py on what the module of the task's file has."""
    names: dict[str, Any] = {"__name__": TESTS.stem}
    exec(compile(read_text(TESTS, plain=True), str(TESTS), "exec"), names)
    if test not in names:
        raise NotImplementedError
    owner, method = task.function.split(".")
    tested = getattr(importlib.import_module(task.module), owner)
    names[test](tested if task.id == "optimizer.step" else getattr(tested, method))
