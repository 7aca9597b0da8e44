"""The properties of part 2: what every correct function has, however it is written.

There is no one correct result here: two sentences may be encoded apart or together, pooled and
compared in many ways, and a similarity may have any scale. So each property asks for one thing: a
shape, logits rather than probabilities, both sentences counting, padding and other rows not
counting, gradients. They are asked in order until one does not hold; hints do not end it. What is
said is in properties.toml, where {f.…} is something of the Function, or Made, that was asked.
"""

from __future__ import annotations

import functools
import importlib
import tomllib
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from checks import compare
from checks.errors import describe
from checks.findings import Finding, faulty
from checks.graded_tasks import GradedTask, graded_task
from checks.part2 import subjects
from checks.part2.subjects import FORWARD, INIT, PREDICTIONS, B, Function, Made
from checks.task import WHOLE

SENTENCES = tomllib.loads(Path(__file__).with_name("properties.toml").read_text(encoding="utf-8"))
L, D = max(subjects.LENGTHS[0]), subjects.TINY["hidden_size"]
NEARLY_5 = 4.9  # of the labels of similarity, which go from 0 to 5


@dataclass(frozen=True)
class Property:
    """One thing that a function must have, or that a hint is about."""

    name: str  # of the mistake where it does not hold, and of its sentence
    kind: str  # of the finding
    holds: Callable[[Any], bool]  # of what is checked


def ask(properties: Iterable[Property], subject: Any, paper: str) -> list[Finding]:
    """The first property that does not hold, in three levels, then the hints before it.

    Args:
        subject: a Function, for instance.
        paper: what to read, where a sentence does not name something else.
    """

    def said(kind: str, sentence: str, name: str = "") -> Finding:
        return Finding(kind, " ".join(sentence.split()).format(f=subject), name=name)

    hints = []
    for asked in properties:
        if not asked.holds(subject):
            words = SENTENCES[asked.name]
            if asked.kind != "hint":
                read = words.get("read", paper)
                return [
                    said(asked.kind, SENTENCES["first"][asked.kind], asked.name),
                    said("property", words["holds"]),
                    said("explained", f"{words['says']} (read {read})"),
                    *hints,
                ]
            hints.append(said("hint", words["says"]))
    return hints


def same(first: Any, second: Any) -> bool:
    """Whether both are tensors of the same numbers."""
    return isinstance(first, Tensor) and isinstance(second, Tensor) and torch.equal(first, second)


def ids_are_ids(f: Function) -> bool:
    """Whether no ids came to BERT as a mask, and no mask as ids."""
    return not any(same(i, mask) or same(m, ids) for i, m in f.seen for ids, mask in f.batch)


def masks_are_own(f: Function) -> bool:
    """Whether no ids came to BERT with the mask of the other sentences."""
    crossed = [(a[0], b[1]) for a in f.batch for b in f.batch if a is not b]
    return not any(same(i, ids) and same(m, mask) for i, m in f.seen for ids, mask in crossed)


def hides_padding(f: Function) -> bool:
    """Whether BERT never attends to padding."""
    return all(same(m > 0, i > 0) for i, m in f.seen)


def is_read_apart(f: Function) -> bool:
    """Whether BERT reads each sentence as it came, so that no position in it can shift."""
    return bool(f.seen) and all(any(same(i, ids) for ids, _ in f.batch) for i, _ in f.seen)


def keeps_axis_of_one(f: Function) -> bool:
    """Whether a batch of one row keeps its axis."""
    return f.call(f.rows(0, 1)).shape[:1] == (1,)


def bert_learns(f: Function) -> bool:
    """Whether a gradient reaches BERT, if any of it is to be trained."""
    grads = f.learning.bert
    return not grads or any(grad is not None and grad.any() for grad in grads)


def own_layers_learn(f: Function) -> bool:
    """Whether anything is to be trained that a result depends on while BERT is frozen."""
    return f.gradients(f.batch, "pretrain").flows


def all_finite(tensors: list[Tensor]) -> bool:
    """Whether all numbers are finite."""
    return all(tensor.isfinite().all() for tensor in tensors)


def trains(parameters: list[nn.Parameter]) -> bool:
    """Whether any of them is to be trained."""
    return any(parameter.requires_grad for parameter in parameters)


ARGUMENTS = [  # that come to BERT; an exception follows from them
    Property("ids_and_mask_swapped", "arguments", ids_are_ids),
    Property("masks_swapped", "arguments", masks_are_own),
]
RESULT = [
    Property("dict_returned", "shape", lambda f: not isinstance(f.result, dict)),
    Property("nothing_returned", "shape", lambda f: f.result is not None),
    Property("not_a_tensor", "shape", lambda f: isinstance(f.result, Tensor)),
    Property("class_returned", "shape", lambda f: f.result.is_floating_point()),
    Property("axis_left", "form", lambda f: f.row == "sentence" or f.shape != (B, 1)),
    Property("two_logits", "shape", lambda f: f.row == "sentence" or f.shape != (B, 2)),
    Property("every_pair", "shape", lambda f: f.shape != (B, B)),
    Property("tokens_left", "shape", lambda f: len(f.shape) != 3),
    Property("joined_along_batch", "shape", lambda f: f.shape[:1] != (2 * B,)),
    Property("wrong_axis", "shape", lambda f: f.shape[:1] not in ((L,), (D,))),
    Property("wrong_shape", "shape", lambda f: f.shape == f.wanted),
    Property("not_finite", "finite", lambda f: all_finite([f.result])),
    Property("layer_made_at_call", "chance", lambda f: same(f.call(seed=1), f.result)),
    Property("dropout_always_on", "chance", lambda f: same(f.call(chance=True), f.result)),
]
ROWS = [
    Property("words_unused", "sentences", lambda f: len(f.unused) < len(f.sides)),
    Property("sentence_unused", "sentences", lambda f: not f.unused),
    Property("rows_mixed", "neighbours", lambda f: not f.changes(f.rows(0, 3), f.rows(3, B))),
    Property("mask_not_given", "neighbours", lambda f: not f.leaks or hides_padding(f)),
    Property("padding_pooled", "neighbours", lambda f: not f.leaks),
    Property(
        "padding_counted", "neighbours", lambda f: not (f.counts_columns and is_read_apart(f))
    ),
    Property("positions_shift", "hint", lambda f: not f.counts_columns),
]
ROUNDED = [
    Property("class_returned", "integers", lambda f: not f.is_rounded or not f.is_probability),
    Property("rounded", "integers", lambda f: not f.is_rounded),
]
LIMITED = Property("limited", "hint", lambda f: not f.limit)
LOGITS = [Property("probability_returned", "logits", lambda f: not f.is_probability), LIMITED]
ANSWERS = [Property("answer_always_yes", "logits", lambda f: not f.is_probability), LIMITED]
LEARNING = [
    Property("cut_off", "learning", lambda f: f.learning.flows),
    Property("bert_detached", "learning", bert_learns),
    Property("gradient_not_finite", "learning", lambda f: all_finite(f.learning.all)),
]
HEADS = [
    Property("dropout_on_score", "dropout", lambda f: f.result.numel() not in f.dropouts),
    Property("no_dropout", "hint", lambda f: f.is_random),
]
SQUEEZED = Property("squeezed", "single", keeps_axis_of_one)
PAIR = [
    Property("side_detached", "hint", lambda f: not f.detached),
    Property("layers_unused", "hint", own_layers_learn),  # a cosine needs no layer
    Property("squeezed", "hint", keeps_axis_of_one),
    Property("not_finite_if_equal", "identical", lambda f: all_finite([f.call(f.equal)])),
    Property("slope_if_equal", "hint", lambda f: all_finite(f.gradients(f.equal).all)),
]
LAYERS = Property("layers_unused", "learning", own_layers_learn)
PROPERTIES = {
    INIT: [
        Property("bert_not_loaded", "bert", lambda made: bool(made.bert)),
        Property("bert_not_registered", "bert", lambda m: m.keeps_weights or m.registered),
        Property("bert_not_loaded", "bert", lambda made: made.keeps_weights),
        Property("bert_not_frozen", "options", lambda made: not trains(made.frozen_bert)),
        Property("bert_always_frozen", "options", lambda made: trains(made.bert)),
        Property("layers_in_list", "layers", lambda made: not made.unseen),
        Property("no_layers", "layers", lambda made: bool(made.own)),
        Property("layers_frozen", "layers", lambda m: trains(m.own) and trains(m.frozen_own)),
    ],
    FORWARD: [*RESULT, *ROWS, *LEARNING, SQUEEZED],
    PREDICTIONS[0]: [*RESULT, *ROUNDED, *ROWS, *LOGITS, *LEARNING, LAYERS, *HEADS, SQUEEZED],
    PREDICTIONS[1]: [*RESULT, *ROUNDED, *ROWS, *ANSWERS, *LEARNING, *HEADS, *PAIR],
    PREDICTIONS[2]: [
        *(*RESULT, *ROUNDED, *ROWS, *LEARNING, *HEADS, *PAIR),
        Property("small_scale", "hint", lambda f: not len(f.at_random) or f.highest > NEARLY_5),
    ],
}


def check(entry: GradedTask) -> list[Finding]:
    """What is wrong with the student's function for a task, then hints.

    A fault that an earlier task may have caused is not a finding of this one: it waits.
    """
    if not_begun(entry.id):
        return [Finding("not started", "")]
    findings = findings_in(entry.id)
    wrong = faulty(findings)
    if not wrong or entry.id == INIT:
        return findings
    if faulty(findings_in(INIT)):
        return [waits_for(INIT)]
    if compare.check(WHOLE):
        return [Finding("waits", "for bert.py (python sanity_check.py --part 1)")]
    forward = faulty(findings if entry.id == FORWARD else findings_in(FORWARD))
    if forward and not is_form_of_its_own(forward[0]):
        return findings if entry.id == FORWARD else [waits_for(FORWARD)]
    if entry.id == FORWARD:
        return [Finding("hint", f"{wrong[0].text}. Your predictions get along with it.")]
    return findings


def waits_for(task_id: str) -> Finding:
    """That another task comes first."""
    return Finding("waits", f"for Task {graded_task(task_id).number}")


def is_form_of_its_own(fault: Finding) -> bool:
    """Whether a fault of forward is none, since the predictions get along with what it returns."""
    correct = [not faulty(findings_in(task_id)) for task_id in PREDICTIONS]
    return all(correct) or (fault.kind == "shape" and any(correct))


def not_begun(task_id: str) -> bool:
    """Whether the function itself, not one that it calls, raises NotImplementedError."""
    cls = importlib.import_module("multitask_classifier").MultitaskBERT
    name = "__init__" if task_id == INIT else task_id.split(".")[1]
    try:
        if task_id == INIT:
            subjects.student_model("finetune")
        else:  # nothing of a stub needs its model
            getattr(cls, name)(None, *(x for pair in subjects.batch_for(task_id) for x in pair))
    except (Exception, SystemExit) as error:
        innermost = traceback.extract_tb(error.__traceback__)[-1].name
        return describe(error).kind == "not started" and innermost == name
    return False


@functools.cache
def findings_in(task_id: str) -> list[Finding]:
    """The first property of a function that does not hold, an exception being one; and hints."""
    with torch.random.fork_rng(devices=[]):
        try:
            subject = Made() if task_id == INIT else Function(task_id)
            paper = graded_task(task_id).paper
            if task_id != INIT:
                if findings := ask(ARGUMENTS, subject, paper):
                    return findings
                if subject.error:
                    raise subject.error
            return ask(PROPERTIES[task_id], subject, paper)
        except (Exception, SystemExit) as error:
            finding = describe(error)
    if finding.kind == "not started":  # a function that this one calls
        return [Finding("waits", f"for {finding.text}")]
    return [finding]
