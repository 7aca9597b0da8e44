"""What the worker of the bug hunt does, one job at a time: check, compare with a mutant, test.

A job is a line of JSON: what to do, the task's id, and the source of its file (see ``job_for`` in
hunt.py). checks/child.py is the worker's life. A test is read again for each run, with ``bert`` or
``optimizer`` as that source makes it: whatever it imports from there is what it has to test.
"""

from __future__ import annotations

import importlib
import json
import random
import warnings
from pathlib import Path

import numpy as np
import torch

from checks import jobs
from checks.errors import attempt, describe
from checks.findings import ROOT, Finding, Outcome
from checks.graded_tasks import GradedTask, graded_task
from checks.hunt.equivalence import compare
from checks.hunt.installed import installed_source
from checks.hunt.student_tests import TEST_OF, TESTS
from training.files.texts import read_text

SEED = 11711


def run(job: str) -> Outcome:
    """The outcome of a job, with the seed and the settings of torch as they were at first."""
    asked = json.loads(job)
    entry = graded_task(asked["task"])
    if asked["do"] == "check":
        return jobs.run(entry.id)
    right = read_text(ROOT / entry.file, plain=True)
    with warnings.catch_warnings(action="ignore"):
        if asked["do"] == "compare":
            return compare(entry, asked["source"], right)
        tests = read_text(ROOT / TESTS, plain=True)
        failure = failure_of(entry, tests, asked["source"] or right)
    if failure:
        return Outcome(entry.title, "failed", findings=(failure,))
    return Outcome(entry.title, "passed")


def failure_of(entry: GradedTask, tests: str, source: str) -> Finding | None:
    """How a test of a function fails, if it does; of the kind "exit" if it ends Python.

    Args:
        tests: the source of my_tests.py.
        source: of the task's file.
    """
    torch.set_default_dtype(torch.float32)
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(SEED)
    with torch.enable_grad(), installed_source(entry.file, source):
        error = attempt(run_test, entry, tests)
    if isinstance(error, SystemExit):
        return Finding("exit", f"it ends Python ({describe(error).text})")
    return describe(error) if isinstance(error, Exception) else None


def run_test(entry: GradedTask, tests: str) -> None:
    """Run a task's test on what the module of the task's file has."""
    names = {"__name__": Path(TESTS).stem}
    exec(compile(tests, str(ROOT / TESTS), "exec"), names)
    test = names.get(TEST_OF[entry.id])
    if test is None:
        raise NotImplementedError
    owner, method = entry.function.split(".")
    tested = getattr(importlib.import_module(Path(entry.file).stem), owner)
    test(tested if entry.id == "optimizer.step" else getattr(tested, method))
