"""The checks of parts 1 and 3, one function at a time: what is wrong, and what it probably is.

Functions are run as their tasks say (runs.py), what they compute is compared with the references
(checks/compare.py) and looked up among the known mistakes (checks/known.py). Where none is known,
only facts are said.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from checks import known, properties
from checks.compare import check as check_outputs
from checks.compare import compare, is_close
from checks.errors import attempt, describe
from checks.findings import Finding
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import GradedTask, graded_task
from checks.part1 import adamw_checks
from checks.references import load_references
from checks.task import Outputs, outputs_of, task_of

ATTENTION, ADD_NORM, OPTIMIZER = "bert.attention", "bert.add_norm", "optimizer.step"
LAYER, LAYER_WHOLE = "bert.layer", "bert.layer, whole"
WITH_WHOLE_RUN = (LAYER, "classifier.forward")  # without stand-ins, for other right ways
LOST_DIGITS = "all of this is right in float64, but not in float32, in which models are trained"
MASK = (
    ". The mask, 0 for a token and large and negative at padding, is added to the scores as it is"
)
ACTS = "dropout acts in evaluation mode, as F.dropout without self.training, or a new nn.Dropout"
READY_MADE = (
    "you call torch's ready-made attention, which the rules in docs/handout.md do not allow"
)
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
    if findings and entry.id in WITH_WHOLE_RUN and not check_outputs(f"{entry.id}, whole"):
        return []
    if findings and findings[0].kind == "not started":
        stub = re.match(r"Task (\d\.\d)", findings[0].text)
        if stub and stub[1] != entry.number:
            return [Finding("waits", f"for Task {stub[1]}, a stub that it calls")]
        return findings[:1]
    run = entry.id
    if not findings:
        return [Finding("hint", READY_MADE)] * (run == ATTENTION and watched(run)[1])
    if run == LAYER and findings[0].kind != "error" and known.calls_add_norm_once(outputs_of(run)):
        for earlier in map(graded_task, (ATTENTION, ADD_NORM)):  # it is run with its own
            if check_outputs(earlier.id):
                return [Finding("waits", f"for Task {earlier.number}, with which it is run")]
        run, findings = LAYER_WHOLE, check_outputs(LAYER_WHOLE)
    dropout_acts, is_ready_made = watched(run)
    hints = [Finding("hint", READY_MADE)] * (run == ATTENTION and is_ready_made)
    return findings + explain(entry.id, run, findings, dropout_acts) + hints


def explain(
    task_id: str, run: str, findings: Sequence[Finding], dropout_acts: bool
) -> list[Finding]:
    """A property that fails, the known mistakes, and facts on what those leave unexplained.

    Args:
        run: the id of the run in which something is wrong.
        findings: what is wrong with it.
        dropout_acts: whether it does so in evaluation mode.
    """
    outputs = outputs_of(run)
    runs = {run: outputs}
    if run == LAYER:  # it may not call what has stand-ins
        runs[LAYER_WHOLE] = outputs_of(LAYER_WHOLE)
    is_wrong = task_id == OPTIMIZER or compare(run, outputs)  # not in float32 alone
    is_told = any(finding.output.startswith("modes/") for finding in findings)
    known_run, mistakes, left = known.find_in_runs(runs)
    mistakes.sort(key=lambda m: not known.is_shown_by(known_run, m, findings[0].output))
    found = properties.failing(task_id, findings[0], outputs) if is_wrong else []
    if dropout_acts and not is_told:
        found.append(Finding("fact", ACTS))
    if mistakes and is_wrong:
        # a judge says all that is wrong by itself
        facts = [] if task_of(run).judge else unexplained(runs[known_run], left)
        named = [Finding("named", mistake.text, name=mistake.name) for mistake in mistakes]
        return found + named + [Finding("left", text) for text in facts]
    text = random_numbers(run, outputs)
    if not text and not is_wrong and findings[0].kind != "error":
        text = LOST_DIGITS + MASK * (task_id == ATTENTION)
    return found + [Finding("fact", text)] * bool(text)


def watched(run: str) -> tuple[bool, bool]:
    """Whether dropout acts in evaluation mode, and whether torch's own attention is called."""
    acts = False
    failing = contextlib.suppress(Exception, SystemExit)
    with default_dtype(torch.float64), FixedDropout() as mode, failing:
        for step in task_of(run).steps(load_references()):
            if any(name.startswith("dropout/") for name in step):  # in training mode
                break
            acts = mode.acted
    return acts, F.scaled_dot_product_attention in mode.called


def unexplained(outputs: Outputs, left: Sequence[str]) -> list[str]:
    """What known mistakes do not explain."""
    if not left:
        return []
    what = [adamw_checks.ABOUT.get(name) or in_words(*name.split("/", 1)) for name in left]
    what = [*dict.fromkeys(what)][:3]  # what is wrong in both modes, once
    texts = [f"that is not all: it does not explain {', '.join(what)}"]
    cut = [name.partition("/")[2] for name in left if outputs[name] is None and "grad" in name]
    if cut:
        texts.append(f"no gradient arrives at {', '.join(cut)} (detached, or under no_grad?)")
    return texts


def in_words(kind: str, what: str) -> str:
    """An output's name in a sentence: "the ln_layer that add_norm's call 2 gets"."""
    given, _, call = what.partition(" of add_norm's ")
    is_given = call and kind != "gradients"
    return f"the {given} that add_norm's {call} gets" if is_given else f"{kind} of {what}"


def random_numbers(run: str, outputs: Outputs) -> str:
    """What is said where a second run gives other results: the checks leave dropout no chance."""
    again = outputs_of(run)
    tensors = [n for n, x in outputs.items() if isinstance(x, Tensor)]
    pairs = {n: (outputs[n], again[n]) for n in tensors if isinstance(again.get(n), Tensor)}
    numbers = {n: [x.nan_to_num() for x in pair] for n, pair in pairs.items()}
    changed = {n.split("/")[0] for n, pair in numbers.items() if not is_close(*pair, 1e-6)}
    when = "" if "values" in changed else " in training mode"
    return RANDOM.format(when) if changed & {"values", "dropout"} else ""
