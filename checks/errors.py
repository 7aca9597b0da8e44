"""A student's exceptions in words: what Python says, where, and what it probably means here."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checks.exceptions import meaning
from checks.findings import Finding, is_students
from checks.traces import marked, only_a_stub
from training.files.errors import InputError
from training.files.imports import with_imported

LONGEST = 600  # characters of what an exception means


def attempt(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a function returns, or the exception that a student's code in it raises."""
    try:
        return function(*arguments, **options)
    except InputError:  # a file of the course's own is damaged
        raise
    except (Exception, SystemExit) as error:
        return error


def describe(error: BaseException) -> Finding:
    """An exception in a student's function: type, message, innermost line, and what it means."""
    finding, means = bare(error), meaning(error)
    if finding.kind != "error" or not means:
        return finding
    return Finding("error", f"{finding.text}: {means[:LONGEST]}", finding.slight)


def bare(error: BaseException) -> Finding:
    """The same without what it means."""
    words = error.msg if isinstance(error, SyntaxError) else error  # without file and line
    message = " ".join(str(words).split())[:300]
    if isinstance(error, NotImplementedError) and only_a_stub(error):
        return Finding("not started", str(error))
    path, line, _ = place_in_file(error)
    place = f"{path.name}:{line}" if path else elsewhere(error)
    slight = isinstance(error, RuntimeError) and any(w in message for w in ("dtype", "Double"))
    return Finding("error", f"{type(error).__name__}: {message} ({place})", slight)


def import_fault(error: BaseException, file: str) -> Finding:
    """Why a file cannot be imported: the file, the error, its line with a caret, a remedy."""
    if fault := nul_fault(error, file):
        return Finding("error", fault)
    path, line, column = place_in_file(error)
    if path is None:
        return Finding("error", f"a file cannot be imported: {describe(error).text}")
    code = linecache.getline(str(path), line)
    lines = [f"{path.name} cannot be imported: {bare(error).text}", *marked(code, column)]
    if means := meaning(error):
        lines.append(means)
    return Finding("error", f"\n{' ' * 12}".join(lines))


def nul_fault(error: BaseException, script: str) -> str:
    """Where the NUL byte is that ended a script's import, as Python does not say it, or ""."""
    is_reason = isinstance(error, SyntaxError | ValueError) and "null bytes" in str(error)
    files = with_imported([script]) if is_reason else []
    for path in filter(Path.is_file, files):
        before, nul, _ = path.read_bytes().partition(b"\0")
        if nul:
            line = before.count(b"\n") + 1
            return f"{path}, line {line} has a NUL byte, so it is not text; save it as UTF-8"
    return ""


def place_in_file(error: BaseException) -> tuple[Path | None, int, int]:
    """Where in the student's files an error arose: file, line from 1, column from 0."""
    if isinstance(error, SyntaxError) and Path(error.filename or "").is_file():
        return Path(error.filename), error.lineno or 1, max(0, (error.offset or 1) - 1)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_students(Path(frame.filename))]
    if not own:
        return None, 0, 0
    return Path(own[-1].filename), own[-1].lineno or 1, own[-1].colno or 0


def elsewhere(error: BaseException) -> str:
    """Where an error arose that went through none of the student's files."""
    frames = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if any("autograd" in path.parts for path, _ in frames):
        return "in the backward pass"
    path, line = frames[-1]
    return f"{path.name}:{line}"
