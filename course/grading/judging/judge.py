"""Compare what came out of the sandbox with the right answers, in the grader's own process.

Only numbers count, and only where they are there: nothing that a submission says about itself is
evidence. A task has rows (values, gradients, padding, dropout; for the optimizer its cases). Where
the first row is wrong, the others are not counted, and what is lost is what costs.toml says of the
one known mistake that the results show, or all. Right values are never shown.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from checks.findings import ROOT, Finding, Mistake
from checks.fingerprints import Fingerprint, fingerprint_of
from checks.graded_tasks import GRADED_TASKS, GradedTask
from checks.part1 import compare, references, runners
from checks.part3 import tasks as part3_tasks
from course.grading.judging.hidden import SOLVED, Hidden, runs_of
from course.grading.sandbox.runs import DTYPES
from course.grading.types import NOT_COUNTED, RIGHT, STATUSES, WRONG, Verdict

PUBLIC = "public"
INIT, OPTIMIZER = "classifier.init", "optimizer.step"
RATES = "values/dropout probabilities that are it"
KEYS_FIRST = " (keys first)"  # dropout as it falls where scores are (B, H, keys, queries)
OPTIONAL = ("values/embeddings with token_type_ids",)  # an argument that embed may have
UPDATE, DECAY = "the update", "weight decay"
# The optimizer's rows: what each is about, and the cases that show it, all but DECAY without decay
OPTIMIZER_ROWS = {
    UPDATE: ("plain", "large_eps", "tiny_gradients", "long"),
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
# What code can tell about itself without doing it
CAN_BE_FORGED = {INIT: "sizes and flags of layers are read in the process of the student's code"}


def rows_of(entry: GradedTask) -> tuple[str, ...]:
    """The names of a task's rows, the one first on which the others depend."""
    return ROWS.get(entry.id, compare.KINDS)


@functools.cache
def costs() -> dict[str, dict[str, float]]:
    """What a known mistake that makes results wrong costs, by task and by the mistake's name."""
    return tomllib.loads((ROOT / "course" / "costs.toml").read_text(encoding="utf-8"))


def verdict_of(
    entry: GradedTask,
    is_right: Mapping[str, bool],
    messages: list[str],
    mistakes: list[Mistake],
) -> Verdict:
    """The verdict on a task that was run, from what is right about it."""
    first, *rest = rows_of(entry)
    if is_right[first]:
        rows = {row: RIGHT if is_right[row] else WRONG for row in (first, *rest)}
        status = "right" if all(is_right.values()) else "wrong"
        return Verdict(status, rows, tuple(messages[:4]), tuple(mistakes))
    known = costs().get(entry.id, {})
    cost = known.get(mistakes[0].name) if len(mistakes) == 1 else None
    rows = {first: WRONG} | dict.fromkeys(rest, NOT_COUNTED)
    return Verdict("wrong", rows, tuple(messages[:4]), tuple(mistakes), cost)


def without_results(entry: GradedTask, status: str, message: str = "") -> Verdict:
    """The verdict where there is nothing to judge."""
    first, *rest = rows_of(entry)
    rows = {first: WRONG} | dict.fromkeys(rest, NOT_COUNTED)
    return Verdict(status, rows, (message or STATUSES[status],))


def not_started(entry: GradedTask, title: str) -> Verdict:
    """The verdict where a stub was called: the task's own, or another one's, which it waits for.

    Args:
        title: what the stub's error says.
    """
    others = [task.number for task in GRADED_TASKS if task.title == title and task != entry]
    if others and title != entry.title:
        return without_results(entry, "waits", f"waits for Task {others[0]}")
    return without_results(entry, "not started")


def of_run(outputs: Mapping[str, Any], run: str) -> dict[str, Any]:
    """The outputs of one run."""
    return references.under(f"{run}|", outputs)


def errors_in(outputs: Mapping[str, Any]) -> list[Finding]:
    """The exception that a run ended with, if any."""
    if "error kind" not in outputs:
        return []
    if outputs["error kind"] == "not started":
        kind = "not started"
    else:
        kind = "crashed" if "error at import" in outputs else "error"
    return [Finding(kind, str(outputs.get("error", "")), "error slight" in outputs)]


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
        return Verdict("right", dict.fromkeys(rows_of(entry), RIGHT))
    findings = by_run.get(SOLVED) or next(iter(by_run.values()))
    if findings[0].kind == "not started":
        return not_started(entry, findings[0].text)
    if findings[0].kind == "crashed":
        return without_results(entry, "crashed", findings[0].text)
    kinds = {finding.kind for finding in findings}
    is_right = {row: row not in kinds for row in rows_of(entry)}
    is_right["values"] = kinds <= {*compare.KINDS[1:]}
    public = f"{PUBLIC} {SOLVED}" if SOLVED in by_run else PUBLIC
    mistakes = mistakes_in(entry, outputs, public)
    return verdict_of(entry, is_right, [finding.text for finding in findings], mistakes)


def findings_of(
    entry: GradedTask, outputs: Mapping[str, Any], name: str, inputs: Hidden
) -> list[Finding]:
    """What is wrong with a run: sharply in float64, then as it will be used, in float32.

    There it has ten times the tolerance of the students' check, whose inputs do not change.
    """
    findings: list[Finding] = []
    for dtype in DTYPES:
        run_outputs = of_run(outputs, f"{name} {dtype}")
        findings = errors_in(run_outputs)
        if not findings:
            wanted = wanted_of(entry, run_outputs, inputs)
            if entry.id == INIT and not init_is_readable(wanted, inputs):
                return [Finding("values", STATUSES["invalid answer"])]
            right, slack = inputs.inputs | inputs.expected, 10 if dtype == "float32" else 1
            findings = compare.compare(
                entry.id, wanted, DTYPES[dtype], right, reveal=False, slack=slack
            )
        if any(not finding.slight for finding in findings):
            return findings
    return findings


def wanted_of(entry: GradedTask, run_outputs: Mapping[str, Any], inputs: Hidden) -> dict[str, Any]:
    """The outputs that a right function has, None where they are missing; others are left out."""
    right = references.under(f"{entry.id}/", inputs.expected)
    names = [n for n in right if not n.endswith(KEYS_FIRST)]
    wanted = {n: run_outputs.get(n) for n in names if n in run_outputs or n not in OPTIONAL}
    for name, got in wanted.items():
        if name.startswith("padding") and not same_form(got, right[name]):
            wanted[name] = None
    return wanted


def same_form(got: Any, right: Tensor) -> bool:
    """Whether an output is a tensor of the right shape and kind of numbers."""
    return (
        isinstance(got, Tensor)
        and got.shape == right.shape
        and got.is_floating_point() == right.is_floating_point()
    )


def init_is_readable(wanted: Mapping[str, Any], inputs: Hidden) -> bool:
    """Whether what is told about the layers is a table with a row for each."""
    right = {name: inputs.expected[f"{INIT}/{name}"] for name in wanted}
    tensors = all(isinstance(got, Tensor) for got in wanted.values())
    forms = tensors and all(
        got.dim() == right[n].dim() and got.shape[1:] == right[n].shape[1:]
        for n, got in wanted.items()
    )
    tables = (("sizes", "values/Linear layers: with a bias"), ("rates", RATES))
    return forms and all(len(wanted[a]) == len(wanted[b]) for a, b in tables)


def mistakes_in(entry: GradedTask, outputs: Mapping[str, Any], public: str) -> list[Mistake]:
    """The known mistakes, by what the function makes of the published inputs.

    Args:
        public: the runs on these, without the name of the group of fingerprints.
    """
    for group in runners.groups_of(entry.id):
        run_outputs = of_run(outputs, f"{public} {group}")
        shown = str(run_outputs.get("error", "")) if "error kind" in run_outputs else run_outputs
        known = references.known_mistakes(group)
        mistakes, _ = known.find(shown, "values", right_fingerprint(entry.id))
        if mistakes:
            return mistakes
    return []


@functools.cache
def right_fingerprint(task_id: str) -> Fingerprint:
    """That of the right outputs: a mistake that changes one which is right is not made."""
    return fingerprint_of(references.under(f"{task_id}/", references.load_references()))
