"""``Run``: where a training run is, and all of its bookkeeping. It never calls the model.

The loop stays in the script that trains:

    with Run(args, model, optimizer, loader, …) as run:
        for epoch in run.epochs():
            for batch in run.batches():
                for ids, mask, labels in run.micro_batches(batch):
                    with run.autocast():
                        logits = model(ids, mask)
                    run.backward(F.cross_entropy(logits.float(), labels), weight=len(labels))
                run.step()
            …                                        # scores on dev data
            if run.is_best(score):
                …                                    # save the model
            run.end_epoch(scores)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from training.files.errors import InputError
from training.loop.batches import SINGLE, micro_batches
from training.loop.checkpoints import ResumePoint, StopRequest
from training.loop.devices import autocast_for, peak_memory
from training.loop.processes import (
    all_reduce_gradients,
    all_reduce_numbers,
    any_process,
    first_process,
    from_first,
)
from training.loop.progress import Progress
from training.loop.schedule import linear_factor, set_learning_rates
from training.reports.report import Board, Report, StepLog


class Batches(Protocol):
    """What a run draws its batches from: a TrainingLoader, or something like it."""

    pieces_per_batch: float

    def set_epoch(self, epoch: int, skip: int) -> None:
        """Set the epoch whose batches come next, and how many of them to leave out."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[dict]: ...


class RunningTotals:
    """Running sums over what was trained on, as it was seen: examples, losses, right answers.

    Args:
        names: of the quantities; averages are taken over the first.
        sums: where an interrupted epoch goes on from.
    """

    def __init__(self, names: Sequence[str], sums: Mapping[str, float] | None = None):
        self.sums = dict.fromkeys(names, 0.0) | dict(sums or {})
        self.step = dict.fromkeys(names, 0.0)  # since the last end_step

    def add(self, **amounts: float) -> None:
        """Add to the quantities of this step."""
        for name, amount in amounts.items():
            self.step[name] += amount

    def end_step(self, amounts: Sequence[float]) -> None:
        """End a step in which all processes together counted so much, in the order of names."""
        for name, amount in zip(self.sums, amounts, strict=True):
            self.sums[name] += amount
            self.step[name] = 0.0

    def mean(self, name: str) -> float:
        """A sum, divided by that of the first quantity."""
        return self.sums[name] / max(1, self.sums[next(iter(self.sums))])

    def clear(self) -> None:
        """Begin again at 0."""
        self.sums = dict.fromkeys(self.sums, 0.0)


class Run:
    """A training run: its position, and what has to be done around the model.

    Args:
        args: epochs, and the flags of training/cli/flags.py.
        model, optimizer: on their device; a run that goes on puts its tensors into them.
        loader: the batches of an epoch.
        point: where an interrupted run is kept.
        checkpoint: where the best model is kept, for messages.
        totals: names of the running sums, see RunningTotals.
        steps_file: every step's loss and learning rate go there.
        report: where epochs are reported; None if the script does that itself.
        steps: how long the run is, if not ``args.epochs`` whole epochs.
        factor: of a step's learning rate, by the step's number from 0 on, if not the linear one.
        stateful: what else belongs to the position: objects with state_dict and load_state_dict.
    """

    def __init__(
        self,
        args: Any,
        model: nn.Module,
        optimizer: Optimizer,
        loader: Batches,
        *,
        point: ResumePoint,
        checkpoint: str,
        totals: Sequence[str],
        steps_file: str,
        report: Report | None = None,
        steps: int | None = None,
        factor: Callable[[int], float] | None = None,
        stateful: Mapping[str, Any] | None = None,
    ):
        self.args, self.model, self.optimizer, self.loader = args, model, optimizer, loader
        self.point, self.checkpoint, self.report = point, checkpoint, report
        self.totals = RunningTotals(totals)
        self.log = StepLog(steps_file)
        self.last_step = steps
        self.total_steps = steps or args.epochs * len(loader)
        self.factor = factor or partial(
            linear_factor, steps=self.total_steps, warmup=args.warmup, decay=args.decay
        )
        self.stateful = stateful or {}
        self.device = next(model.parameters()).device
        self.autocast = autocast_for(self.device, args.precision)
        self.stop = StopRequest()
        self.epoch, self.batch, self.step_number = 1, 0, 0  # batches begun, of the epoch and in all
        self.history: list[dict[str, float]] = []  # a row an epoch
        self.times: list[float] = []  # seconds at the end of each
        self.scores: list[float] = []
        self.rows = 0  # of the batch
        self.own_loss, self.loss = 0.0, 0.0  # of the step: this process's share, the whole
        self.is_reduced, self.is_updated = False, False  # what was done in the step

    def __enter__(self) -> Run:
        saved = self.point.read(self.model, self.optimizer) if self.args.resume else None
        if saved:
            self.epoch, self.batch, self.step_number = saved["epoch"], saved["batch"], saved["step"]
            self.history, self.times = saved["history"], saved["times"]
            self.scores = saved["scores"]
            self.totals = RunningTotals(list(self.totals.sums), saved["totals"])
            for name, part in self.stateful.items():
                part.load_state_dict(saved["stateful"][name])
        self.log.cut(self.step_number)
        name = self.log.path.stem.removesuffix("steps").rstrip("-") or self.log.path.parent.name
        self.board = Board(self.args.tensorboard, name, self.step_number)
        self.progress = Progress(
            self.total_steps * self.loader.pieces_per_batch,
            saved["pieces"] if saved else 0,
            saved["seconds"] if saved else 0.0,
            0 if self.last_step else self.args.epochs - self.epoch + 1,
        )
        if self.report:
            self.report.print_header()
            for row, seconds in zip(self.history, self.times, strict=True):
                self.report.print_row(row, seconds)
        self.stop.__enter__()  # last: what fails before leaves Ctrl-C as it was
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.__exit__(*error)
        self.log.flush()
        self.board.close()

    # Where the run is

    def epochs(self) -> Iterator[int]:
        """The epochs that are left, each ended by ``end_epoch``; the model is in training mode."""
        while not self.is_over():
            self.model.train()
            self.loader.set_epoch(self.epoch, self.batch)
            yield self.epoch

    def batches(self) -> Iterator[dict]:
        """What is left of the epoch's batches. After a step may come a resume point or a stop."""
        name = f"epoch {self.epoch}"
        for batch in self.progress.bar(self.loader, name, self.batch, len(self.loader)):
            self.batch += 1
            self.step_number += 1
            self.rows, self.is_reduced, self.is_updated = len(batch["labels"]), False, False
            yield batch
            rate = self.optimizer.param_groups[0]["lr"]
            self.log.add(self.step_number, self.epoch, self.loss, rate)
            self.board.add({"loss": self.loss, "lr": rate}, self.step_number)
            if self.is_updated:
                if any_process(self.stop.asked or self.point.due()):
                    self._write()
                self.stop.leave_if_asked(self.point)
            if self.last_step and self.is_over():
                return

    def is_over(self) -> bool:
        """Whether all epochs or steps are done, or --patience is at its end."""
        if self.last_step:
            is_done = self.step_number >= self.last_step
        else:
            is_done = self.epoch > self.args.epochs
        return is_done or should_stop_early(self.scores, self.args.patience)

    def is_best(self, score: float) -> bool:
        """Whether a score is higher than all before it; --patience waits for such a one."""
        score = from_first(score)
        best = max(self.scores, default=-math.inf)
        self.scores.append(score)
        return score > best

    def end_epoch(self, scores: Mapping[str, float] | None = None) -> None:
        """Report an epoch, and write the resume point: what comes before it can be done again."""
        if scores is not None:
            self.totals.clear()
            self.history.append(from_first({"epoch": self.epoch, **scores}))
            self.times.append(self.progress.seconds())
            self.board.add(
                {f"epoch/{name}": value for name, value in scores.items()}, self.step_number
            )
            self._report()
        self.epoch, self.batch = self.epoch + 1, 0
        self._write()
        self.stop.leave_if_asked(self.point)

    def _report(self) -> None:
        if self.report and first_process():
            best = self.history[self.scores.index(max(self.scores))]
            self.report.print_row(self.history[-1], self.times[-1])
            self.report.write(
                self.history, best, self.times[-1], peak_memory(self.device), self.args
            )

    def _write(self) -> None:
        self.log.flush()
        if self.report and first_process() and self.batch:  # an epoch's end draws it, too
            seconds, memory = self.progress.seconds(), peak_memory(self.device)
            self.report.draw_page(self.history, seconds, memory, self.args)
        position = {
            "epoch": self.epoch,
            "batch": self.batch,
            "step": self.step_number,
            "totals": self.totals.sums,
            "history": self.history,
            "times": self.times,
            "scores": self.scores,
            "pieces": self.progress.begun_pieces,
            "seconds": self.progress.seconds(),
            "stateful": {name: part.state_dict() for name, part in self.stateful.items()},
        }
        self.point.write(self.model, self.optimizer, position)

    # What is done around the model

    def micro_batches(
        self, batch: Mapping[str, Tensor], keys: Sequence[str] = SINGLE
    ) -> Iterator[tuple[Tensor, ...]]:
        """The batch, or this process's share of it, in --accumulate parts, on the device."""
        return micro_batches(batch, self.args.accumulate, self.device, keys)

    def backward(self, loss: Tensor, weight: float | None = None) -> None:
        """The backward pass of a micro-batch.

        Args:
            loss: what it contributes to the loss of the batch; or, with ``weight``, a mean.
            weight: over how many of the batch's rows it is the mean.
        """
        if weight is not None:
            loss = loss * weight / self.rows
        self.own_loss += loss.item()  # before the backward pass, for which a GPU would have to wait
        loss.backward()

    def add(self, **amounts: float) -> None:
        """Add to the running sums of the step."""
        self.totals.add(**amounts)

    def reduce(self) -> None:
        """Sum gradients and totals over all processes; ``step`` does, if it was not done before.

        Raises:
            InputError: a sum is nan or infinite: nothing after it would be worth keeping.
        """
        if self.is_reduced:
            return
        self.loss, *amounts = all_reduce_numbers([self.own_loss, *self.totals.step.values()])
        self.own_loss, self.is_reduced = 0.0, True
        self.totals.end_step(amounts)
        all_reduce_gradients(self.model)
        check_finite(self.totals.sums, self.epoch, self.batch, self.checkpoint)

    def step(self) -> None:
        """Make a step: clip the gradients, set the learning rate, update, gradients to zero."""
        self.reduce()
        if self.args.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
        set_learning_rates(self.optimizer, self.factor(self.step_number - 1))
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.is_updated = True

    def mean(self, name: str) -> float:
        """The average of a running sum, over what is named first."""
        return self.totals.mean(name)


def check_finite(sums: Mapping[str, float], epoch: int, batch: int, checkpoint: str) -> None:
    """InputError as soon as a sum is nan or infinite."""
    for name, value in sums.items():
        if not math.isfinite(value):
            raise InputError(
                f"the {name} is {value} in epoch {epoch}, batch {batch}; lower --lr. "
                f"The best epoch before it, if there was one, is kept in {checkpoint}"
            )


def should_stop_early(scores: Sequence[float], patience: int | None) -> bool:
    """Whether the last ``patience`` of the epochs' dev scores are no better than those before."""
    if patience is None or len(scores) <= patience:
        return False
    return max(scores[-patience:]) <= max(scores[:-patience])
