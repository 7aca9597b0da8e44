"""The numbers of a run: running means of an epoch, and every step's loss and learning rate.

Reading a number from a GPU waits for all the work that was given to it; so values stay there, and
are read together once in a while.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from training.files.errors import InputError, trouble_in_one_line
from training.files.writing import write_whole
from training.loop.devices import widest
from training.loop.on_request import new_board
from training.loop.processes import gather, is_main_process


class Record:
    """Sums and counts by name, and steps.csv at ``path``; what is logged is read by ``read``.

    Lines are kept in memory until ``flush``, which comes before every resume point: a run that goes
    on after ``step`` steps finds them all in the file, and later ones are removed.
    """

    def __init__(self, path: Path, tensorboard: str | None, step: int):
        self.path, self.board = path, None
        self.sums: dict[str, list[float]] = {}  # name: [sum, count]
        self.unread: list[tuple[str, int, Tensor]] = []  # name, count and sum
        self.steps: list[tuple[int, int, int, float]] = []  # step, epoch, batch, learning rate
        self.losses: list[Tensor] = []  # of these steps
        self.step_loss: Tensor | float = 0.0  # a tensor made here would have to be copied
        self.lines: list[tuple] = []
        old = path.read_text("utf-8").splitlines(True) if path.is_file() else []
        write_whole(path, "".join(["step,epoch,loss,lr\n", *old[1 : step + 1]]))
        if tensorboard and is_main_process():
            self.board = new_board(tensorboard, path, step)

    def add(self, count: int, of: int, values: Mapping[str, Tensor]) -> None:
        """Add means over ``count`` items, or numbers to sum up; the batch has ``of`` items."""
        for name, value in values.items():
            value, wide = value.detach(), widest(value.device)
            total = value.to(wide).sum() if value.dim() else value.to(wide) * count
            self.unread.append((name, count, total))
            if name == "loss":
                self.step_loss = (value * count / of).to(wide) + self.step_loss

    def end_step(self, step: int, epoch: int, batch: int, rate: float) -> None:
        """End a step that was made with this learning rate."""
        self.steps.append((step, epoch, batch, rate))
        self.losses.append(torch.as_tensor(self.step_loss))
        self.step_loss = 0.0

    def read(self) -> None:
        """Add what was not read yet to sums and lines, over all processes, which all call this.

        Raises:
            InputError: a loss is nan or infinite: nothing after it would be worth keeping.
        """
        tensors = [total for *_, total in self.unread] + self.losses
        numbers = torch.stack([x.to(tensors[0]) for x in tensors]).tolist() if tensors else []
        entries = [(*entry[:2], total) for entry, total in zip(self.unread, numbers, strict=False)]
        everywhere = gather((entries, numbers[len(entries) :]))
        losses = [sum(parts) for parts in zip(*(losses for _, losses in everywhere), strict=True)]
        for (step, epoch, batch, rate), loss in zip(self.steps, losses, strict=True):
            if not math.isfinite(loss):
                raise InputError(
                    f"the loss is {loss} in epoch {epoch}, batch {batch}; lower --lr. "
                    "The best epoch before it, if there was one, is kept"
                )
            self.lines.append((step, epoch, f"{loss:.6g}", f"{rate:.6g}"))
            self.draw({"loss": loss, "lr": rate}, step)
        for name, count, total in (entry for entries, _ in everywhere for entry in entries):
            pair = self.sums.setdefault(name, [0.0, 0])
            pair[0], pair[1] = pair[0] + total, pair[1] + count
        self.unread, self.steps, self.losses = [], [], []

    def means(self) -> dict[str, float]:
        """Each sum divided by its count."""
        return {name: total / max(1, count) for name, (total, count) in self.sums.items()}

    def flush(self) -> None:
        """Append the lines of what was read to the file."""
        if is_main_process() and self.lines:
            with trouble_in_one_line("free space", f"cannot write {self.path}: "):
                with open(self.path, "a", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows(self.lines)
        self.lines = []

    def draw(self, numbers: Mapping[str, float], step: int) -> None:
        """A point of each of these curves for TensorBoard."""
        for name, value in numbers.items() if self.board else ():
            self.board.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what was read; also where an error ends the run."""
        self.flush()
        if self.board:
            self.board.close()
