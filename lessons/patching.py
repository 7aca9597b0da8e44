"""Patching: what comes back when a hidden state of one sentence is put into another.

The two sentences of a pair differ in the number of a noun. Their verb is hidden by [MASK], and the
model is asked which form it expects. Shapes: N pairs, L tokens, D hidden size, V tokens in the
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lessons.grammar import Ids
from lessons.switches import hooked
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.files.errors import InputError
from training.loop.module_outputs import outputs_of

VERBS = (("is", "are"), ("was", "were"), ("does", "do"), ("has", "have"))


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
        raise InputError(
            "patching needs pairs that differ in one token and share is, are, was, were, does, do, "
            "has or have; take others by --about, or leave it out: --rounds heads layers parts"
        )
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
