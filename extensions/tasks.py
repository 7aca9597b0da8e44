"""The tasks: the course's three as multitask_classifier.py has them, and inference (NLI).

A further task is an entry in each of these tables, a head in model.py, and its flags in flags.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from torch import nn
from torch.nn import functional as F

import multitask_classifier as part2
from datasets import SentencePairDataset, SentencePairTestDataset, TextDataset, load_pairs
from multitask_evaluation import score_pairs
from training.files.course_files import COURSE_STEMS
from training.loop.batches import PAIR, SINGLE

COURSE = part2.TASKS  # those of the leaderboard
STEMS = COURSE_STEMS | {"nli": "nli"}  # of the data files
TASKS = tuple(STEMS)
CLASSES = part2.CLASSES | {"nli": 3}
HEADS = part2.HEADS | {"nli": "predict_relation"}
FILE_COLUMNS = part2.FILE_COLUMNS | {"nli": "Predicted_Relation"}
LOSSES = part2.LOSSES | {"nli": F.cross_entropy}
KEYS = {name: SINGLE if name == "sst" else PAIR for name in TASKS}
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
        return part2.read_set(name, args, split)
    rows = load_pairs(getattr(args, f"{name}_{split}"), split, "relation", CLASSES[name])
    return (SentencePairTestDataset if split == "test" else SentencePairDataset)(rows, args)


read_held_out = partial(part2.read_held_out, read_set=read_set)


def input_lengths(rows: TextDataset, joins_pairs: bool) -> list[int]:
    """Tokens of each row's input: of a pair the longer text, or both, which share a [CLS]."""
    if joins_pairs and rows.texts_per_row == 2:
        return [min(first + second - 1, rows.max_length) for first, second in rows.tokens()]
    return rows.lengths()


def predict_rows(model: nn.Module, name: str, loader: Iterable[dict], device) -> dict[str, list]:
    """A task's predictions for all rows, in the order of the batches; see evaluation.py."""
    if name in COURSE:
        return part2.predict_rows(model, name, loader, device)
    predictions = score_pairs(
        loader, lambda *pair: model.predict_relation(*pair).argmax(dim=-1), device
    )
    return predictions | {"y_pred": list(map(int, predictions["y_pred"]))}


evaluate = partial(part2.evaluate, predict_rows=predict_rows)
