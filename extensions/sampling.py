"""Which task trains next: the order of the tasks in an epoch. Pure functions of sizes and seeds."""

from __future__ import annotations

import random
from collections.abc import Mapping

KINDS = ("round_robin", "proportional", "annealed", "first", "before")


def annealing(epoch: int, epochs: int) -> float:
    """α = 1 − 0.8 (e − 1) / (E − 1), from 1 in the first epoch to 0.2 in the last.

    Stickland & Murray 2019 ("BERT and PALs"), section 4: proportional sampling at first, then ever
    more even, so that no task is neglected at the end.
    """
    return 1.0 - 0.8 * (epoch - 1) / max(1, epochs - 1)


def shares(sizes: Mapping[str, int], alpha: float) -> dict[str, float]:
    """The probability of each task, p_i ∝ N_i^α, N_i its number of training examples."""
    weights = {name: size**alpha for name, size in sizes.items()}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def order(
    kind: str,
    sizes: Mapping[str, int],
    steps: int,
    epoch: int,
    epochs: int,
    seed: int,
    first_task: str = "",
    first_epochs: int = 0,
) -> list[str]:
    """The task of each step of an epoch; it depends on the arguments alone.

    Args:
        kind: 'round_robin': in turns; 'proportional': drawn with p ∝ N; 'annealed': p ∝ N^α with
            α falling; 'first': ``first_task`` alone for ``first_epochs`` epochs, then all in turns;
            'before': then the others, without it.
        sizes: training examples of each task, in the order of the turns.
        epoch, epochs: which one of how many, from 1.
    """
    names = list(sizes)
    if kind in ("proportional", "annealed"):
        alpha = annealing(epoch, epochs) if kind == "annealed" else 1.0
        chance = random.Random(seed + 1_000_003 * epoch)
        return chance.choices(names, weights=list(shares(sizes, alpha).values()), k=steps)
    if kind not in KINDS:
        raise ValueError(f"no sampling {kind!r}; there are {', '.join(KINDS)}")
    if kind in ("first", "before") and epoch <= first_epochs:
        return [first_task] * steps
    if kind == "before":
        names.remove(first_task)
    return [names[step % len(names)] for step in range(steps)]
