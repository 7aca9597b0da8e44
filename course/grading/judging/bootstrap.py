"""Metrics of predictions on rows drawn again and again: a paired percentile bootstrap.

The same rows are drawn for all predictions of a file, so that only what they do differently
counts. It does not know whose predictions they are.
"""

from __future__ import annotations

import numpy as np

RESAMPLES = 1000
AT_ONCE = 1_000_000  # numbers in memory


def resampled(predicted: np.ndarray, labels: np.ndarray, classes: int | None) -> np.ndarray:
    """The metric of predictions (G, N) against labels (N,) in each draw: (G, R).

    The draws depend on the number of labels alone.
    """
    count = len(labels)
    right = (predicted == labels).astype(np.float32)
    chance, at_once = np.random.default_rng(count), max(1, AT_ONCE // count)
    metrics = []
    for start in range(0, RESAMPLES, at_once):
        rows = chance.integers(count, size=(min(at_once, RESAMPLES - start), count))  # (R, N)
        drawn = np.array([np.bincount(row, minlength=count) for row in rows]).T  # (N, R)
        if classes:
            metrics.append(right @ drawn.astype(np.float32) / count)
        else:
            metrics.append(pearson(predicted, labels, drawn / count))
    return np.concatenate(metrics, axis=1)


def pearson(predicted: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Pearson's correlation where rows have weights; 0 where nothing varies.

    Args:
        predicted: (G, N), of any finite size.
        labels: (N,)
        weights: (N, R), which sum up to 1.

    Returns:
        (G, R)
    """
    x, y = centred(predicted.astype(np.float64)), centred(labels[None].astype(np.float64))
    mean_x, mean_y = x @ weights, y @ weights
    both = (x * y) @ weights - mean_x * mean_y
    squares = np.maximum((x**2 @ weights - mean_x**2) * (y**2 @ weights - mean_y**2), 0)
    correlations = np.divide(both, np.sqrt(squares), out=np.zeros_like(both), where=squares > 1e-24)
    return np.clip(correlations, -1, 1)


def centred(values: np.ndarray) -> np.ndarray:
    """Minus the mean, in units of the largest: squares of 1e300 or 1e-300 would not be finite.

    Equal values are all 1 or -1 then, so that their mean is exact and nothing is left of them.
    """
    values = in_units_of_the_largest(values)
    return in_units_of_the_largest(values - values.mean(axis=1, keepdims=True))


def in_units_of_the_largest(values: np.ndarray) -> np.ndarray:
    """Each row divided by its largest size; a row of zeros stays."""
    largest = np.abs(values).max(axis=1, keepdims=True)
    return np.divide(values, largest, out=np.zeros(values.shape), where=largest > 0)
