"""What one step of the walk hands to the next, and the words for how a task ended.

    zip → Submission (intake) → outputs (sandbox) → Verdict (judging) → Result (points) → pages

Everything here is data: a Result is written to results/ID.json, as dataclasses.asdict has it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checks.findings import Mistake

# How a task ended, the only vocabulary of statuses: what is said of it to the student.
STATUSES = {
    "right": "right",
    "wrong": "wrong",
    "not started": "not started",
    "waits": "calls a function that is not written yet",
    "missing": "the file was not handed in",
    "crashed": "the program ended before it gave an answer",
    "timeout": "did not end within the time limit, and was stopped",
    "memory": "needed more memory than the limit",
    "disk": "wrote more, or more files, than the limit",
    "invalid answer": "gave back something that cannot be read",
    "marked": "marked by people, or earned by predictions",
    "not marked": "not marked yet",
}
GRADED, REFUSED, STAFF_ERROR = "graded", "refused", "staff error"  # how a submission ended
RIGHT, WRONG, NOT_COUNTED = "right", "wrong", "not counted"  # what became of a row of a task


@dataclass(frozen=True)
class Submission:
    """What was taken from one student's zip or folder."""

    student: str  # letters and digits of any script, _ and - only: it names files
    part: int
    files: Mapping[str, bytes] = field(default_factory=dict)  # path in the repository → content
    notes: tuple[str, ...] = ()  # what was repaired or left out, for the student
    refused: str = ""  # why nothing was taken
    sha256: str = ""  # of what was handed in

    def sources(self, others: Collection[str] = ()) -> dict[str, str]:
        """Its Python files as text, but those of some names."""
        return {
            name: content.decode()
            for name, content in self.files.items()
            if name.endswith(".py") and name not in others
        }


@dataclass(frozen=True)
class Verdict:
    """What is right and wrong about one task, before points."""

    status: str  # of STATUSES
    rows: Mapping[str, str] = field(default_factory=dict)  # what is looked at → RIGHT, WRONG, …
    messages: tuple[str, ...] = ()  # for the student
    mistakes: tuple[Mistake, ...] = ()  # known ones that the results show
    cost: float | None = None  # fraction of the task's points that these mistakes cost


@dataclass(frozen=True)
class Row:
    """One row of a task's points."""

    what: str
    outcome: str  # RIGHT, WRONG, NOT_COUNTED
    points: float
    of: float


@dataclass(frozen=True)
class TaskResult:
    """One task, or another row that people mark or predictions earn, with its points."""

    number: str  # of a task; else the row's name
    title: str
    status: str  # of STATUSES
    points: float | None  # None: nobody has given them yet
    of: float
    rows: Sequence[Row] = ()
    messages: Sequence[str] = ()
    mistakes: Sequence[Mistake] = ()


@dataclass(frozen=True)
class Score:
    """One file of predictions against the labels."""

    file: str
    data: str  # "sst", "cfimdb", "para", "sts"
    split: str  # "dev", "test"
    option: str  # of part 1: "pretrain", "finetune"; else ""
    metric: str
    value: float | None = None  # None: not scored, faults say why
    faults: Sequence[str] = ()
    contents: str = ""  # digest of the predictions, whatever the order of rows; "": no file

    @property
    def key(self) -> str:
        """Such as finetune-sst-test, or sst-test."""
        return "-".join(filter(None, (self.option, self.data, self.split)))


@dataclass(frozen=True)
class Result:
    """All there is to know of one graded submission."""

    student: str
    part: int
    status: str  # GRADED, REFUSED, STAFF_ERROR
    sha256: str = ""
    grader: str = ""  # digest of all that decides a grade
    why: str = ""  # it was refused, or the grader failed
    notes: Sequence[str] = ()
    tasks: Sequence[TaskResult] = ()
    scores: Sequence[Score] = ()
    named: Sequence[str] = ()  # of torch's own layers and optimizers, by the code, for staff
    checks: str = ""  # of part 2, what the students' own sanity_check.py prints, worth nothing

    @property
    def points(self) -> float:
        """All points given so far."""
        return sum(task.points for task in self.tasks if task.points is not None)

    @property
    def of(self) -> float:
        """The most that can be had for what has been given so far."""
        return sum(task.of for task in self.tasks if task.points is not None)

    @property
    def unmarked(self) -> list[str]:
        """The rows that nobody has marked yet."""
        return [task.number for task in self.tasks if task.points is None]

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Result:
        """What to_json made; TypeError or KeyError where it is of another version."""
        tasks = []
        for task in table["tasks"]:
            rows = [Row(**row) for row in task["rows"]]
            mistakes = [Mistake(**mistake) for mistake in task["mistakes"]]
            tasks.append(TaskResult(**task | {"rows": rows, "mistakes": mistakes}))
        scores = [Score(**score) for score in table["scores"]]
        return cls(**table | {"tasks": tasks, "scores": scores})
