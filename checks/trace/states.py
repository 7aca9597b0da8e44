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
from checks.compare import TOLERANCES, difference, is_close, is_dense
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
    with default_dtype(torch.float64), FixedDropout():
        watch = attempt(Watch)
        if isinstance(watch, BaseException):  # the model has other parts
            return Outcome(TITLE, "wrong", findings=(describe(watch),))
        lines = [*lines_of(watch)]
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


def lines_of(watch: Watch) -> Iterator[Line]:
    """A line for each state that was reached; if all are right, one for each gradient."""
    states = [*watch.states()]
    while watch.error and states and not states[-1].calls:
        states.pop()
    lines = [line_of_state(state, watch) for state in states]
    yield from lines
    if any(line.status == "differs" for line in lines):
        yield Line("gradients", "skipped", "compared once the values are right")
    elif not watch.error:
        yield from lines_of_gradients(states, watch)


def line_of_state(state: State, watch: Watch) -> Line:
    """What is said about a state."""
    if watch.stub and state.source == "embed":
        return Line(state.name, "skipped", "not written yet: the layers get the correct ones")
    if len(state.calls) != 1:
        times = f"calls {state.source} {len(state.calls)} times"
        does = times if state.calls else f"does not call {state.source}"
        return Line(state.name, "skipped", f"not seen: your code {does}")
    got, right, real = state.calls[0].result, watch.right[state.name], watch.inputs.real
    function, calls, given = state.inner
    is_given = calls and all(
        is_right(*pair, real) for pair in zip(calls[0].given, given, strict=False)
    )
    if not is_given or is_right(calls[0].result, right, real):
        function = state.around
    return compared("values", state.name, got, right, real, [function])


def lines_of_gradients(states: Sequence[State], watch: Watch) -> Iterator[Line]:
    """What is said about the gradients of a loss on both results, from the last to the first."""
    right, inputs = under(f"{TRACE}gradients/", read_data(TRACE)), watch.inputs
    sources = dict(watch.model.named_parameters())
    sources |= {state.name: state.calls[0].result for state in states if len(state.calls) == 1}
    taking = {name: x for name, x in sources.items() if x.requires_grad}
    last, pooled = watch.results.values()
    loss = (last * inputs.cotangent).sum() + (pooled * inputs.pooler_cotangent).sum()
    found = attempt(gradients, loss, torch.ones_like(loss), taking)
    if isinstance(found, BaseException):
        watch.error = found
        return
    for label, names, functions in groups(states, right, taking):
        lines = [
            compared(
                *("gradients", name, found.get(f"gradients/{name}"), right[name], inputs.real),
                functions or [next(user for key, user in USED_BY.items() if key in name)],
            )
            for name in names
        ]
        wrong = [line for line in lines if line.status == "differs"]
        line = wrong[0] if wrong else max(lines, key=lambda line: float(line.about))
        yield line._replace(name=f"gradient of {label}", mine=line.mine if functions else None)


def groups(
    states: Sequence[State], right: dict[str, Tensor], taking: dict[str, Tensor]
) -> Iterator[tuple[str, list[str], Sequence[str]]]:
    """Of each line about gradients: what it is called, of which tensors, and where they come from.

    Args:
        right: the reference's gradients.
        taking: the student's tensors that take gradients.
    """
    for state in reversed(states):
        if state.name in right and len(state.calls) == 1:
            function, calls, _ = state.inner
            is_cut_inside = calls and not calls[0].result.requires_grad
            maker = function if is_cut_inside else state.around
            yield state.name, [state.name], state.ahead if state.name in taking else [maker]
        if state.weights:
            weights = [name for name in right if "." in name and state.weights in name]
            yield f"the weights, {state.name.partition(',')[0]}", weights, ()


def compared(
    kind: str, name: str, got: Any, right: Tensor, real: Tensor, functions: Sequence[str]
) -> Line:
    """What is said about one tensor, and which functions to open if it is the first."""
    got = at_real(got, right, real)
    finding = difference(kind, name, got, right, TOLERANCE)
    about, drawn = "no gradient" if got is None else "not comparable", {}
    if is_dense(got) and got.shape == right.shape:
        off = ((got - right).abs() / right.abs().clamp(min=1)).max()
        about, drawn = f"{off:.1e}", {"mine": got, "theirs": right}
    if finding is None:
        return Line(name, "ok", about, **drawn)
    places = " and ".join(map(place_of, functions))
    return Line(name, "differs", about, finding.text, places, **drawn)


def is_right(got: Any, right: Any, real: Tensor) -> bool:
    """Whether an argument or a result is the right one, where tokens are real (B, L)."""
    if not is_dense(right):
        return right is ... or got is right
    return is_close(at_real(got, right, real), right, TOLERANCE)


def at_real(got: Any, right: Tensor, real: Tensor) -> Any:
    """A tensor (B, L, D) or (B, H, L, W) with the right numbers at padding: any would do there."""
    if not is_dense(got) or got.shape != right.shape or got.shape[-2:-1] != real.shape[1:]:
        return got
    is_token = real[..., None] if got.dim() == 3 else real[:, None, :, None]
    return torch.where(is_token, got, right)


def place_of(function: str) -> str:
    """A function of bert.py, and the line where it begins."""
    code = inspect.unwrap(operator.attrgetter(function)(importlib.import_module("bert"))).__code__
    return f"{function} ({Path(code.co_filename).name}:{code.co_firstlineno})"
