"""What a check finds, in words: known mistakes, a student's exceptions, the outcome of a check.

It does not know how any task is checked, and needs no torch.
"""

from __future__ import annotations

import functools
import importlib.util
import linecache
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from checks.graded_tasks import GRADED_TASKS

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or the reason why nothing could be checked."""

    kind: str  # what is wrong: "values", "gradients", …; or "error", "not started", "waits"; or of
    # what explains: "named" (a known mistake), "fact" (what was measured), "hint"
    text: str
    slight: bool = False  # may come from computing in float32 inside, which is no mistake
    name: str = ""  # of the known mistake that this is, where the check can tell


@dataclass(frozen=True)
class Mistake:
    """One known mistake, in words."""

    name: str
    says: str  # what is wrong, a sentence
    hint: str  # what to look at
    read: str  # section of a paper

    @property
    def text(self) -> str:
        """All of it, for a student."""
        return f"{self.says} {self.hint} (read {self.read})"


@dataclass(frozen=True)
class Outcome:
    """What a check came to."""

    title: str
    status: str  # "ok", "wrong", "not started", "waits" for something else, or "skipped"
    about: str = ""  # what was looked at; or what it waits for, why it was skipped
    findings: tuple[Finding, ...] = ()


EXPLAINING = {"named": "probably", "fact": "measured", "hint": "hint"}  # kind → how it is said


def faulty(findings: list[Finding]) -> list[Finding]:
    """The findings that count: not those that only explain."""
    return [finding for finding in findings if finding.kind not in EXPLAINING]


def named(mistakes: Iterable[Mistake]) -> list[Finding]:
    """What is said about known mistakes."""
    return [Finding("named", mistake.text, name=mistake.name) for mistake in mistakes]


@functools.cache
def torch_folder() -> Path:
    """Where torch lies; it is not imported."""
    return Path(importlib.util.find_spec("torch").origin).parent


def is_students(path: Path) -> bool:
    """Whether a file is a student's, wherever it lies; torch has an optimizer.py of its own."""
    if path.name in {entry.file for entry in GRADED_TASKS}:
        return not path.is_relative_to(torch_folder())
    return path.parent == ROOT and path.name not in ("sanity_check.py", "optimizer_test.py")


def describe(error: BaseException) -> Finding:
    """An exception in a student's function: its type, message and the innermost line of theirs."""
    message = " ".join(str(error).split())[:300]
    # torch raises the same type, with a text of its own, for operations it does not have.
    if isinstance(error, NotImplementedError) and (not message or message.startswith("Task ")):
        return Finding("not started", str(error))
    frames = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((Path(error.filename), error.lineno))
    path, line = ([frame for frame in frames if is_students(frame[0])] or frames)[-1]
    slight = isinstance(error, RuntimeError) and any(w in message for w in ("dtype", "Double"))
    return Finding("error", f"{type(error).__name__}: {message} ({path.name}:{line})", slight)


def import_fault(error: BaseException) -> Finding:
    """Why a file cannot be imported: the file, the error, and its line with a caret."""
    path, line, column = place_of(error)
    if path is None:
        return Finding("error", f"a file cannot be imported: {describe(error).text}")
    said = describe(error).text
    if isinstance(error, SyntaxError):
        said = f"{type(error).__name__}: {error.msg} ({path.name}:{line})"
    code = linecache.getline(str(path), line).rstrip()
    shift = len(code) - len(code.lstrip())
    lines = (f"{path.name} cannot be imported: {said}", code.strip(), " " * (column - shift) + "^")
    return Finding("error", f"\n{' ' * 12}".join(lines))


def place_of(error: BaseException) -> tuple[Path | None, int, int]:
    """Where in the student's files an error arose: file, line from 1, column from 0."""
    if isinstance(error, SyntaxError) and error.filename:
        return Path(error.filename), error.lineno or 1, max(0, (error.offset or 1) - 1)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_students(Path(frame.filename))]
    if not own:
        return None, 0, 0
    return Path(own[-1].filename), own[-1].lineno or 1, own[-1].colno or 0
