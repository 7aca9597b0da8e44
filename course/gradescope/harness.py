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
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from course.grading import batch, points
from course.grading.intake.submissions import student_id, take
from course.grading.judging import canaries, predictions
from course.grading.pages import pages
from course.grading.sandbox.context import open_context
from course.grading.sandbox.isolation import ChangeOfUser, Limits
from course.grading.types import Result
from training.files.writing import write_json

# Half a processor and 768 MB, 200 of them for this process. total_mib counts what a parent
# and its child share twice (300 MB): honest code makes 650 of it, and 820 are 520 in truth.
LIMITS = Limits(wall_s=480, cpu_s=240, memory_mib=1536, total_mib=820, processes=16)
SECONDS = 30.0  # of one task


def student_of(metadata: Mapping[str, Any]) -> str:
    """A name that stays the same for a group, from its members' numbers at Gradescope."""
    return student_id("-".join(sorted(str(user["id"]) for user in metadata["users"])))


def results_of(result: Result, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What results.json says of a submission: numbers for each test, and a page of feedback.

    There is no ``score`` at the top, so that the tests' scores add up. Rows that people mark are
    left out: they give their points at Gradescope.
    """
    by_people = points.marked_rows(result.part, settings)
    tasks = points.with_marks(result, settings, {}).tasks
    result = replace(result, tasks=[task for task in tasks if task.number not in by_people])
    status = {True: "passed", False: "failed"}
    tests = [
        {"name": t.title, "score": t.points, "max_score": t.of, "status": status[t.points == t.of]}
        for t in result.tasks
    ]
    made = {"tests": tests, "output": pages.feedback(result, whole=False), "output_format": "html"}
    made |= {"visibility": settings["gradescope"]["visibility"], "stdout_visibility": "hidden"}
    if settings["gradescope"]["leaderboard"]:
        scores = pages.scores_of(result).items()  # Gradescope sorts by the first one
        made["leaderboard"] = [{"name": name, "value": round(value, 3)} for name, value in scores]
    return made


def main() -> None:
    """Write results.json; after a failure there is none, and staff see the traceback."""
    base = Path(sys.argv[1])  # such as /autograder
    source = base / "source"
    made = json.loads((source / "assignment.json").read_text(encoding="utf-8"))
    metadata = json.loads((base / "submission_metadata.json").read_text(encoding="utf-8"))
    gold = predictions.load_gold(source / "gold")
    submission = take(student_of(metadata), base / "submission", made["part"])
    around = ChangeOfUser()
    with open_context(made["part"], made["secret"], LIMITS, SECONDS, around) as context:
        batch.require_safe_machine(around, [base, source, source / "gold", ROOT, base / "results"])
        canaries.check(context)
        results = results_of(batch.grade(context, submission, gold), context.settings)
    write_json(base / "results" / "results.json", results)
    print("graded:", sum(test["score"] for test in results["tests"]), "points")


if __name__ == "__main__":
    main()
