"""95 % intervals of differences between runs: Student's t over seeds, with the dev examples inside.

Runs differ by their seeds and by the examples that they are measured on. The variance of a mean
difference is that over seeds plus that over examples, each estimated on its own as in an analysis
of variance with two crossed factors; the degrees of freedom are Satterthwaite's (1946). A bootstrap
of both at once is too narrow for a few seeds, and too wide where seeds and examples interact.
S seeds, N examples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student_t

LEVEL = 0.95

Interval = tuple[float, float, float]  # difference, lower end, upper end


def by_example(task: str, predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """What each example contributes to a score: (S, N), whose means over examples are the scores.

    An accuracy's are 0 and 1. Those of Pearson's r are linear approximations:
    r + z_x z_y − r (z_x² + z_y²) / 2, its influence function (Devlin et al. 1975).
    """
    if task != "sts":
        return (predicted == gold).astype(float)
    x, y = standardized(predicted), standardized(gold)
    r = (x * y).mean(axis=1, keepdims=True)  # (S, 1)
    return r + x * y - r * (x**2 + y**2) / 2


def standardized(values: np.ndarray) -> np.ndarray:
    """Values less their mean, over their standard deviation; zeros if all are the same."""
    centred = values - values.mean(axis=-1, keepdims=True)
    deviation = centred.std(axis=-1, keepdims=True)
    return centred / np.where(deviation > 1e-12, deviation, 1.0)


def example_variance(sides: Sequence[np.ndarray]) -> float:
    """How much a mean difference varies with the examples, seeds aside.

    Args:
        sides: arrays (S, N) whose means add up to the difference: the differences of paired seeds,
            or the values of one run and, negative, those of another.
    """
    n = sides[0].shape[1]
    interaction = 0.0
    for side in sides:  # what a seed changes on single examples is in the spread over seeds already
        centred = side - side.mean(axis=1, keepdims=True)
        interaction += centred.var(axis=0, ddof=1).mean() / len(side)
    of_examples = sum(side.mean(axis=0) for side in sides).var(ddof=1)
    return float(max(0.0, of_examples - interaction) / n)


def interval(sides: Sequence[np.ndarray], variance: float) -> Interval:
    """The difference and its interval, without ends if a side is a single seed: that has no spread.

    Args:
        sides: scores (S,) a side, as in ``example_variance``: their means add up.
        variance: that of the examples.
    """
    difference = float(sum(side.mean() for side in sides))
    if any(len(side) < 2 for side in sides):
        return difference, -np.inf, np.inf
    over_seeds = [side.var(ddof=1) / len(side) for side in sides]
    total = sum(over_seeds) + variance
    spread = sum(v**2 / (len(side) - 1) for v, side in zip(over_seeds, sides, strict=True))
    freedom = total**2 / spread if spread > 0 else np.inf
    half = float(student_t.ppf((1 + LEVEL) / 2, freedom) * total**0.5)
    return difference, difference - half, difference + half
