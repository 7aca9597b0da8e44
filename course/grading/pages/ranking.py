"""Which places on the leaderboard a score allows, by a paired bootstrap on the test file.

The same rows of the test data are drawn for all submissions, so that only what they do differently
counts. Whoever is ahead in nearly all draws is ahead; between the others there is no order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from course.grading.judging.predictions import Gold, centred, draws, unpacked

LEVEL = 0.95
Scores = Mapping[str, Mapping[str, Any]]  # of a submission: "finetune-sst-test" → its numbers


def resampled(predicted: np.ndarray, gold: Gold, rows: np.ndarray) -> np.ndarray:
    """The metric of predictions (G, N) on the given rows (N,) bool, drawn again and again: (G, R).

    The draws depend on the labels alone.
    """
    labels, predicted = gold.labels[rows], predicted[:, rows]
    count = len(labels)
    if gold.classes:
        right = (predicted == labels).astype(np.float32)
    else:
        x, y = centred(predicted.astype(np.float64)), centred(labels[None])
    chance, found = np.random.default_rng(count), []
    for numbers in draws(count, chance):  # (R, N)
        drawn = np.array([np.bincount(one, minlength=count) for one in numbers]).T  # (N, R)
        if gold.classes:
            found.append(right @ drawn.astype(np.float32) / count)
        else:
            found.append(weighted_pearson(x, y, drawn / count))
    return np.concatenate(found, axis=1)


def weighted_pearson(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Pearson's correlation where rows have weights: (G, N), (1, N), (N, R) → (G, R)."""
    mean_x, mean_y = x @ weights, y @ weights
    both = (x * y) @ weights - mean_x * mean_y
    squares = np.maximum((x**2 @ weights - mean_x**2) * (y**2 @ weights - mean_y**2), 0)
    return np.divide(both, np.sqrt(squares), out=np.zeros_like(both), where=squares > 1e-24)


def places(samples: np.ndarray) -> list[tuple[int, int]]:
    """The best and the worst place that each submission may have; samples (G, R) of its score."""
    sure, found = (1 + LEVEL) / 2, []
    for own in samples:
        ahead = ((samples > own).mean(axis=1) > sure).sum()
        behind = ((samples < own).mean(axis=1) > sure).sum()
        found.append((int(ahead) + 1, len(samples) - int(behind)))
    return found


def places_of(
    submissions: Sequence[Scores], part: int, view: str, gold: Mapping[tuple[str, str], Gold]
) -> dict[int, tuple[int, int]]:
    """The places of those submissions whose predictions are all there, by their number.

    Args:
        view: which rows of the test data: "public", "private" or "value", which is all.
    """
    wanted = {1: ("finetune-sst-test",), 2: ("sst-test", "para-test", "sts-test")}[part]
    labels = {key: gold.get(tuple(key.split("-")[-2:])) for key in wanted}
    if None in labels.values():
        return {}
    read = {
        number: [
            unpacked(text, labels[key]) if (text := scores.get(key, {}).get("predicted")) else None
            for key in wanted
        ]
        for number, scores in enumerate(submissions)
    }
    whole = {number: found for number, found in read.items() if all(p is not None for p in found)}
    if not whole:
        return {}
    samples: list[np.ndarray] = []
    for column, (_, one) in enumerate(labels.items()):
        rows = {"public": one.public, "private": ~one.public}.get(view, np.ones_like(one.public))
        if not rows.any():
            return {}
        predicted = np.stack([found[column] for found in whole.values()])  # (G, N)
        samples.append(resampled(predicted, one, rows))
    score = samples[0] if part == 1 else (samples[0] + samples[1] + (samples[2] + 1) / 2) / 3
    return dict(zip(whole, places(score), strict=True))
