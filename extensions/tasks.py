"""The course's three tasks and a further one, and the losses that there are for each.

A further task is a row of ``FURTHER_TASKS``, its losses, a head in model.py, and its flags.
"""

from __future__ import annotations

from torch.nn import functional as F

import multitask_classifier as plain
from evaluation import accuracy, classify_pairs
from extensions.loss.losses import cosent, ordinal
from training.batches import PAIR
from training.course_files import COURSE_STEMS
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
}
TASKS = plain.TASKS | FURTHER_TASKS
STEMS = COURSE_STEMS | {"nli": "nli"}

# (outputs, labels) → a number; the first one of each task is its default
LOSSES = {
    "sst": {"cross_entropy": plain.LOSSES["sst"], "ordinal": ordinal},
    "para": {"binary_cross_entropy": plain.LOSSES["para"]},
    "sts": {"mse": plain.LOSSES["sts"], "cosent": cosent},
    "nli": {"cross_entropy": F.cross_entropy},
}
