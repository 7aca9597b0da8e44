"""95 % intervals of differences between runs: Student's t over seeds, with the dev examples inside.

Runs differ by their seeds and by the examples that they are measured on. The variance of a mean
difference is that over seeds plus that over examples, as in an analysis of variance with two
crossed factors; the degrees of freedom are Satterthwaite's (1946). S seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student_t

LEVEL = 0.95

Interval = tuple[float, float, float]  # difference, lower end, upper end


def interval(sides: Sequence[np.ndarray], variance: float) -> Interval:
    """The difference and its interval, without ends if a side is a single seed: that has no spread.

    Args:
        sides: scores (S,) a side, whose means add up to the difference: the differences of paired
            seeds, or the scores of one run and, negative, those of another.
        variance: that of the difference over the dev examples, seeds aside.
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
