"""Which task trains next: sizes of data sets as weights of a draw, annealed to be more even."""

from __future__ import annotations

from collections.abc import Mapping

KINDS = ("round_robin", "proportional", "annealed", "first", "before")


def annealing(epoch: int, epochs: int) -> float:
    """α = 1 − 0.8 (e − 1) / (E − 1), from 1 in the first epoch to 0.2 in the last.

    Stickland & Murray 2019 ("BERT and PALs"), section 4: proportional sampling at first, then ever
    more even, so that no task is neglected at the end.
    """
    return 1.0 - 0.8 * (epoch - 1) / max(1, epochs - 1)


def weights(sizes: Mapping[str, int], alpha: float) -> dict[str, float]:
    """Of each task N^α, N its number of training examples: how often it is to be drawn."""
    return {name: size**alpha for name, size in sizes.items()}
