"""What Python or torch warns of while a student's code runs, with the student's line."""

from __future__ import annotations

import contextlib
import re
import sys
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
        frame, path = sys._getframe(1), Path(filename)
        while frame and not is_students(path):  # torch names its caller, which may be ours
            path, lineno, frame = Path(frame.f_code.co_filename), frame.f_lineno, frame.f_back
        if is_students(path):
            text = INTERNAL.sub("", " ".join(str(message).split()))
            finding = Finding("warning", f"{category.__name__}: {text} ({path.name}:{lineno})")
            findings.extend([finding] if finding not in findings else [])

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield findings
