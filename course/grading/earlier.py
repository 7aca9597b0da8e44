"""Results of an earlier run of the grader: which of them are kept."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from course.grading.judging.types import Submission

ROOT = Path(__file__).resolve().parents[2]
STAFF_ERROR = "staff error"


def grader_digest() -> str:
    """Of all that decides a grade: results of another grader, table or settings are not reused."""
    patterns = ["*.py", "course/**/*.py", "course/**/*.txt", "course/*.toml", "training/**/*.py"]
    patterns += ["checks/**/*.py", "checks/*.toml", "sanity_check.data", "optimizer_test.npy"]
    digest = hashlib.sha256()
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def is_graded(path: Path, grader: str, submission: Submission) -> bool:
    """Whether a file has the result of this submission and grader, which is not a staff error."""
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    same = result.get("grader") == grader and result.get("sha256") == submission.sha256
    return same and result.get("status") != STAFF_ERROR
