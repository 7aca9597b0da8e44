"""The bug hunt: how many bugs in a student's own function do the student's tests catch?

It needs no torch: a process of its own runs all code (jobs.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from checks.child import Child
from checks.findings import ROOT
from checks.graded_tasks import GradedTask
from checks.report import wrapped
from training.files.errors import InputError
from training.files.texts import read_text

TESTS, JOBS = "my_tests.py", "checks.hunt.jobs"
TEST_OF = {  # the function that tests each task's
    "bert.attention": "test_attention",
    "bert.add_norm": "test_add_norm",
    "bert.layer": "test_layer",
    "bert.embed": "test_embed",
    "optimizer.step": "test_adamw",
}
LIMIT = 120.0  # seconds for the hunt in a function
MOST = 24  # bugs of a function


def hunt(tasks: Sequence[GradedTask], seed: int, limit: float | None = None) -> int:
    """Hunt in some tasks' functions; the exit status is 0 if the test of each is worth something.

    Args:
        limit: seconds for the hunt in a function; without it, LIMIT.

    Raises:
        InputError: there is no my_tests.py, or it is not a text.
    """
    if not (ROOT / TESTS).is_file():
        raise InputError(f"{TESTS} is not here: the handout of part 1 has one to begin with")
    read_text(ROOT / TESTS)
    trouble = False
    with Child(limit or LIMIT, JOBS) as child:
        for task in tasks:
            job = {"do": "hunt", "name": task.id, "seed": seed, "most": MOST}
            outcome = child.run(json.dumps(job), task.title)
            trouble |= outcome.status != "ok"
            about = outcome.about or f"the hunt ended early: {outcome.findings[0].text}"
            first, *lines = about.split("\n")
            details = [part for line in lines for part in wrapped(line)]
            print(f"  {task.title}: {first}", *details, sep="\n", flush=True)
    return int(trouble)
