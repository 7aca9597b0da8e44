"""Which property of a correct function does not hold, in words: what --hint says.

A function with incorrect values is tried on inputs for which the result is easy to know: where all
values are 1, attention gives 1. Of the properties that are tried out so, the first that fails is
said. Elsewhere, and where all of them hold, properties.toml has a sentence for what is wrong.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from checks.compare import TOLERANCES, is_close, is_dense
from checks.findings import Finding
from checks.references import load_references, student_model
from checks.task import ERROR, Inputs, Outputs, outputs_of

SENTENCES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
Trial = tuple[str, Inputs, Tensor]  # a property; inputs that take others' place; the correct result


def failing(task_id: str, finding: Finding, outputs: Outputs) -> list[Finding]:
    """The first property that does not hold, if one is known.

    Args:
        finding: what is first wrong.
        outputs: of the student's function.
    """
    known, stored = SENTENCES["every task"] | SENTENCES.get(task_id, {}), load_references()
    name, trials = TRIALS.get(task_id, ("", None))
    result, right = outputs.get(name), stored.get(f"{task_id}/{name}")
    is_tried = finding.output == name and is_dense(result) and result.shape == right.shape
    for tried, changes, expected in trials(stored, result) if is_tried else ():
        again = outputs_of(task_id, stored | changes)
        if ERROR not in again and not is_close(again[name], expected, TOLERANCES[torch.float64]):
            return [Finding("property", " ".join(known[tried].split()))]
    where = "" if finding.name or finding.kind == "error" else finding.output or finding.text
    texts = [text for part, text in known.items() if part in where]
    return [Finding("property", " ".join(text.split())) for text in texts[:1]]


def attention(stored: Inputs, _: Tensor) -> Iterator[Trial]:
    """Of values, queries and keys that are the same in all sentences."""
    value, mask = (stored[f"bert.attention/inputs/{name}"] for name in ("value", "mask"))
    heads, length, width = value.shape[1:]
    is_real = (mask == 0).double()  # (B, 1, 1, L)
    is_first = torch.eye(length)[0].double()  # (L,)
    key, one = is_first[:, None], torch.ones(1)  # (L, 1): all keys are 0 but the first

    def merged(context: Tensor) -> Tensor:  # (B or 1, H or 1, L or 1, W) → (B, L, D)
        return context.expand(value.shape).transpose(1, 2).flatten(2).double()

    def mean(weights: Tensor) -> Tensor:  # of values, with weights (B, 1, 1, L)
        return merged(weights @ value / weights.sum(-1, keepdim=True))

    number = torch.arange(heads * width).view(1, heads, 1, width)
    for name, expected, given in (
        ("rows sum to 1", merged(one), {"value": one}),
        ("padding", merged(0 * one), {"query": 0 * one, "value": 1 - is_real.mT}),
        ("order", merged(number), {"value": number}),
        ("best key", mean(is_real * is_first), {"query": one, "key": 1000 * key}),
        ("scale", mean(is_real * is_first.exp()), {"query": one, "key": key / width**0.5}),
    ):
        whole = {key: x.double().expand(value.shape) for key, x in given.items()}
        yield name, {f"bert.attention/inputs/{key}": x for key, x in whole.items()}, expected


def add_norm(stored: Inputs, result: Tensor) -> Iterator[Trial]:
    """After attention: of a shifted input, of a linear layer that gives 0, of no input."""
    layer = student_model(stored).bert_layers[0]
    dense, norm = layer.attention_dense, layer.attention_layer_norm
    given, attended = (stored[f"bert.add_norm/inputs/{name}"] for name in ("input", "attended"))
    yield "shift", {"bert.add_norm/inputs/input": given + 3}, result
    weights = [f"weights/bert_layers.0.attention_dense.{kind}" for kind in ("weight", "bias")]
    yield "input", {key: torch.zeros_like(stored[key]) for key in weights}, norm(given)
    yield "output", {"bert.add_norm/inputs/input": 0 * given}, norm(dense(attended))


TRIALS: dict[str, tuple[str, Callable[[Inputs, Tensor], Iterator[Trial]]]] = {
    "bert.attention": ("values/context", attention),
    "bert.add_norm": ("values/result (after attention)", add_norm),
}
