"""What grade.py, viva.py and Gradescope's harness share: a secret, a safe machine, one result."""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shlex
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from course.grading import points
from course.grading.intake.submissions import WANTED
from course.grading.judging import predictions
from course.grading.judging.submission import checks_text, verdicts_on
from course.grading.sandbox import isolation
from course.grading.sandbox.context import GradingContext
from course.grading.types import GRADED, REFUSED, Result, Submission
from training.cli.flags import positive_float, positive_int
from training.files.errors import InputError, values_of
from training.files.writing import write_json

ROOT = Path(__file__).resolve().parents[2]
MAKE_ROOM = "choose another --out or TMPDIR, or make room"
T, R = TypeVar("T"), TypeVar("R")
NOT_HANDED_IN = "not handed in"  # how the note on missing files begins
OF_TORCH = re.compile(  # what torch has of what students write
    r"scaled_dot_product\w*|MultiheadAttention|multi_head_attention\w*|flex_attention|"
    r"nn\.Transformer\w*|\boptim\.(?:Adam|SGD|RMSprop)\w*|torch\.optim import .*Adam\w*"
)


def secret_of(out: Path, part: int) -> str:
    """The assignment's secret, made once and kept in OUT with its part."""
    path = out / "assignment.json"
    if not path.is_file():
        out.mkdir(parents=True, exist_ok=True)
        out.chmod(0o700)
        write_json(path, {"part": part, "secret": secrets.token_hex(16)})
    with values_of(f"{path} is damaged", "restore it from a backup, or choose another --out"):
        content = json.loads(path.read_text(encoding="utf-8"))
        made_for, secret = int(content["part"]), content["secret"]
        bytes.fromhex(secret)
    if made_for != part:
        raise InputError(f"{out} holds part {made_for}; grade part {part} into another --out")
    return secret


def in_parallel(work: Callable[[T], R], items: Iterable[T], at_a_time: int) -> Iterator[R]:
    """The result of each item, in order; Ctrl-C and SIGTERM end all sandboxes first."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ThreadPoolExecutor(at_a_time) as pool:
        try:
            yield from pool.map(work, items)
        except (KeyboardInterrupt, GeneratorExit):
            isolation.STOP.set()
            raise


def require_safe_machine(around: isolation.Isolation, secret: Iterable[Path]) -> None:
    """InputError, with all reasons, where submissions could read what they must not.

    Args:
        around: what isolates them.
        secret: files and folders that have to be out of their reach.
    """
    reasons = []
    if isinstance(around, isolation.Bubblewrap) and not shutil.which("bwrap"):
        reasons.append("bubblewrap is not installed: apt install bubblewrap")
    if reached := [path for path in secret if around.reaches(path)]:
        named = " ".join(shlex.quote(str(path)) for path in reached)
        reasons.append(f"{named} could be read by the code that is graded: move it elsewhere")
    if reasons:
        raise InputError(f"nothing is graded: {'; '.join(reasons)}")


def add_flags(parser: argparse.ArgumentParser, seconds: float, about_seconds: str) -> None:
    """The flags of every command that runs submissions."""
    parser.add_argument("submissions", type=Path, help="folder with zips or folders")
    at_a_time = "how many at a time; without it, the number of processors"
    parser.add_argument("-j", type=positive_int, default=os.cpu_count() or 1, help=at_a_time)
    parser.add_argument("--seconds", type=positive_float, default=seconds, help=about_seconds)


# ---------------------------------------------------------------------------------------------
# One submission


def missing_files(submission: Submission) -> list[str]:
    """A note on the files that a submission lacks, if any; those of CFIMDB may be missing."""
    asked = [name for name in WANTED[submission.part] if "cfimdb" not in name]
    missing = [name for name in asked if name not in submission.files]
    if submission.part == 2 and not any(name.lower().endswith(".pdf") for name in submission.files):
        missing.append("AI-usage card (PDF)")
    return [f"{NOT_HANDED_IN}: {', '.join(missing)}"] if missing else []


def of_torch(context: GradingContext, submission: Submission) -> Iterator[str]:
    """A sentence for each graded file that names something of torch's that students write."""
    for file, text in submission.sources().items():
        named = {*OF_TORCH.findall(re.sub("#.*", "", text))}
        if named and file in {task.file for task in context.tasks}:
            yield f"{file} names {', '.join(sorted(named))}"


def grade(
    context: GradingContext, submission: Submission, gold: Mapping, grader: str = ""
) -> Result:
    """The result of one submission, with points; only people's marks are missing."""
    known = {"sha256": submission.sha256, "grader": grader, "notes": submission.notes}
    if submission.refused:
        known |= {"status": REFUSED, "why": submission.refused}
    else:
        if context.part == 2:
            known |= {"checks": checks_text(context, submission)}
        else:
            verdicts = verdicts_on(context, submission)
            tasks = [points.task_result(t, verdicts[t.id], context.settings) for t in context.tasks]
            known |= {"tasks": tasks, "named": [*of_torch(context, submission)]}
        known |= {
            "status": GRADED,
            "notes": (*submission.notes, *missing_files(submission)),
            "scores": predictions.score(submission, gold),
        }
    result = Result(submission.student, context.part, **known)
    return points.with_marks(result, context.settings, {})
