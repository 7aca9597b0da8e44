"""The checks of part 1: bert.py, optimizer.py and classifier.py, one function at a time.

``check(task)`` gives the findings. The other files here say which step they are: references.py
(stored results), runners.py (run), stand_ins.py (replay), compare.py (judge), explain.py and the
probes (explain); those of AdamW begin with adamw_. None knows how any task is solved.
"""

from __future__ import annotations

import importlib
import re

import torch
from torch import nn

from checks.errors import attempt, describe
from checks.findings import Finding
from checks.graded_tasks import GradedTask, graded_task
from checks.part1 import adamw_checks, adamw_mistakes, devices, ready_made
from checks.part1.compare import check_model, run_and_compare
from checks.part1.explain import explain

CHECKED = {
    "bert.attention": "values, gradients, padding, dropout",
    "bert.add_norm": "values, gradients, dropout",
    "bert.layer": "values, gradients, mask, dropout",
    "bert.embed": "values, gradients, padding, dropout",
    "optimizer.step": f"all of its {len(adamw_checks.CHECKS) + 1} checks",  # and the order of decay
    "classifier.init": "the Linear, dropout's probability, a frozen or trainable encoder",
    "classifier.forward": "values, gradients, dropout",
}


def check(entry: GradedTask) -> list[Finding]:
    """What is wrong with the student's function for a task; nothing if it is correct."""
    if entry.id == "optimizer.step":
        findings = attempt(check_optimizer)
        return [describe(findings)] if isinstance(findings, BaseException) else findings
    if entry.id == "classifier.forward" and check(graded_task("classifier.init")):
        if not forward_begun():
            return [Finding("not started", "")]
        return [Finding("waits", f"for Task {graded_task('classifier.init').number}")]
    if entry.id == "classifier.init":
        findings = run_and_compare(entry.id, torch.float32)
    else:
        findings = check_model(entry.id)
    if entry.id == "bert.layer" and findings and not check_model(entry.id, alone=False):
        return []  # it reaches the correct result in another way
    if findings and findings[0].kind == "not started":
        return [of_another(entry, findings[0])]
    return findings + explain(entry.id, findings) if findings else []


def warnings_of(entry: GradedTask) -> list[Finding]:
    """What costs no points but matters: ready-made functions, and what would fail on a GPU."""
    texts = [*ready_made.warnings_of(entry), devices.two_devices(entry.id)]
    return [Finding("warning", text) for text in texts if text]


def of_another(entry: GradedTask, finding: Finding) -> Finding:
    """A stub that was reached; if it is another task's, this function waits for that."""
    stub = re.match(r"Task (\d\.\d)", finding.text)
    if stub is None or stub[1] == entry.number:
        return finding
    return Finding("waits", f"for Task {stub[1]}, a stub that it calls")


def check_optimizer() -> list[Finding]:
    """Task 1.5: all checks of the optimizer, and what explains those that fail."""
    opt_class = importlib.import_module("optimizer").AdamW
    if not adamw_checks.is_started(opt_class):
        return [Finding("not started", "")]
    names_by_text: dict[str, list[str]] = {}  # many checks may fail with one and the same error
    for name, text in adamw_checks.failures(opt_class).items():
        title = adamw_checks.TITLES.get(name, name)
        names_by_text.setdefault(" ".join(text.split()), []).append(title)
    texts = [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {text}"
        for text, names in names_by_text.items()
    ]
    explanations = adamw_mistakes.explain(opt_class) if texts else []
    return [*(Finding("values", text) for text in texts), *explanations]


def forward_begun() -> bool:
    """Whether the classifier's forward is more than its stub; needs no working __init__."""
    classifier = importlib.import_module("classifier").BertSentimentClassifier
    ids = torch.ones(1, 2, dtype=torch.int64)
    bare = classifier.__new__(classifier)
    nn.Module.__init__(bare)
    result = attempt(classifier.forward, bare, ids, ids)
    return not isinstance(result, BaseException) or describe(result).kind != "not started"
