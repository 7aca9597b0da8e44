"""The course's three tasks and two further ones, and the losses that there are for each.

A further task is a row of ``FURTHER_TASKS``, its losses, a head in model.py, and its flags; names
have a file of their own, since there every word has an answer.
"""

from __future__ import annotations

from torch.nn import functional as F

import multitask_classifier as plain
from evaluation import accuracy, classify_pairs
from extensions.loss.losses import cosent, ordinal
from extensions.names import TAGS, describe_words, entity_f1, read_names, tag_loss, tag_words
from training.files.course_files import COURSE_STEMS
from training.loop.batches import PAIR, SINGLE
from training.tasks import Task

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
