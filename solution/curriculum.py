"""Which of several tasks comes when: in turns, or drawn by chance."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from training.files.errors import InputError


def round_robin(names: Sequence[str], steps: int) -> list[str]:
    """One task after the other, in every epoch from the first on."""
    if steps < len(names):
        raise InputError(
            f"--steps_per_epoch {steps} is too few: turns begin anew in each epoch, and "
            f"{names[-1]} would never have one; give at least {len(names)}"
        )
    return [names[step % len(names)] for step in range(steps)]


def drawn(weights: Mapping[str, float], steps: int, seed: int, epoch: int) -> list[str]:
    """A task for each step of an epoch by chance, in proportion to the weights."""
    chance = random.Random(seed + 1_000_003 * epoch)
    return chance.choices(list(weights), weights=list(weights.values()), k=steps)
