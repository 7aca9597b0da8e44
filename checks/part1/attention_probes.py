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


def weights(model, stored, correct) -> Iterator[str]:
    """Whether attention weights sum to 1, where they are 0, what the scores were multiplied by."""
    if attend(model, stored, value=torch.zeros_like(stored.value)).any():
        return  # the result is not a weighted sum of values
    ones = torch.ones_like(stored.value)
    sums = attend(model, stored, value=ones)
    places = torch.eye(stored.value.size(2)).to(ones)[:, None, None, :, None]  # (L, 1, 1, L, 1)
    on = torch.stack(
        [attend(model, stored, value=place * ones) for place in places]
    )  # (L, B, L, D)
    real = stored.mask[:, 0, 0] == 0  # (B, L)
    on_padding = (on.permute(1, 0, 2, 3) * ~real[:, :, None, None]).sum(1)[real].max().item()
    if on_padding > 1e-9:
        yield f"the weights that a real token gives to padding sum to up to {on_padding:.4g}"
    unseen = ((on == 0).all(-1).all(-1) & real.T).nonzero().tolist()  # (place, sentence)
    if unseen:
        place, sentence = unseen[0]
        yield f"no token looks at token {place} of sentence {sentence} {COUNTED}, a real one"
    if not same(sums, torch.ones_like(sums)):
        yield (
            f"if all values are 1, the results are not 1 but from {sums.min():.4g} to "
            f"{sums.max():.4g}: the attention weights of a token do not sum to 1"
        )
    else:
        yield from heads(model, stored)
        yield from scale(stored, on)


def scale(stored: SimpleNamespace, on: Tensor) -> Iterator[str]:
    """What a score is multiplied by, seen in the logarithms of weights on (L, B, L, D)."""
    longest = (stored.mask[:, 0, 0] == 0).sum(-1).argmax()  # its sentence has no padding
    logarithms = on[:, longest, :, :: stored.value.size(3)].permute(2, 1, 0).log()  # (H, L, L)
    scores = stored.query[longest] @ stored.key[longest].mT  # (H, L, L)
    logarithms, scores = (x - x.mean(-1, keepdim=True) for x in (logarithms, scores))
    factor = ((logarithms * scores).sum() / scores.square().sum()).item()
    expected = stored.key.size(-1) ** -0.5
    if same(logarithms, factor * scores) and factor > 1e-6 and abs(factor - expected) > 1e-6:
        yield f"the softmax gets scores times {factor:.4g}, where 1/√W is {expected:.4g}"


def heads(model: nn.Module, stored: SimpleNamespace) -> Iterator[str]:
    """Whether the heads' results lie side by side."""
    count, width = stored.value.size(1), stored.value.size(3)
    numbers = torch.arange(1.0, count + 1).to(stored.value)
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
