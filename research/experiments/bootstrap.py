"""Intervals of differences by a paired bootstrap: dev examples and seeds are drawn again.

Efron & Tibshirani 1993, chapter 13; Berg-Kirkpatrick et al. 2012 for its use in NLP. S seeds,
N examples, R resamples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evaluation import overall
from research.experiments.results import TASKS

RESAMPLES = 5000
CHUNK = 200  # resamples computed at a time, for the memory they take
LEVEL = 0.95

Predictions = Mapping[str, np.ndarray]  # task → (S, N)
Interval = tuple[float, float, float]  # difference, lower end, upper end


def scores(
    predictions: Predictions,
    gold: Mapping[str, np.ndarray],
    draws: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Every score of every seed in every resample.

    Args:
        predictions: (S, N) a task.
        gold: labels (N,) a task.
        draws: how often each example is drawn, (R, N) a task; None: each once, R = 1.

    Returns:
        sst, para, sts and, if all three are there, overall: (S, R) each.
    """
    values = {}
    for task, predicted in predictions.items():
        counts = np.ones((predicted.shape[1], 1))  # (N, R)
        if draws is not None:
            counts = draws[task].T.astype(float)
        if task != "sts":
            values[task] = (predicted == gold[task]) @ counts / counts.sum(axis=0)
        else:
            values[task] = weighted_pearson(predicted, gold[task], counts)
    if values.keys() == set(TASKS):
        values["overall"] = overall(values)
    return values


def weighted_pearson(x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Pearson's r of examples that each count several times: (S, N), (N,), (N, R) → (S, R).

    0 where x or y is constant.
    """
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean()  # for precision: r does not change
    n = counts.sum(axis=0)
    mean_x, mean_y = x @ counts / n, y @ counts / n
    covariance = (x * y) @ counts / n - mean_x * mean_y
    var_x, var_y = x**2 @ counts / n - mean_x**2, y**2 @ counts / n - mean_y**2
    varies = (var_x > 1e-12) & (var_y > 1e-12)
    return covariance / np.sqrt(np.where(varies, var_x * var_y, 1.0))  # nothing varies: 0 / 1


def intervals(
    ours: Predictions,
    theirs: Predictions,
    gold: Mapping[str, np.ndarray],
    paired: bool,
    resamples: int = RESAMPLES,
) -> dict[str, Interval]:
    """The difference, ours minus theirs, and the ends of its interval, of every score both have.

    Each resample draws dev examples, the same for both, and seeds: the same for both if they are
    paired, that is if row i of both is of one seed. A single seed is always drawn: the interval
    then says nothing of how much seeds differ.
    """
    tasks = [task for task in ours if task in theirs]
    ours, theirs = ({task: side[task] for task in tasks} for side in (ours, theirs))
    our_seeds, their_seeds = (len(side[tasks[0]]) for side in (ours, theirs))
    rng = np.random.default_rng(0)
    differences: dict[str, list[np.ndarray]] = {}
    for start in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - start)
        draws = {task: multinomial(rng, len(gold[task]), size) for task in tasks}
        drawn = multinomial(rng, our_seeds, size)
        their_drawn = drawn if paired else multinomial(rng, their_seeds, size)
        a, b = scores(ours, gold, draws), scores(theirs, gold, draws)
        for score in a:
            difference = over_seeds(a[score], drawn) - over_seeds(b[score], their_drawn)
            differences.setdefault(score, []).append(difference)
    a, b = scores(ours, gold), scores(theirs, gold)
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    return {
        score: (float(a[score].mean() - b[score].mean()), *low_and_high(values, ends))
        for score, values in differences.items()
    }


def low_and_high(values: Sequence[np.ndarray], ends: Sequence[float]) -> tuple[float, float]:
    """Two quantiles of what all chunks of resamples gave."""
    low, high = np.quantile(np.concatenate(values), ends)
    return float(low), float(high)


def multinomial(rng: np.random.Generator, size: int, resamples: int) -> np.ndarray:
    """How often each of ``size`` things is drawn in as many draws with replacement: (R, size)."""
    return rng.multinomial(size, np.full(size, 1 / size), size=resamples)


def over_seeds(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Means over the seeds that each resample drew: (S, R), (R, S) → (R,)."""
    return (values * seeds.T).sum(axis=0) / seeds.sum(axis=1)
