"""The job of ``--trace``: the states of a student's model and their gradients, one after the other.

Shapes: B sentences, L tokens, H heads, W width of a head, D hidden size.
"""

from __future__ import annotations

import importlib
import inspect
import operator
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from checks import jobs
from checks.compare import TOLERANCES, difference, differing, first_place, is_dense
from checks.errors import attempt, describe, line_of, place_of
from checks.findings import Finding, Outcome
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import GRADED_TASKS
from checks.part1.runs import gradients
from checks.references import TRACE, read_data, under
from checks.trace.page import Line, page_of
from checks.trace.watch import USED_BY, State, Watch

TITLE, TOLERANCE = "the whole BertModel", TOLERANCES[torch.float64]
TASKS = {task.function: task for task in GRADED_TASKS if task.file == "bert.py"}
RIGHT = "in evaluation mode, without dropout, all states and gradients that were seen are right"
FOLLOWS = "what follows builds on this, and may differ for this reason alone"


def run(job: str) -> Outcome:
    """The outcome; its findings begin with the lines for the terminal, each of its status.

    Args:
        job: "page" if one is to be made: a last finding of that kind.
    """
    if fault := jobs.fault_of_import("bert.py") or jobs.fault_of_model():
        return Outcome(TITLE, "wrong", findings=(fault,))
    stored = read_data(TRACE)
    with default_dtype(torch.float64), FixedDropout():
        watch = attempt(Watch, under(f"{TRACE}values/", stored))
        if isinstance(watch, BaseException):  # the model has other parts
            return Outcome(TITLE, "wrong", findings=(describe(watch),))
        lines = [*lines_of(watch, under(f"{TRACE}gradients/", stored))]
    first = next((line for line in lines if line.status == "differs"), None)
    end = ended(first, watch)
    said = [Finding(line.status, f"{line.name:39} {line.about}") for line in lines]
    if first:
        texts = [f"the first that differs: open {first.places}", first.why]
        texts += [FOLLOWS] * (sum(line.status == "differs" for line in lines) > 1)
        place = lines.index(first) + 1
        said[place:place] = [Finding("why", text) for text in texts]
    page = [Finding("page", page_of(lines, watch.inputs, end))] if job == "page" else []
    return Outcome(end.title, end.status, end.about, (*said, *end.findings, *page))


def ended(first: Line | None, watch: Watch) -> Outcome:
    """What is said at the end: the first difference, an exception, what is not written yet."""
    error = watch.error or watch.stub
    finding = describe(error) if error else None
    is_stub = finding is not None and finding.kind == "not started"
    findings = (finding,) if finding and not is_stub else ()
    if first:
        return Outcome(TITLE, "wrong", f"the first difference: {first.name}", findings)
    if is_stub:
        name = finding.text or place_of(error).frame.f_code.co_qualname
        return Outcome(f"{name} ({line_of(error)}) is not written yet", "skipped")
    if findings and not line_of(error):  # in the backward pass; the check of a task may say more
        wrong = [x for x in map(jobs.check_task, TASKS.values()) if x.status == "wrong"]
        found = [Finding("error", f"{x.title}: {x.findings[0].text}") for x in wrong]
        findings = (*found[:1],) or findings
    return Outcome(TITLE, "wrong" if findings else "ok", "" if findings else RIGHT, findings)


def lines_of(watch: Watch, right: dict[str, Tensor]) -> Iterator[Line]:
    """A line for each state; if all are right, one for each gradient.

    Args:
        right: the reference's gradients, of states and of weights.
    """
    states = watch.states()
    lines = [line_of_state(state, watch) for state in states]
    yield from lines
    if any(line.status == "differs" for line in lines):
        yield Line("gradients", "skipped", "compared once the values are right")
    elif not watch.error:
        yield from lines_of_gradients(states, watch, right)


def line_of_state(state: State, watch: Watch) -> Line:
    """What is said about a state."""
    if watch.stub and state.name == "embeddings":
        return Line(state.name, "skipped", "not written yet: the layers get the correct ones")
    if len(state.results) != 1:
        return Line(state.name, "skipped", f"not seen: your code {state.unseen}")

    def compare(result: Any) -> Line:
        return compared("values", state.name, result, watch.right[state.name], watch.inputs.real)

    line = compare(state.results[0])
    if line.status == "ok":
        return line
    functions = state.to_open(lambda result: compare(result).status == "differs")
    return line._replace(places=places_of(functions))


def lines_of_gradients(
    states: Sequence[State], watch: Watch, right: dict[str, Tensor]
) -> Iterator[Line]:
    """What is said about the gradients of a loss on both results, from the last to the first."""
    inputs, *_, last, pooled = (watch.inputs, *(state.results for state in states))
    loss = (last[0] * inputs.cotangent).sum() + (pooled[0] * inputs.pooler_cotangent).sum()
    sources = dict(watch.model.named_parameters())
    sources |= {state.name: state.results[0] for state in states if len(state.results) == 1}
    taking = {name: x for name, x in sources.items() if x.requires_grad}
    found = attempt(gradients, loss, torch.ones_like(loss), taking)
    if isinstance(found, BaseException):
        watch.error = found
        return

    def compare(name: str, label: str, functions: Sequence[str]) -> Line:
        line = compared("gradients", name, found.get(f"gradients/{name}"), right[name], inputs.real)
        places = places_of(functions) if line.status == "differs" else ""
        return line._replace(name=f"gradient of {label}", places=places)

    for state in reversed(states):
        if state.name in right and state.name in sources:
            is_cut = state.name not in taking
            cut = is_cut and state.to_open(lambda x: not getattr(x, "requires_grad", False))
            yield compare(state.name, state.name, cut or state.ahead)
        label = f"the weights, {state.name.partition(',')[0]}"
        lines = [
            compare(name, label, next(users for key, users in USED_BY.items() if key in name))
            for name in right
            if state.weights and "." in name and state.weights in name
        ]
        wrong = [line for line in lines if line.status == "differs"]
        if lines:
            line = wrong[0] if wrong else max(lines, key=lambda line: float(line.about))
            yield line._replace(both=())


def compared(kind: str, name: str, got: Any, right: Tensor, real: Tensor) -> Line:
    """What is said about one tensor; where tokens are not real (B, L), any numbers would do."""
    if not is_dense(got) or got.shape != right.shape:
        about = "no gradient" if kind == "gradients" else "not comparable"
        return Line(name, "differs", about, difference(kind, name, got, right, TOLERANCE).text)
    count = right.numel()
    if got.shape[:2] == real.shape:
        got, count = torch.where(real[..., None], got, right), right[real].numel()  # (B, L, D)
    off = ((got - right).abs() / right.abs().clamp(min=1)).max()
    wrong = differing(got, right, TOLERANCE)
    if not wrong.any():
        return Line(name, "ok", f"{off:.1e}", both=(got, right))
    place = first_place(got, wrong)
    numbers = f"got {got[*place]:.6g}, expected {right[*place]:.6g}"
    why = f"{kind} of {name}: first difference at {place}: {numbers} "
    why += f"({wrong.sum()} of {count} numbers differ)"
    return Line(name, "differs", f"{off:.1e}", why, "", (got, right), place[0])


def places_of(functions: Sequence[str]) -> str:
    """Which to open: of several, those whose tasks' checks find them wrong; or those without."""
    without = [function for function in functions if function not in TASKS]
    graded = [function for function in functions if function in TASKS]
    wrong = [x for x in graded if jobs.check_task(TASKS[x]).status == "wrong"]
    return " or ".join(map(place_in_file, wrong or without or functions))


def place_in_file(function: str) -> str:
    """A function of bert.py, and the line where it begins."""
    code = inspect.unwrap(operator.attrgetter(function)(importlib.import_module("bert"))).__code__
    return f"{function} ({Path(code.co_filename).name}:{code.co_firstlineno})"
