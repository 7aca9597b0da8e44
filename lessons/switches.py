"""What lessons/lab.py does to a BERT: parts are switched off, hidden states of other texts put in.

Weights are set to 0 for a while, or hooks on modules change what goes in or comes out, so it works
with any bert.py of the assignment. Shapes: B rows, L tokens, D hidden size, W = D / H a head's,
N pairs, V tokens in the vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lessons.grammar import Ids
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.files.errors import InputError
from training.loop.models import outputs_of

VERBS = (("is", "are"), ("was", "were"), ("does", "do"), ("has", "have"))
PADDING = 8  # tokens behind each row, which are seen once the mask is off

Switch = Callable[[], AbstractContextManager]  # in its with block, a part is off


@contextmanager
def zeroed(weight: Tensor) -> Iterator[None]:
    """In a with block, these weights are 0."""
    weight = weight.detach()
    before = weight.clone()
    weight.zero_()
    try:
        yield
    finally:
        weight.copy_(before)


def head_off(layer: nn.Module, head: int) -> AbstractContextManager:
    """In a with block, nothing reads this head: its columns in the layer's output matrix are 0."""
    width = layer.self_attention.attention_head_size
    return zeroed(layer.attention_dense.weight[:, head * width : (head + 1) * width])  # (D, W)


@contextmanager
def hooked(*handles: Any) -> Iterator[None]:
    """These hooks act in a with block only."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def bypassed(*modules: nn.Module) -> Iterator[None]:
    """In a with block, modules return what they are given first.

    Raises:
        InputError: some are not called, as where only their weights are read.
    """
    called = set()

    def give_back(module: nn.Module, given: tuple, _: Tensor) -> Tensor:
        called.add(module)
        return given[0]

    with hooked(*(module.register_forward_hook(give_back) for module in modules)):
        yield
    if len(called) < len(modules):
        which = "a LayerNorm that bert.py does not call cannot be switched off"
        raise InputError(f"{which}; leave this round out: --rounds heads layers patching")


def mask_ignored(bert: nn.Module) -> AbstractContextManager:
    """In a with block, PADDING tokens behind each row are attended to like any others."""

    def lengthen(_: nn.Module, given: tuple) -> tuple:
        ids, mask, *rest = given  # (B, L) each
        ids = F.pad(ids, (0, PADDING), value=bert.config.pad_token_id)  # (B, L + PADDING)
        return (ids, F.pad(mask, (0, PADDING), value=1), *rest)

    def shorten(_: nn.Module, given: tuple, result: dict[str, Tensor]) -> dict[str, Tensor]:
        return result | {"last_hidden_state": result["last_hidden_state"][:, :-PADDING]}

    return hooked(bert.register_forward_pre_hook(lengthen), bert.register_forward_hook(shorten))


def switches(model: PretrainingModel) -> dict[str, dict[str, Switch]]:
    """For each round, what can be switched off: {"heads": {"layer 1, head 1": switch, …}, …}."""
    layers = model.bert.bert_layers
    norms = [n for layer in layers for n in (layer.attention_layer_norm, layer.out_layer_norm)]
    off = functools.partial
    return {
        "heads": {
            f"layer {i}, head {head + 1}": off(head_off, layer, head)
            for i, layer in enumerate(layers, start=1)
            for head in range(model.config.num_attention_heads)
        },
        "layers": {f"layer {i}": off(bypassed, layer) for i, layer in enumerate(layers, start=1)},
        "parts": {
            "the mask": off(mask_ignored, model.bert),
            "the positions": off(zeroed, model.bert.pos_embedding.weight),
            "the norms": off(bypassed, *norms),
        },
    }


# ---------------------------------------------------------------------------------------------
# Patching: what comes back when a hidden state of one sentence is put into another. The two of a
# pair differ in the number of a noun; their verb is hidden by [MASK], and the model is asked which
# form it expects.


class VerbPairs(NamedTuple):
    """Pairs of one layout, with [MASK] for the verb; good and bad differ in one token, the noun."""

    good: Tensor  # (N, L)
    bad: Tensor  # (N, L)
    verbs: Tensor  # (N, 2), the verb, and its form for the other number
    noun: int  # its position
    verb: int


def verb_pairs(tokenizer: BertTokenizer, encoded: Sequence[tuple[Ids, Ids]]) -> VerbPairs:
    """The pairs of the most frequent layout: number of tokens, positions of noun and verb.

    Raises:
        InputError: in no pair the two sentences share a verb of VERBS and differ in one token.
    """
    forms = [tokenizer.convert_tokens_to_ids(list(both)) for both in VERBS]
    other = {a: b for both in forms for a, b in (both, both[::-1])}
    by_layout: dict[tuple[int, ...], list[tuple[Ids, Ids]]] = {}
    for bad, good in encoded:
        unequal = [i for i, (a, b) in enumerate(zip(bad, good, strict=False)) if a != b]
        verbs = [i for i, token in enumerate(good) if token in other and i not in unequal]
        if len(bad) == len(good) and len(unequal) == len(verbs) == 1:
            by_layout.setdefault((len(good), *unequal, *verbs), []).append((bad, good))
    if not by_layout:
        wanted = "patching needs pairs that differ in one token and share a form of be, do or have"
        raise InputError(f"{wanted}; take others by --about, or --rounds heads layers parts")
    (_, noun, verb), chosen = max(by_layout.items(), key=lambda item: len(item[1]))
    bad, good = (torch.tensor(side) for side in zip(*chosen, strict=True))  # (N, L)
    verbs = torch.tensor([(token, other[token]) for token in good[:, verb].tolist()])
    bad[:, verb] = good[:, verb] = tokenizer.mask_token_id
    return VerbPairs(good, bad, verbs, noun, verb)


def verb_difference(model: PretrainingModel, ids: Tensor, pairs: VerbPairs) -> Tensor:
    """logit(verb) − logit(its other form) at the [MASK] of each sentence: (N, L) → (N,)."""
    positions = torch.arange(len(ids)) * ids.size(1) + pairs.verb  # (N,) in the flattened (N · L)
    logits, _ = model(ids, torch.ones_like(ids), positions=positions)  # (N, V)
    chosen = logits.gather(1, pairs.verbs)  # (N, 2)
    return chosen[:, 0] - chosen[:, 1]


def patched(layer: nn.Module, position: int, state: Tensor) -> AbstractContextManager:
    """In a with block, the layer's result at a position is the one of ``state``, (N, L, D)."""

    def put(_: nn.Module, given: tuple, result: Tensor) -> Tensor:
        return result.index_copy(1, torch.tensor([position]), state[:, [position]])  # (N, L, D)

    return hooked(layer.register_forward_hook(put))


@torch.no_grad()
def patching(model: PretrainingModel, pairs: VerbPairs) -> tuple[np.ndarray, np.ndarray]:
    """What comes back, in logits, when one state of the good sentence is put into the bad one.

    Returns:
        (L, layers, N) after each layer at each position; and (N,), the whole difference.
    """
    layers = model.bert.bert_layers
    with outputs_of(*layers) as states:  # (N, L, D) each
        good = verb_difference(model, pairs.good, pairs)  # (N,)
    bad = verb_difference(model, pairs.bad, pairs)  # (N,)
    back = np.zeros((pairs.bad.size(1), len(layers), len(bad)))
    for i, j in np.ndindex(*back.shape[:2]):
        with patched(layers[j], i, states[j]):
            back[i, j] = verb_difference(model, pairs.bad, pairs) - bad
    return back, (good - bad).double().numpy()
