"""The checks of parts 1 and 3, one function at a time: what is wrong, and what it probably is.

Functions are run as their tasks say (runs.py), what they compute is compared with the references
(checks/compare.py) and looked up among the known mistakes (checks/known.py). Where none is known,
only facts are said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from torch import Tensor

from checks import known, properties
from checks.compare import check as check_outputs
from checks.compare import compare, is_close
from checks.errors import attempt, describe
from checks.findings import Finding, named
from checks.graded_tasks import GradedTask, graded_task
from checks.part1 import adamw_checks
from checks.task import Outputs, outputs_of, task_of

LAYER, LAYER_WHOLE, OPTIMIZER = "bert.layer", "bert.layer, whole", "optimizer.step"
WHOLE_RUNS = {  # without stand-ins, for those that reach the correct result in another way
    LAYER: LAYER_WHOLE,
    "classifier.forward": "classifier.forward, whole",
}
LOST_DIGITS = "all of this is right in float64, but not in float32, in which models are trained"
RANDOM = (
    "the same inputs give other results in every run{}: random numbers are in it that are not "
    "those of nn.Dropout, as the initial weights of a layer that you have added"
)


def check(entry: GradedTask) -> list[Finding]:
    """What is wrong with the student's function for a task; nothing if it is correct."""
    init = graded_task("classifier.init")
    if entry.id == "classifier.forward" and check(init):
        return [Finding("waits", f"for Task {init.number}")]
    is_optimizer = entry.id == OPTIMIZER
    findings = attempt(adamw_checks.check if is_optimizer else partial(check_outputs, entry.id))
    if isinstance(findings, BaseException):  # there is no such class
        return [describe(findings)]
    if findings and entry.id in WHOLE_RUNS and not check_outputs(WHOLE_RUNS[entry.id]):
        return []
    if findings and findings[0].kind == "not started":
        stub = re.match(r"Task (\d\.\d)", findings[0].text)
        if stub and stub[1] != entry.number:
            return [Finding("waits", f"for Task {stub[1]}, a stub that it calls")]
        return findings[:1]
    return findings + explain(entry.id, findings) if findings else []


def explain(task_id: str, findings: Sequence[Finding]) -> list[Finding]:
    """A property that fails, the known mistakes, and facts on what those leave unexplained.

    Args:
        findings: what is wrong with it.
    """
    outputs = outputs_of(task_id)
    runs = {task_id: outputs}
    if task_id == LAYER:  # it may not call what has stand-ins
        runs[LAYER_WHOLE] = outputs_of(LAYER_WHOLE)
    run, mistakes, left = known.find_in_runs(runs)
    is_wrong = task_id == OPTIMIZER or compare(task_id, outputs)  # not in float32 alone
    found = properties.failing(task_id, findings[0], outputs) if is_wrong else []
    if mistakes and is_wrong:
        # a judge says all that is wrong by itself
        facts = [] if task_of(run).judge else unexplained(runs[run], left)
        return found + named(mistakes) + [Finding("left", text) for text in facts]
    text = random_numbers(task_id, outputs)
    if not text and not is_wrong and findings[0].kind != "error":
        text = LOST_DIGITS
    return found + [Finding("fact", text)] * bool(text)


def unexplained(outputs: Outputs, left: Sequence[str]) -> list[str]:
    """What known mistakes do not explain."""
    if not left:
        return []
    what = [adamw_checks.ABOUT.get(name, name.replace("/", " of ", 1)) for name in left[:3]]
    texts = [f"that is not all: it does not explain {', '.join(what)}"]
    cut = [name.partition("/")[2] for name in left if outputs[name] is None and "grad" in name]
    if cut:
        texts.append(f"no gradient arrives at {', '.join(cut)} (detached, or under no_grad?)")
    return texts


def random_numbers(task_id: str, outputs: Outputs) -> str:
    """What is said where a second run gives other results: the checks leave dropout no chance."""
    again = outputs_of(task_id)
    tensors = [n for n, x in outputs.items() if isinstance(x, Tensor)]
    pairs = {n: (outputs[n], again[n]) for n in tensors if isinstance(again.get(n), Tensor)}
    numbers = {n: [x.nan_to_num() for x in pair] for n, pair in pairs.items()}
    changed = {n.split("/")[0] for n, pair in numbers.items() if not is_close(*pair, 1e-6)}
    when = "" if "values" in changed else " in training mode"
    return RANDOM.format(when) if changed & {"values", "dropout"} else ""
