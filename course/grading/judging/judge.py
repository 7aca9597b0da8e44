"""Compare what came out of the sandbox with the right answers, in the grader's own process.

Only numbers count, and only where they are there: nothing that a submission says about itself is
evidence. A task has rows (values, gradients, padding, dropout; for the optimizer its cases), each
with its share of the task's points; a wrong value fails them all, since the others cannot be right
then. Right values are never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from checks.findings import Finding, Mistake
from checks.graded_tasks import GRADED_TASKS, GradedTask
from checks.part1 import compare, references, runners
from checks.part2 import tasks as part2_tasks
from checks.part3 import tasks as part3_tasks
from course.grading.judging.hidden import Hidden, runs_of
from course.grading.sandbox.protocol import LACKING
from course.grading.sandbox.runs import DTYPES

PUBLIC = "public"
INIT = "classifier.init"
RATES = "values/dropout probabilities that are it"
KEYS_FIRST = " (keys first)"  # dropout as it falls where scores are (B, H, keys, queries)
OPTIONAL = ("values/embeddings with token_type_ids",)  # an argument that embed may have
DECAY, KEPT = "weight decay", "gradients left as they are"
# The optimizer's rows: what each is about, and the cases that show it, all but DECAY without decay
OPTIMIZER_ROWS = {
    "the update": ("plain", "large_eps", "tiny_gradients", "long"),
    DECAY: ("decay",),
    "correct_bias=False": ("uncorrected",),
    "parameter groups, schedules": ("groups", "schedule"),
    "parameters without gradients": ("missing_gradients",),
    "resuming": ("resume",),
    KEPT: ("gradient",),
}
WITHOUT_PADDING = tuple(kind for kind in compare.KINDS if kind != "padding")  # nothing is masked
ROWS = {
    "bert.add_norm": WITHOUT_PADDING,
    "classifier.forward": WITHOUT_PADDING,
    "optimizer.step": tuple(OPTIMIZER_ROWS),
    "classifier.init": ("values",),
    **part2_tasks.KINDS,
    **part3_tasks.KINDS,
}
# What code can tell about itself without doing it, and why the points stay
CAN_BE_FORGED = {
    INIT: "sizes and flags of layers are read in the process of the student's code",
    "multitask.init": "which parameters train, and which layers there are, is read in the process "
    "of the student's code; that BERT and the layers count is seen in 2.2 to 2.5",
}


@dataclass
class Verdict:
    """What is right and wrong about one task."""

    status: str
    rows: dict[str, bool] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)  # for staff to look at


def rows_of(entry: GradedTask) -> tuple[str, ...]:
    """The names of a task's rows."""
    return ROWS.get(entry.id, compare.KINDS)


def nothing(entry: GradedTask, status: str, message: str = "") -> Verdict:
    """The verdict where there is no answer to judge."""
    text = message or LACKING.get(status, "")
    return Verdict(status, dict.fromkeys(rows_of(entry), False), [text] if text else [])


def not_started(entry: GradedTask, title: str) -> Verdict:
    """The verdict where a stub was called: the task's own, or another one's, which it waits for.

    Args:
        title: what the stub's error says.
    """
    others = [task.number for task in GRADED_TASKS if task.title == title and task != entry]
    if others and title != entry.title:
        return nothing(entry, "waits", f"waits for Task {others[0]}")
    return nothing(entry, "not started", title)


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
    earlier: Mapping[str, Verdict],
) -> Verdict:
    """A task of bert.py or classifier.py; the first way of running it that is right counts.

    What puts __init__ right counts only where that is wrong, and has cost its points already.
    """
    best: list[Finding] | None = None
    init_is_right = INIT not in earlier or earlier[INIT].status == "right"
    for name, (inputs, options) in runs_of(entry).items():
        if "mended" in options and init_is_right:
            continue
        findings = findings_of(entry, outputs, name, hidden[inputs])
        if not findings:
            return Verdict("right", dict.fromkeys(rows_of(entry), True))
        best = best or findings
    if best[0].kind == "not started":
        return not_started(entry, best[0].text)
    if best[0].kind == "crashed":
        return nothing(entry, "crashed", best[0].text)
    rows = {row: not fails(row, best) for row in rows_of(entry)}
    return Verdict("wrong", rows, [f.text for f in best][:4], mistakes_in(entry, outputs))


def fails(row: str, findings: list[Finding]) -> bool:
    """Whether a row is lost: its own kind is wrong, or the values are, or there is an error."""
    return any(finding.kind not in compare.KINDS[1:] or finding.kind == row for finding in findings)


def findings_of(
    entry: GradedTask, outputs: Mapping[str, Any], name: str, inputs: Hidden
) -> list[Finding]:
    """Sharply in float64, then as it will be used, in float32.

    There it has ten times the tolerance of the students' check, whose inputs do not change.
    """
    findings: list[Finding] = []
    for dtype in DTYPES:
        run_outputs = of_run(outputs, f"{name} {dtype}")
        findings = errors_in(run_outputs)
        if not findings:
            wanted = wanted_of(entry, run_outputs, inputs)
            if entry.id == INIT and not init_is_readable(wanted, inputs):
                return [Finding("values", LACKING["invalid answer"])]
            references, slack = inputs.inputs | inputs.expected, 10 if dtype == "float32" else 1
            findings = compare.compare(
                entry.id, wanted, DTYPES[dtype], references, reveal=False, slack=slack
            )
        if any(not finding.slight for finding in findings):
            return findings
    return findings


def wanted_of(entry: GradedTask, run_outputs: Mapping[str, Any], inputs: Hidden) -> dict[str, Any]:
    """The outputs that a right function has, None where they are lacking; others are left out."""
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


def mistakes_in(entry: GradedTask, outputs: Mapping[str, Any]) -> list[Mistake]:
    """The known mistakes, by what the function makes of the published inputs."""
    for group in runners.groups_of(entry.id):
        run_outputs = of_run(outputs, f"{PUBLIC} {group}")
        shown = str(run_outputs.get("error", "")) if "error kind" in run_outputs else run_outputs
        mistakes, _ = references.known_mistakes(group).find(shown, decisive="values")
        if mistakes:
            return mistakes
    return []
