"""Judge one submission: the sandbox runs functions on inputs, numbers are compared with ours here.

Part 2 is judged by people, who see what its checks print.
"""

from __future__ import annotations

import threading

from checks.graded_tasks import GradedTask
from checks.inputs import is_given
from checks.references import load_references
from course.grading.judging import hidden, judge
from course.grading.judging.hidden import SOLVED
from course.grading.judging.judge import HIDDEN, INIT, OPTIMIZER, PUBLIC
from course.grading.sandbox import protocol
from course.grading.sandbox.context import GradingContext
from course.grading.sandbox.protocol import Reply
from course.grading.sandbox.runs import DTYPES
from course.grading.types import STATUSES, Submission, Verdict
from prepare_submit import CODE

ONE_AT_A_TIME = threading.Lock()  # torch's default type is one for all threads
LOOP = "loop"  # of part 2, a job of the students' checks


def checks_text(context: GradingContext, submission: Submission) -> str:
    """What the students' own sanity_check.py prints of part 2, of which anything may be true."""
    file, sources = context.tasks[0].file, submission.sources()
    names = [*(entry.id for entry in context.tasks), LOOP]
    jobs = [protocol.job(n, "checks", {"name": n, "file": file}, sources) for n in names]
    lines: list[str] = []
    for reply in protocol.ask(context, jobs, {}).values():
        text = reply.outputs.get("text")
        if not isinstance(text, str):
            text = f"  {STATUSES.get(reply.status, STATUSES['invalid answer'])}\n"
        lines += text.splitlines(keepends=True)
    return "".join(dict.fromkeys(lines))  # a cause that several share is said once


def jobs_for(entry: GradedTask, submission: Submission, optimizer_seed: int) -> list[protocol.Job]:
    """What the sandbox has to run for a task whose file was handed in.

    Each way of running it is a job of its own: one that does not end costs the others nothing.
    """
    # it may import the student's own modules; all else is ours
    files = submission.sources(CODE) | {entry.file: submission.files[entry.file].decode()}
    if entry.id == OPTIMIZER:
        return [protocol.job(entry.id, "optimizer", {"seed": optimizer_seed}, files)]
    jobs = []
    for name, task_id in hidden.runs_of(entry).items():  # see runs.part_1
        runs = [[f"{name} {dtype}", HIDDEN, dtype, task_id, name == SOLVED] for dtype in DTYPES]
        runs.append([f"{PUBLIC} {name}", PUBLIC, "float64", task_id, name == SOLVED])
        arguments = {"task_id": entry.id, "runs": runs}
        jobs.append(protocol.job(f"{entry.id} {name}", "part_1", arguments, files))
    return jobs


def verdicts_on(context: GradingContext, submission: Submission) -> dict[str, Verdict]:
    """The verdict on each task by its id."""
    whose = (submission.student, submission.sha256)
    seed = context.seed(*whose)
    optimizer_seed = context.seed(*whose, "optimizer")  # the sandbox knows this one
    entries = [entry for entry in context.tasks if entry.file in submission.files]
    ids = {entry.id for entry in entries}
    made, expected, tensors = None, {}, {}
    with ONE_AT_A_TIME:
        if OPTIMIZER in ids:
            expected = hidden.trajectories(optimizer_seed)
        if ids - {OPTIMIZER}:
            made = hidden.make(seed, context.part)
            # of the references, what functions are run on, without the right results
            tensors = {f"{PUBLIC}/{k}": t for k, t in load_references().items() if is_given(k)}
            tensors |= {f"{HIDDEN}/{k}": t for k, t in made.inputs.items()}
    jobs = {entry.id: jobs_for(entry, submission, optimizer_seed) for entry in entries}
    replies = protocol.ask(context, [job for of_task in jobs.values() for job in of_task], tensors)
    verdicts: dict[str, Verdict] = {}
    for entry in context.tasks:
        own = [replies.get(job["name"], Reply("missing")) for job in jobs.get(entry.id, ())]
        outputs = {name: output for reply in own for name, output in reply.outputs.items()}
        if not outputs:
            verdict = judge.without_results(entry, own[0].status if own else "missing")
        elif entry.id == OPTIMIZER:
            verdict = judge.judge_optimizer(entry, outputs, expected, optimizer_seed)
        else:
            init_is_right = INIT not in verdicts or verdicts[INIT].status == "right"
            verdict = judge.judge_part_1(entry, outputs, made, init_is_right)
            if own[0].status != "ran" and verdict.status != "right":
                verdict = judge.without_results(entry, own[0].status)
        verdicts[entry.id] = verdict
    return verdicts
