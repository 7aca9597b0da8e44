"""Runs of a student's function for the quiz: numbers come out, and no text.

A function is run as it is (version 0) and with each edit, on the inputs as they are (variation 0)
and with one of them 0. An edit with which it raises an exception has no numbers.

    version/variation|output                    what the task's run gives: "values/context", …
    version/variation|output|time:line:name     a variable after a line, in the first calls for it
    version/0|way|name                          a gradient's largest number, see ``ways_of``
    stored|output                               of the stored inputs, which tell known mistakes
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from checks.findings import ROOT
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import graded_task
from checks.hunt.edits import Edit
from checks.hunt.installed import installed_source
from checks.inputs import make_inputs
from checks.part1.adamw_cases import CASES, run_case
from checks.references import inputs_of
from checks.task import MODULES, outputs_of, task_of

WHOLE_LAYER = {"bert.layer": "bert.layer, whole"}  # with the student's own attention and add_norm
HEADS = ("predict_sentiment", "predict_paraphrase", "predict_similarity")
TRACED = ("values/", "dropout/", "decay/")  # outputs on whose way variables are noted
MOST_CALLS = 2  # whose variables are noted, for one output


def numbers(subject: Mapping[str, Any]) -> dict[str, Tensor]:
    """All numbers of a subject."""
    task, lines = graded_task(subject["task"]), subject["source"].split("\n")
    inputs, has_run = make_inputs(subject["seed"]), task.part in MODULES
    dtype, made = torch.float64 if has_run else torch.float32, {}
    for version, edit in enumerate([None, *subject["edits"]]):
        text, own = "\n".join(Edit(**edit).of(lines) if edit else lines), {}
        since = edit["first"] if edit else 0  # above it nothing changes
        with contextlib.suppress(Exception, SystemExit), installed_source(task.file, text):
            ignored = warnings.catch_warnings(action="ignore")  # of what edits do
            with default_dtype(dtype), FixedDropout(), ignored:
                for n, zero in enumerate(["", *subject["zeros"].values()] if has_run else ()):
                    name = f"{task.id}/inputs/{zero}"
                    given = inputs | ({name: torch.zeros_like(inputs[name])} if zero else {})
                    own |= run(subject, given, f"{version}/{n}", since)
                for way, (model, result) in enumerate(results(task.id, inputs)):
                    (result * torch.randn(result.shape)).sum().backward()
                    for name, weight in model.named_parameters():
                        grad = torch.zeros(1) if weight.grad is None else weight.grad
                        own[f"{version}/0|{way}|{name}"] = grad.abs().max()
            stored = outputs_of(task.id) if has_run and not edit else {}
            made |= own | {f"stored|{name}": output for name, output in stored.items()}
    return made


def run(
    subject: Mapping[str, Any], inputs: Mapping[str, Tensor], head: str, since: int
) -> dict[str, Tensor]:
    """The outputs of a task, and the variables of the calls that were made for each."""
    steps, made = task_of(WHOLE_LAYER.get(subject["task"], subject["task"])).steps(inputs), {}
    if subject["task"] == "optimizer.step":  # case by case
        adamw = importlib.import_module("optimizer").AdamW
        steps = ({case.output: run_case(adamw, case)} for case in CASES)
    while True:
        values: dict[str, Tensor] = {}
        with watched(subject, values, since):
            step = next(steps, None)
        if step is None:
            return made
        for output, value in step.items():
            if output.startswith("gradients/"):
                value = torch.zeros(1) if value is None else value.abs()
                value = value.amax(1) if "_embedding" in output and value.dim() > 1 else value.max()
            made[f"{head}|{output}"] = value.detach()
            if output.startswith(TRACED):
                made |= {f"{head}|{output}|{place}": number for place, number in values.items()}


@contextlib.contextmanager
def watched(subject: Mapping[str, Any], values: dict[str, Tensor], since: int) -> Iterator[None]:
    """While active, each number and tensor of the function is noted after lines that change it."""
    (first, last), path = subject["range"], str(ROOT / graded_task(subject["task"]).file)
    times, calls = Counter(), itertools.count(1)

    def trace(frame: FrameType, *_: Any) -> Any:
        line, known = first, {}  # variable → the tensor, and its numbers
        if frame.f_code.co_filename != path or not first <= frame.f_lineno <= last:
            return None
        if next(calls) > MOST_CALLS:
            return None

        def step(frame: FrameType, *_: Any) -> Any:
            nonlocal line
            for name, value in frame.f_locals.items():
                if not isinstance(value, Tensor | float):
                    continue
                now = torch.as_tensor(value).detach().clone()
                before, content = known.get(name, (None, now))
                if before is value and torch.equal(content, now):
                    continue
                known[name] = value, now
                times[line, name] += line > first  # 0: what is given
                if times[line, name] <= MOST_CALLS and line >= since:
                    values[f"{times[line, name]}:{line}:{name}"] = now
            line = frame.f_lineno
            return step

        return step(frame)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def results(task_id: str, inputs: Mapping[str, Tensor]) -> Iterator[tuple[nn.Module, Tensor]]:
    """Models and what they return, in the order of ``ways_of``."""
    for option, method in ways_of(task_id):
        if task_id.startswith("classifier"):
            runs = importlib.import_module("checks.part1.runs")
            model, *_ = runs.student_classifier(inputs, option)
            given = inputs_of("classifier.forward", inputs)
            yield model, model(given.input_ids, given.attention_mask)
        else:  # of part 2, with whose handout these come
            models = importlib.import_module("checks.part2.models")
            batches = importlib.import_module("checks.part2.batches")
            model = models.student_model(option)[0].eval()
            given = itertools.chain(*batches.batch_for(f"multitask.{method}"))
            yield model, getattr(model, method)(*given)


def ways_of(task_id: str) -> list[tuple[str, str]]:
    """How models are made, and what a loss is computed of: option and method."""
    file, _, name = task_id.partition(".")
    heads = HEADS if name == "init" else (name,)
    methods = {"classifier": ("forward",), "multitask": heads}.get(file, ())
    return [*itertools.product(("pretrain", "finetune"), methods)]
