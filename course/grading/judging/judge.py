"""Compare what came out of the sandbox with the right answers, in the grader's own process.

Only numbers count, and only where they are there: nothing that a submission says about itself is
evidence. A task has rows (values, gradients, padding, dropout; for the optimizer its cases). Where
the first row is wrong, the others are not counted, and what is lost is what costs.toml says of the
one known mistake that the results show, or all. Right values are never shown.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from checks.findings import ROOT, Finding, Mistake
from checks.fingerprints import Fingerprint, fingerprint_of
from checks.graded_tasks import GRADED_TASKS, GradedTask
from checks.part1 import compare, runners
from checks.part1.references import known_mistakes, load_references, under
from checks.part3 import tasks as part3_tasks
from course.grading.judging.hidden import SOLVED, Hidden, runs_of
from course.grading.sandbox.runs import DTYPES
from course.grading.types import NOT_COUNTED, RIGHT, STATUSES, WRONG, Verdict

PUBLIC = "public"
INIT, OPTIMIZER = "classifier.init", "optimizer.step"
KEYS_FIRST = " (keys first)"  # dropout as it falls where scores are (B, H, keys, queries)
OPTIONAL = "values/embeddings with token_type_ids"  # an argument that embed may have
DECAY = "weight decay"
# The optimizer's rows: what each is about, and the cases that show it, all but DECAY without decay
OPTIMIZER_ROWS = {
    "the update": ("plain", "large_eps", "tiny_gradients", "long"),
    DECAY: ("decay",),
    "correct_bias=False": ("uncorrected",),
    "parameter groups, schedules": ("groups", "schedule"),
    "parameters without gradients": ("missing_gradients",),
    "resuming": ("resume",),
    "gradients left as they are": ("gradient",),
}
WITHOUT_PADDING = tuple(kind for kind in compare.KINDS if kind != "padding")  # nothing is masked
ROWS = {
    "bert.add_norm": WITHOUT_PADDING,
    "classifier.forward": WITHOUT_PADDING,
    OPTIMIZER: tuple(OPTIMIZER_ROWS),
    INIT: ("values",),
    **part3_tasks.KINDS,
}
CAN_BE_FORGED = (INIT,)  # sizes and flags of layers are read in the process of the student's code


def rows_of(entry: GradedTask) -> tuple[str, ...]:
    """The names of a task's rows; the others depend on the first one."""
    return ROWS.get(entry.id, compare.KINDS)


@functools.cache
def costs() -> dict[str, dict[str, float]]:
    """What a known mistake that makes results wrong costs, by task and by the mistake's name."""
    return tomllib.loads((ROOT / "course" / "costs.toml").read_text(encoding="utf-8"))


def verdict_of(
    entry: GradedTask,
    is_right: Mapping[str, bool],
    messages: Sequence[str] = (),
    mistakes: Sequence[Mistake] = (),
    status: str = "wrong",
) -> Verdict:
    """The verdict on a task, from which of its rows are right."""
    first, *rest = rows_of(entry)
    if is_right[first]:
        rows = {row: RIGHT if is_right[row] else WRONG for row in (first, *rest)}
        status, cost = "right" if all(is_right.values()) else status, None
    else:
        rows = {first: WRONG} | dict.fromkeys(rest, NOT_COUNTED)
        known = costs().get(entry.id, {})
        cost = known.get(mistakes[0].name) if len(mistakes) == 1 else None
    return Verdict(status, rows, tuple(messages[:4]), tuple(mistakes), cost)


def without_results(entry: GradedTask, status: str, message: str = "") -> Verdict:
    """The verdict where there is nothing to judge."""
    nothing = dict.fromkeys(rows_of(entry), False)
    return verdict_of(entry, nothing, [message or STATUSES[status]], status=status)


def error_in(outputs: Mapping[str, Any]) -> Finding | None:
    """The exception that a run ended with, if any."""
    if "error kind" not in outputs:
        return None
    kind = "crashed" if "error at import" in outputs else "error"
    if outputs["error kind"] == "not started":
        kind = "not started"
    return Finding(kind, str(outputs.get("error", "")), "error slight" in outputs)


def stopped(entry: GradedTask, error: Finding) -> Verdict | None:
    """The verdict on what could not be run: an unwritten task, or a file that is not imported."""
    titles = {task.title: task.number for task in GRADED_TASKS if task != entry}
    if error.kind == "not started" and error.text in titles:
        return without_results(entry, "waits", f"waits for Task {titles[error.text]}")
    if error.kind in ("not started", "crashed"):
        return without_results(entry, error.kind, error.text * (error.kind == "crashed"))
    return None


def judge_part_1(
    entry: GradedTask,
    outputs: Mapping[str, Any],
    hidden: Mapping[str, Hidden],
    init_is_right: bool = True,
) -> Verdict:
    """A task of bert.py, classifier.py or modern_bert.py.

    One way of running it that is right is enough. If none is, the first one tells what is wrong.

    Args:
        outputs: of runs.part_1.
        hidden: sets of inputs by name.
        init_is_right: if not, the classifier's forward is judged with our __init__.
    """
    by_run = {
        name: findings_of(entry, outputs, name, hidden[inputs])
        for name, (inputs, _) in runs_of(entry).items()
        if name != SOLVED or not init_is_right
    }
    if not all(by_run.values()):
        return verdict_of(entry, dict.fromkeys(rows_of(entry), True))
    findings = by_run.get(SOLVED) or next(iter(by_run.values()))
    if verdict := stopped(entry, findings[0]):
        return verdict
    kinds = {finding.kind for finding in findings}
    is_right = {row: row not in kinds for row in rows_of(entry)}
    is_right["values"] = kinds <= {*compare.KINDS[1:]}
    mistakes = mistakes_in(entry, outputs, f"{PUBLIC} {SOLVED}" if SOLVED in by_run else PUBLIC)
    return verdict_of(entry, is_right, [finding.text for finding in findings], mistakes)


def findings_of(
    entry: GradedTask, outputs: Mapping[str, Any], name: str, inputs: Hidden
) -> list[Finding]:
    """What is wrong with a run: sharply in float64, then as it will be used, in float32.

    There it has ten times the tolerance of the students' check, whose inputs do not change.
    """
    right = under(f"{entry.id}/", inputs.expected)
    names = [n for n in right if not n.endswith(KEYS_FIRST)]
    findings: list[Finding] = []
    for dtype, slack in zip(DTYPES, (1, 10), strict=True):
        got = under(f"{name} {dtype}|", outputs)
        wanted = {n: got.get(n) for n in names if n in got or n != OPTIONAL}
        if error := error_in(got):
            findings = [error]
        else:
            try:
                findings = compare.compare(
                    entry.id, wanted, DTYPES[dtype], inputs.inputs | inputs.expected, False, slack
                )
            except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
                return [Finding("values", STATUSES["invalid answer"])]
        if any(not finding.slight for finding in findings):
            return findings
    return findings


def mistakes_in(entry: GradedTask, outputs: Mapping[str, Any], public: str) -> list[Mistake]:
    """The known mistakes, by what the function makes of the published inputs.

    Args:
        public: the runs on these, without the name of the group of fingerprints.
    """
    for group in runners.groups_of(entry.id):
        got = under(f"{public} {group}|", outputs)
        shown = str(got.get("error", "")) if "error kind" in got else got
        mistakes, _ = known_mistakes(group).find(shown, "values", right_fingerprint(entry.id))
        if mistakes:
            return mistakes
    return []


@functools.cache
def right_fingerprint(task_id: str) -> Fingerprint:
    """That of the right outputs: a mistake that changes one which is right is not made."""
    return fingerprint_of(under(f"{task_id}/", load_references()))
