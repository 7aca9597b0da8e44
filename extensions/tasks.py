"""The course's three tasks and two further ones, and the losses that there are for each.

A further task is a row of ``FURTHER_TASKS``, its losses, a head in model.py, and its flags; names
have a file of their own, since there every word has an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

import multitask_classifier as plain
from evaluation import accuracy, score_pairs
from extensions.loss.losses import cosent, ordinal
from extensions.names import TAGS, describe_words, entity_f1, read_names, tag_loss, tag_words
from training.files.course_files import COURSE_STEMS
from training.loop.batches import PAIR, SINGLE
from training.tasks import Task


def classify_pairs(
    batches: Iterable[dict], logits_of: Callable[..., Tensor], device: torch.device
) -> dict[str, list]:
    """Predict a class for each sentence pair, from logits (B, number of classes).

    The arguments are score_pairs'; the result also holds confidence (of the prediction).
    """
    confidence: list[float] = []

    def best(*pair: Tensor) -> Tensor:
        probabilities = logits_of(*pair).float().softmax(dim=-1)  # (B, C)
        confidence.extend(probabilities.amax(dim=-1).tolist())
        return probabilities.argmax(dim=-1)  # (B,)

    predictions = score_pairs(batches, best, device)
    predictions["y_pred"] = [int(label) for label in predictions["y_pred"]]
    return predictions | {"confidence": confidence}


FURTHER_TASKS = {
    "nli": Task(  # does the second sentence follow from the first?
        "nli",
        "relation",
        3,
        PAIR,
        "predict_relation",
        classify_pairs,
        accuracy,
        "Predicted_Relation",
    ),
    "names": Task(  # which words are names, and of what?
        "names",
        "tag",
        len(TAGS),
        SINGLE,
        "predict_names",
        tag_words,
        entity_f1,
        "Predicted_Tags",
        read_names,
        describe_words,
    ),
}
TASKS = plain.TASKS | FURTHER_TASKS
STEMS = COURSE_STEMS | {name: name for name in FURTHER_TASKS}

# (outputs, labels) → a number; the first one of each task is its default
LOSSES = {
    "sst": {"cross_entropy": plain.LOSSES["sst"], "ordinal": ordinal},
    "para": {"binary_cross_entropy": plain.LOSSES["para"]},
    "sts": {"mse": plain.LOSSES["sts"], "cosent": cosent},
    "nli": {"cross_entropy": F.cross_entropy},
    "names": {"cross_entropy": tag_loss},
}
