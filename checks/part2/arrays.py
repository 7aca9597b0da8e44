"""The arrays that calls.py measures, read one by one: none is taken for granted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from checks.findings import Finding
from checks.part2.calls import CAME, SCALES, Measured

TOLERANCE = 1e-4  # in float32, relative to how far rows are apart
ROUNDING = 1e-5  # relative to a result: what is left of a large summand
NOT_BEGUN = Finding("not started", "")
UNREADABLE = Finding("unreadable", "results that are not numbers, or of another shape than before")


class Stopped(Exception):
    """The first call without a result that can be used; nothing after it is looked at."""

    def __init__(self, finding: Finding):
        super().__init__(finding.text)
        self.finding = finding


def error_of(measured: Measured, call: str) -> Finding | None:
    """What a call raised."""
    if f"{call}/error" not in measured:
        return None
    begun = measured.get(f"{call}/error kind") != NOT_BEGUN.kind
    text = str(measured[f"{call}/error"])
    return Finding("error", text) if begun else Finding(NOT_BEGUN.kind, text or "another function")


def take(measured: Measured, name: str, *shape: int | None) -> Tensor:
    """An array in float64.

    Args:
        name: "call" or "call/what".
        shape: expected; None is any length, and no shape at all any shape.

    Raises:
        Stopped: there is none, or another one, or the call raised something.
    """
    if error := error_of(measured, name.split("/")[0]):
        raise Stopped(error)
    array = measured.get(name)
    if not isinstance(array, Tensor) or not array.is_floating_point():
        raise Stopped(UNREADABLE)
    wrong = len(shape) != array.dim() or any(
        expected not in (None, length) for expected, length in zip(shape, array.shape, strict=True)
    )
    if shape and wrong:
        raise Stopped(UNREADABLE)
    return array.detach().double()


def rows_in(measured: Measured, *names: str) -> Tensor:
    """Values, one row a sentence or pair: as many as in the first result, (B, …)."""
    result = measured["result"]  # well formed
    parts = [take(measured, name) for name in names]
    if sum(part.numel() for part in parts) != result.numel():
        raise Stopped(UNREADABLE)
    return torch.cat([part.flatten() for part in parts]).reshape(len(result), -1)


def spread(results: Tensor) -> Tensor:
    """How far a usual row, (B, C) → (C,), is from the middle one; a single row has no say in it.

    A column in which most rows are alike is measured with the others.
    """
    away = (results - results.median(dim=0).values).abs()
    usual = away.median(dim=0).values
    usual = torch.where(usual > 0, usual, away.mean(dim=0))
    return torch.maximum(usual, usual.median())


def differ(first: Tensor, second: Tensor) -> bool:
    """Whether results, (B, C) each, are apart by more than rounding.

    A summand that all rows share, or a scale, must not make a change look small: it is compared
    with how far rows are apart.
    """
    limit = TOLERANCE * spread(first) + ROUNDING * first.abs()
    return not ((second - first).abs() <= limit).all()


def loud_rows(measured: Measured) -> Tensor:
    """Results for random embeddings, those that are finite: an exponential may overflow."""
    rows = torch.cat([rows_in(measured, f"loud {i}") for i in range(len(SCALES))])
    return rows[rows.isfinite().all(dim=-1)]


def seen_in(measured: Measured) -> list[tuple[Any, Any]]:
    """Ids and masks that came to BERT; see watched."""
    pairs: list[tuple[Any, Any]] = []
    while f"seen {len(pairs)}/ids" in measured:
        pairs.append(tuple(measured.get(f"seen {len(pairs)}/{name}") for name in CAME))
    return pairs


def gradients_in(
    measured: Measured, call: str, kinds: Sequence[str] = ("encoder", "inside", "own")
) -> dict[str, Tensor]:
    """The gradients that one call gave, by the parameters' names; see models.named."""
    return {
        name.partition("/")[2]: take(measured, name)
        for kind in kinds
        for name in measured
        if name.startswith(f"{call}/{kind} ")
    }


def same(first: Any, second: Any) -> bool:
    """Whether both are tensors of the same numbers."""
    tensors = isinstance(first, Tensor) and isinstance(second, Tensor)
    return tensors and first.shape == second.shape and bool((first == second).all())
