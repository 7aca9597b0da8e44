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
HEADING = "largest difference of each state from the reference, relative where that is above 1"
FOLLOWS = "what follows builds on this, and may differ for this reason alone"


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
    differing = [name for name, status, *_ in said["lines"] if status == "differs"]
    print(f"{HEADING}\n" * bool(said["lines"]), end="")
    for name, status, about, why, places in said["lines"]:
        print(f"  {label_of(status)} {name:39} {about}")
        if [name] == differing[:1]:
            print(*wrapped(f"the first that differs: open {places}"), *wrapped(why), sep="\n")
            print(f"{INDENT}{FOLLOWS}\n" * (len(differing) > 1), end="")
    Report(everything).end(replace(outcome, about=said["about"]), printed)
    if html and said["page"]:
        write_whole(html, said["page"])
        print(f"wrote {html}")
    elif html:
        print(f"{html} is not written: there is nothing to draw")
    return int(outcome.status != "ok")
