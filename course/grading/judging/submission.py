"""Judge one submission: its tasks, what of torch its code ran, what the students' checks print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from checks.graded_tasks import GradedTask
from course.grading.judging import part1
from course.grading.sandbox import protocol
from course.grading.sandbox.context import GradingContext
from course.grading.sandbox.protocol import Reply
from course.grading.sandbox.runs import RECORDED
from course.grading.types import STATUSES, Submission, Verdict

SAYS_MORE = ("wrong", "waits", "crashed")  # statuses of tasks whose checks are run
LOOP = "loop"  # of part 2, a job of the students' checks
UNDER_CAUSE = "  waits "  # what the checks print of a task after the cause, which is in its file


@dataclass(frozen=True)
class Judged:
    """All that is found out about a submission's code."""

    verdicts: Mapping[str, Verdict]  # by the task's id; of part 2 there are none
    calls: tuple[str, ...] = ()  # of torch's own attention, layers, optimizers: for staff
    checks: str = ""  # what the students' own sanity_check.py prints of what is not right


def grade_submission(context: GradingContext, submission: Submission) -> Judged:
    """Run a submission's code in the sandbox, and judge it."""
    if context.part == 2:  # people judge the code, the scores of its predictions count
        file = context.tasks[0].file
        files = dict.fromkeys([*(entry.id for entry in context.tasks), LOOP], file)
        return Judged({}, checks=checks_text(context, submission, files))
    verdicts, replies = part1.grade(context, submission)
    more = [entry for entry in context.tasks if verdicts[entry.id].status in SAYS_MORE]
    files = {entry.id: entry.file for entry in more}
    calls = tuple(calls_in(context.tasks, replies))
    return Judged(verdicts, calls, checks_text(context, submission, files))


def calls_in(tasks: Iterable[GradedTask], replies: Mapping[str, Reply]) -> Iterator[str]:
    """A sentence for each task that ran something of torch's own that it asks students to write."""
    for entry in tasks:
        counts = replies[entry.id].outputs.get("calls") if entry.id in replies else None
        readable = isinstance(counts, Tensor) and counts.shape == (len(RECORDED),)
        for kind, count in zip(RECORDED, counts.tolist() if readable else (), strict=False):
            if count:
                yield f"Task {entry.number} ran torch's own {kind}"


def checks_text(context: GradingContext, submission: Submission, files: Mapping[str, str]) -> str:
    """What sanity_check.py prints about some jobs; a cause that several share is said once.

    Args:
        files: of each job the file that it is about.
    """
    jobs = [
        protocol.job(f"checks {name}", "checks", {"name": name, "file": file}, submission.sources())
        for name, file in files.items()
    ]
    replies = protocol.ask(context, jobs, {}) if jobs else {}
    texts, causes = [], set()
    for job in jobs:
        cause, waits, task = text_in(replies[job["name"]]).rpartition(UNDER_CAUSE)
        texts.append(("" if waits and cause in causes else cause) + waits + task)
        causes.add(cause)
    return "".join(texts)


def text_in(reply: Reply) -> str:
    """The text that came back, of which anything may be true."""
    content = reply.outputs.get("text")
    if isinstance(content, Tensor) and content.dtype == torch.uint8 and content.dim() == 1:
        return bytes(content.numpy()).decode(errors="replace")
    return f"  {STATUSES.get(reply.status, STATUSES['invalid answer'])}\n"
