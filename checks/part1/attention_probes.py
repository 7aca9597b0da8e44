"""What a wrong attention, Task 1.1, does, as measured."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from checks.fixed_dropout import FixedDropout
from checks.part1.measuring import COUNTED, dropout_facts, same


def attend(model: nn.Module, stored: SimpleNamespace, **changed: Tensor) -> Tensor:
    """The student's attention on the stored inputs, some of them replaced: (B, L, D)."""
    names = ("key", "query", "value", "mask")
    inputs = [changed.get(name, getattr(stored, name)).clone() for name in names]
    result = model.bert_layers[0].self_attention.attention(*inputs)
    if result.shape != (stored.key.size(0), stored.key.size(2), stored.key[0, :, 0].numel()):
        raise ValueError("the check itself reports shapes")
    return result


def arguments(model, stored, correct) -> Iterator[str]:
    """Whether each argument has an effect, and whether another order makes the result correct."""
    names = ("key", "query", "value")
    before = attend(model, stored)
    for name in names:
        changed = {name: torch.randn_like(getattr(stored, name))}
        if same(attend(model, stored, **changed), before):
            yield f"`{name}` has no effect on the result"
    for order in list(itertools.permutations(names))[1:]:
        handed = {name: getattr(stored, other) for name, other in zip(names, order, strict=True)}
        if same(attend(model, stored, **handed), correct["context"]):
            yield f"called with {', '.join(order)} for key, query, value it would be right"


def is_weighted_sum(model: nn.Module, stored: SimpleNamespace) -> bool:
    """Whether the result is made of values: 0 if they are."""
    return not attend(model, stored, value=torch.zeros_like(stored.value)).any()


def weight_sums(model, stored, correct) -> Iterator[str]:
    """Whether the weights of each query sum to 1."""
    if not is_weighted_sum(model, stored):
        return
    sums = attend(model, stored, value=torch.ones_like(stored.value))
    if not same(sums, torch.ones_like(sums)):
        yield (
            f"if all values are 1, the results are not 1 but from {sums.min():.4g} to "
            f"{sums.max():.4g}: the attention weights of a token do not sum to 1"
        )


def weight_places(model, stored, correct) -> Iterator[str]:
    """Whether padding is looked at, and whether tokens are not."""
    if not is_weighted_sum(model, stored):
        return
    real = stored.mask[:, 0, 0] == 0  # (B, L)
    values = (~real)[:, None, :, None].expand_as(stored.value).to(stored.value)
    on_padding = attend(model, stored, value=values)[real].abs().max().item()
    if on_padding > 1e-9:
        yield f"the weights that a real token gives to padding sum to up to {on_padding:.4g}"
    for place in range(stored.value.size(2)):
        values = torch.zeros_like(stored.value)
        values[:, :, place] = 1
        unseen = (attend(model, stored, value=values) == 0).all(-1).all(-1) & real[:, place]  # (B,)
        if unseen.any():
            sentence = unseen.nonzero()[0].item()
            yield f"no token looks at token {place} of sentence {sentence} {COUNTED}, a real one"
            break


def score_scale(model, stored, correct) -> Iterator[str]:
    """What a score is multiplied by, seen in the ratio of two weights."""
    if not is_weighted_sum(model, stored) or list(weight_sums(model, stored, correct)):
        return
    once, twice = (log_ratio(model, stored, score) for score in (1.0, 2.0))
    expected = stored.key.size(-1) ** -0.5
    if not abs(twice - 2 * once) < 1e-6:
        return  # it is not a softmax of scores that are scaled, or one weight is 0
    if once > 1e-6 and abs(once - expected) > 1e-6:
        yield f"the softmax gets scores times {once:.4g}, where 1/√W is {expected:.4g}"


def log_ratio(model, stored, score: float) -> float:
    """The logarithm of a weight over another, if their scores are this one and 0."""
    key, query = torch.zeros_like(stored.key), torch.zeros_like(stored.query)
    key[:, :, 1, 0], query[..., 0] = score, 1
    weights = []
    for place in (1, 2):
        value = torch.zeros_like(stored.value)
        value[:, :, place] = 1
        changed = {"key": key, "query": query, "value": value, "mask": stored.mask * 0}
        weights.append(attend(model, stored, **changed)[0, 0, 0])
    return (weights[0] / weights[1]).log().item()


def head_order(model, stored, correct) -> Iterator[str]:
    """Whether the heads' results lie side by side."""
    if not is_weighted_sum(model, stored) or list(weight_sums(model, stored, correct)):
        return
    heads, width = stored.value.size(1), stored.value.size(3)
    numbers = torch.arange(1.0, heads + 1).to(stored.value)
    value = numbers[None, :, None, None].expand_as(stored.value)
    result = attend(model, stored, value=value).flatten(0, 1)  # (B · L, D)
    wrong = (~torch.isclose(result, numbers.repeat_interleave(width))).any(-1)
    if wrong.any():
        row = [f"{number:.3g}" for number in result[wrong][0, : width + 2].tolist()]
        yield (
            f"if all values of head 1 are 1, of head 2 are 2 and so on, a token's result should be "
            f"{width} ones, {width} twos and so on; one begins with {', '.join(row)}"
        )


def attention_dropout(model, stored, correct) -> Iterator[str]:
    """When dropout acts, and whether on the weights."""
    yield from dropout_facts(model, lambda: attend(model, stored))
    ones = torch.ones_like(stored.value)
    with FixedDropout():
        trained, sums = attend(model, stored), attend(model, stored, value=ones)
        model.eval()
        if not same(trained, attend(model, stored)) and same(sums, torch.ones_like(sums)):
            yield "in training mode the weights still sum to 1: dropout does not act on them"
