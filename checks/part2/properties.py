"""The properties of part 2: what every correct function has, however it is written.

There is no one correct result here: two sentences may be encoded apart or together, pooled and
compared in many ways, and a similarity may have any scale. So each property asks for one thing: a
shape, logits rather than probabilities, both sentences counting, padding and other rows not
counting, gradients. They are asked in order until one does not hold; hints do not end it. What is
said is in properties.toml, where {f.…} is something of the Function, or Made, that was asked.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from checks.findings import Finding
from checks.part2.batches import LENGTHS, B
from checks.part2.models import FORWARD, INIT, PREDICTIONS, TINY
from checks.part2.subjects import Function, Made, copied

SENTENCES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
MATRICES = re.compile(r"mat1 and mat2 shapes .*\((\d+)x\d+ and (\d+)x")  # in torch's message


@dataclass(frozen=True)
class Property:
    """One thing that a function must have, or that a hint is about."""

    name: str  # of the mistake where it does not hold, and of its sentence
    kind: str  # of the finding
    holds: Callable[[Any], bool]  # of what is checked


def ask(properties: Iterable[Property], subject: Any, paper: str) -> list[Finding]:
    """The first property that does not hold, then the hints before it.

    Args:
        subject: a Function, for instance.
        paper: what to read, where a sentence does not name something else.
    """
    hints = []
    for asked in properties:
        if not asked.holds(subject):
            words = SENTENCES[asked.name]
            text = " ".join(words["says"].split()).format(f=subject)
            if asked.kind != "hint":
                text = f"{text} (read {words.get('read', paper)})"
                return [Finding(asked.kind, text, name=asked.name), *hints]
            hints.append(Finding("hint", text))
    return hints


# ---------------------------------------------------------------------------------------------
# What comes to BERT


def same(first: Any, second: Any) -> bool:
    """Whether both are tensors of the same numbers."""
    return isinstance(first, Tensor) and isinstance(second, Tensor) and torch.equal(first, second)


def masks_are_own(f: Function) -> bool:
    """Whether no ids came to BERT with the mask of the other sentences."""
    crossed = [(a[0], b[1]) for a in f.batch for b in f.batch if a is not b]
    return not any(same(i, ids) and same(m, mask) for i, m in f.seen for ids, mask in crossed)


def is_read_apart(f: Function) -> bool:
    """Whether BERT reads each sentence as it came, so that no position in it can shift."""
    return bool(f.seen) and all(any(same(i, ids) for ids, _ in f.batch) for i, _ in f.seen)


def is_read_twice(f: Function) -> bool:
    """Whether BERT reads one side of the pairs twice and the other never."""
    times = [sum(same(i, ids) for i, _ in f.seen) for ids, _ in f.batch]
    return min(times) == 0 and max(times) > 1


# ---------------------------------------------------------------------------------------------
# What a function returns


def returns(f: Function) -> bool:
    """True; raises what the first call has raised."""
    if f.error:
        raise f.error
    return True


def is_joined(f: Function) -> bool:
    """Whether an exception shows a product of 2, 3 or 4 times as many rows as there are pairs."""
    rows = MATRICES.search(str(f.error))
    return bool(rows) and f.row == "pair" and int(rows[1]) in (2 * B, 3 * B, 4 * B)


def repeats(f: Function, **how: Any) -> bool:
    """Whether two calls that only chance can distinguish give the same."""
    return torch.equal(f.call(seed=0, **how), f.call(seed=1, **how))


def stays_between(f: Function, low: float, high: float) -> bool:
    """Whether results lie between two numbers whatever vectors BERT gives."""
    return bool(len(f.loud)) and bool(((f.loud >= low) & (f.loud <= high)).all())


def is_rounded(f: Function) -> bool:
    """Whether results are whole numbers whatever vectors BERT gives."""
    return bool(len(f.loud)) and torch.equal(f.loud, f.loud.round())


def is_softmax(f: Function) -> bool:
    """Whether the results of each row are positive and add up to 1."""
    return stays_between(f, 0, 1) and bool(((f.loud.sum(dim=-1) - 1).abs() < 1e-4).all())


def drops_before_the_last_layer(f: Function) -> bool:
    """Whether no dropout acts on as many numbers as the function returns."""
    dropout, sizes = F.dropout, []

    def noting(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        sizes.append(x.numel() if training and p else 0)
        return dropout(x, p, training, inplace)

    with mock.patch.object(F, "dropout", noting):
        f.call(training=True, chance=True)
    return f.result.numel() not in sizes


def keeps_axis_of_one(f: Function) -> bool:
    """Whether a batch of one row keeps its axis."""
    return f.call(copied(f.rows(0, 1))).shape[:1] == (1,)


def leaves_inputs_alone(f: Function) -> bool:
    """Whether ids and masks are afterwards as they were."""
    pairs = zip(sum(f.given, ()), sum(f.batch, ()), strict=True)
    return all(same(after, before) for after, before in pairs)


def bert_learns(f: Function) -> bool:
    """Whether a gradient reaches BERT, if any of it is to be trained."""
    grads = [p.grad for p in f.learning.bert if p.grad is not None]
    return not f.learning.bert or any(grad.any() for grad in grads)


def all_finite(tensors: list[Tensor]) -> bool:
    """Whether all numbers are finite."""
    return all(tensor.isfinite().all() for tensor in tensors)


def trains(parameters: list[nn.Parameter]) -> bool:
    """Whether any of them is to be trained."""
    return any(parameter.requires_grad for parameter in parameters)


def width_is_configured(_: Made) -> bool:
    """Whether no layer of 768 inputs, or a multiple, is too wide for the functions so far."""
    shapes = (MATRICES.search(str(Function(task_id).error)) for task_id in PREDICTIONS)
    return not any(int(match[2]) % 768 == 0 for match in shapes if match)


# ---------------------------------------------------------------------------------------------
# The lists

RESULT = [
    Property(
        "ids_and_mask_swapped",
        "sentences",
        lambda f: (
            not any(same(i, mask) or same(m, ids) for i, m in f.seen for ids, mask in f.batch)
        ),
    ),
    Property("masks_swapped", "sentences", masks_are_own),
    Property("joined_along_batch", "error", lambda f: not is_joined(f)),
    Property("error", "error", returns),
    Property("not_a_tensor", "shape", lambda f: isinstance(f.result, Tensor)),
    Property("class_returned", "shape", lambda f: f.result.is_floating_point()),
    Property("axis_left", "form", lambda f: f.row == "sentence" or f.shape != (B, 1)),
    Property("two_logits", "shape", lambda f: f.row == "sentence" or f.shape != (B, 2)),
    Property("every_pair", "shape", lambda f: f.shape != (B, B)),
    Property("tokens_left", "shape", lambda f: len(f.shape) != 3),
    Property("batch_averaged", "shape", lambda f: f.shape != ()),
    Property("joined_along_batch", "shape", lambda f: f.shape[0] != 2 * B),
    Property(
        "wrong_axis", "shape", lambda f: f.shape[0] not in (max(LENGTHS[0]), TINY["hidden_size"])
    ),
    Property("wrong_shape", "shape", lambda f: f.shape == f.wanted),
    Property("not_finite", "values", lambda f: all_finite([f.result])),
    Property("layer_made_at_call", "form", repeats),
    Property("dropout_always_on", "form", lambda f: repeats(f, chance=True)),
]
ROWS = [
    Property("one_sentence_twice", "sentences", lambda f: not f.unused or not is_read_twice(f)),
    Property("sentence_unused", "sentences", lambda f: not f.unused),
    Property("rows_mixed", "neighbours", lambda f: not f.change(f.rows(0, 3), f.rows(3, B))),
    Property(
        "mask_not_given",
        "neighbours",
        lambda f: not f.leak or all(same(m > 0, i > 0) for i, m in f.seen),
    ),
    Property("padding_pooled", "neighbours", lambda f: not f.leak),
    Property("padding_counted", "neighbours", lambda f: not f.columns or not is_read_apart(f)),
    Property("positions_shift", "hint", lambda f: not f.columns),
]
ROUNDED = [
    Property("class_returned", "values", lambda f: not is_rounded(f) or not stays_between(f, 0, 1)),
    Property("rounded", "values", lambda f: not is_rounded(f)),
]
LOGITS = [
    Property("softmax_returned", "form", lambda f: f.row == "pair" or not is_softmax(f)),
    Property("probability_returned", "form", lambda f: not stays_between(f, 0, 1)),
]
LEARNING = [
    Property("cut_off", "learning", lambda f: f.learning.flows),
    Property("bert_detached", "learning", bert_learns),
    Property("gradient_not_finite", "learning", lambda f: all_finite(f.learning.all)),
    Property("sentence_detached", "learning", lambda f: not f.detached),
]
HEADS = [
    Property("layer_made_at_call", "learning", lambda f: not f.frozen.flows or f.frozen.all),
    Property("dropout_on_score", "form", drops_before_the_last_layer),
    Property("no_dropout", "hint", lambda f: not repeats(f, training=True, chance=True)),
]
SINGLE = [
    Property("squeezed", "form", keeps_axis_of_one),
    Property("input_changed", "inputs", leaves_inputs_alone),
]
PAIR = [
    Property("layers_unused", "hint", lambda f: f.frozen.flows),  # a cosine needs no layer
    Property("squeezed", "hint", keeps_axis_of_one),
    Property("not_finite_if_equal", "form", lambda f: all_finite([f.call([f.batch[0]] * 2)])),
    Property(
        "slope_if_equal",
        "hint",
        lambda f: all_finite(f.gradients([f.batch[0]] * 2, "finetune").all),
    ),
    Property("input_changed", "inputs", leaves_inputs_alone),
]
LAYERS = Property("layers_unused", "learning", lambda f: f.frozen.flows)
PROPERTIES = {
    INIT: [
        Property("bert_not_loaded", "values", lambda made: bool(made.bert)),
        Property(
            "bert_not_registered",
            "values",
            lambda made: made.keeps_weights() or {*made.bert} & {*made.model.parameters()},
        ),
        Property("bert_not_loaded", "values", lambda made: made.keeps_weights()),
        Property("bert_not_frozen", "options", lambda made: not trains(made.frozen_bert)),
        Property("bert_always_frozen", "options", lambda made: trains(made.bert)),
        Property("partly_frozen", "hint", lambda made: all(p.requires_grad for p in made.bert)),
        Property("layers_in_list", "layers", lambda made: not made.unseen),
        Property("no_layers", "layers", lambda made: bool(made.own)),
        Property("layers_frozen", "layers", lambda m: trains(m.own) and trains(m.frozen_own)),
        Property("width_in_code", "layers", width_is_configured),
    ],
    FORWARD: [*RESULT, *ROWS, *LEARNING, *SINGLE],
    PREDICTIONS[0]: [*RESULT, *ROUNDED, *ROWS, *LOGITS, *LEARNING, LAYERS, *HEADS, *SINGLE],
    PREDICTIONS[1]: [*RESULT, *ROUNDED, *ROWS, *LOGITS, *LEARNING, *HEADS, *PAIR],
    PREDICTIONS[2]: [
        *(*RESULT, *ROUNDED, *ROWS, *LEARNING, *HEADS, *PAIR),
        Property("small_scale", "hint", lambda f: not stays_between(f, -1, 1)),
    ],
}
