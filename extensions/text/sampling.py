"""Which task trains next, and its batches.

    round robin    one task after the other, in every epoch from the first on
    annealed       P(task) ∝ N^α, N its number of training examples, α = 1 − 0.8 (e − 1) / (E − 1)
                   in epoch e of E: Stickland & Murray 2019 ("BERT and PALs"), section 4
    before         some epochs of one task alone; then round robin of the others

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

KINDS = ("round_robin", "annealed", "before")


def plan_run(
    kind: str,
    sizes: Mapping[str, int],
    steps: int,
    epochs: int,
    seed: int,
    first_task: str = "",
    first_epochs: int = 0,
) -> list[list[tuple[str, ...]]]:
    """The tasks of every step of every epoch.

    Args:
        kind: one of KINDS, or 'together': every step is of all tasks, and counts as so many.
        sizes: training examples of each task.
        steps: of an epoch.
        first_task, first_epochs: of 'before'.
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
        if kind == "before" and epoch <= first_epochs:
            names = [first_task]
        elif kind == "before":
            names.remove(first_task)
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
        self.remaining: Sequence[Sequence[str]] = ()  # steps of the epoch
        self.streams: dict[str, Iterator[dict]] = {}
        means = {
            name: sum(map(sum, rows.pieces())) / len(samplers[name])
            for name, rows in datasets.items()
        }
        steps = [sum(means[name] for name in names) for epoch in plan for names in epoch]
        self.pieces_per_batch = sum(steps) / len(steps)

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch whose steps come next, and how many of them to leave out."""
        done, self.remaining = self.plan[epoch - 1][:skip], self.plan[epoch - 1][skip:]
        before = list(itertools.chain(*itertools.chain(*self.plan[: epoch - 1]), *done))
        self.streams = {name: self._stream(name, before.count(name)) for name in self.samplers}

    def __len__(self) -> int:
        return len(self.plan[0])

    def __iter__(self) -> Iterator[dict]:
        for names in self.remaining:
            turns = [(name, next(self.streams[name])) for name in names]
            step = {
                "turns": turns,
                "labels": [row for _, batch in turns for row in batch["labels"]],
            }
            for name, batch in turns:  # the progress bar counts tokens
                masks = {key: mask for key, mask in batch.items() if key.startswith("attention")}
                step |= {f"{key}_{name}": mask for key, mask in masks.items()}
            yield step

    def _stream(self, name: str, skip: int) -> Iterator[dict]:
        """Batches of one task without end, the first ``skip`` left out."""
        dataset, sampler = self.datasets[name], self.samplers[name]

        def endless() -> Iterator[list[int]]:
            for epoch in itertools.count(1):
                sampler.set_epoch(epoch)
                yield from sampler

        for rows in itertools.islice(endless(), skip, None):
            yield dataset.collate_fn([dataset[i] for i in rows])
