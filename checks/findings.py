"""What a check finds: the comparison of tensors, and a student's exceptions in words.

It does not know any task.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from checks.fingerprints import Mistake

ROOT = Path(__file__).resolve().parents[1]


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
    scripts = set(ROOT.glob("*.py")) - {ROOT / "sanity_check.py", ROOT / "optimizer_test.py"}
    theirs = [frame for frame in frames if Path(frame.filename) in scripts] or frames
    place = f"{Path(theirs[-1].filename).name}:{theirs[-1].lineno}"
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{Path(error.filename).name}:{error.lineno}"
    slight = isinstance(error, RuntimeError) and any(w in message for w in ("dtype", "Double"))
    return Finding("error", f"{type(error).__name__}: {message} ({place})", slight)
