"""What can be checked, one job at a time: each task, the whole model, the training loop.

``run(name)`` gives the outcome. A fault of a file that several tasks need (it cannot be imported,
its model cannot be made) is the cause of all their outcomes, and reported once.
"""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from checks import compare, student_warnings
from checks.errors import attempt, describe, import_fault
from checks.findings import ROOT, Finding, Outcome, faulty
from checks.graded_tasks import GRADED_TASKS, GradedTask, graded_task, module_of
from checks.references import load_references, metadata, student_model
from checks.task import WHOLE
from training.files.course_files import WEIGHT_FILES
from training.files.errors import InputError
from training.files.hub import default_model, find_model
from training.files.writing import sha256_of

MAKE = "python -m tests.make_sanity_check"
OPTIMIZER = "optimizer.py"
TOLERANCE = 1e-4  # of the pretrained model, which sums more numbers


def run(name: str) -> Outcome:
    """The outcome of a job: the id of a task, or a name in OTHERS; with warnings, if it ran."""
    with student_warnings.collected() as warned:
        outcome = OTHERS[name]() if name in OTHERS else check_task(graded_task(name))
    if outcome.status not in ("ok", "wrong"):
        return outcome
    return replace(outcome, findings=(*outcome.findings, *warned))


# ---------------------------------------------------------------------------------------------
# Tasks


def check_task(entry: GradedTask) -> Outcome:
    """One task."""
    if cause := cause_in(entry.file):
        return Outcome(entry.title, "waits", cause[0], (cause[1],))
    findings = tuple(examine(entry))
    wrong = faulty(findings)
    if wrong and wrong[0].kind in ("not started", "waits"):
        return Outcome(entry.title, wrong[0].kind, wrong[0].text)
    return judged(entry.title, checks_of(entry).CHECKED[entry.id], findings)


def examine(entry: GradedTask) -> list[Finding]:
    """What is wrong with the student's function for a task, and hints about it."""
    return checks_of(entry).check(entry)


def check(entry: GradedTask) -> list[Finding]:
    """What is wrong with the student's function for a task; nothing if it is right."""
    return faulty(examine(entry))


def checks_of(entry: GradedTask) -> ModuleType:
    """The module that checks a task; that of a later part comes with its handout."""
    return importlib.import_module(f"checks.part{2 if entry.part == 2 else 1}.tasks")


def cause_in(file: str) -> tuple[str, Finding] | None:
    """Why nothing in a file can be checked, and what is wrong there; None if all can be."""
    if fault := fault_of_import(file):
        return f"until {file} can be imported", fault
    if file != OPTIMIZER and (fault := fault_of_model()):
        return "until BertModel can be made", fault
    return None


@cache
def fault_of_import(file: str) -> Finding | None:
    """Why a file cannot be imported, if it cannot."""
    imported = attempt(importlib.import_module, module_of(file))
    return import_fault(imported, file) if isinstance(imported, BaseException) else None


@cache
def fault_of_model() -> Finding | None:
    """Why the student's BertModel cannot be made, if it cannot."""
    model = attempt(student_model, load_references(torch.float32))
    if not isinstance(model, BaseException):
        return None
    return Finding("error", f"BertModel(config) cannot be made: {describe(model).text}")


# ---------------------------------------------------------------------------------------------
# The whole model


def check_whole() -> Outcome:
    """The whole BertModel, tiny: each function can be correct and the model still wrong."""
    about = "values, gradients, padding, dropout"
    return judged("the whole BertModel", about, compare.check(WHOLE))


def judged(title: str, about: str, findings: Sequence[Finding]) -> Outcome:
    """Wrong if a finding counts."""
    wrong = faulty(findings)
    return Outcome(title, "wrong" if wrong else "ok", "" if wrong else about, tuple(findings))


def check_pretrained() -> Outcome:
    """Two sentences through the pretrained model that is on this machine, if there is one.

    The hub is not asked: that would mean a download.
    """
    title = "two sentences through a pretrained model"
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            default = default_model(local_files_only=True)
            folder = find_model(default, local_files_only=True)
            files = [folder / file for file in WEIGHT_FILES if (folder / file).is_file()]
            digest = sha256_of(files[0]) if files else ""
    except (InputError, OSError) as error:
        return Outcome(title, "skipped", str(error))
    known = metadata()["pretrained"]
    name = next((name for name, sha256 in known.items() if sha256 == digest), None)
    if name is None:
        staff = f" ({MAKE} --model {default} makes it)" if (ROOT / "tests").is_dir() else ""
        return Outcome(title, "skipped", f"no reference yet for {default}{staff}")
    outputs = attempt(pretrained_outputs, folder, name)
    if isinstance(outputs, BaseException):
        return judged(f"two sentences through {name}", "", [describe(outputs)])
    expected = load_references(torch.float32)
    compared = [
        compare.difference("values", what, got, expected[f"pretrained/{name}/{what}"], TOLERANCE)
        for what, got in outputs.items()
    ]
    return judged(f"two sentences through {name}", "values", [*filter(None, compared)])


def pretrained_outputs(folder: Path, name: str) -> dict[str, Tensor]:
    """The first numbers of each token (B, L, 8) and of each sentence (B, 8), padding set to 0."""
    stored = load_references(torch.float32)
    real = stored[f"pretrained/{name}/inputs/attention_mask"]  # (B, L)
    with contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        model = importlib.import_module("bert").BertModel.from_pretrained(str(folder))
        results = model(stored[f"pretrained/{name}/inputs/input_ids"], real)
    hidden = results["last_hidden_state"] * real[..., None]  # (B, L, D)
    return {"last_hidden_state": hidden[..., :8], "pooler_output": results["pooler_output"][:, :8]}


# ---------------------------------------------------------------------------------------------
# Part 2


def part_2_is_begun() -> Outcome:
    """Whether any function of part 2 is written."""
    file = next(entry.file for entry in GRADED_TASKS if entry.part == 2)
    part2 = importlib.import_module("checks.part2.tasks")  # it comes with part 2
    tasks = [entry.id for entry in GRADED_TASKS if entry.part == 2]
    begun = cause_in(file) or not all(map(part2.not_begun, tasks))
    return Outcome("part 2", "ok" if begun else "not started")


def check_loop() -> Outcome:
    """The training loop of part 2. It is no graded task, and may be written in any way."""
    title = "the training loop"
    findings = tuple(importlib.import_module("checks.part2.loop").check())
    wrong = faulty(findings)
    if wrong and wrong[0].kind == "waits":
        return Outcome(title, "skipped", f"it is not checked: {wrong[0].text}", findings[1:])
    return judged(title, "both sentences and unrounded labels reach the losses", findings)


OTHERS: dict[str, Callable[[], Outcome]] = {
    "whole": check_whole,
    "pretrained": check_pretrained,
    "part 2": part_2_is_begun,
    "loop": check_loop,
}
