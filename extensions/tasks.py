"""What techniques ask of the three tasks of multitask_classifier.py."""

from __future__ import annotations

from datasets import TextDataset
from multitask_classifier import TASKS
from training.loop.batches import PAIR, SINGLE

KEYS = {name: SINGLE if name == "sst" else PAIR for name in TASKS}
SAME = {"para": 1, "sts": 4.0}  # from which label on a pair says the same


def relation(name: str, label: float) -> str:
    """Whether a pair says the "same" or, of a question, something "different"; else "unknown"."""
    if label >= SAME[name]:
        return "same"
    return "different" if name == "para" else "unknown"


def input_lengths(rows: TextDataset, joins_pairs: bool) -> list[int]:
    """Tokens of each row's input: of a pair the longer text, or both, which share a [CLS]."""
    if joins_pairs and rows.texts_per_row == 2:
        return [min(first + second - 1, rows.max_length) for first, second in rows.pieces()]
    return rows.lengths()
