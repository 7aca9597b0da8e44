"""Task 1.8: what fraction of the known mistakes a student's own tests catch, of five functions.

Our solution's file goes into the sandbox many times, with a known mistake or with a correct
solution in it, in random order and under numbers. A test that fails a correct one is worth nothing.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from torch import Tensor

from checks.graded_tasks import GradedTask, graded_task
from checks.hunt.mutants import FunctionText
from checks.hunt.student_tests import TEST_OF, TESTS, faults_of
from course.answers import MARKER, MISTAKES, VARIANTS, put, read_all
from course.grading.intake import parse
from course.grading.judging.types import Submission
from course.grading.sandbox import protocol
from course.grading.sandbox.context import ROOT, GradingContext
from course.grading.sandbox.protocol import Reply

FILES = ("bert.py", "optimizer.py")
ENDS = {-1: "it is not started", -2: "it ends Python"}  # instead of whether it fails
CHUNK = 25  # implementations a job, which has the time of one task


@dataclass(frozen=True)
class Implementation:
    """A task's file with a known mistake in it, or with a correct solution."""

    source: str
    right: bool
    says: str  # what is wrong with it, or how it differs from ours


@cache
def implementations(entry: GradedTask) -> list[Implementation]:
    """What a task's test is tried with: correct solutions that take what the stub does."""
    made = []
    for folder in (VARIANTS, MISTAKES):
        for answer in read_all(folder, entry.id):
            for version in answer.versions if folder == VARIANTS else [answer.first]:
                source = put(answer, version)
                if folder == MISTAKES or arguments(entry, source) == arguments(entry):
                    made.append(Implementation(source, folder == VARIANTS, answer.says))
    return made


def arguments(entry: GradedTask, source: str = "") -> list[str]:
    """The names of a function's arguments, in our file or another one."""
    source = source or (ROOT / entry.file).read_text("utf-8")
    return [argument.arg for argument in FunctionText(entry, source).node.args.args]


def grade(context: GradingContext, submission: Submission) -> tuple[float, str]:
    """The mean of the fractions of mistakes that the tests catch, and a note about each test."""
    if TESTS not in submission.files:
        return 0.0, f"{TESTS} was not handed in"
    tests = submission.files[TESTS].decode()
    order = random.Random(context.seed(submission.student, submission.sha256, TESTS))
    with parse.ONE_AT_A_TIME:
        faults = faults_of(tests)
        tried = {task_id: list(implementations(graded_task(task_id))) for task_id in TEST_OF}
    if faults:
        return 0.0, faults[0]
    files = {name: MARKER.sub("", (ROOT / name).read_text("utf-8")) for name in FILES}
    chunks: dict[str, list[Implementation]] = {}
    for task_id, made in tried.items():
        order.shuffle(made)
        chunks |= {f"{task_id} {i}": made[i : i + CHUNK] for i in range(0, len(made), CHUNK)}
    jobs = [
        protocol.job(
            name,
            "tests",
            {
                "task_id": name.split()[0],
                "tests": tests,
                "sources": [implementation.source for implementation in chunk],
            },
            files,
        )
        for name, chunk in chunks.items()
    ]
    replies = protocol.ask(context, jobs, {})
    judged = {
        test: judge([(chunks[n], replies[n]) for n in chunks if n.split()[0] == task_id])
        for task_id, test in TEST_OF.items()
    }
    note = "; ".join(f"{test}: {note}" for test, (_, note) in judged.items())
    return sum(share for share, _ in judged.values()) / len(judged), note


def judge(chunks: list[tuple[list[Implementation], Reply]]) -> tuple[float, str]:
    """The fraction of mistakes that one test catches, 0 if it fails a correct solution; a note."""
    caught, mistakes = 0, 0
    for chunk, reply in chunks:
        failed = reply.outputs.get("failed")
        if reply.status != "ran":
            return 0.0, protocol.LACKING[reply.status]
        if not isinstance(failed, Tensor) or failed.shape != (len(chunk),):
            return 0.0, protocol.LACKING["invalid answer"]
        for code, why in ENDS.items():
            if (failed == code).any():
                return 0.0, why
        for implementation, fails in zip(chunk, failed.tolist(), strict=True):
            if fails and implementation.right:
                return 0.0, (
                    "it fails a correct solution, so it asks for what need not hold; that solution "
                    f"differs so: {implementation.says}"
                )
            mistakes += not implementation.right
            caught += bool(fails)
    return caught / mistakes, f"it catches {caught} of {mistakes} known mistakes"
