"""A student's exceptions in words: what Python says, where, and what it probably means here."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checks.exceptions import meaning
from checks.findings import Finding
from checks.traces import only_a_stub, place_of
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
    """Why a file cannot be imported: the file with the fault, the exception, what it means."""
    name = line_of(error).partition(":")[0] or file
    return Finding("error", f"{name} cannot be imported: {describe(error).text}")


def message_of(error: BaseException) -> str:
    """Type, message and innermost line of the student's."""
    words, code = str(error), ""
    if isinstance(error, SyntaxError):  # str adds file and line
        words, code = error.msg, f": `{error.text.strip()}`" if error.text else ""
    frames = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    elsewhere = f"{frames[-1][0].name}:{frames[-1][1]}" if frames else ""
    if any("autograd" in file.parts for file, _ in frames):
        elsewhere = "in the backward pass"
    place = line_of(error) or elsewhere
    return f"{type(error).__name__}: {' '.join(words.split())[:300]} ({place}){code}"


def line_of(error: BaseException) -> str:
    """Where in the student's files an error arose, as bert.py:12; "" if it did not."""
    if isinstance(error, SyntaxError) and Path(error.filename or "").is_file():
        return f"{Path(error.filename).name}:{error.lineno or 1}"
    place = place_of(error)
    return f"{place.path.name}:{place.line}" if place else ""
