"""Judge one submission: the tasks of parts 1 and 3; of part 2, what the students' checks print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from course.grading.judging import part1
from course.grading.sandbox import protocol
from course.grading.sandbox.context import GradingContext
from course.grading.sandbox.protocol import Reply
from course.grading.types import STATUSES, Submission, Verdict

LOOP = "loop"  # of part 2, a job of the students' checks


@dataclass(frozen=True)
class Judged:
    """All that is found out about a submission's code."""

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)  # by the task's id; not of part 2
    checks: str = ""  # of part 2, what the students' own sanity_check.py prints


def grade_submission(context: GradingContext, submission: Submission) -> Judged:
    """Run a submission's code in the sandbox, and judge it; part 2's is judged by people."""
    if context.part != 2:
        return Judged(part1.grade(context, submission))
    file, sources = context.tasks[0].file, submission.sources()
    names = [*(entry.id for entry in context.tasks), LOOP]
    jobs = [protocol.job(n, "checks", {"name": n, "file": file}, sources) for n in names]
    replies = protocol.ask(context, jobs, {})
    lines = [line for name in names for line in text_in(replies[name]).splitlines(keepends=True)]
    return Judged(checks="".join(dict.fromkeys(lines)))  # a cause that several share is said once


def text_in(reply: Reply) -> str:
    """The text that came back, of which anything may be true."""
    content = reply.outputs.get("text")
    if isinstance(content, Tensor) and content.dtype == torch.uint8 and content.dim() == 1:
        return bytes(content.numpy()).decode(errors="replace")
    return f"  {STATUSES.get(reply.status, STATUSES['invalid answer'])}\n"
