"""The tasks: the course's three as multitask_classifier.py has them, and inference (NLI).

A further task is an entry in these tables and those of evaluation.py, a head in model.py, and its
flags in flags.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch.nn import functional as F

import datasets
import evaluation
import multitask_classifier as part2
from datasets import SentencePairDataset, SentencePairTestDataset, TextDataset, load_pairs
from training.files.course_files import SETS

COURSE = evaluation.TASKS  # those of the leaderboard
TASKS = (*COURSE, "nli")
CLASSES = {task: SETS[task].classes for task in COURSE} | {"nli": 3}  # None of a similarity
LOSSES = part2.LOSSES | {"nli": F.cross_entropy}
SAME = {"para": 1, "sts": 4.0, "nli": 2}  # from which label on a pair says the same
DIFFERENT = {"para": 0, "nli": 0}  # with which label it says something else


def relation(name: str, label: float) -> str:
    """Whether a pair says the "same" or something "different", or whether that is "unknown"."""
    if label >= SAME[name]:
        return "same"
    return "different" if label == DIFFERENT.get(name) else "unknown"


def read_set(name: str, args: Any, split: str) -> TextDataset:
    """The rows of args.sst_train, for instance, tokenized; split is 'train', 'dev' or 'test'."""
    if name in COURSE:
        rows = datasets.read_set(name, args, split)
    else:
        table = load_pairs(getattr(args, f"{name}_{split}"), split, "relation", CLASSES[name])
        rows = (SentencePairTestDataset if split == "test" else SentencePairDataset)(table, args)
    if args.pair_encoding == "cross" and name != "sst":
        rows.lengths = partial(joined_lengths, rows)
    return rows


def read_held_out(args: Any) -> evaluation.HeldOut:
    """The dev sets, and the test sets of those tasks that have a file of them."""
    return evaluation.read_held_out(args, args.tasks, read_set)


def joined_lengths(rows: TextDataset) -> list[int]:
    """Tokens of each row's two texts in one input, where they share a [CLS]."""
    return [min(first + second - 1, rows.max_length) for first, second in rows.tokens()]
