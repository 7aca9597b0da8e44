"""A student's exceptions in words: what Python says, where, and what it probably means here."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checks.exceptions import meaning
from checks.findings import Finding, is_students
from checks.traces import only_a_stub
from training.files.errors import InputError

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
    if isinstance(error, NotImplementedError) and only_a_stub(error):
        return Finding("not started", str(error))
    means, message = meaning(error)[:LONGEST], message_of(error)
    slight = isinstance(error, RuntimeError) and any(w in message for w in ("dtype", "Double"))
    return Finding("error", f"{message}: {means}" if means else message, slight)


def import_fault(error: BaseException, file: str) -> Finding:
    """Why a file cannot be imported: the file, the error, its line with a caret, a remedy."""
    path, line, column = place_in_file(error)
    if path is None:
        return Finding("error", f"{file} cannot be imported: {describe(error).text}")
    code = linecache.getline(str(path), line)
    caret = " " * max(column - (len(code) - len(code.lstrip())), 0) + "^"
    lines = [f"{path.name} cannot be imported: {message_of(error)}", code.strip(), caret]
    means = meaning(error)
    return Finding("error", f"\n{' ' * 12}".join(lines + ([means] if means else [])))


def message_of(error: BaseException) -> str:
    """Type, message and innermost line of the student's."""
    words = error.msg if isinstance(error, SyntaxError) else error  # without file and line
    path, line, _ = place_in_file(error)
    frames = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    elsewhere = f"{frames[-1][0].name}:{frames[-1][1]}" if frames else ""
    if any("autograd" in file.parts for file, _ in frames):
        elsewhere = "in the backward pass"
    place = f"{path.name}:{line}" if path else elsewhere
    return f"{type(error).__name__}: {' '.join(str(words).split())[:300]} ({place})"


def place_in_file(error: BaseException) -> tuple[Path | None, int, int]:
    """Where in the student's files an error arose: file, line from 1, column from 0."""
    if isinstance(error, SyntaxError) and Path(error.filename or "").is_file():
        return Path(error.filename), error.lineno or 1, max(0, (error.offset or 1) - 1)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_students(Path(frame.filename))]
    if not own:
        return None, 0, 0
    return Path(own[-1].filename), own[-1].lineno or 1, own[-1].colno or 0
