"""Which task trains next, and its batches.

    round robin    one task after the other, in every epoch from the first on
    annealed       P(task) ∝ N^α, N its number of training examples, α = 1 − 0.8 (e − 1) / (E − 1)
                   in epoch e of E: Stickland & Murray 2019 ("BERT and PALs"), section 4
    before         an epoch of one task alone; then round robin of the others

In the loop:

    loader = Turns(plan_run("annealed", sizes, steps, epochs, seed), datasets, samplers)
    for step in loader:
        for task, batch in step["turns"]:
            …
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from training.files.errors import InputError
from training.loop.round_robin import endless

KINDS = ("round_robin", "annealed", "before")


def plan_run(
    kind: str,
    sizes: Mapping[str, int],
    steps: int,
    epochs: int,
    seed: int,
    first_task: str = "",
) -> list[list[tuple[str, ...]]]:
    """The tasks of every step of every epoch.

    Args:
        kind: one of KINDS, or 'together': every step is of all tasks, and counts as so many.
        sizes: training examples of each task.
        steps: of an epoch.
        first_task: of 'before'.
    """
    if kind == "together":
        return [[tuple(sizes)] * math.ceil(steps / len(sizes))] * epochs
    plan = []
    for epoch in range(1, epochs + 1):
        names = list(sizes)
        if kind == "annealed":
            alpha = 1.0 - 0.8 * (epoch - 1) / max(1, epochs - 1)  # from 1 to 0.2
            chance = random.Random(seed + 1_000_003 * epoch)
            weights = [sizes[name] ** alpha for name in names]
            plan.append([(name,) for name in chance.choices(names, weights, k=steps)])
            continue
        if kind == "before":
            names = [name for name in names if (name == first_task) == (epoch == 1)]
        if steps < len(names):
            raise InputError(
                f"--steps_per_epoch {steps} is too few: turns begin again in each epoch, and "
                f"{names[-1]} would never have one; give at least {len(names)}"
            )
        plan.append([(names[step % len(names)],) for step in range(steps)])
    return plan


class Turns:
    """The batches of an epoch: of the tasks whose turn it is, each task's rows without end.

    Where a task continues follows from the steps before, so that there is no state to save.

    Args:
        plan: the tasks of every step of every epoch.
        datasets: each task's training set.
        samplers: each task's row numbers, such as LengthBatches.
    """

    def __init__(
        self,
        plan: Sequence[Sequence[Sequence[str]]],
        datasets: Mapping[str, Any],
        samplers: Mapping[str, Any],
    ):
        self.plan, self.datasets, self.samplers = plan, datasets, samplers
        self.epoch, self.skip = 1, 0

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch whose steps come next, and how many of them to leave out."""
        self.epoch, self.skip = epoch, skip

    def __len__(self) -> int:
        return len(self.plan[0])

    def __iter__(self) -> Iterator[dict]:
        steps = self.plan[self.epoch - 1]
        done = [*itertools.chain(*self.plan[: self.epoch - 1]), *steps[: self.skip]]
        before = list(itertools.chain(*done))
        streams = {
            name: endless(self.datasets[name], batches, before.count(name))
            for name, batches in self.samplers.items()
        }
        for names in steps[self.skip :]:
            turns = [(name, next(streams[name])) for name in names]
            yield {"turns": turns, "labels": [row for _, batch in turns for row in batch["labels"]]}
