"""What a check finds, in words: findings, known mistakes, the outcome; whose a file is.

It needs no torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from checks.graded_tasks import GRADED_TASKS

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or the reason why nothing could be checked."""

    kind: str  # what is wrong: "values", "gradients", …; or "error", "not started", "waits"; or of
    # what explains, a key of EXPLAINING
    text: str
    slight: bool = False  # in float64 alone: an exception where types are mixed
    name: str = ""  # of the known mistake that this is, where the check can tell
    output: str = ""  # the name of the output that is wrong


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


CHANGED_IN_PLACE = (
    "`{}`, which was given, is changed in place: the caller goes on with another tensor than "
    "before; make a new one (x = x + y, not x += y, and no method whose name ends in _)"
)
EXPLAINING = {  # kind → how it is said, from which level of hints on; in this order
    "property": ("does not hold", 2),
    "fact": ("measured", 2),
    "named": ("probably", 3),  # a known mistake
    "explained": ("explained", 3),  # the same, where it is certain
    "left": ("measured", 3),  # what known mistakes do not explain
    "hint": ("hint", 1),  # about what is not wrong
}
ALL = 3  # the level that says everything


def faulty(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that count: not those that only explain."""
    return [finding for finding in findings if finding.kind not in EXPLAINING]


def is_unknown(findings: Iterable[Finding]) -> bool:
    """Whether a property does not hold, and nothing says why: no known mistake, no fact."""
    return {f.kind for f in findings if EXPLAINING.get(f.kind, ("", 1))[1] > 1} == {"property"}


def is_students(path: Path) -> bool:
    """Whether a file is a student's, wherever it lies; torch's optim/optimizer.py is not."""
    if path.name in {Path(entry.file).name for entry in GRADED_TASKS}:
        return path.parent.name != "optim"
    return path.parent == ROOT and path.name not in ("sanity_check.py", "optimizer_test.py")
