"""What the grading of one assignment shares: settings, secret, staff's files for the sandbox."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checks.graded_tasks import GradedTask
from course import handout, table
from course.grading.sandbox.confine import Limits
from course.grading.sandbox.isolation import Bubblewrap, Isolation
from course.handout_checks import write_files

ROOT = Path(__file__).resolve().parents[3]
# Of this folder, what the sandbox needs
INSIDE = ("__init__", "confine", "runs", "worker")
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
    lock: threading.Lock = field(
        default_factory=threading.Lock
    )  # torch's default type is one for all

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
    """Lay out the staff's files: the handout, for part 2 also our part 1, and the worker."""
    settings = table.read_settings(ROOT)
    tasks = tuple(t for t in table.course_tasks(settings) if t.part == part)
    with new_stage() as stage:
        write_files(stage / "handout", handout.build(ROOT, "3" if part == 3 else "2").files)
        if part == 2:
            solved = handout.build(ROOT, "2", with_solution=True).files
            names = {t.file for t in table.course_tasks(settings) if t.part == 1}
            write_files(stage / "solution", {name: solved[name] for name in names})
        inside = stage / "staff" / "course" / "grading" / "sandbox"
        inside.mkdir(parents=True)
        for name in INSIDE:
            shutil.copy(Path(__file__).with_name(f"{name}.py"), inside)
        open_to_others(stage)
        yield GradingContext(
            part,
            settings,
            tasks,
            secret,
            stage,
            limits or Limits(),
            seconds,
            isolation or Bubblewrap(),
        )


@contextlib.contextmanager
def new_stage() -> Iterator[Path]:
    """A folder for what the sandbox may see, in one that nobody else can enter; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="minbert-grading-") as name:
        stage = Path(name) / "stage"
        stage.mkdir()
        yield stage


def open_to_others(folder: Path) -> None:
    """Let the sandbox's user read a folder, whatever the umask is."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
