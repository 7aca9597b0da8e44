"""Two submissions whose grades are known, graded before all others in the sandbox of the day.

The solution has to get all points, one known mistake has to cost some and be named. Where that is
not what comes out, something is wrong with this machine or with the grader, and honest submissions
would pay for it: then grading does not begin.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from course.answers import MARKER, MISTAKES, VARIANTS, put, read
from course.grading.judging.submission import grade_tasks, task_result
from course.grading.judging.types import Submission
from course.grading.pages.output import clean
from course.grading.sandbox.context import ROOT, GradingContext
from training.files.errors import InputError

KNOWN_MISTAKES = {
    1: ("bert.attention", "no_scale"),
    2: ("multitask.forward", "padding_pooled"),
    3: ("modern.rotary", "interleaved"),
}


def check(context: GradingContext, at_a_time: int) -> None:
    """Grade both, side by side where two may run at a time.

    Raises:
        InputError: something else than what has to come out.
    """
    pairs = zip(submissions(context), ("", KNOWN_MISTAKES[context.part][1]), strict=True)
    with ThreadPoolExecutor(min(at_a_time, 2)) as pool:
        waiting = [pool.submit(fault, context, submission, name) for submission, name in pairs]
        # Not in the pool's end: Python 3.11 takes a thread whose join is interrupted for ended,
        # and a thread that is still in torch when Python ends aborts the process
        outcomes = [future.result() for future in waiting]
    if faults := [outcome for outcome in outcomes if outcome]:
        raise InputError(f"grading does not begin: in this sandbox {'; '.join(faults)}")


def submissions(context: GradingContext) -> tuple[Submission, Submission]:
    """Our solution, and the same with one known mistake in it."""
    names = {entry.file for entry in context.tasks}
    if context.part != 2:
        right = {name: MARKER.sub("", (ROOT / name).read_text("utf-8")) for name in names}
    else:
        plain = read(VARIANTS, "multitask/plain")
        stubs = {name: (context.stage / "handout" / name).read_text("utf-8") for name in names}
        right = {name: put(plain, source=text) for name, text in stubs.items()}
    task_id, name = KNOWN_MISTAKES[context.part]
    mistake = read(MISTAKES, f"{task_id}/{name}")
    file = mistake.task.file
    wrong = right | {file: put(mistake, source=right[file])}
    both = ({name: text.encode() for name, text in files.items()} for files in (right, wrong))
    return tuple(Submission("canary", context.part, files) for files in both)


def fault(context: GradingContext, submission: Submission, mistake: str) -> str:
    """What is wrong with how a submission is graded; "": nothing.

    Args:
        mistake: the known one in it; "" is the solution.
    """
    try:
        verdicts = grade_tasks(context, submission)
    except Exception as error:  # whatever it is, each submission would meet it
        return clean(f"the grader fails with {error!r}", 500)
    tasks = [task_result(entry, verdicts[entry.id], context.settings) for entry in context.tasks]
    lost = [task for task in tasks if task["points"] < task["of"]]
    if mistake:
        task_id = KNOWN_MISTAKES[context.part][0]
        number = next(entry.number for entry in context.tasks if entry.id == task_id)
        named = {task["number"] for task in lost if mistake in task["mistakes"]}
        right = named == {number}
        return "" if right else f"the known mistake {mistake} is not found in task {number}"
    if not lost:
        return ""
    points, of = (sum(task[key] for task in tasks) for key in ("points", "of"))
    first_lost = clean(" ".join([lost[0]["title"], *lost[0]["messages"][:1]]), 500)
    return f"our own solution gets {points:g} of {of:g} points ({first_lost})"
