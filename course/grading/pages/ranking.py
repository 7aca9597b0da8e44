"""Which places on the leaderboard a score allows, by a paired bootstrap on the test file.

The same rows of the test data are drawn for all submissions, so that only what they do differently
counts. Whoever is ahead in nearly all draws is ahead; between the others there is no order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from course.grading.judging.bootstrap import resampled
from course.grading.judging.predictions import Gold, unpacked

LEVEL = 0.95
Scores = Mapping[str, Mapping[str, Any]]  # of a submission: "finetune-sst-test" → its numbers


def places(samples: np.ndarray) -> list[tuple[int, int]]:
    """The best and the worst place that each submission may have; samples (G, R) of its score."""
    sure, possible = (1 + LEVEL) / 2, []
    for own in samples:
        ahead = ((samples > own).mean(axis=1) > sure).sum()
        behind = ((samples < own).mean(axis=1) > sure).sum()
        possible.append((int(ahead) + 1, len(samples) - int(behind)))
    return possible


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
    whole: dict[int, list[np.ndarray]] = {}
    for number, scores in enumerate(submissions):
        texts = [scores.get(key, {}).get("predicted") for key in wanted]
        if all(texts):
            files = [unpacked(text, labels[key]) for text, key in zip(texts, wanted, strict=True)]
            if all(file is not None for file in files):
                whole[number] = files
    if not whole:
        return {}
    samples: list[np.ndarray] = []
    for gold_file, *files in zip(labels.values(), *whole.values(), strict=True):
        halves = {"public": gold_file.public, "private": ~gold_file.public}
        rows = halves.get(view, np.ones_like(gold_file.public))
        if not rows.any():
            return {}
        predicted = np.stack(files)[:, rows]  # (G, N)
        samples.append(resampled(predicted, gold_file.labels[rows], gold_file.classes))
    score = samples[0] if part == 1 else (samples[0] + samples[1] + (samples[2] + 1) / 2) / 3
    return dict(zip(whole, places(score), strict=True))
