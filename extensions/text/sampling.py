"""Which task trains next, and its batches.

    round robin    one task after the other, in every epoch from the first on
    proportional   drawn by chance, P(task) ∝ N, its number of training examples
    annealed       P(task) ∝ N^α, α = 1 − 0.8 (e − 1) / (E − 1) in epoch e of E: Stickland & Murray
                   2019 ("BERT and PALs"), section 4; proportional at first, then ever more even, so
                   that no task is neglected at the end
    first, before  some epochs of one task alone; then round robin of all tasks, or of the others

In the loop:

    names = plan_epoch("annealed", sizes, steps, epoch, epochs, seed)  # of every epoch
    loader = Turns([[(name,) for name in names], …], datasets, samplers)
    for step in loader:
        for task, batch in step["turns"]:
            …
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from training.files.errors import InputError

KINDS = ("round_robin", "proportional", "annealed", "first", "before")


def plan_epoch(
    kind: str,
    sizes: Mapping[str, int],
    steps: int,
    epoch: int,
    epochs: int,
    seed: int,
    first_task: str = "",
    first_epochs: int = 0,
) -> list[str]:
    """The task of every step of an epoch, from 1 on.

    Args:
        kind: one of KINDS.
        sizes: training examples of each task.
        first_task, first_epochs: of 'first' and 'before'.
    """
    names = list(sizes)
    if kind in ("proportional", "annealed"):
        alpha = annealing(epoch, epochs) if kind == "annealed" else 1.0
        chance = random.Random(seed + 1_000_003 * epoch)
        return chance.choices(names, weights=[sizes[name] ** alpha for name in names], k=steps)
    if kind in ("first", "before") and epoch <= first_epochs:
        return [first_task] * steps
    if kind == "before":
        names.remove(first_task)
    if steps < len(names):
        raise InputError(
            f"--steps_per_epoch {steps} is too few: turns begin again in each epoch, and "
            f"{names[-1]} would never have one; give at least {len(names)}"
        )
    return [names[step % len(names)] for step in range(steps)]


def annealing(epoch: int, epochs: int) -> float:
    """The α above: from 1 in the first epoch to 0.2 in the last."""
    return 1.0 - 0.8 * (epoch - 1) / max(1, epochs - 1)


class Turns:
    """The batches of an epoch: of the tasks whose turn it is, each task's rows without end.

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
        # of each task: how often all rows have gone by, and how many batches of the present round
        self.places = {name: {"epoch": 1, "batch": 0} for name in samplers}
        self.steps: Sequence[Sequence[str]] = ()  # that are left of the epoch
        self.streams: dict[str, Iterator[dict]] = {}
        means = {
            name: sum(map(sum, rows.pieces())) / len(samplers[name])
            for name, rows in datasets.items()
        }
        steps = [sum(means[name] for name in names) for epoch in plan for names in epoch]
        self.pieces_per_batch = sum(steps) / len(steps)

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch whose steps come next, and how many of them to leave out."""
        self.steps = self.plan[epoch - 1][skip:]
        self.streams = self.streams or {name: self._stream(name) for name in self.samplers}

    def __len__(self) -> int:
        return len(self.plan[0])

    def __iter__(self) -> Iterator[dict]:
        for names in self.steps:
            turns = [(name, next(self.streams[name])) for name in names]
            step = {
                "turns": turns,
                "labels": [row for _, batch in turns for row in batch["labels"]],
            }
            for name, batch in turns:  # the progress bar counts tokens
                masks = {key: mask for key, mask in batch.items() if key.startswith("attention")}
                step |= {f"{key}_{name}": mask for key, mask in masks.items()}
            yield step

    def _stream(self, name: str) -> Iterator[dict]:
        """Batches of one task without end, from its place on, which keeps pace."""
        dataset, sampler, place = self.datasets[name], self.samplers[name], self.places[name]
        while True:
            sampler.set_epoch(place["epoch"], skip=place["batch"])
            for rows in sampler:
                place["batch"] += 1
                yield dataset.collate_fn([dataset[i] for i in rows])
            place.update(epoch=place["epoch"] + 1, batch=0)

    def state_dict(self) -> dict:
        """How far each task's rows have gone by, for a resumed run."""
        return self.places

    def load_state_dict(self, places: dict) -> None:
        """Continue from there."""
        self.places = places
