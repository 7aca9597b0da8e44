"""Results of an earlier run of the grader: which of them are kept."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from course.grading.types import STAFF_ERROR, Result, Submission

ROOT = Path(__file__).resolve().parents[2]


def grader_digest() -> str:
    """Of all that decides a grade: results of another grader or other settings are not reused."""
    patterns = ["*.py", "course/**/*.py", "course/*.toml", "training/**/*.py"]
    patterns += ["checks/**/*.py", "checks/*.toml", "sanity_check.data", "optimizer_test.npy"]
    digest = hashlib.sha256()
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def read_result(path: Path) -> Result | None:
    """A result that was written before; None where there is none that this version reads."""
    try:
        return Result.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_current(result: Result | None, submission: Submission, grader: str) -> bool:
    """Whether a result is of this submission and grader, and not a staff error."""
    if result is None or result.status == STAFF_ERROR:
        return False
    return (result.sha256, result.grader) == (submission.sha256, grader)
