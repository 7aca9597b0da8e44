"""What the grading of one assignment shares: settings, secret, staff's files for the sandbox."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.graded_tasks import GRADED_TASKS, GradedTask
from course.grading.sandbox.isolation import Bubblewrap, ChangeOfUser, Isolation, Limits
from course.handout import build, write_files
from course.settings import read_settings

ROOT = Path(__file__).resolve().parents[3]
NOT_STAGED = ("docs/", "models/", "notebooks/")  # folders that no task reads
SECONDS = 20.0  # wall time of one task


@dataclass(frozen=True)
class GradingContext:
    """All that the grading of one assignment shares."""

    part: int
    settings: Mapping[str, Any]
    tasks: tuple[GradedTask, ...]
    secret: str  # of the assignment; hidden inputs are made from it, see seed
    stage: Path  # the staff's files that the sandbox may read
    limits: Limits
    seconds: float  # wall time of one task
    isolation: Isolation

    def seed(self, student: str, sha256: str, purpose: str = "") -> int:
        """The number from which a submission's hidden inputs are made.

        The same submission gets the same ones; what one hand-in learns of them serves no other.
        """
        key = f"{self.secret}:{self.part}:{student}:{sha256}:{purpose}".encode()
        return int.from_bytes(hashlib.blake2b(key, digest_size=4).digest()) >> 1


@contextlib.contextmanager
def open_context(
    part: int,
    secret: str,
    limits: Limits | None = None,
    seconds: float = SECONDS,
    isolation: Isolation | None = None,
) -> Iterator[GradingContext]:
    """Lay out what the sandbox may read: a handout, and this package."""
    settings, isolation = read_settings(ROOT), isolation or Bubblewrap()
    tasks = tuple(task for task in GRADED_TASKS if task.part == part)
    with tempfile.TemporaryDirectory(prefix="minbert-grading-") as name:
        stage = Path(name, "stage")
        handed_out = build(ROOT, "all" if part == 3 else "2").files
        needed = {n: text for n, text in handed_out.items() if not n.startswith(NOT_STAGED)}
        write_files(stage / "handout", needed)
        own = Path(__file__).parent
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(own, stage / "staff" / own.relative_to(ROOT), ignore=without)
        for path in (stage, *stage.rglob("*")):  # whatever the umask is
            path.chmod(0o755 if path.is_dir() else 0o644)
        if isinstance(isolation, ChangeOfUser):
            Path(name).chmod(0o711)
        yield GradingContext(
            part, settings, tasks, secret, stage, limits or Limits(), seconds, isolation
        )
