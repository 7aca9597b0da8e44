"""The job of ``--trace``: the states of a student's model and their gradients, row by row.

Shapes: B sentences, L tokens, D hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from jinja2 import Environment, FileSystemLoader
from torch import Tensor

from checks import jobs
from checks.compare import TOLERANCES, difference, differing, is_dense
from checks.errors import attempt, describe, line_of
from checks.findings import ROOT, Finding, Outcome
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.part1.runs import gradients
from checks.references import TRACE, read_data, under
from checks.trace.watch import LAYERS, STATES, Watch

TITLE, TOLERANCE = "the whole BertModel", TOLERANCES[torch.float64]
RIGHT = "in evaluation mode, without dropout, all states and gradients that were seen are right"
FOLLOWS = "what follows builds on this, and may differ for this reason alone"
UNFINISHED = "nothing that could be compared differs; not all is filled in"
REPLACED = "what follows gets the correct state instead"
FOLDERS = (Path(__file__).parent, ROOT / "training" / "reports")  # the latter: what all pages have
WRONG = ("differs", "wrong")  # of a number, of an exception
NAMES = [*STATES]
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
        texts: what is said below.
        makes: if it differs, the states of which one is made in a wrong way.
        both: the two tensors, mine and the reference's, where they can be compared.
    """

    status: str
    name: str
    about: str
    texts: Sequence[str] = ()
    makes: Sequence[str] = ()
    both: Sequence[Tensor] = ()


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
        rows = [row_of_state(number, watch) for number in range(len(NAMES))]
        if rows[-1].status == "skipped" or any(row.status in WRONG for row in rows):
            rows.append(Row("skipped", "gradients", "compared once the values are right"))
        else:
            rows += rows_of_gradients(watch, under(f"{TRACE}gradients/", stored))
        rows = [*explained(rows, watch)]
    findings = []
    for row in rows:
        findings.append(Finding(row.status, f"{row.name:39} {row.about}"))
        findings += [Finding("why", text) for text in row.texts]
    status, about = ("skipped", UNFINISHED) if watch.replaced else ("ok", RIGHT)
    if wrong := next((row for row in rows if row.status in WRONG), None):
        status, about = "wrong", f"the first that is wrong: {wrong.name}"
    if job == "page":
        page = page_of(rows, wrong, watch.inputs, f"{TITLE}: {about}")
        findings.append(Finding("page", page))
    return Outcome(TITLE, status, about, tuple(findings))


def row_of_state(number: int, watch: Watch) -> Row:
    """What is said about a state."""
    state = NAMES[number]
    seen = [i for i in range(number) if len(watch.noted[NAMES[i]]) == 1]
    makes = NAMES[max(seen, default=-1) + 1 : number + 1]
    match watch.noted[state]:
        case [BaseException() as error]:
            finding, texts = describe(error), [REPLACED] * (state in watch.replaced)
            if finding.kind == "not started":
                name = finding.text or line_of(error)
                return Row("skipped", state, f"not filled in: {name}", texts)
            return Row("wrong", state, type(error).__name__, [finding.text, *texts], makes)
        case [result]:
            row = compared("values", state, result, watch.right[state], watch.inputs.real)
            # the last two are made by functions that are given, from the last layer's state
            if row.status == "ok" and watch.replaced.keys() & {*NAMES[-3:number]}:
                return Row("skipped", state, "nothing of yours is in it yet")
            return row._replace(makes=makes)
        case results:
            return Row("skipped", state, f"not seen: {len(results)} calls of {STATES[state]}")


def rows_of_gradients(watch: Watch, right: dict[str, Tensor]) -> Iterator[Row]:
    """What is said about the gradients of a loss on both results, from the last to the first.

    Args:
        right: the reference's, of states and of weights.
    """
    inputs = watch.inputs
    seen = {state: x[0] for state, x in watch.noted.items() if len(x) == 1} | watch.replaced
    loss = (seen["last hidden state"] * inputs.cotangent).sum()
    loss = loss + (seen["pooler"] * inputs.pooler_cotangent).sum()
    sources = seen | dict(watch.model.named_parameters())
    sources = {name: x for name, x in sources.items() if x.requires_grad}
    found = attempt(gradients, loss, torch.ones_like(loss), sources)
    if isinstance(found, BaseException):
        yield Row("wrong", "gradients", type(found).__name__, [describe(found).text], NAMES)
        return

    def row_of(label: str, names: Sequence[str], makes: Sequence[str]) -> Row:
        """Of several tensors, the first that differs, or that which is furthest off."""
        got = {name: found.get(f"gradients/{name}") for name in names}
        rows = [compared("gradients", k, x, right[k], inputs.real) for k, x in got.items()]
        wrong = [row for row in rows if row.status == "differs"]
        row = wrong[0] if wrong else max(rows, key=lambda row: float(row.about))
        both = row.both if len(rows) == 1 else ()
        return row._replace(name=f"gradient of {label}", makes=makes, both=both)

    for number, state in reversed([*enumerate(NAMES)]):
        if state in seen and state in right:
            # what makes a state is at fault only if no gradient can go through that
            yield row_of(state, [state], NAMES[number + (state in sources) :])
        if state in watch.replaced:
            yield Row("skipped", "gradients further back", "compared once this is filled in")
            return
        if state in WEIGHTS:
            names = [name for name in right if "." in name and WEIGHTS[state] in name]
            yield row_of(f"the weights, {state.partition(',')[0]}", names, NAMES[number:])


def compared(kind: str, name: str, got: Any, right: Tensor, real: Tensor) -> Row:
    """What is said about one tensor; where tokens are not real (B, L), any numbers would do."""
    is_comparable = is_dense(got) and got.shape == right.shape
    if is_comparable and got.shape[:2] == real.shape:
        got = torch.where(real[..., None], got, right)  # (B, L, D)
    wrong = difference(kind, name, got, right, TOLERANCE)
    if not is_comparable:
        about = "no gradient" if kind == "gradients" else "not comparable"
        return Row("differs", name, about, [wrong.text])
    about = f"{((got - right).abs() / right.abs().clamp(min=1)).max():.1e}"
    status, texts = ("differs", [wrong.text]) if wrong else ("ok", [])
    return Row(status, name, about, texts, both=(got, right))


def explained(rows: Sequence[Row], watch: Watch) -> Iterator[Row]:
    """The rows; texts only below the first of a status, and with them the function to open."""
    said: set[str] = set()
    for row in rows:
        texts = [] if row.status in said else [*row.texts]
        said |= {row.status} if texts else set()
        if texts and row.makes:
            function = watch.culprit("gradients" if "gradient" in row.name else "values", row.makes)
            what = "the first that differs" if row.status == "differs" else "the first exception"
            texts.insert(0, f"{what}: open {function}")
            if row.status == "differs" and sum(other.status == "differs" for other in rows) > 1:
                texts.append(FOLLOWS)
        yield row._replace(texts=texts)


def page_of(rows: Sequence[Row], first: Row | None, inputs: SimpleNamespace, end: str) -> str:
    """The page, which needs no network, of the first sentence that differs.

    Args:
        first: the first row that is wrong.
        inputs: ids and real, (B, L) both.
        end: what is said at the end.
    """
    places = differing(*first.both, TOLERANCE).nonzero() if first and first.both else []
    number = int(places[0][0]) if len(places) else 0
    ids = inputs.ids[number][inputs.real[number]].tolist()  # without padding, as the matrices
    maps = [
        [x[number].reshape(-1, x.size(-1))[: len(ids)].round(decimals=4).tolist() for x in row.both]
        for row in rows
    ]
    environment = Environment(loader=FileSystemLoader(FOLDERS), autoescape=True, trim_blocks=True)
    facts = {"rows": rows, "first": first, "maps": maps, "ids": ids, "number": number, "end": end}
    return environment.get_template("page.html").render(facts)
