"""What a check finds: the comparison of tensors, and a student's exceptions in words.

It does not know how any task is checked.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from checks.exceptions import meaning
from checks.fingerprints import Mistake
from checks.traces import ROOT, is_students, only_a_stub

__all__ = ["ROOT", "is_students"]  # read here by all checks
LONGEST = 600  # characters of what an exception means


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or the reason why nothing could be checked."""

    kind: str  # what is wrong: "values", "gradients", …; or "error", "not started", "waits"; or of
    # what explains: "named" (a known mistake), "fact" (what was measured), "hint"
    text: str
    slight: bool = False  # may come from computing in float32 inside, which is no mistake
    name: str = ""  # of the known mistake that this is, where the check can tell


EXPLAINING = {"named": "probably", "fact": "measured", "hint": "hint"}  # kind → how it is said


def faulty(findings: list[Finding]) -> list[Finding]:
    """The findings that count: not those that only explain."""
    return [finding for finding in findings if finding.kind not in EXPLAINING]


def explanations(findings: list[Finding]) -> list[str]:
    """What the others say, each with how sure that is."""
    return [f"{EXPLAINING[f.kind]}: {f.text}" for f in findings if f.kind in EXPLAINING]


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
    """An exception in a student's function: type, message, innermost line, and what it means."""
    said = error.msg if isinstance(error, SyntaxError) else error  # without file and line
    message = " ".join(str(said).split())[:300]
    if isinstance(error, NotImplementedError) and only_a_stub(error):
        return Finding("not started", str(error))
    frames = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((Path(error.filename), error.lineno))
    path, line = ([frame for frame in frames if is_students(frame[0])] or frames)[-1]
    slight = isinstance(error, RuntimeError) and any(w in message for w in ("dtype", "Double"))
    told = f": {meant[:LONGEST]}" if (meant := meaning(error)) else ""
    text = f"{type(error).__name__}: {message} ({path.name}:{line}){told}"
    return Finding("error", text, slight)
