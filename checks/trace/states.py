"""The job of ``--trace``: the states of a student's model and their gradients, one after the other.

Shapes: B sentences, L tokens, H heads, W width of a head, D hidden size.
"""

from __future__ import annotations

import importlib
import inspect
import json
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from checks import jobs
from checks.compare import TOLERANCES, difference, is_dense
from checks.errors import attempt, describe, line_of
from checks.findings import Outcome
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.part1.runs import gradients
from checks.references import TRACE, read_data, under
from checks.trace.page import Line, page_of
from checks.trace.watch import ADD_NORM, ATTENTION, EMBED, LAYER, MODEL, State, Watch

TITLE, TOLERANCE = "the whole BertModel", TOLERANCES[torch.float64]
USED_BY = {  # what a weight's name contains → the function that uses it
    "self_attention.": ATTENTION,
    "interm_": LAYER,
    "bert_layers.": ADD_NORM,
    "embed": EMBED,
    "pooler": MODEL,
}


def run(job: str) -> Outcome:
    """The outcome: lines for the terminal, and a page if the job asks for one, as JSON."""
    if fault := jobs.fault_of_import("bert.py") or jobs.fault_of_model():
        return Outcome(TITLE, "wrong", findings=(fault,))
    stored = read_data(TRACE)
    with default_dtype(torch.float64), FixedDropout():
        watch = attempt(Watch, under(f"{TRACE}values/", stored))
        if isinstance(watch, BaseException):  # the model has other parts
            return Outcome(TITLE, "wrong", findings=(describe(watch),))
        lines = [*lines_of(watch, under(f"{TRACE}gradients/", stored))]
    error, first = watch.error or watch.stub, [x.name for x in lines if x.status == "differs"][:1]
    findings = (describe(error),) if error else ()
    is_stub = any(finding.kind == "not started" for finding in findings)
    end = Outcome(TITLE, "ok", "all states and gradients that were seen are right")
    if first:
        about = f"the first difference: {first[0]}"
        end = Outcome(TITLE, "wrong", about, () if is_stub else findings)
    elif is_stub:
        end = Outcome(f"{findings[0].text} ({line_of(error)}) is not written yet", "skipped")
    elif findings:
        end = Outcome(TITLE, "wrong", findings=findings)
    page = page_of(lines, watch.inputs, end) if json.loads(job) else ""
    said = {"lines": [line[:5] for line in lines], "about": end.about, "page": page}
    return replace(end, about=json.dumps(said))


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
    if watch.stub and state.around == EMBED:
        return Line(state.name, "skipped", "not written yet: the layers get the correct ones")
    if len(state.results) != 1:
        times = f"calls {state.source} {len(state.results)} times"
        does = times if state.results else f"does not call {state.source}"
        return Line(state.name, "skipped", f"not seen: your code {does}")

    def compare(result: Any) -> Line:
        return compared("values", state.name, result, watch.right[state.name], watch.inputs.real)

    line = compare(state.results[0])
    if line.status == "ok":
        return line
    function = state.to_open(lambda result: compare(result).status == "differs")
    return line._replace(places=place_of(function))


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
        places = " and ".join(map(place_of, functions)) if line.status == "differs" else ""
        return line._replace(name=f"gradient of {label}", places=places)

    for state in reversed(states):
        if state.name in right and state.name in sources:
            cut = (
                []
                if state.name in taking
                else [state.to_open(lambda x: not getattr(x, "requires_grad", False))]
            )
            yield compare(state.name, state.name, cut or state.ahead)
        label = f"the weights, {state.name.partition(',')[0]}"
        lines = [
            compare(name, label, [next(user for key, user in USED_BY.items() if key in name)])
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
    if got.shape[:2] == real.shape:
        got = torch.where(real[..., None], got, right)  # (B, L, D)
    finding = difference(kind, name, got, right, TOLERANCE)
    off = ((got - right).abs() / right.abs().clamp(min=1)).max()
    status, why = ("differs", finding.text) if finding else ("ok", "")
    return Line(name, status, f"{off:.1e}", why, "", (got, right))


def place_of(function: str) -> str:
    """A function of bert.py, and the line where it begins."""
    code = inspect.unwrap(operator.attrgetter(function)(importlib.import_module("bert"))).__code__
    return f"{function} ({Path(code.co_filename).name}:{code.co_firstlineno})"
