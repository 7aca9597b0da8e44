"""Grade the one submission that Gradescope has put into the container.

    python -I harness.py /autograder

run_autograder starts it, as root. Submitted code never runs in this process, but as a user of its
own, whose processes are all killed afterwards. Nothing is graded where such a user could read
labels or the solution, or where our own solution would lose points: without results.json Gradescope
says that the autograder failed, and shows staff the traceback.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from course.gradescope import results
from course.grading import batch
from course.grading.intake.submissions import take
from course.grading.judging import canaries, predictions
from course.grading.sandbox.context import open_context
from course.grading.sandbox.isolation import ChangeOfUser, Limits
from training.files.writing import write_json

# Half a processor and 768 MB, 200 of them for this process. total_mib counts what a parent
# and its child share twice (300 MB): honest code makes 650 of it, and 820 are 520 in truth.
LIMITS = Limits(wall_s=480, cpu_s=240, memory_mib=1536, total_mib=820, processes=16)
SECONDS = 30.0  # of one task


def graded(base: Path) -> dict[str, Any]:
    """What results.json says about the submission in a folder like /autograder."""
    source = base / "source"
    made = json.loads((source / "assignment.json").read_text(encoding="utf-8"))
    metadata = json.loads((base / "submission_metadata.json").read_text(encoding="utf-8"))
    gold = predictions.load_gold(source / "gold")
    submission = take(results.student_of(metadata), base / "submission", made["part"])
    around = ChangeOfUser()
    with open_context(made["part"], made["secret"], LIMITS, SECONDS, around) as context:
        batch.require_safe_machine(around, [base, source, source / "gold", ROOT, base / "results"])
        canaries.check(context)
        result = batch.grade(context, submission, gold)
        return results.of_result(result, context.settings)


def main() -> None:
    """Write results.json; after a failure there is none, and staff see the traceback."""
    base = Path(sys.argv[1])
    made = graded(base)
    write_json(base / "results" / "results.json", made)
    print("graded:", sum(test["score"] for test in made["tests"]), "points")


if __name__ == "__main__":
    main()
