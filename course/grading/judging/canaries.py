"""Two submissions whose grades are known, graded before all others in the sandbox of the day.

The solution has to be right in all tasks; a known mistake has to cost points and be named. Where
that is not so, something is wrong with this machine or with the grader, and honest submissions
would pay for it: then grading does not begin.
"""

from __future__ import annotations

from collections.abc import Iterator

from checks.findings import ROOT
from checks.graded_tasks import graded_task
from course.grading.judging.submission import checks_text, verdicts_on
from course.grading.sandbox.context import GradingContext
from course.grading.types import Submission
from training.files.errors import InputError

MISTAKES = {  # by part: the task, the known mistake, and the change to our solution that makes it
    1: ("bert.attention", "no_scale", b" / math.sqrt(query.size(-1))", b""),
    3: ("modern.rotary", "positions_from_one", b"exact)  # (L,)", b"exact) + 1"),
}
STUBS = "not started"  # what the checks say about part 2's stubs


def check(context: GradingContext) -> None:
    """Grade both; InputError where something else comes out than has to."""
    try:
        fault = next(faults(context), "")
    except Exception as error:  # whatever it is, each submission would meet it
        fault = f"the grader fails with {str(error)[:500] or type(error).__name__}"
    if fault:
        raise InputError(f"grading does not begin: in this sandbox {fault}")


def faults(context: GradingContext) -> Iterator[str]:
    """What is wrong with how they are graded; of part 2, the checks have to run on its stubs."""
    part = context.part
    if part == 2:
        if STUBS not in checks_text(context, Submission("canary", part)):
            yield "the checks of part 2 do not run"
        return
    files = {entry.file: (ROOT / entry.file).read_bytes() for entry in context.tasks}
    for task_id, verdict in verdicts_on(context, Submission("canary", part, files)).items():
        if verdict.status != "right":
            why = " ".join(verdict.messages[:1])[:500]
            title = graded_task(task_id).title
            yield f"our own solution is {verdict.status} in {title} ({why})"
    wrong_task, mistake, old, new = MISTAKES[part]
    file = graded_task(wrong_task).file
    files[file] = files[file].replace(old, new)
    verdicts = verdicts_on(context, Submission("canary", part, files))
    wrong = [task_id for task_id, verdict in verdicts.items() if verdict.status != "right"]
    named = [each.name for each in verdicts[wrong_task].mistakes if verdicts[wrong_task].cost]
    if (wrong, named) != ([wrong_task], [mistake]):
        yield f"the known mistake {mistake} is not found in {wrong_task}"
