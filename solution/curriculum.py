"""Which of several tasks comes when: in turns, or drawn by chance."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence


def round_robin(names: Sequence[str], steps: int) -> list[str]:
    """One task after the other."""
    return [names[step % len(names)] for step in range(steps)]


def drawn(weights: Mapping[str, float], steps: int, seed: int, epoch: int) -> list[str]:
    """A task for each step of an epoch by chance, in proportion to the weights."""
    chance = random.Random(seed + 1_000_003 * epoch)
    return chance.choices(list(weights), weights=list(weights.values()), k=steps)
