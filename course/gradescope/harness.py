"""Grade the one submission that Gradescope has put into the container.

    python -I harness.py /autograder

run_autograder starts it, as root, after it has closed that folder to all others and written results
with nothing but zeros. This program replaces them by the real ones, or says that the grader failed.
The submission's code never runs in this process, but in one of another user, who is without rights;
where that user could read labels or the solution nothing is graded. There is no bubblewrap around
it and nothing is cleaned up: Gradescope throws the container away after each submission.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from course import grade, table
from course.gradescope import results
from course.grading.intake import intake
from course.grading.judging import canaries, predictions
from course.grading.sandbox import packages
from course.grading.sandbox.confine import Limits
from course.grading.sandbox.context import GradingContext, new_stage, open_to_others
from course.grading.sandbox.isolation import ChangeOfUser
from training.files.writing import write_json

# Half a processor and 768 MB, 200 of them for this process. total_mib counts what a parent
# and its child share twice (300 MB): honest code makes 650 of it, and 820 are 520 in truth.
LIMITS = Limits(wall_s=480, quiet_s=120, memory_mib=1536, total_mib=820, file_mib=16, processes=16)
SECONDS = 30.0  # of one task


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file's table; an empty one where it is not there, or is no table."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


@contextlib.contextmanager
def context_of(source: Path) -> Iterator[GradingContext]:
    """As context.open_context, from the files that build.py has laid out."""
    made = json.loads((source / "assignment.json").read_text(encoding="utf-8"))
    settings, part = table.read_settings(ROOT), made["part"]
    tasks = tuple(t for t in table.course_tasks(settings) if t.part == part)
    with new_stage() as stage:
        shutil.copytree(source / "stage", stage, dirs_exist_ok=True)
        open_to_others(stage)
        stage.parent.chmod(0o711)
        yield GradingContext(
            part, settings, tasks, made["secret"], stage, LIMITS, SECONDS, ChangeOfUser()
        )


def graded(base: Path, context: GradingContext) -> dict[str, Any]:
    """What results.json says.

    Raises:
        RuntimeError: the grader failed.
        InputError: submitted code could read what it must not, or right code would lose points.
    """
    source, settings = base / "source", context.settings
    metadata = read_json(base / "submission_metadata.json")
    student = results.student_of(metadata)
    handed_in = intake.only_archive(
        base / "submission"
    )  # Gradescope unpacks what is uploaded, once
    submission = intake.take(student, handed_in, context.part)
    gold = predictions.load_gold(source / "gold", secret=context.secret)
    secrets = [base, source, source / "gold", ROOT, base / "results"]
    grade.refuse(context.isolation, secrets, packages.allowed_by(settings))
    result = grade.grade(context, submission, gold)
    if result["status"] == "graded" and result["points"] < result["of"]:
        canaries.check(context, 1)  # all points show by themselves that the sandbox works
    print("layers:", ", ".join(result["layers"]))
    if result["status"] == "refused":
        return results.refused(result, settings)
    return results.of_result(result, settings, metadata)


def main() -> None:
    """Write results.json; of a failure staff see the reason in the output, students that it is."""
    base = Path(sys.argv[1])
    try:
        with context_of(base / "source") as context:
            made = graded(base, context)
    except Exception:
        traceback.print_exc()
        return  # the zeros that run_autograder has written say it
    write_json(base / "results" / "results.json", made)
    print("graded:", sum(test["score"] for test in made["tests"]), "points")


if __name__ == "__main__":
    main()
