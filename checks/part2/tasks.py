"""The verdicts on part 2: MultitaskBERT in multitask_classifier.py, one function at a time.

``check(task)`` gives the findings: calls.py calls the student's code and keeps what it returns, and
``judge`` looks at these arrays only. This file does not know how any task is solved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from checks.findings import Finding, faulty
from checks.graded_tasks import GradedTask, graded_task
from checks.part1 import devices
from checks.compare import check as check_model
from checks.task import WHOLE
from checks.part2.arrays import NOT_BEGUN, Stopped, error_of, loud_rows, seen_in
from checks.part2.batches import LENGTHS, batch_for
from checks.part2.calls import Measured, call, measure
from checks.part2.init_properties import MATRICES, judge_init
from checks.part2.models import FORWARD, INIT, PREDICTIONS, SINGLE, student_model
from checks.part2.properties import (
    chance,
    changed_in_place,
    dependence,
    form,
    gradients,
    identical_sentences,
    misused,
    not_squashed,
    single_row,
)

CHECKED = {
    "multitask.init": "BERT loaded, frozen or trainable as asked, layers of your own",
    "multitask.forward": "shape, padding, other sentences, gradients",
    "multitask.predict_sentiment": "logits, padding, other sentences, gradients",
    "multitask.predict_paraphrase": "logits, both sentences, padding, other pairs, gradients",
    "multitask.predict_similarity": "scores, both sentences, padding, other pairs, gradients",
}
# What a fault is about. Of "shape", "values", "error" and the rest all of these fail: nothing else
# was looked at, or can be told from results that are of no use.
KINDS = dict.fromkeys(CHECKED, ("form", "sentences", "neighbours", "learning", "inputs"))
# What to read about a mistake, where it is not the task's own section
READ = {
    "bert_not_loaded": "Devlin et al. 2019, §3",
    "softmax_returned": "docs/part2.md, Task 2.3",
    "mask_not_given": "docs/handout.md, Task 1.1",
    "masks_swapped": "docs/handout.md, Task 1.1",
    "padding_pooled": "docs/part2.md, Task 2.2",
    "dropout_always_on": "docs/handout.md, Task 1.2",
    "dropout_on_score": "docs/handout.md, Task 1.2",
}
# A mistake that is named, and the names of what only follows from it
FOLLOWS = {
    "class_returned": ("cut_off", "bert_detached", "sentence_unused"),
    "rounded": ("cut_off", "bert_detached", "sentence_unused"),
    "sentence_unused": ("sentence_detached", "bert_detached"),
    "one_sentence_twice": ("sentence_detached", "bert_detached"),
    "rows_mixed": ("probability_returned", "softmax_returned"),
    "layer_made_at_call": ("dropout_always_on",),
}


def judge(task_id: str, measured: Measured, seed: int = 0) -> list[Finding]:
    """Findings of one task from what was measured with that seed."""
    if "not begun" in measured:
        return [NOT_BEGUN]
    try:
        if task_id == INIT:
            findings = judge_init(measured, seed)
        else:
            findings = judge_function(task_id, measured, seed)
    except Stopped as stopped:
        findings = [explain(task_id, stopped.finding)]
    return causes_first(findings)


def judge_function(task_id: str, measured: Measured, seed: int) -> list[Finding]:
    """All properties of one function, the form of its result first."""
    batch, seen = batch_for(task_id, seed), seen_in(measured)
    if error := error_of(measured, "result"):
        return misused(batch, seen) or [explain(task_id, error)]
    findings = form(task_id, measured.get("result"))
    well_formed = not findings or findings[0].name == "axis_left"
    if well_formed:
        findings += not_squashed(task_id, loud_rows(measured))
        findings += gradients(task_id, measured, batch)
        findings += dependence(measured, batch, seen)
    if not faulty(findings):
        findings += single_row(task_id, measured) + identical_sentences(task_id, measured)
    elif causes := misused(batch, seen):
        findings = causes + [replace(finding, name="") for finding in findings]
    findings += changed_in_place(measured, batch)
    return findings + (chance(task_id, measured) if well_formed else [])


def causes_first(findings: list[Finding]) -> list[Finding]:
    """The same, without the names of what only follows; what has a name comes first."""
    names = {finding.name for finding in findings}
    following = {name for cause in names for name in FOLLOWS.get(cause, ())}
    findings = [replace(f, name="") if f.name in following else f for f in findings]
    return sorted(findings, key=lambda finding: not finding.name)


FindingsOf = Callable[[str], list[Finding]]  # task id → what judge returns


def explain(task_id: str, finding: Finding) -> Finding:
    """An exception, with what it probably means in a multitask model."""
    shapes = MATRICES.search(finding.text)
    rows = [f"{times * len(LENGTHS[0])}x" for times in (2, 3, 4)]  # vectors of this many sentences
    if shapes and task_id not in SINGLE and shapes[1].startswith(tuple(rows)):
        text = "; two sentences are put below each other: torch.cat joins along dim=0 by default"
        return replace(finding, text=finding.text + text, name="joined_along_batch")
    if "SimpleNamespace' object has no attribute" in finding.text:
        return replace(finding, name="unknown_option")
    return finding


def bert_is_correct() -> bool:
    """Whether the student's whole BertModel computes what it should."""
    return not check_model(WHOLE)


def findings_in(task_id: str) -> list[Finding]:
    """Findings of one task, an exception being one of them."""
    return judge(task_id, measure(task_id))


def faults(task_id: str, findings_of: FindingsOf) -> list[Finding]:
    """Findings of one task that are not hints.

    A forward that the predictions get along with is correct: those may work in another way.
    """
    wrong = faulty(findings_of(task_id))
    if wrong and task_id == FORWARD:
        correct = [not faults(name, findings_of) for name in PREDICTIONS]
        only_its_form = {finding.kind for finding in wrong} == {"shape"}
        if all(correct) or (only_its_form and any(correct)):
            return []
    return wrong


def waits(
    task_id: str, findings_of: FindingsOf, bert_is_correct: Callable[[], bool]
) -> Finding | None:
    """The earlier task that has to be correct before a fault can be this function's."""
    if task_id == INIT:
        return None
    if faults(INIT, findings_of):
        return Finding("waits", f"for Task {graded_task(INIT).number}")
    if not bert_is_correct():
        return Finding("waits", "for bert.py (python sanity_check.py --part 1)")
    if task_id != FORWARD and faults(FORWARD, findings_of):
        return Finding("waits", f"for Task {graded_task(FORWARD).number}")
    return None


def conclude(
    entry: GradedTask, findings_of: FindingsOf, bert_is_correct: Callable[[], bool]
) -> list[Finding]:
    """What is wrong with the function for a task, then hints, given the findings of all tasks.

    A fault that an earlier task may have caused is not a finding of this one: it waits.
    """
    findings = findings_of(entry.id)
    if findings == [NOT_BEGUN] or not faulty(findings):
        return findings
    if waiting := waits(entry.id, findings_of, bert_is_correct):
        return [waiting]
    if faults(entry.id, findings_of):
        return [with_source(entry, finding) for finding in findings]
    return [Finding("hint", f"{fault.text}; your predictions get along") for fault in findings]


def check(entry: GradedTask) -> list[Finding]:
    """What is wrong with the student's function for a task, then hints."""
    return conclude(entry, findings_in, bert_is_correct)


def warnings_of(entry: GradedTask) -> list[Finding]:
    """What costs no points but would fail on a GPU: tensors that the function makes on the CPU."""
    if entry.id == INIT:
        return []
    model = student_model("finetune")[0].to(devices.OTHER)
    batch = [tuple(t.to(devices.OTHER) for t in pair) for pair in batch_for(entry.id)]
    text = devices.meeting(lambda: call(model, entry.id, batch))
    return [Finding("warning", text)] if f"({entry.file}:" in text else []


def with_source(entry: GradedTask, finding: Finding) -> Finding:
    """A finding; if its mistake is known, with what to read about it."""
    if not finding.name:
        return finding
    return replace(finding, text=f"{finding.text} (read {READ.get(finding.name, entry.paper)})")
