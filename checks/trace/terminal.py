"""``python sanity_check.py --trace``: the student's whole model next to the reference.

It needs no torch: the code runs in a process of its own (checks/child.py).
"""

from __future__ import annotations

import json
from dataclasses import replace

from checks.child import Child
from checks.report import INDENT, Report, label_of, wrapped
from training.files.writing import write_whole

JOBS = "checks.trace.states"


def trace(html: str | None, limit: float, everything: bool) -> int:
    """Print a line for each state; the exit status is 0 if nothing differs.

    Args:
        html: where to draw the same as a page.
        limit: seconds that all of it may take.
        everything: show all that the student's code has printed.
    """
    with Child(limit, JOBS) as child:
        outcome = child.run(json.dumps(html is not None), "the whole BertModel")
        printed = child.printed()
    said = json.loads(outcome.about) if outcome.about else {"lines": [], "about": "", "page": ""}
    has_differed = False
    for name, status, about, why, places in said["lines"]:
        is_first = status == "differs" and not has_differed
        mark = f"   <- the first that differs: open {places}" if is_first else ""
        print(f"  {label_of(status)} {name:39} {about}{mark}")
        if is_first:
            print(*wrapped(why), sep="\n")
            print(f"{INDENT}what follows starts from these numbers, and may differ for this alone")
            has_differed = True
    Report(everything).end(replace(outcome, about=said["about"]), printed)
    if html and said["page"]:
        write_whole(html, said["page"])
        print(f"wrote {html}")
    return int(outcome.status != "ok")
