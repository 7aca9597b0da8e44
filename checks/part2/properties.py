"""The properties of Tasks 2.2 to 2.5: what every correct function has, however it is written.

There is no one correct result here: two sentences may be encoded apart or together, pooled and
compared in many ways, and a similarity may have any scale. So nothing is compared with a reference;
each function here asks for one property: a shape, logits rather than probabilities, both sentences
counting, padding and neighbours in the batch not counting, gradients. It looks at measured arrays
only. What may be meant is a hint, not a fault. Where a property tells which mistake it is, the
finding has its name. B is the number of sentences or pairs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from checks.findings import CHANGED_IN_PLACE, Finding
from checks.part2.arrays import (
    TOLERANCE,
    UNREADABLE,
    Stopped,
    differ,
    gradients_in,
    rows_in,
    same,
    spread,
    take,
)
from checks.part2.batches import FIRST_WORD, LENGTHS, Batch
from checks.part2.calls import CAME, Measured
from checks.part2.models import FORWARD, SENTIMENTS, SINGLE, TINY, function_of

WORDS = "encoder word_embedding.weight"
UNUSED = 1e-3  # of how far rows are apart: other words of a sentence that matters change more
COMMON = 1000  # times as far as rows are apart: no results of a model have so much in common
SIDES = ("first", "second")
ALL_IN_COMMON = (
    f"results of different rows have almost everything in common, more than {COMMON} times what "
    "sets them apart (a large constant added?)"
)


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
                findings.append(Finding("inputs", CHANGED_IN_PLACE.format(name + number)))
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
        return "tokens_left", "; the axis of the tokens is still there"
    if not shape:
        return "batch_averaged", "; the mean over the batch is for the loss to take"
    if shape[0] == 2 * batch:
        return "joined_along_batch", "; two sentences are put below each other: which dim?"
    if shape in ((max(LENGTHS[0]), width), (width,)):
        return "wrong_axis", "; the axis of the batch is gone: which dim, or which place of [:, 0]?"
    return "", ""


def not_squashed(task_id: str, scores: Tensor) -> list[Finding]:
    """Logits leave [0, 1] when BERT's embeddings are large; probabilities and classes do not."""
    if task_id == FORWARD or not scores.numel() or scores.max() - scores.min() < 1e-6:
        return []
    between = scores.min() >= 0 and scores.max() <= 1
    asked = "a logit, which may be any number, is asked for"
    if torch.equal(scores, scores.round()):
        if between and task_id != "multitask.predict_similarity":
            text = f"a class (0 or 1) is returned; {asked}: leave rounding out"
            return [Finding("values", text, name="class_returned")]
        text = "every result is a whole number: rounding has no gradient, and labels have fractions"
        return [Finding("values", text, name="rounded")]
    if not between or task_id == "multitask.predict_similarity":
        return []
    if task_id == "multitask.predict_sentiment":
        name = "softmax" if (scores.sum(-1) - 1).abs().max() < TOLERANCE else "sigmoid"
        text = f"probabilities are returned, as after a {name}; logits, which may be any numbers, "
        text += "are asked for: F.cross_entropy has the softmax inside"
        name = "softmax_returned" if name == "softmax" else "probability_returned"
        return [Finding("form", text, name=name)]
    text = f"a probability (always between 0 and 1) is returned; {asked}: leave the sigmoid to "
    text += "F.binary_cross_entropy_with_logits and to the evaluation"
    return [Finding("form", text, name="probability_returned")]


def gradients(task_id: str, measured: Measured, batch: Batch) -> list[Finding]:
    """They reach BERT through each sentence, and layers of the student's own."""
    if not take(measured, "gradients/flows").any():
        text = "no gradient: the result is cut off from the parameters (no_grad, detach, .data, a "
        text += "class or a new tensor instead of the result?)"
        return [Finding("learning", text, name="cut_off")]
    grads = gradients_in(measured, "gradients")
    if not any(g.any() for name, g in grads.items() if not name.startswith("own ")):
        text = "option finetune: no gradient reaches BERT (no_grad, detach or rounding?)"
        trains = take(measured, "gradients/trains").any()
        return [Finding("learning", text, name="bert_detached")] if trains else []
    if not all(gradient.isfinite().all() for gradient in grads.values()):
        text = "gradients that are not finite reach the parameters (a root or a power of 0?)"
        return [Finding("learning", text, name="gradient_not_finite")]
    findings = []
    rows = grads.get(WORDS)  # (V, D)
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
    row = "sentence" if len(batch) == 1 else "pair"

    def change(*names: str) -> float:
        """How much results change at most; 0: not more than by rounding."""
        now = rows_in(measured, *names)
        return (now - before).abs().max().item() if differ(before, now) else 0.0

    def has_effect(side: int) -> bool:
        away = (rows_in(measured, f"other words {side}") - before).abs()
        return bool((away > UNUSED * spread(before)).any())

    without, findings = [], []
    for side in range(len(batch)):
        name = "sentence" if len(batch) == 1 else f"{SIDES[side]} sentence"
        if not has_effect(side):
            without.append(unused(side, name, batch, seen))
    if len(without) == len(batch):  # then nothing else says anything about the function
        without = [replace(finding, kind="values") for finding in without]
    elif (before.abs().median(dim=0).values / spread(before)).median() > COMMON:
        without.append(Finding("values", ALL_IN_COMMON))
    if leak := change("half 0", "half 1"):
        text = (
            f"the result of a {row} changes by up to {leak:.1e} if half of the others are not in "
        )
        text += "the batch: each has to be computed from its own row only (softmax, mean or scale "
        findings.append(Finding("neighbours", f"{text}over the batch?)", name="rows_mixed"))
    if leak := change("other padding"):
        text = f"the content of padding changes the result by up to {leak:.1e}: "
        if all(map(hides_padding, seen)):
            text += "pooling has to leave padding out; only the attention_mask knows where it is"
            findings.append(Finding("neighbours", text, name="padding_pooled"))
        else:
            text += "each sentence's attention_mask has to reach BERT, or its words attend to it"
            findings.append(Finding("neighbours", text, name="mask_not_given"))
    else:
        leaks = [change(f"wider {side}") for side in range(len(batch))]
        findings += [more_columns(batch, seen, leak) for leak in leaks if leak]
    return without + list(dict.fromkeys(findings))


def more_columns(batch: Batch, seen: list[tuple[Any, Any]], leak: float) -> Finding:
    """What to say of a result that changes with the number of padded columns, not their content.

    Where both texts of a pair are read as one, their positions may shift, which is no fault.
    """
    text = f"more columns of padding change results by up to {leak:.1e}"
    if not read_apart(batch, seen):
        return Finding("hint", f"{text}, which then depend on the batch (positions that shift?)")
    text += ": a mean has to be taken over the real tokens; divide by attention_mask.sum(1), not "
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
    grads = gradients_in(measured, "gradients if identical")
    if all(gradient.isfinite().all() for gradient in grads.values()):
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
