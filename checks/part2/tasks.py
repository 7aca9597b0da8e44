"""The verdicts on part 2: MultitaskBERT in multitask_classifier.py, one function at a time."""

from __future__ import annotations

import importlib
import traceback

import torch

from checks import compare
from checks.errors import describe
from checks.findings import Finding, faulty
from checks.graded_tasks import GradedTask, graded_task
from checks.part1 import devices
from checks.part2.batches import batch_for
from checks.part2.models import FORWARD, INIT, PREDICTIONS, function_of, student_model
from checks.part2.properties import PROPERTIES, ask
from checks.part2.subjects import Function, Made
from checks.task import WHOLE

CHECKED = {
    "multitask.init": "BERT loaded, frozen or trainable as asked, layers of your own",
    "multitask.forward": "shape, padding, other sentences, gradients",
    "multitask.predict_sentiment": "logits, padding, other sentences, gradients",
    "multitask.predict_paraphrase": "logits, both sentences, padding, other pairs, gradients",
    "multitask.predict_similarity": "scores, both sentences, padding, other pairs, gradients",
}
NOT_BEGUN = Finding("not started", "")
WAITS_FOR_FORWARD = Finding("waits", f"for Task {graded_task(FORWARD).number}")


def check(entry: GradedTask) -> list[Finding]:
    """What is wrong with the student's function for a task, then hints.

    A fault that an earlier task may have caused is not a finding of this one: it waits.
    """
    if not_begun(entry.id):
        return [NOT_BEGUN]
    findings = findings_in(entry.id)
    wrong = faulty(findings)
    if not wrong or entry.id == INIT:
        return findings
    if faulty(findings_in(INIT)):
        return [Finding("waits", f"for Task {graded_task(INIT).number}")]
    if compare.check(WHOLE):
        return [Finding("waits", "for bert.py (python sanity_check.py --part 1)")]
    forward = faulty(findings if entry.id == FORWARD else findings_in(FORWARD))
    if forward and not is_form_of_its_own(forward[0]):
        return findings if entry.id == FORWARD else [WAITS_FOR_FORWARD]
    if entry.id == FORWARD:
        return [Finding("hint", f"{wrong[0].text}. Your predictions get along with it.")]
    return findings


def is_form_of_its_own(fault: Finding) -> bool:
    """Whether a fault of forward is none, since the predictions get along with what it returns."""
    correct = [not faulty(findings_in(task_id)) for task_id in PREDICTIONS]
    return all(correct) or (fault.kind == "shape" and any(correct))


def not_begun(task_id: str) -> bool:
    """Whether the function itself, not one that it calls, raises NotImplementedError."""
    name, cls = function_of(task_id), importlib.import_module("multitask_classifier").MultitaskBERT
    try:
        if task_id == INIT:
            student_model("finetune")
        else:  # nothing of a stub needs its model
            getattr(cls, name)(None, *(x for pair in batch_for(task_id) for x in pair))
    except (Exception, SystemExit) as error:
        innermost = traceback.extract_tb(error.__traceback__)[-1].name
        return describe(error).kind == "not started" and innermost == name
    return False


def findings_in(task_id: str) -> list[Finding]:
    """The first property of a function that does not hold, an exception being one; and hints."""
    with torch.random.fork_rng(devices=[]):
        try:
            subject = Made() if task_id == INIT else Function(task_id)
            return ask(PROPERTIES[task_id], subject, graded_task(task_id).paper)
        except (Exception, SystemExit) as error:
            finding = describe(error)
    if finding.kind == "not started":  # a function that this one calls
        return [Finding("waits", f"for {finding.text}")]
    return [finding]


def warnings_of(entry: GradedTask) -> list[Finding]:
    """What costs no points but would fail on a GPU: tensors that the function makes on the CPU."""
    if entry.id == INIT:
        return []
    model = student_model("finetune")[0].to(devices.OTHER)
    batch = [x.to(devices.OTHER) for pair in batch_for(entry.id) for x in pair]
    text = devices.meeting(lambda: getattr(model, function_of(entry.id))(*batch))
    return [Finding("warning", text)] if f"({entry.file}:" in text else []
