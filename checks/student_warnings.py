"""What Python or torch warns of while a student's code runs, with the student's line."""

from __future__ import annotations

import contextlib
import re
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

from checks.findings import Finding, is_students

INTERNAL = re.compile(r" *\(Triggered internally at .*?\)")


@contextlib.contextmanager
def collected() -> Iterator[list[Finding]]:
    """While active, warnings that a student's line causes are collected, others are left out."""
    findings: list[Finding] = []

    def show(message, category, filename, lineno, file=None, line=None) -> None:
        path = Path(filename)
        # torch names its caller, which may be ours
        if place := f"{path.name}:{lineno}" if is_students(path) else students_line():
            text = INTERNAL.sub("", " ".join(str(message).split()))
            finding = Finding("warning", f"{category.__name__}: {text} ({place})")
            findings.extend([finding] if finding not in findings else [])

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield findings


def students_line() -> str:
    """The innermost line of the student's code that is running: file:line; "" if there is none."""
    stack = ((Path(frame.f_code.co_filename), line) for frame, line in traceback.walk_stack(None))
    return next((f"{path.name}:{line}" for path, line in stack if is_students(path)), "")
