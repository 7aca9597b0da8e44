"""What the checks of part 1 and part 2 share: findings, dropout without chance, comparing, errors.

It does not know any task. The checks themselves are in sanity_part1.py and sanity_part2.py, the
command line in sanity_check.py.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from sanity_hints import Mistake

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or the reason why nothing could be checked."""

    kind: str  # what is wrong: "values", "gradients", …; or "error", "not started", "waits"; or of
    # what explains: "named" (a known mistake), "fact" (what was measured), "hint"
    text: str
    slight: bool = False  # may come from computing in float32 inside, which is no mistake
    name: str = ""  # of the known mistake that this is, where the check can tell


EXPLAINING = ("named", "fact", "hint")


def faulty(findings: list[Finding]) -> list[Finding]:
    """The findings that count: not those that only explain."""
    return [finding for finding in findings if finding.kind not in EXPLAINING]


def named(mistakes: Iterable[Mistake]) -> list[Finding]:
    """What is said about known mistakes."""
    return [Finding("named", mistake.text, name=mistake.name) for mistake in mistakes]


# ---------------------------------------------------------------------------------------------
# Dropout without chance


def kept(length: int, p: float, like: Tensor) -> Tensor:
    """A fixed dropout mask (length,): every third number is dropped, the others are scaled up."""
    keep = torch.arange(length) % 3 != 1
    return keep.to(like) / (1 - p)


class FixedDropout(TorchFunctionMode):
    """While active, dropout drops the same positions along one axis of every tensor.

    Only that axis counts, so that it makes no difference whether heads or sentences are computed
    together or in a loop. Attention drops keys: what scaled_dot_product_attention would do inside
    is done to the values' rows before it.
    """

    def __init__(self, axis: int = -1):
        super().__init__()
        self.axis = axis

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (F.dropout, torch.dropout):
            return self.dropout(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            return self.attention(*args, **kwargs)
        return func(*args, **kwargs)

    def dropout(self, input, p=0.5, training=True, inplace=False, train=None):
        """In place of F.dropout and torch.dropout."""
        if not (training if train is None else train) or p == 0:
            return input
        mask = kept(input.size(self.axis), p, input)
        mask = mask if self.axis == -1 else mask[:, None]
        return input.mul_(mask) if inplace else input * mask

    def attention(self, query, key, value, attn_mask=None, dropout_p=0.0, **options):
        """In place of F.scaled_dot_product_attention."""
        if dropout_p:
            value = value * kept(value.size(-2), dropout_p, value)[:, None]
        return F.scaled_dot_product_attention(query, key, value, attn_mask, **options)


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """The type of what the student's code makes: parameters, torch.tensor(0.5), torch.zeros(3)."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


# ---------------------------------------------------------------------------------------------
# Judging


def difference(
    kind: str, what: str, got: Any, expected: Tensor, tolerance: float, reveal: bool = True
) -> Finding | None:
    """The first place where a tensor is not what it should be, in words.

    Right values are said only if ``reveal``.
    """
    label = f"{kind} of {what}"
    if got is None and kind == "gradients":
        return Finding(kind, f"{label}: no gradient arrives (detached, or under no_grad?)")
    if not isinstance(got, Tensor):
        return Finding(kind, f"{label}: a {type(got).__name__} instead of a tensor")
    if kind == "padding":
        if not (got.abs() <= tolerance).all():  # NaN is a change, too
            text = f"a change of padded tokens changes real ones by up to {got.abs().max():.1e}"
            return Finding(kind, f"{label}: {text}", got.abs().max().item() < 1e-5)
        return None
    if got.shape != expected.shape:
        shapes = f"shape {tuple(got.shape)} instead of {tuple(expected.shape)}"
        return Finding(kind, f"{label}: {shapes}")
    if got.dtype.is_floating_point != expected.dtype.is_floating_point:
        return Finding(kind, f"{label}: type {got.dtype} instead of {expected.dtype}")
    off = (got.double() - expected.double()).abs()
    wrong = ~(off <= tolerance * expected.double().abs().clamp(min=1))  # NaN is wrong, too
    if wrong.any():
        index = wrong.nonzero()[0].tolist()
        values = got[tuple(index)].item(), expected[tuple(index)].item()
        right = f", expected {values[1]:.6g}" if reveal else ""
        if not got.isfinite().all():
            return Finding(kind, f"{label}: {values[0]} at {index}{right}")
        text = f"got {values[0]:.6g}{right} (off by up to {off.max():.1e})"
        slight = off.max().item() < 1e-5
        return Finding(kind, f"{label}: first difference at {index}: {text}", slight)
    if got.dtype != expected.dtype and got.dtype.is_floating_point:
        return Finding(kind, f"{label}: type {got.dtype} instead of {expected.dtype}", True)
    return None


def describe(error: BaseException) -> Finding:
    """An exception in a student's function: its type, message and the innermost line of theirs."""
    message = " ".join(str(error).split())[:300]
    # torch raises the same type, with a text of its own, for operations it does not have.
    if isinstance(error, NotImplementedError) and (not message or message.startswith("Task ")):
        return Finding("not started", str(error))
    frames = traceback.extract_tb(error.__traceback__)
    scripts = set(HERE.glob("*.py")) - set(HERE.glob("sanity_*.py"))
    theirs = [frame for frame in frames if Path(frame.filename) in scripts] or frames
    place = f"{Path(theirs[-1].filename).name}:{theirs[-1].lineno}"
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{Path(error.filename).name}:{error.lineno}"
    slight = isinstance(error, RuntimeError) and any(w in message for w in ("dtype", "Double"))
    return Finding("error", f"{type(error).__name__}: {message} ({place})", slight)
