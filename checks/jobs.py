"""What can be checked, one job at a time: each task, the whole model, the training loop.

``run(name)`` gives the outcome. A fault of a file that several tasks need (it cannot be imported,
its model cannot be made) is the cause of all their outcomes, and reported once.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache

from checks import compare
from checks.errors import attempt, describe, import_fault
from checks.findings import Finding, Outcome, faulty
from checks.graded_tasks import GradedTask, graded_task, module_of
from checks.references import load_references, student_model
from checks.task import WHOLE


def run(name: str) -> Outcome:
    """The outcome of a job: the id of a task, "whole" or "loop"."""
    if name == "loop":
        return check_loop()
    if name == "whole":  # tiny: each function can be correct and the model still wrong
        about = "values, gradients, padding, dropout"
        return judged("the whole BertModel", about, compare.check(WHOLE))
    return check_task(graded_task(name))


def check_task(entry: GradedTask) -> Outcome:
    """One task."""
    if fault := fault_of_import(entry.file):
        return Outcome(entry.title, "waits", f"until {entry.file} can be imported", (fault,))
    if entry.file != "optimizer.py" and (fault := fault_of_model()):
        return Outcome(entry.title, "waits", "until BertModel can be made", (fault,))
    findings = tuple(examine(entry))
    wrong = faulty(findings)
    if wrong and wrong[0].kind in ("not started", "waits"):
        return Outcome(entry.title, wrong[0].kind, wrong[0].text)
    return judged(entry.title, entry.aspects, findings)


def examine(entry: GradedTask) -> list[Finding]:
    """What is wrong with the student's function for a task, and hints about it."""
    part = 2 if entry.part == 2 else 1  # a later part's comes with its handout
    return importlib.import_module(f"checks.part{part}.tasks").check(entry)


@cache
def fault_of_import(file: str) -> Finding | None:
    """Why a file cannot be imported, if it cannot."""
    imported = attempt(importlib.import_module, module_of(file))
    return import_fault(imported, file) if isinstance(imported, BaseException) else None


@cache
def fault_of_model() -> Finding | None:
    """Why the student's BertModel cannot be made, if it cannot."""
    model = attempt(student_model, load_references())
    if not isinstance(model, BaseException):
        return None
    return Finding("error", f"BertModel(config) cannot be made: {describe(model).text}")


def judged(title: str, about: str, findings: Sequence[Finding]) -> Outcome:
    """Wrong if a finding counts."""
    wrong = faulty(findings)
    return Outcome(title, "wrong" if wrong else "ok", "" if wrong else about, tuple(findings))


def check_loop() -> Outcome:
    """The training loop of part 2. It is no graded task, and may be written in any way."""
    title = "the training loop"
    findings = tuple(importlib.import_module("checks.part2.loop").check())
    wrong = faulty(findings)
    if wrong and wrong[0].kind == "waits":
        return Outcome(title, "skipped", f"it is not checked: {wrong[0].text}", findings[1:])
    return judged(title, "both sentences and unrounded labels reach the losses", findings)
