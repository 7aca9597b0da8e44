"""What a wrong attention, Task 1.1, does, as measured."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

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


def order_of_axes(model, stored, correct) -> Iterator[str]:
    """Whether the result holds the right numbers in another order, or in another shape."""
    inputs = (stored.key, stored.query, stored.value, stored.mask)
    result = model.bert_layers[0].self_attention.attention(*(tensor.clone() for tensor in inputs))
    heads = correct["context"].unflatten(-1, (-1, stored.value.size(-1)))  # (B, L, H, W)
    for order in itertools.permutations(range(4)):
        if not same(result.flatten(), heads.permute(order).flatten()):
            continue
        axes = ", ".join("BLHW"[axis] for axis in order)
        if order != (0, 1, 2, 3):
            yield (
                f"all numbers of the result are right, but in the order of the axes ({axes}); "
                "(B, L, H, W) is the order in which H and W become one axis, D"
            )
        elif result.shape != correct["context"].shape:
            yield "all numbers of the result are right and in the right order, not its shape"
        break


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
        sizes = dict(zip("BHLW", stored.key.shape, strict=True)) | {
            "D": stored.key[0, :, 0].numel()
        }
        powers = {"1/√": -0.5, "1/": -1, "√": 0.5, "": 1}  # no two sizes are the same
        known = "".join(
            f" = {sign}{letter}"
            for letter, sign in itertools.product(sizes, powers)
            if abs(factor / sizes[letter] ** powers[sign] - 1) < 1e-6
        )
        yield f"the softmax gets scores times {factor:.4g}{known}, where 1/√W is {expected:.4g}"


class SoftmaxInputs(TorchFunctionMode):
    """While active, what softmax is given is kept."""

    def __init__(self):
        super().__init__()
        self.inputs: list[Tensor] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") == "softmax" and args:
            self.inputs.append(args[0])
        return func(*args, **kwargs or {})


def constant(model, stored, correct) -> Iterator[str]:
    """Whether a number is added to the scores of real tokens."""
    with SoftmaxInputs() as softmax:
        attend(model, stored)
    scores = stored.query @ stored.key.mT / stored.key.size(-1) ** 0.5  # (B, H, L, L)
    real = (stored.mask == 0).expand_as(scores)
    for given in softmax.inputs:
        added = (given - scores)[real] if given.shape == scores.shape else torch.zeros(1)
        if same(added, added.mean().expand_as(added)) and added.mean().abs() > 1e-3:
            yield (
                f"{added.mean():g} is added to the scores of real tokens: attention_mask has 0 "
                "there and hugely negative numbers at padding, so adding it is enough"
            )


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
            yield (
                "in training mode the weights still sum to 1: dropout does not act on them, or "
                "they are divided by their sum after it"
            )
