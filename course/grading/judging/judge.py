"""Compare what came out of the sandbox with the right answers, in the grader's own process.

Only numbers count, and only where they are there: nothing that a submission says about itself is
evidence. A task has rows (values, gradients, padding, dropout; for the optimizer its cases). Where
the first row is wrong, the others are not counted, and what is lost is what costs.toml says of the
one known mistake that the results show, or all. Right values are never shown.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from checks import compare, known
from checks.findings import ROOT, Finding, Mistake
from checks.graded_tasks import GRADED_TASKS, GradedTask
from checks.part1.adamw_checks import KEPT, TOLERANCE, make_cases
from checks.part1.tasks import unexplained
from checks.references import under
from checks.task import ERROR, KINDS
from course.grading.judging.hidden import SOLVED, Hidden, runs_of
from course.grading.sandbox.runs import DTYPES
from course.grading.types import NOT_COUNTED, RIGHT, STATUSES, WRONG, Verdict

PUBLIC, HIDDEN = "public", "hidden"  # sets of inputs
INIT, OPTIMIZER = "classifier.init", "optimizer.step"
DECAY, KNOWN = "weight decay", "known"
MOST_MESSAGES = 3  # of differences; then what known mistakes leave unexplained
# The optimizer's rows: what each is about, and the outputs that show it; those of DECAY are decay/…
OPTIMIZER_ROWS = {
    "the update": ("values/plain", "values/large_eps", "values/tiny_gradients", "values/long"),
    DECAY: (),
    "correct_bias=False": ("values/uncorrected",),
    "parameter groups, schedules": ("values/groups", "values/schedule"),
    "parameters without gradients": ("values/missing_gradients",),
    "resuming": ("values/resume",),
    "gradients left as they are": ("gradient/kept",),
}
NEEDS = {  # cases of weight decay → those without it that have to be right to tell of it
    "decay/decay_uncorrected": {"values/uncorrected"},
    "decay/decay_of_groups": {"values/groups", "values/schedule", "values/missing_gradients"},
}
WITHOUT_PADDING = tuple(kind for kind in KINDS if kind != "padding")  # nothing is masked
ROWS = {
    "bert.add_norm": WITHOUT_PADDING,
    "classifier.forward": WITHOUT_PADDING,
    OPTIMIZER: tuple(OPTIMIZER_ROWS),
    INIT: ("values",),
    "modern.rotary": ("values", "gradients", "inputs"),
    "modern.local_mask": ("values",),
    "modern.geglu": WITHOUT_PADDING,
}


def rows_of(entry: GradedTask) -> tuple[str, ...]:
    """The names of a task's rows; the others depend on the first one."""
    return ROWS.get(entry.id, KINDS)


@functools.cache
def costs() -> dict[str, dict[str, float]]:
    """What known mistakes cost, by task and by the mistake's name; KNOWN are all others."""
    return tomllib.loads((ROOT / "course" / "costs.toml").read_text(encoding="utf-8"))


@functools.cache
def cost_of(task_id: str, mistake: str) -> float | None:
    """What a known mistake costs; None for one that leaves the task's first row right."""
    for table in (known.load_table(task_id), known.load_table(f"{task_id}, whole")):
        rows = [row for row, names in enumerate(table.names) if names == (mistake,)]
        first = OPTIMIZER_ROWS["the update"] if task_id == OPTIMIZER else "values/"
        columns = [i for i, name in enumerate(table.outputs) if name.startswith(first)]
        wrong, right = table.rows[rows], table.rows[table.base[rows]]
        if not known.alike(wrong[:, columns], right[:, columns]).all():
            return costs()[task_id].get(mistake, costs()[task_id][KNOWN])
    return None


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
        cost = cost_of(entry.id, mistakes[0].name) if len(mistakes) == 1 else None
    return Verdict(status, rows, tuple(messages), tuple(mistakes), cost)


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
        return without_results(entry, "waits", f"it waits for Task {titles[error.text]}")
    if error.kind == "crashed":
        return without_results(entry, "crashed", f"{entry.file} cannot be imported: {error.text}")
    return without_results(entry, error.kind) if error.kind == "not started" else None


def judge_optimizer(
    entry: GradedTask,
    outputs: Mapping[str, Any],
    expected: Mapping[str, Mapping[str, Tensor]],
    seed: int,
) -> Verdict:
    """The verdict on an optimizer: trajectories on prescribed gradients against the right ones.

    Only the cases of DECAY have weight decay, so that a mistake in it costs that row only. It may
    come before the update or after it.

    Args:
        outputs: of runs.optimizer, from the sandbox.
        expected: right trajectories by the order of weight decay.
        seed: of the hidden cases.
    """
    got = under("hidden|", outputs)
    if error := error_in(got):
        return stopped(entry, error) or without_results(entry, "wrong", error.text)
    right = expected["after"]  # without decay both orders are the same
    about = {case.output: case.about for case in make_cases(seed)} | {KEPT: "p.grad afterwards"}
    decays = {name for name in about if name.startswith("decay/")}

    def off_in(names: Iterable[str], paths: Mapping[str, Tensor]) -> list[str]:
        return [n for n in names if not compare.is_close(got.get(n), paths[n], TOLERANCE)]

    wrong = {*off_in(about, right)} - decays
    shows = [name for name in about if name in decays and wrong.isdisjoint(NEEDS.get(name, ()))]
    off = min((off_in(shows, paths) for paths in expected.values()), key=len)
    is_right = {row: wrong.isdisjoint(names) for row, names in OPTIMIZER_ROWS.items()}
    is_right[DECAY] = not off
    messages = [f"trajectory ({about[name]}): wrong" for name in about if name in {*wrong, *off}]
    shown = under(f"{PUBLIC}|", outputs)
    shown = {name: shown.get(name) for name in about}
    mistakes = known.find(entry.id, shown)[0] if messages else []
    return verdict_of(entry, is_right, messages[:4], mistakes)


def judge_part_1(
    entry: GradedTask,
    outputs: Mapping[str, Any],
    hidden: Hidden,
    init_is_right: bool = True,
) -> Verdict:
    """A task of bert.py, classifier.py or modern_bert.py.

    One way of running it that is right is enough. If none is, the first one tells what is wrong.

    Args:
        outputs: of runs.part_1.
        hidden: the inputs, and the correct outputs.
        init_is_right: if not, the classifier's forward is judged with our __init__.
    """
    by_run = {
        name: findings_of(task_id, under(f"{name} ", outputs), hidden)
        for name, task_id in runs_of(entry).items()
        if name != SOLVED or not init_is_right
    }
    if not all(by_run.values()):
        return verdict_of(entry, dict.fromkeys(rows_of(entry), True))
    findings = by_run.get(SOLVED) or next(iter(by_run.values()))
    if verdict := stopped(entry, findings[0]):
        return verdict
    kinds = {finding.kind for finding in findings}
    is_right = {row: row not in kinds for row in rows_of(entry)}
    is_right["values"] = kinds <= {*KINDS[1:]}
    mistakes, facts = mistakes_in(entry, outputs, [SOLVED] if SOLVED in by_run else [*by_run])
    messages = [finding.text for finding in findings[:MOST_MESSAGES]]
    return verdict_of(entry, is_right, [*messages, *facts], mistakes)


def findings_of(task_id: str, outputs: Mapping[str, Any], hidden: Hidden) -> list[Finding]:
    """What is wrong with a run: sharply in float64, then as it will be used, in float32."""
    names = [*under(f"{task_id}/", hidden.expected)]
    names = [name for name in names if not name.endswith(compare.KEYS_FIRST)]
    findings: list[Finding] = []
    for dtype in DTYPES:
        got = under(f"{dtype}|", outputs)
        missing = [n for n in names if n not in got and known.OPTIONAL not in n]
        wanted = {n: got[n] for n in names if n in got}
        if error := error_in(got):
            wanted, missing = {ERROR: error}, []
        try:
            references = hidden.inputs | hidden.expected
            findings = compare.compare(task_id, wanted, DTYPES[dtype], references, reveal=False)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            return [Finding("values", STATUSES["invalid answer"])]
        for kind, _, what in (name.partition("/") for name in missing):
            findings.append(Finding(kind, f"{kind} of {what}: never computed"))
        if any(not finding.slight for finding in findings):
            return findings
    return findings


def mistakes_in(
    entry: GradedTask, outputs: Mapping[str, Any], runs: Sequence[str]
) -> tuple[list[Mistake], list[str]]:
    """The known mistakes, by what the function makes of the published inputs; what else is off.

    Args:
        runs: the names of the runs to look at, one after the other.
    """
    shown: dict[str, Mapping[str, Any]] = {}
    for name in runs:
        got = under(f"{PUBLIC} {name}|", outputs)
        made = {n: output for n, output in got.items() if "error" not in n}
        error = error_in(got)
        shown[runs_of(entry)[name]] = made | ({ERROR: error} if error else {})
    run, mistakes, left = known.find_in_runs(shown)
    return mistakes, unexplained(shown[run], left) if mistakes else []
