"""The checks of part 2: MultitaskBERT in multitask_classifier.py, one function at a time.

There is no one right answer here: two sentences may be encoded apart or together, pooled and
compared in many ways, and a similarity may have any scale. So nothing is compared with a reference;
each check asks for a property that every way must have: a shape, logits rather than probabilities,
both sentences counting, padding and neighbours in the batch not counting, gradients. What may be
meant is a hint, not a fault. Where the properties tell which mistake it is, the finding has its
name. This file does not know how any task is solved.

``check(task)`` gives the findings: checks/part2/calls.py calls the student's code and keeps what it
returns, and ``judge`` looks at these arrays only. B is the number of sentences or pairs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from checks.findings import Finding, faulty
from checks.fingerprints import projections, same_projections
from checks.graded_tasks import GradedTask, graded_task
from checks.part1 import functions
from checks.part2.calls import (
    CAME,
    FIRST_WORD,
    FORWARD,
    INIT,
    LENGTHS,
    OPTIONS,
    PREDICTIONS,
    SCALES,
    SENTIMENTS,
    SINGLE,
    TINY,
    Batch,
    Measured,
    batch_for,
    function_of,
    measure,
    tiny_encoder,
)

TOLERANCE = 1e-4  # in float32; relative where a result is above 1
WORDS = "encoder word_embedding.weight"
UNUSED = 1e-6  # a change this small of a sentence that matters does not happen
MATRICES = re.compile(r"mat1 and mat2 shapes .*\((\d+x\d+) and (\d+)x")  # in torch's message
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
KINDS[INIT] = ("loaded", "options", "layers")
NOT_BEGUN = Finding("not started", "")
UNREADABLE = Finding("unreadable", "results that are no numbers, or of another shape than before")
SIDES = ("first", "second")
# What to read about a mistake, where it is not the task's own section
READ = {
    "bert_not_loaded": "Devlin et al. 2019, §3",
    "softmax_returned": "docs/handout.md, Task 2.3",
    "mask_not_given": "docs/handout.md, Task 1.1",
    "masks_swapped": "docs/handout.md, Task 1.1",
    "padding_pooled": "docs/handout.md, Task 2.2",
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


# ---------------------------------------------------------------------------------------------
# Judging: nothing but arrays, of which none is taken for granted


class Stopped(Exception):
    """The first call without a result that can be used; nothing after it is looked at."""

    def __init__(self, finding: Finding):
        super().__init__(finding.text)
        self.finding = finding


def error_of(measured: Measured, call: str) -> Finding | None:
    """What a call raised."""
    if f"{call}/error" not in measured:
        return None
    begun = measured.get(f"{call}/error kind") != NOT_BEGUN.kind
    text = str(measured[f"{call}/error"])
    return Finding("error", text) if begun else Finding(NOT_BEGUN.kind, text or "another function")


def take(measured: Measured, name: str, *shape: int | None) -> Tensor:
    """An array in float64.

    Args:
        name: "call" or "call/what".
        shape: wanted; None is any length, and no shape at all any shape.

    Raises:
        Stopped: there is none, or another one, or the call raised something.
    """
    if error := error_of(measured, name.split("/")[0]):
        raise Stopped(error)
    found = measured.get(name)
    if not isinstance(found, Tensor) or not found.is_floating_point():
        raise Stopped(UNREADABLE)
    wrong = len(shape) != found.dim() or any(
        wanted not in (None, length) for wanted, length in zip(shape, found.shape, strict=True)
    )
    if shape and wrong:
        raise Stopped(UNREADABLE)
    return found.detach().double()


def judge(task_id: str, measured: Measured, seed: int = 0) -> list[Finding]:
    """Findings of one task from what was measured with that seed."""
    if "not begun" in measured:
        return [NOT_BEGUN]
    try:
        init = task_id == INIT
        found = judge_init(measured, seed) if init else judge_function(task_id, measured, seed)
    except Stopped as stopped:
        found = [explain(task_id, stopped.finding)]
    return causes_first(found)


def causes_first(findings: list[Finding]) -> list[Finding]:
    """The same, without the names of what only follows; what has a name comes first."""
    names = {finding.name for finding in findings}
    following = {name for cause in names for name in FOLLOWS.get(cause, ())}
    found = [replace(f, name="") if f.name in following else f for f in findings]
    return sorted(found, key=lambda finding: not finding.name)


# ---------------------------------------------------------------------------------------------
# Task 2.1


def judge_init(measured: Measured, seed: int) -> list[Finding]:
    """A BERT is loaded, trained as config.option says, and not alone."""
    findings: list[Finding] = []
    for option in OPTIONS:
        table = take(measured, f"{option}/bert", None, 2 + len(projections(None)))
        if not len(table):
            text = "BertModel.from_pretrained is not called: BERT would start from random weights"
            return [Finding("values", text, name="bert_not_loaded")]
        if not table[:, 0].any():
            text = "BERT is not part of the model, so it is neither trained nor saved: make it an "
            text += "attribute (self.bert = …) or put it in nn.ModuleList"
            return [Finding("values", text, name="bert_not_registered")]
        if not weights_are_kept(table[:, 2:], seed):
            text = "BERT is loaded, but then none of its weights is kept: it would start from "
            return [Finding("values", f"{text}random ones", name="bert_not_loaded")]
        findings += frozen_or_not(option, int((table[:, 1] != 0).sum()), len(table))
        findings += own_layers(option, measured)
    findings = list(dict.fromkeys(findings))  # what is wrong with both options is said once
    if any(finding.name in ("layers_in_list", "no_layers") for finding in findings):
        return findings
    return findings + width_in_code(measured)


def weights_are_kept(found: Tensor, seed: int) -> bool:
    """Whether any matrix of an encoder is still what was loaded (some may be initialised again)."""
    right = [projections(p) for p in tiny_encoder(seed).parameters() if p.dim() > 1]
    return any(
        same_projections(row, wanted) for row in found if row.isfinite().all() for wanted in right
    )


def frozen_or_not(option: str, training: int, parameters: int) -> list[Finding]:
    """What of BERT trains, against what the option asks for."""
    if option == "pretrain" and training:
        text = f"{training} of {parameters} parameters of BERT train; all are to be frozen"
        return [Finding("options", f"option pretrain: {text}", name="bert_not_frozen")]
    if option == "finetune" and not training:
        text = "option finetune: BERT's parameters are frozen; all are to train"
        return [Finding("options", text, name="bert_always_frozen")]
    if option == "finetune" and training < parameters:
        text = f"only {training} of {parameters} parameters of BERT train; if you meant it"
        return [Finding("hint", f"option finetune: {text}, fine")]
    return []


def own_layers(option: str, measured: Measured) -> list[Finding]:
    """There are layers besides BERT, in the model and to train."""
    own = take(measured, f"{option}/own", None)
    if f"{option}/loose" in measured:
        text = f"layers in a plain list or dict (self.{measured[f'{option}/loose']}) are no part "
        text += (
            "of the model: no optimizer trains them, no checkpoint holds them; use nn.ModuleList"
        )
        return [Finding("layers", text, name="layers_in_list")]
    if not len(own):
        text = "no layer of your own besides BERT; a sentiment needs one (what other functions "
        text += "make is new, and random, at every call)"
        return [Finding("layers", text, name="no_layers")]
    if not own.any():
        text = f"option {option}: your own layers are frozen, so nothing can be learnt"
        return [Finding("layers", text, name="layers_frozen")]
    return []


def width_in_code(measured: Measured) -> list[Finding]:
    """A layer of 768 inputs that the functions written so far find too wide for this BERT."""
    if error := error_of(measured, "predictions"):
        raise Stopped(error)
    widths = take(measured, "finetune/widths", None).tolist()
    for name in map(function_of, PREDICTIONS):
        shapes = MATRICES.search(str(measured.get(f"predictions/{name}", "")))
        if shapes and int(shapes[2]) % 768 == 0 and int(shapes[2]) in widths:
            text = f"a layer takes {shapes[2]} numbers, but config.hidden_size is "
            text += f"{TINY['hidden_size']} here, so {name} gives it {shapes[1]}: "
            text += "is 768 written in the code? Every BERT has its own width"
            return [Finding("layers", text, name="width_in_code")]
    return []


# ---------------------------------------------------------------------------------------------
# Tasks 2.2 to 2.5: the properties, each a function that returns findings


def judge_function(task_id: str, measured: Measured, seed: int) -> list[Finding]:
    """All properties of one function, the form of its result first."""
    batch, seen = batch_for(task_id, seed), seen_in(measured)
    if error := error_of(measured, "result"):
        return misused(batch, seen) or [explain(task_id, error)]
    findings = form(task_id, measured.get("result"))
    rightly_formed = not findings or findings[0].name == "axis_left"
    if rightly_formed:
        findings += not_squashed(task_id, loud_rows(measured))
        findings += gradients(task_id, measured, batch)
        findings += dependence(measured, batch, seen)
    if not faulty(findings):
        findings += single_row(task_id, measured) + identical_sentences(task_id, measured)
    elif causes := misused(batch, seen):
        findings = causes + [replace(finding, name="") for finding in findings]
    findings += changed_in_place(measured, batch)
    return findings + (chance(task_id, measured) if rightly_formed else [])


def rows_in(measured: Measured, *names: str) -> Tensor:
    """Values, one row a sentence or pair: as many as in the first result, (B, …)."""
    result = measured["result"]  # rightly formed
    parts = [take(measured, name) for name in names]
    if sum(part.numel() for part in parts) != result.numel():
        raise Stopped(UNREADABLE)
    return torch.cat([part.flatten() for part in parts]).reshape(len(result), -1)


def loud_rows(measured: Measured) -> Tensor:
    """Results for random embeddings, those that are finite: an exponential may overflow."""
    rows = torch.cat([rows_in(measured, f"loud {i}") for i in range(len(SCALES))])
    return rows[rows.isfinite().all(dim=-1)]


def seen_in(measured: Measured) -> list[tuple[Any, Any]]:
    """Ids and masks that came to BERT; see watched."""
    found: list[tuple[Any, Any]] = []
    while f"seen {len(found)}/ids" in measured:
        found.append(tuple(measured.get(f"seen {len(found)}/{name}") for name in CAME))
    return found


def same(first: Any, second: Any) -> bool:
    """Whether both are tensors of the same numbers."""
    tensors = isinstance(first, Tensor) and isinstance(second, Tensor)
    return tensors and first.shape == second.shape and bool((first == second).all())


def misused(batch: Batch, seen: list[tuple[Any, Any]]) -> list[Finding]:
    """Ids that came to BERT with something else than their own mask."""
    for ids, mask in seen:
        if any(same(ids, other) for _, other in batch) or any(same(mask, i) for i, _ in batch):
            text = "BERT gets ids in the place of a mask, or a mask in the place of ids: mind the "
            text += "order of arguments, ids and mask of the first sentence, then of the second"
            return [Finding("sentences", text, name="ids_and_mask_swapped")]
        for side, (own, own_mask) in enumerate(batch):
            others = (other for _, other in batch if other is not own_mask)
            if same(ids, own) and any(same(mask, other) for other in others):
                text = f"the ids of the {SIDES[side]} sentence go with the attention_mask of the "
                text += "other one, which hides other places"
                return [Finding("neighbours", text, name="masks_swapped")]
    return []


def changed_in_place(measured: Measured, batch: Batch) -> list[Finding]:
    """What the function was given is afterwards as it was before."""
    findings = []
    for side, pair in enumerate(batch):
        number = f"_{side + 1}" if len(batch) > 1 else ""
        for name, came, tensor in zip(("input_ids", "attention_mask"), CAME, pair, strict=True):
            if not same(measured.get(f"given {side}/{came}"), tensor):
                findings.append(Finding("inputs", functions.CHANGED.format(name + number)))
    return findings


def form(task_id: str, result: Any) -> list[Finding]:
    """A finite floating-point tensor of the right shape."""
    batch = len(LENGTHS[0])
    wanted = {
        "multitask.forward": ((batch, TINY["hidden_size"]),),
        "multitask.predict_sentiment": ((batch, SENTIMENTS),),
    }.get(task_id, ((batch,),))
    what = {
        "multitask.forward": "an embedding of each sentence",
        "multitask.predict_sentiment": f"{SENTIMENTS} logits for each sentence",
        "multitask.predict_paraphrase": "one logit for each pair",
        "multitask.predict_similarity": "one score for each pair",
    }[task_id]
    if not isinstance(result, Tensor):
        kind = result if isinstance(result, str) else type(result).__name__
        text = f"returns a {kind} instead of a tensor with {what}"
        if kind == "NoneType":
            text = f"returns None instead of a tensor with {what}: did you forget `return`?"
        return [Finding("shape", text, name="not_a_tensor")]
    if not result.is_floating_point():
        text = f"returns whole numbers ({result.dtype}); asked for is {what}, before any argmax "
        text += "or rounding, which have no gradient"
        return [Finding("shape", text, name="class_returned")]
    shape = tuple(result.shape)
    if task_id not in SINGLE and shape == (batch, 1) and result.isfinite().all():
        text = f"shape {shape} instead of {(batch,)}: next to labels of shape {(batch,)} a loss "
        text += f"may broadcast it to {(batch, batch)}, every score against every label: "
        text += "squeeze(-1)"
        return [Finding("form", text, name="axis_left")]
    if shape not in wanted:
        text = f"shape {shape} instead of {' or '.join(map(str, wanted))}: {what}"
        name, why = shape_mistake(task_id, shape)
        return [Finding("shape", text + why, name=name)]
    if not result.isfinite().all():
        text = f"not finite: {result.detach().flatten()[:3].tolist()} …: a division by zero, a "
        return [
            Finding("values", text + "root or logarithm of what is not above 0?", name="not_finite")
        ]
    return []


def shape_mistake(task_id: str, shape: tuple[int, ...]) -> tuple[str, str]:
    """The name of what probably makes a wrong shape, and words on it."""
    batch, width = len(LENGTHS[0]), TINY["hidden_size"]
    if task_id == "multitask.predict_paraphrase" and shape == (batch, 2):
        why = "its sigmoid is the probability, so a second one is not needed"
        return "two_logits", f"; {why}"
    if task_id not in SINGLE and shape == (batch, batch):
        return "every_pair", "; here every first sentence meets every second one"
    if len(shape) == 3:
        return "pieces_left", "; the axis of the word pieces is still there"
    if not shape:
        return "batch_averaged", "; the mean over the batch is for the loss to take"
    if shape[0] == 2 * batch:
        return "joined_along_batch", "; two sentences are put below each other: which dim?"
    if shape in ((max(LENGTHS[0]), width), (width,)):
        return "wrong_axis", "; the axis of the batch is gone: which dim, or which place of [:, 0]?"
    return "", ""


def not_squashed(task_id: str, found: Tensor) -> list[Finding]:
    """Logits leave [0, 1] when BERT's embeddings are large; probabilities and classes do not."""
    if task_id == FORWARD or not found.numel() or found.max() - found.min() < 1e-6:
        return []
    between = found.min() >= 0 and found.max() <= 1
    asked = "a logit, which may be any number, is asked for"
    if torch.equal(found, found.round()):
        if between and task_id != "multitask.predict_similarity":
            text = f"a class (0 or 1) is returned; {asked}: leave rounding out"
            return [Finding("values", text, name="class_returned")]
        text = "every result is a whole number: rounding has no gradient, and labels have fractions"
        return [Finding("values", text, name="rounded")]
    if not between or task_id == "multitask.predict_similarity":
        return []
    if task_id == "multitask.predict_sentiment":
        name = "softmax" if (found.sum(-1) - 1).abs().max() < TOLERANCE else "sigmoid"
        text = f"probabilities are returned, as after a {name}; logits, which may be any numbers, "
        text += "are asked for: F.cross_entropy has the softmax inside"
        name = "softmax_returned" if name == "softmax" else "probability_returned"
        return [Finding("form", text, name=name)]
    text = f"a probability (always between 0 and 1) is returned; {asked}: leave the sigmoid to "
    text += "F.binary_cross_entropy_with_logits and to the evaluation"
    return [Finding("form", text, name="probability_returned")]


def gradients_in(
    measured: Measured, call: str, kinds: Sequence[str] = ("encoder", "inside", "own")
) -> dict[str, Tensor]:
    """The gradients that one call gave, by the parameters' names; see calls.named."""
    return {
        name.partition("/")[2]: take(measured, name)
        for kind in kinds
        for name in measured
        if name.startswith(f"{call}/{kind} ")
    }


def gradients(task_id: str, measured: Measured, batch: Batch) -> list[Finding]:
    """They reach BERT through each sentence, and layers of the student's own."""
    if not take(measured, "gradients/flows").any():
        text = "no gradient: the result is cut off from the parameters (no_grad, detach, .data, a "
        text += "class or a new tensor instead of the result?)"
        return [Finding("learning", text, name="cut_off")]
    found = gradients_in(measured, "gradients")
    if not any(g.any() for name, g in found.items() if not name.startswith("own ")):
        text = "option finetune: no gradient reaches BERT (no_grad, detach or rounding?)"
        trains = take(measured, "gradients/trains").any()
        return [Finding("learning", text, name="bert_detached")] if trains else []
    if not all(gradient.isfinite().all() for gradient in found.values()):
        text = "gradients that are not finite reach the parameters (a root or a power of 0?)"
        return [Finding("learning", text, name="gradient_not_finite")]
    findings = []
    rows = found.get(WORDS)  # (V, D)
    if rows is not None and (rows.dim() != 2 or len(rows) < TINY["vocab_size"]):
        raise Stopped(UNREADABLE)
    for side, (ids, _) in enumerate(batch):
        if rows is not None and not rows[ids[ids >= FIRST_WORD]].any():
            text = f"no gradient reaches BERT through the {SIDES[side]} sentence"
            text += " (unused, detached or under no_grad?)"
            findings.append(Finding("learning", text, name="sentence_detached"))
    return findings + learning_heads(task_id, measured)


def learning_heads(task_id: str, measured: Measured) -> list[Finding]:
    """With BERT frozen something is left to learn; layers made at every call are not."""
    if task_id == FORWARD:
        return []
    if not take(measured, "pretrain/flows").any():
        text = "option pretrain: none of your layers takes part, so nothing can be learnt"
        if task_id == "multitask.predict_sentiment":
            return [Finding("learning", text, name="cut_off")]
        return [Finding("hint", text)]  # a cosine of embeddings needs no layer
    if not gradients_in(measured, "pretrain"):
        text = "no gradient reaches a parameter of the model, yet there are layers: made in "
        text += f"{function_of(task_id)} they are new, and random, at every call; make them in "
        text += "__init__, as attributes or in an nn.ModuleList"
        return [Finding("learning", text, name="layer_made_at_call")]
    return []


def dependence(measured: Measured, batch: Batch, seen: list[tuple[Any, Any]]) -> list[Finding]:
    """Each result depends on all of its own sentences and on nothing else.

    Args:
        seen: ids and masks that came to BERT.
    """
    before = rows_in(measured, "result")  # (B, …)
    limit = TOLERANCE * max(1.0, before.abs().max().item())
    row = "sentence" if len(batch) == 1 else "pair"

    def change(*names: str) -> float:
        """How much results change at most."""
        return (rows_in(measured, *names) - before).abs().max().item()

    without, findings = [], []
    for side in range(len(batch)):
        name = "sentence" if len(batch) == 1 else f"{SIDES[side]} sentence"
        if change(f"other words {side}") < UNUSED:
            without.append(unused(side, name, batch, seen))
    if len(without) == len(batch):  # then nothing else says anything about the function
        without = [replace(finding, kind="values") for finding in without]
    leak = change("half 0", "half 1")
    if not leak < limit:
        text = (
            f"the result of a {row} changes by up to {leak:.1e} if half of the others are not in "
        )
        text += "the batch: each has to be computed from its own row only (softmax, mean or scale "
        findings.append(Finding("neighbours", f"{text}over the batch?)", name="rows_mixed"))
    leak = change("other padding")
    if not leak < limit:
        text = f"the content of padding changes the result by up to {leak:.1e}: "
        if all(map(hides_padding, seen)):
            text += "pooling has to leave padding out; only the attention_mask knows where it is"
            findings.append(Finding("neighbours", text, name="padding_pooled"))
        else:
            text += "each sentence's attention_mask has to reach BERT, or its words attend to it"
            findings.append(Finding("neighbours", text, name="mask_not_given"))
    else:
        leaks = [change(f"wider {side}") for side in range(len(batch))]
        findings += [more_columns(batch, seen, leak) for leak in leaks if not leak < limit]
    return without + list(dict.fromkeys(findings))


def more_columns(batch: Batch, seen: list[tuple[Any, Any]], leak: float) -> Finding:
    """What to say of a result that changes with the number of padded columns, not their content.

    Where both texts of a pair are read as one, their positions may shift, which is no fault.
    """
    text = f"more columns of padding change results by up to {leak:.1e}"
    if not read_apart(batch, seen):
        return Finding("hint", f"{text}, which then depend on the batch (positions that shift?)")
    text += ": a mean has to be taken over the real pieces; divide by attention_mask.sum(1), not "
    return Finding("neighbours", f"{text}by the number of columns", name="padding_pooled")


def read_apart(batch: Batch, seen: list[tuple[Any, Any]]) -> bool:
    """Whether BERT reads each sentence as it came, so that no position of it can shift."""
    return bool(seen) and all(any(same(ids, own) for own, _ in batch) for ids, _ in seen)


def unused(side: int, name: str, batch: Batch, seen: list[tuple[Any, Any]]) -> Finding:
    """What to say of a sentence without an effect."""
    text = f"the {name} has no effect: other words give the same result"
    came = [sum(same(ids, own) for ids, _ in seen) for own, _ in batch]  # how often, to BERT
    if len(batch) == 2 and not came[side] and came[1 - side] > 1:
        text += f"; BERT reads the {SIDES[1 - side]} one twice"
        return Finding("sentences", text, name="one_sentence_twice")
    return Finding("sentences", text, name="sentence_unused")


def hides_padding(came: tuple[Any, Any]) -> bool:
    """Whether a mask is 0 at padding."""
    ids, mask = came
    tensors = isinstance(ids, Tensor) and isinstance(mask, Tensor) and ids.shape == mask.shape
    return tensors and not mask[ids == 0].any()


def single_row(task_id: str, measured: Measured) -> list[Finding]:
    """The last batch may hold one row: a squeeze() without dim drops its axis."""
    result = take(measured, "single")
    if result.dim() and len(result) == 1:
        return []
    text = f"a batch of one gives shape {tuple(result.shape)}: squeeze() without dim?"
    if task_id in SINGLE:
        return [Finding("form", text, name="squeezed")]
    return [Finding("hint", text)]


def identical_sentences(task_id: str, measured: Measured) -> list[Finding]:
    """Data sets hold pairs of one sentence twice: distance 0, angle 0."""
    if task_id in SINGLE:
        return []
    if not take(measured, "identical").isfinite().all():
        text = "not finite for a pair of identical sentences, whose distance is 0"
        return [Finding("form", text, name="not_finite_if_equal")]
    take(measured, "gradients if identical/flows")
    found = gradients_in(measured, "gradients if identical")
    if all(gradient.isfinite().all() for gradient in found.values()):
        return []
    text = "the gradient of a pair of identical sentences is not finite (a root or an arccos?)"
    return [Finding("hint", text)]


def chance(task_id: str, measured: Measured) -> list[Finding]:
    """What chance is in the results: BERT's own dropout is off here, so it is the student's."""

    def moves(name: str) -> bool:
        return not torch.equal(*(take(measured, f"{name} {i}") for i in range(2)))

    text = "results change from call to call in evaluation mode"
    if moves("no chance"):
        text += ", and not by dropout: layers or weights made in the function are new every time"
        return [Finding("form", text, name="layer_made_at_call")]
    if moves("chance"):
        text += " (dropout always on? F.dropout needs training=self.training)"
        return [Finding("form", text, name="dropout_always_on")]
    if task_id == FORWARD:
        return []
    numbers = measured["result"].numel()  # one for each pair, or five for each sentence
    if (take(measured, "chance in training 0/dropouts", None) == numbers).any():
        text = "dropout acts on the result itself: in training some scores are 0, whatever the "
        text += "sentences say; it belongs before the last layer"
        return [Finding("form", text, name="dropout_on_score")]
    text = "no dropout of your own in training mode (config.hidden_dropout_prob)"
    return [] if moves("chance in training") else [Finding("hint", text)]


# ---------------------------------------------------------------------------------------------
# Which finding counts

Found = Callable[[str], list[Finding]]  # of a task: what judge says


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


def found_in(task_id: str) -> list[Finding]:
    """Findings of one task, an exception being one of them."""
    return judge(task_id, measure(task_id))


def faults(task_id: str, found: Found) -> list[Finding]:
    """Findings of one task that are not hints.

    A forward that the predictions get along with is right: those may go another way.
    """
    wrong = faulty(found(task_id))
    if wrong and task_id == FORWARD:
        right = [not faults(name, found) for name in PREDICTIONS]
        only_its_form = {finding.kind for finding in wrong} == {"shape"}
        if all(right) or (only_its_form and any(right)):
            return []
    return wrong


def waits(task_id: str, found: Found, bert_is_right: Callable[[], bool]) -> Finding | None:
    """The earlier task that has to be right before a fault can be this function's."""
    if task_id == INIT:
        return None
    if faults(INIT, found):
        return Finding("waits", f"for Task {graded_task(INIT).number}")
    if not bert_is_right():
        return Finding("waits", "for bert.py (python sanity_check.py --part 1)")
    if task_id != FORWARD and faults(FORWARD, found):
        return Finding("waits", f"for Task {graded_task(FORWARD).number}")
    return None


def conclude(entry: GradedTask, found: Found, bert_is_right: Callable[[], bool]) -> list[Finding]:
    """What is wrong with the function for a task, then hints, given the findings of all tasks.

    A fault that an earlier task may have caused is no finding of this one: it waits.
    """
    findings = found(entry.id)
    if findings == [NOT_BEGUN] or not faulty(findings):
        return findings
    if waiting := waits(entry.id, found, bert_is_right):
        return [waiting]
    if faults(entry.id, found):
        return [with_source(entry, finding) for finding in findings]
    return [Finding("hint", f"{fault.text}; your predictions get along") for fault in findings]


def check(entry: GradedTask) -> list[Finding]:
    """What is wrong with the student's function for a task, then hints."""
    return conclude(entry, found_in, lambda: not functions.check_model(functions.WHOLE))


def with_source(entry: GradedTask, finding: Finding) -> Finding:
    """A finding; if its mistake is known, with what to read about it."""
    if not finding.name:
        return finding
    return replace(finding, text=f"{finding.text} (read {READ.get(finding.name, entry.paper)})")
