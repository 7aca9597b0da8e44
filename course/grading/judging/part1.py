"""The tasks of part 1: functions run in the sandbox, their numbers are compared with ours here."""

from __future__ import annotations

from dataclasses import asdict

from torch import Tensor

from checks.part1.references import load_references
from checks.part1.runners import groups_of
from checks.part1.stand_ins import STAND_INS
from course.grading.judging import hidden, judge, partial
from course.grading.judging.types import Submission
from course.grading.sandbox import protocol
from course.grading.sandbox.context import GradingContext
from course.grading.sandbox.protocol import OPTIMIZER, Reply
from prepare_submit import CODE

PERIOD = 143  # the optimizer's gradients and first values repeat after so many seeds


def public_inputs() -> dict[str, Tensor]:
    """Of the references, what a student's function is run on, without the right results."""
    stand_ins = {f"bert.layer/{k}/{n}" for k in ("values", "dropout") for n in STAND_INS}
    return {
        name: tensor
        for name, tensor in load_references().items()
        if name.startswith(("weights/", "bert.layer/replay/"))
        or name.split("/")[1] == "inputs"
        or name in stand_ins
    }


def jobs_for(context: GradingContext, submission: Submission, seed: int) -> list[dict]:
    """One job for each task whose file was handed in."""
    jobs = []
    for entry in context.tasks:
        if entry.file not in submission.files:
            continue
        if entry.id == OPTIMIZER:
            run = "course.grading.sandbox.runs:optimizer"
            cases = [asdict(case) for case in hidden.make_cases(seed)]
            arguments = {"cases": cases, "seed": seed % PERIOD}
        else:
            run = "course.grading.sandbox.runs:part_1"
            runs = [
                [f"{name} {dtype}", inputs, dtype, options]
                for name, (inputs, options) in hidden.runs_of(entry).items()
                for dtype in judge.DTYPES
            ]
            runs += [
                [f"{judge.PUBLIC} {group}", judge.PUBLIC, "float64", options]
                for group, options in groups_of(entry.id).items()
            ]
            arguments = {"task_id": entry.id, "runs": runs}
        files = own_modules(submission) | {entry.file: submission.files[entry.file].decode()}
        job = {"name": entry.id, "run": run, "arguments": arguments, "files": files}
        jobs.append(job | {"folders": [], "seconds": context.seconds})
    return jobs


def own_modules(submission: Submission) -> dict[str, str]:
    """The student's own modules, which the graded files may import; all else is ours."""
    return {
        name: content.decode()
        for name, content in submission.files.items()
        if name.endswith(".py") and name not in CODE
    }


def grade(
    context: GradingContext, submission: Submission
) -> tuple[dict[str, judge.Verdict], list[str]]:
    """The verdict on each task, by its id, and the sandbox's layers."""
    seed = context.seed(submission.student)
    jobs = jobs_for(context, submission, seed)
    sets, expected, tensors = {}, {}, {}
    with context.lock:
        if any(job["name"] == OPTIMIZER for job in jobs):
            expected = hidden.trajectories(hidden.make_cases(seed), seed % PERIOD)
        if any(job["name"] != OPTIMIZER for job in jobs):
            sets = hidden.make(seed)
            tensors = {f"{judge.PUBLIC}/{k}": t for k, t in public_inputs().items()}
    tensors |= {f"{name}/{k}": t for name, inputs in sets.items() for k, t in inputs.inputs.items()}
    answers, layers = protocol.ask(context, jobs, tensors)
    verdicts: dict[str, judge.Verdict] = {}
    for entry in context.tasks:
        answer = answers.get(entry.id, Reply("missing"))
        if answer.status != "ran":
            verdicts[entry.id] = judge.nothing(entry, answer.status)
        elif entry.id == OPTIMIZER:
            verdicts[entry.id] = judge.judge_optimizer(entry, answer.outputs, expected)
        else:
            verdicts[entry.id] = judge.judge_part_1(entry, answer.outputs, sets, verdicts)
            with context.lock:
                partial.add(entry, verdicts[entry.id], answer.outputs, sets)
    return verdicts, layers
