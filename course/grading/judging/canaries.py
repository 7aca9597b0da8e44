"""Two submissions whose grades are known, graded before all others in the sandbox of the day.

The solution has to be right in all tasks; a known mistake has to cost points and be named. Where
that is not so, something is wrong with this machine or with the grader, and honest submissions
would pay for it: then grading does not begin.
"""

from __future__ import annotations

from checks.findings import ROOT
from course.grading.judging.submission import checks_text, verdicts_on
from course.grading.sandbox.context import GradingContext
from course.grading.types import Submission
from training.files.errors import InputError

MISTAKES = {  # by part: the task, the known mistake, and the change to our solution that makes it
    1: ("bert.attention", "no_scale", " / math.sqrt(query.size(-1))", ""),
    3: ("modern.rotary", "positions_from_one", "torch.arange(length,", "1 + torch.arange(length,"),
}
STUBS = "not started"  # what the checks say about part 2's stubs


def check(context: GradingContext) -> None:
    """Grade both; InputError where something else comes out than has to."""
    faults = [found for one in submissions(context) if (found := fault(context, *one))]
    if faults:
        raise InputError(f"grading does not begin: in this sandbox {'; '.join(faults)}")


def submissions(context: GradingContext) -> list[tuple[Submission, str]]:
    """Our solution, and the same with a known mistake in it, which is named; of part 2 stubs."""
    if context.part == 2:
        return [(Submission("canary", 2), "")]
    names = {entry.file for entry in context.tasks}
    right = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    task_id, mistake, old, new = MISTAKES[context.part]
    file = next(entry.file for entry in context.tasks if entry.id == task_id)
    wrong = right | {file: right[file].replace(old, new)}
    both = [{name: text.encode() for name, text in files.items()} for files in (right, wrong)]
    solution, mistaken = (Submission("canary", context.part, files) for files in both)
    return [(solution, ""), (mistaken, mistake)]


def fault(context: GradingContext, submission: Submission, mistake: str) -> str:
    """What is wrong with how a submission is graded; "": nothing.

    Args:
        mistake: the known one in it; "": all is right.
    """
    try:
        if context.part == 2:
            is_run = STUBS in checks_text(context, submission)
            return "" if is_run else "the checks of part 2 do not run"
        verdicts = verdicts_on(context, submission)
    except Exception as error:  # whatever it is, each submission would meet it
        return f"the grader fails with {str(error)[:500] or type(error).__name__}"
    wrong = {task_id: v for task_id, v in verdicts.items() if v.status != "right"}
    if mistake:
        task_id = MISTAKES[context.part][0]
        named = {key for key, v in wrong.items() if v.cost and v.mistakes[0].name == mistake}
        found = named == {task_id} == wrong.keys()
        return "" if found else f"the known mistake {mistake} is not found in {task_id}"
    for entry in context.tasks:
        if entry.id in wrong:
            why = " ".join(wrong[entry.id].messages[:1])[:500]
            return f"our own solution is {wrong[entry.id].status} in {entry.title} ({why})"
    return ""
