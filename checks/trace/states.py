"""The job of ``--trace``: the states of a student's model and their gradients, row by row.

Shapes: B sentences, L tokens, H heads, W width of a head, D hidden size.
"""

from __future__ import annotations

import importlib
import inspect
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from jinja2 import Environment, FileSystemLoader
from torch import Tensor

from checks import jobs
from checks.compare import TOLERANCES, difference, is_dense
from checks.errors import attempt, describe, place_of
from checks.findings import ROOT, Finding, Outcome
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.part1.runs import gradients
from checks.references import TRACE, read_data, under
from checks.trace.watch import LAYERS, STATES, Watch

TITLE, TOLERANCE = "the whole BertModel", TOLERANCES[torch.float64]
RIGHT = "in evaluation mode, without dropout, all states and gradients that were seen are right"
FOLLOWS = "what follows builds on this, and may differ for this reason alone"
REPLACED = "what follows gets the correct state instead"
FOLDERS = (Path(__file__).parent, ROOT / "training" / "reports")  # the latter: what all pages have
WEIGHTS = {  # state → a part of the names of weights, whose gradients come after its own
    "embeddings": "embed",
    **{f"{layer}attention": f"bert_layers.{number}." for number, layer in enumerate(LAYERS)},
    "pooler": "pooler",
}


class Row(NamedTuple):
    """What is said about one state or gradient.

    Attributes:
        status: "ok", "differs", "wrong" of an exception, or "skipped".
        about: the largest difference, relative where the reference's number is above 1.
        texts: what is said below it.
        makes: if it differs, the states of which one is made in a wrong way.
        both: the two tensors, mine and the reference's, where they can be drawn.
        sentence: the first that differs.
    """

    status: str
    name: str
    about: str
    texts: Sequence[str] = ()
    makes: Sequence[str] = ()
    both: Sequence[Tensor] = ()
    sentence: int = 0


def run(job: str) -> Outcome:
    """The outcome; its findings are the rows, each of its status, and what is said below them.

    Args:
        job: "page" if one is to be made: a finding of that kind.
    """
    if fault := jobs.fault_of_import("bert.py") or jobs.fault_of_model():
        return Outcome(TITLE, "wrong", findings=(fault,))
    stored = read_data(TRACE)
    with default_dtype(torch.float64), FixedDropout():
        watch = attempt(Watch, under(f"{TRACE}values/", stored))
        if isinstance(watch, BaseException):  # the model has other parts
            return Outcome(TITLE, "wrong", findings=(describe(watch),))
        rows = [*shown([*rows_of(watch, under(f"{TRACE}gradients/", stored))], watch)]
    end = Outcome(TITLE, "ok", RIGHT)
    if wrong := [row for row in rows if row.status in ("differs", "wrong")]:
        what = "difference" if wrong[0].status == "differs" else "exception"
        end = Outcome(TITLE, "wrong", f"the first {what}: {wrong[0].name}")
    elif watch.replaced:
        end = Outcome(TITLE, "skipped", "right as far as it is filled in")
    findings = []
    for row in rows:
        findings.append(Finding(row.status, f"{row.name:39} {row.about}"))
        findings += [Finding("why", text) for text in row.texts]
    if job == "page":
        findings.append(Finding("page", page_of(rows, watch.inputs, end)))
    return replace(end, findings=tuple(findings))


def rows_of(watch: Watch, right: dict[str, Tensor]) -> Iterator[Row]:
    """A row for each state; if nothing is wrong, one for each gradient.

    Args:
        right: the reference's gradients, of states and of weights.
    """
    rows = [row_of_state(state, watch) for state in STATES]
    yield from rows
    if any(row.status in ("differs", "wrong") for row in rows):
        yield Row("skipped", "gradients", "compared once the values are right")
    else:
        yield from rows_of_gradients(watch, right)


def row_of_state(state: str, watch: Watch) -> Row:
    """What is said about a state."""
    results, before = watch.noted[state], [*STATES][: [*STATES].index(state)]
    if len(results) != 1:
        about = f"not seen: {STATES[state]} was called {len(results)} times"
        return Row("skipped", state, about)
    (result,) = results
    if isinstance(result, BaseException):
        finding, texts = describe(result), [REPLACED] * (state in watch.replaced)
        if finding.kind == "not started":
            name = finding.text or place_of(result).frame.f_code.co_qualname
            return Row("skipped", state, f"not filled in: {name}", texts)
        return Row("wrong", state, type(result).__name__, [finding.text, *texts])
    row = compared("values", state, result, watch.right[state], watch.inputs.real)
    seen = [i for i, name in enumerate(before, 1) if len(watch.noted[name]) == 1]
    return row._replace(makes=[*before[max(seen, default=0) :], state])


def rows_of_gradients(watch: Watch, right: dict[str, Tensor]) -> Iterator[Row]:
    """What is said about the gradients of a loss on both results, from the last to the first."""
    inputs = watch.inputs
    seen = {state: x[0] for state, x in watch.noted.items() if len(x) == 1} | watch.replaced
    loss = (seen["last hidden state"] * inputs.cotangent).sum()
    loss = loss + (seen["pooler"] * inputs.pooler_cotangent).sum()
    sources = seen | dict(watch.model.named_parameters())
    sources = {name: x for name, x in sources.items() if x.requires_grad}
    found = attempt(gradients, loss, torch.ones_like(loss), sources)
    if isinstance(found, BaseException):
        text = describe(found).text
        yield Row("wrong", "gradients", type(found).__name__, [text], [*STATES])
        return

    def compare(name: str) -> Row:
        got = found.get(f"gradients/{name}")
        return compared("gradients", name, got, right[name], inputs.real)

    for state in reversed(STATES):
        later = [*STATES][[*STATES].index(state) :]
        if state in seen and state in right:
            # what makes a state is at fault only if no gradient can go through that
            makes = later[state in sources :]
            yield compare(state)._replace(name=f"gradient of {state}", makes=makes)
        if state in watch.replaced:
            yield Row("skipped", "gradients further back", "compared once this is filled in")
            return
        if state in WEIGHTS:
            rows = [compare(x) for x in right if "." in x and WEIGHTS[state] in x]
            wrong = [row for row in rows if row.status == "differs"]
            row = wrong[0] if wrong else max(rows, key=lambda row: float(row.about))
            label = f"gradient of the weights, {state.partition(',')[0]}"
            yield row._replace(name=label, makes=later, both=())


def compared(kind: str, name: str, got: Any, right: Tensor, real: Tensor) -> Row:
    """What is said about one tensor; where tokens are not real (B, L), any numbers would do."""
    if not is_dense(got) or got.shape != right.shape:
        about = "no gradient" if kind == "gradients" else "not comparable"
        return Row("differs", name, about, [difference(kind, name, got, right, TOLERANCE).text])
    parts = {name: (got, right)}
    if got.shape[:2] == real.shape:
        sentences = enumerate(zip(got, right, real, strict=True))
        parts = {f"{name}, sentence {i}": (x[kept], y[kept]) for i, (x, y, kept) in sentences}
    off = [((x - y).abs() / y.abs().clamp(min=1)).max() for x, y in parts.values()]
    about = f"{torch.stack(off).max():.1e}"
    for i, (label, (x, y)) in enumerate(parts.items()):
        if finding := difference(kind, label, x, y, TOLERANCE):
            return Row("differs", name, about, [finding.text], both=(got, right), sentence=i)
    return Row("ok", name, about, both=(got, right))


def shown(rows: Sequence[Row], watch: Watch) -> Iterator[Row]:
    """The rows; texts below the first of each status only, and with them which function to open."""
    said: set[str] = set()
    for row in rows:
        texts = [] if row.status in said else [*row.texts]
        said |= {row.status} if texts else set()
        if texts and row.makes:
            kind = "gradients" if "gradient" in row.name else "values"
            place = place_in_file(watch.culprit(kind, row.makes))
            what = "the first that differs" if row.status == "differs" else "in the backward pass"
            texts.insert(0, f"{what}: open {place}")
            if sum(other.status == "differs" for other in rows) > 1:
                texts.append(FOLLOWS)
        yield row._replace(texts=texts)


def place_in_file(function: str) -> str:
    """A function of bert.py, and the line where it begins."""
    code = inspect.unwrap(operator.attrgetter(function)(importlib.import_module("bert"))).__code__
    return f"{function} ({Path(code.co_filename).name}:{code.co_firstlineno})"


def page_of(rows: Sequence[Row], inputs: SimpleNamespace, end: Outcome) -> str:
    """The page, which needs no network, of the sentence with the first difference.

    Args:
        inputs: ids and real, (B, L) both.
    """
    first = next((row for row in rows if row.status in ("differs", "wrong")), None)
    number = first.sentence if first else 0
    ids = inputs.ids[number][inputs.real[number]].tolist()  # without padding, as the matrices
    maps = [
        [x[number].reshape(-1, x.size(-1))[: len(ids)].round(decimals=4).tolist() for x in row.both]
        for row in rows
    ]
    environment = Environment(loader=FileSystemLoader(FOLDERS), autoescape=True, trim_blocks=True)
    facts = {"rows": rows, "first": first, "maps": maps, "ids": ids, "number": number, "end": end}
    return environment.get_template("page.html").render(facts)
