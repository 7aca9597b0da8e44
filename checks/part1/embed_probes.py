"""What a wrong embedding, Task 1.4, does, as measured."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from checks.part1.data_flow import formula_facts
from checks.part1.measuring import COUNTED, Cause, matters


def rows_used(table: nn.Embedding, vector: Tensor) -> dict[int, float]:
    """The rows of a table that a vector depends on, and how many times each is in it."""
    direction = torch.randn_like(vector)
    if not vector.requires_grad:
        return {}
    (grad,) = torch.autograd.grad(
        vector @ direction, table.weight, retain_graph=True, allow_unused=True
    )
    if grad is None:
        return {}
    factors = grad.norm(dim=-1) / direction.norm()
    return {row: factors[row].item() for row in factors.nonzero().flatten().tolist()}


def wrong_row(model, name: str, result: Tensor, real: Tensor, expected: Tensor) -> Iterator[str]:
    """The first real token that is made of another row of a table than ``expected`` (B, L)."""
    for sentence, place in real.nonzero().tolist():
        rows = list(rows_used(getattr(model, name), result[sentence, place]))
        row = expected[sentence, place].item()
        if rows != [row]:
            taken = f"row {', '.join(map(str, rows))}" if rows else "no row"
            yield Cause(
                f"token {place} of sentence {sentence} {COUNTED} takes {taken} of {name}, "
                f"where row {row} belongs"
            )
            break


def embed(model: nn.Module, *ids: Tensor) -> Tensor:
    """The student's vectors of ids (B, L), perhaps with segments: (B, L, D)."""
    result = model.embed(*(tensor.clone() for tensor in ids))
    if result.shape != (*ids[0].shape, model.word_embedding.embedding_dim):
        raise ValueError("the check itself reports shapes")
    return result


def lookups(model, stored, correct) -> Iterator[str]:
    """Which rows of the tables the vectors are made of, that of padding included."""
    model.word_embedding.padding_idx = None  # or no gradient would show that row
    ids, real = stored.ids, stored.real
    places = torch.arange(ids.size(1)).expand_as(ids)
    result = embed(model, ids)
    for name in ("word_embedding", "pos_embedding", "tk_type_embedding"):
        used = matters(getattr(model, name), lambda: embed(model, ids).detach())
        if used and not rows_used(getattr(model, name), result.flatten()):
            return  # it is cut off from its gradient, which shows the rows
    yield from wrong_row(model, "word_embedding", result, real, ids)
    yield from wrong_row(model, "pos_embedding", result, real, places)
    wrong_types = list(wrong_row(model, "tk_type_embedding", result, real, ids * 0))
    yield from wrong_types
    if not wrong_types:
        result = embed(model, ids, stored.segments)
        for text in wrong_row(model, "tk_type_embedding", result, real, stored.segments):
            yield Cause(f"with token_type_ids given, {text}")


def embed_formula(model, stored, correct) -> Iterator[str]:
    """When dropout acts, and what is made of the rows that belong to the tokens."""
    ids = stored.ids
    places = torch.arange(ids.size(1)).expand_as(ids)
    known = {
        "words": model.word_embedding.weight[ids],
        "positions": model.pos_embedding.weight[places],
        "segments": model.tk_type_embedding.weight[torch.zeros_like(ids)],
    }
    modules = {name: getattr(model, name) for name in ("embed_layer_norm", "embed_dropout")}
    right, asked = "bert.embed/dropout/embeddings", "the docstring's formula"
    return formula_facts(model, lambda: embed(model, ids), known, modules, right, asked)
