"""The comparison of a student's tensors with what they should be, in words."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from checks.findings import Finding


def difference(
    kind: str, what: str, got: Any, expected: Tensor, tolerance: float, reveal: bool = True
) -> Finding | None:
    """The first place where a tensor is not what it should be, in words.

    Right values are said only if ``reveal``.
    """
    label = f"{kind} of {what}"
    if got is None and kind == "gradients":
        return Finding(kind, f"{label}: no gradient arrives (detached, or under no_grad?)")
    if got is None:
        text = f"{label}: None instead of a tensor: did you forget `return`?"
        return Finding(kind, text, name="nothing_returned")
    if not isinstance(got, Tensor):
        text = f"{label}: a {type(got).__name__} instead of a tensor"
        if isinstance(got, tuple | dict):
            text += ": return the one tensor that the docstring names, and nothing beside it"
        return Finding(kind, text, name="no_tensor_returned")
    if kind == "padding":
        if not (got.abs() <= tolerance).all():  # NaN is a change, too
            most = got.abs().nan_to_num(0.0).max().item()
            text = f"a change of padded tokens changes real ones by up to {most:.1e}"
            if got.isnan().any():
                return Finding(kind, f"{label}: nan, whatever is changed")
            return Finding(kind, f"{label}: {text}", most < 1e-5)
        return None
    if got.shape != expected.shape:
        shapes = f"shape {tuple(got.shape)} instead of {tuple(expected.shape)}"
        return Finding(kind, f"{label}: {shapes}")
    if got.dtype.is_floating_point != expected.dtype.is_floating_point:
        return Finding(kind, f"{label}: type {got.dtype} instead of {expected.dtype}")
    off = (got.double() - expected.double()).abs()
    wrong = ~(off <= tolerance * expected.double().abs().clamp(min=1))  # NaN is wrong, too
    if wrong.any():
        odd = ~got.isfinite()
        index = (odd if odd.any() else wrong).nonzero()[0].tolist()
        values = got[tuple(index)].item(), expected[tuple(index)].item()
        right = f", expected {values[1]:.6g}" if reveal else ""
        if odd.any():
            return Finding(kind, f"{label}: {values[0]} at {index}{right}")
        if expected.dtype == torch.bool:
            right = f", expected {values[1]}" if reveal else ""
            text = f"first difference at {index}: got {bool(values[0])}{right}"
            return Finding(kind, f"{label}: {text}")
        text = f"got {values[0]:.6g}{right} (off by up to {off.max():.1e})"
        slight = off.max().item() < 1e-5
        return Finding(kind, f"{label}: first difference at {index}: {text}", slight)
    if got.dtype != expected.dtype and got.dtype.is_floating_point:
        return Finding(kind, f"{label}: type {got.dtype} instead of {expected.dtype}", True)
    return None
