"""Check an AdamW: ``python optimizer_test.py`` checks the one in optimizer.py (task 1.5).

Each check prints its own line. This file is the command line and the report; the checks are in
checks/part1/adamw.py.

    checks                         minutes   expected
    python optimizer_test.py       < 1       every line "ok", exit status 0
"""

from __future__ import annotations

import sys

from checks.findings import describe, explanations
from checks.graded_tasks import graded_task
from checks.part1.adamw import check_all, explain, is_started, test_optimizer
from training.arguments import run_script

__all__ = ["main", "test_optimizer"]  # the second is the published protocol, called by its name
__test__ = False  # pytest: it is a function to call, not a test to collect


def main() -> None:
    """Check optimizer.py's AdamW; exit status 0 only if every check passes."""
    title = graded_task("1.5").title
    try:
        from optimizer import AdamW
    except (Exception, SystemExit) as error:
        sys.exit(f"{title}: optimizer.py cannot be imported\n      {describe(error).text}")
    if not is_started(AdamW):
        print(f"{title}: not started")
        sys.exit(1)
    results = check_all(AdamW)
    for result in results:
        print(f"{'ok  ' if result.passed else 'FAIL'}  {result.name}: {result.about}")
        if result.detail:
            print("      " + result.detail.replace("\n", "\n      "))
    failed = sum(not result.passed for result in results)
    for line in explanations(explain(AdamW)) if failed else ():
        print(f"      {line}")
    print(f"{title}: {len(results) - failed} of {len(results)} checks passed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    run_script(main)
