"""``python sanity_check.py --trace``: the student's whole model next to the reference.

It needs no torch: the code runs in a process of its own (checks/child.py).
"""

from __future__ import annotations

from dataclasses import replace

from checks.child import Child
from checks.graded_tasks import GRADED_TASKS
from checks.report import LABELS, Report, label_of, wrapped
from training.files.writing import write_whole

JOBS = "checks.trace.states"
HEADING = "largest difference of each state from the reference, relative where that is above 1"


def trace(html: str | None, limit: float, everything: bool) -> int:
    """Print a row for each state; the exit status is 0 if nothing differs.

    Args:
        html: where to draw the same as a page.
        limit: seconds that all of it may take.
        everything: show all that the student's code has printed.
    """
    with Child(limit, JOBS) as child:
        outcome = child.run("page" if html else "", "the whole BertModel")
        printed = child.printed()
    errors = tuple(finding for finding in outcome.findings if finding.kind == "error")
    print(f"{HEADING}\n" * (not errors), end="")
    for kind, text in ((finding.kind, finding.text) for finding in outcome.findings):
        if kind in LABELS:
            print(f"  {label_of(kind)} {text}")
        elif kind == "why":
            print(*wrapped(text), sep="\n")
    Report(everything).end(replace(outcome, findings=errors), printed)
    if html:
        if pages := [finding.text for finding in outcome.findings if finding.kind == "page"]:
            write_whole(html, pages[0])
        print(f"wrote {html}" if pages else f"{html} is not written: there is nothing to draw")
    texts = " ".join(finding.text for finding in outcome.findings if finding.kind == "why")
    if task := next((task for task in GRADED_TASKS if f"open {task.function} " in texts), None):
        print(f"next: python sanity_check.py --task {task.number} --hint")
    return int(outcome.status != "ok")
