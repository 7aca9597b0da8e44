"""What a wrong attention, Task 1.1, does, as measured."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from checks.fixed_dropout import FixedDropout
from checks.part1.measuring import COUNTED, Cause, dropout_facts, same


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
            yield Cause(
                f"all numbers of the result are right, but in the order of the axes ({axes}); "
                "(B, L, H, W) is the order in which H and W become one axis, D"
            )
        elif result.shape != correct["context"].shape:
            yield Cause("all numbers of the result are right and in the right order, not its shape")
        break


def arguments(model, stored, correct) -> Iterator[str]:
    """Whether each argument has an effect."""
    before = attend(model, stored)
    for name in ("key", "query", "value", "mask"):
        changed = {name: torch.randn_like(getattr(stored, name))}
        if same(attend(model, stored, **changed), before):
            argument = "attention_mask" if name == "mask" else name
            yield Cause(f"`{argument}` has no effect on the result")


def weights(model, stored, correct) -> Iterator[str]:
    """Whose values a head's part is made of, where weights are 0, what they sum to, of what."""
    rest = attend(model, stored, value=torch.zeros_like(stored.value))
    if rest.any():  # the result is not a weighted sum of values
        for name in ("query", "key"):
            if same(rest, getattr(stored, name).transpose(1, 2).flatten(2)):
                yield Cause(f"`{name}` itself is added to the result, next to the weighted values")
        return
    if mixed := list(mixed_heads(model, stored)):
        yield from mixed
        return
    places = torch.eye(stored.value.size(2)).to(stored.value)[:, None, None, :, None]
    on = torch.stack(
        [attend(model, stored, value=place.expand_as(stored.value)) for place in places], -1
    )  # (B, L, D, keys)
    given = on[:, :, :: stored.value.size(3)].transpose(1, 2)  # (B, H, L, keys)
    real = stored.mask[:, 0, 0] == 0  # (B, L)
    on_padding = (given * ~real[:, None, None]).sum(-1).amax(1)[real].max().item()
    are_normal = same(given.sum(-1), torch.ones_like(given[..., 0]))
    if on_padding > 1e-9:
        text = f"the weights that a real token gives to padding sum to up to {on_padding:.4g}"
        yield Cause(text) if are_normal else text
    unseen = ((given == 0).all(1).all(1) & real).nonzero().tolist()
    if unseen:
        sentence, place = unseen[0]
        yield f"no token looks at token {place} of sentence {sentence} {COUNTED}, a real one"
    longest = real.sum(-1).argmax()  # its sentence has no padding
    if are_normal:
        yield from pattern(given[longest, 0])
        yield from scale(stored, given[longest], longest)
    else:
        yield from sums(stored, given, longest)


def mixed_heads(model: nn.Module, stored: SimpleNamespace) -> Iterator[str]:
    """Whether the part of each head in the result is made of that head's values alone."""
    count, width = stored.value.size(1), stored.value.size(3)
    single = torch.eye(count).to(stored.value)[:, None, :, None, None]  # (H, 1, H, 1, 1)
    made = torch.stack([attend(model, stored, value=v.expand_as(stored.value)) for v in single])
    touched = (made != 0).unflatten(-1, (count, width)).any(-1).flatten(1, 2).any(1)  # (H, H)
    sources = [[i + 1 for i in column.nonzero().flatten().tolist()] for column in touched.T]
    wrong = [(head, of) for head, of in enumerate(sources, 1) if of != [head]]
    if not wrong:
        return
    head, of = wrong[0]
    heads = f"values of head{'s' * (len(of) > 1)} {', '.join(map(str, of))}"
    end = f"are made of the {heads}" if of else f"are 0 at every token: head {head} is left out"
    yield Cause(
        f"the numbers {(head - 1) * width} to {head * width - 1} of a token's result, which are "
        f"head {head}'s, {end} (heads are counted from 1)"
    )


def pattern(weights: Tensor) -> Iterator[str]:
    """What zeros, or equal numbers, in one head's weights (L, keys) show."""
    ones = torch.ones_like(weights)
    patterns = {
        "a token looks only at itself": ones - torch.eye(len(weights)).to(weights),
        "a token looks only at itself and at those before it: a causal mask, which BERT does not "
        "have": ones.triu(1),
    }
    for text, zeros in patterns.items():
        if torch.equal(weights == 0, zeros == 1):
            yield Cause(text)
    if same(weights, ones / len(weights)):
        yield Cause("every key has the same weight: what the softmax gets is the same for all keys")


def sums(stored: SimpleNamespace, given: Tensor, longest: Tensor) -> Iterator[str]:
    """Why weights (B, H, L, keys) do not sum to 1 over the keys."""
    axes = {"queries": -2, "heads": 1, "sentences": 0, "queries and keys together": (-2, -1)}
    for text, axis in axes.items():
        if same(total := given.sum(axis), torch.ones_like(total)):
            yield Cause(f"the attention weights sum to 1 over the {text} instead of the keys")
            return
    totals = given.sum(-1)
    if same(totals, totals.flatten()[0].expand_as(totals)):
        factor = totals.flatten()[0].item()
        text = f"{factor:.4g}{in_sizes(factor, stored)}"
        yield Cause(f"the attention weights of a token sum to {text} instead of 1")
        return
    product = stored.query[longest] @ stored.key[longest].mT  # (H, L, L)
    functions = {
        "the scores themselves": torch.clone,
        "sigmoids of the scores": torch.sigmoid,
        "ReLUs of the scores": torch.relu,
    }
    for factor in (1.0, stored.key.size(-1) ** -0.5):
        for text, function in functions.items():
            if same(given[longest], function(factor * product)):
                yield Cause(f"the attention weights are {text}: no softmax over the keys acts")
                return
    yield (
        f"if all values are 1, the results are not 1 but from {totals.min():.4g} to "
        f"{totals.max():.4g}: the attention weights of a token do not sum to 1"
    )


def in_sizes(factor: float, stored: SimpleNamespace) -> str:
    """Which powers of the sizes a number is; no two sizes are the same."""
    sizes = dict(zip("BHLW", stored.key.shape, strict=True)) | {"D": stored.key[0, :, 0].numel()}
    powers = {"1/√": -0.5, "1/": -1, "√": 0.5, "": 1}
    return "".join(
        f" = {sign}{letter}"
        for letter, sign in itertools.product(sizes, powers)
        if abs(factor / sizes[letter] ** powers[sign] - 1) < 1e-6
    )


def scale(stored: SimpleNamespace, given: Tensor, sentence: Tensor) -> Iterator[str]:
    """Of what weights (H, L, keys) are the softmax, seen in their logarithms."""
    query, key = stored.query[sentence], stored.key[sentence]  # (H, L, W)
    product = query @ key.mT
    inputs = {
        "query · key": product,
        "key · query (rows and columns swapped)": product.mT,
        "query · query": query @ query.mT,
        "key · key": key @ key.mT,
        "the cosine of query and key": F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).mT,
        "query · key summed over the heads": product.sum(0, keepdim=True).expand_as(product),
        "the softmax of query · key": product.softmax(-1),
        "the softmax of query · key / √W": (product * key.size(-1) ** -0.5).softmax(-1),
    }
    for head in range(len(key)):
        inputs[f"each head's query · head {head + 1}'s key"] = query @ key[head].mT
        inputs[f"head {head + 1}'s query · each head's key"] = query[head] @ key.mT
    logarithms = given.log()
    logarithms = logarithms - logarithms.mean(-1, keepdim=True)
    expected = key.size(-1) ** -0.5
    for name, scores in inputs.items():
        centred = scores - scores.mean(-1, keepdim=True)
        factor = ((logarithms * centred).sum() / centred.square().sum()).item()
        if not same(logarithms, factor * centred) or abs(factor) < 1e-6:
            continue
        if scores is not product or abs(factor - expected) > 1e-6:
            yield Cause(
                f"the softmax gets {name} times {factor:.4g}{in_sizes(abs(factor), stored)}; it "
                f"should get query · key times {expected:.4g} = 1/√W"
            )
        return
    rest = logarithms - expected * (product - product.mean(-1, keepdim=True))
    if rest.isfinite().all() and same(rest, rest[:1].expand_as(rest)):
        yield Cause(
            "to query · key / √W something is added that is the same in every head and not 0 where "
            "attention_mask is 0: nothing but the mask is to be added"
        )


def attention_dropout(model, stored, correct) -> Iterator[str]:
    """When dropout acts, and whether on the weights."""
    yield from dropout_facts(model, lambda: attend(model, stored))
    ones = torch.ones_like(stored.value)
    with FixedDropout():
        trained, sums = attend(model, stored), attend(model, stored, value=ones)
        model.eval()
        evaluated = attend(model, stored)
    zeros = ((trained == 0) & (evaluated != 0)).flatten(0, -2).any(0)  # (D,)
    if zeros.any() and not trained[..., zeros].any():
        yield Cause("in training mode numbers of the result are 0: dropout acts at the very end")
    if not same(trained, evaluated) and same(sums, torch.ones_like(sums)):
        yield Cause(
            "in training mode the weights still sum to 1: dropout does not act on them, or they "
            "are divided by their sum after it"
        )
