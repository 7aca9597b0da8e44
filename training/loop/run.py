"""``Run``: where a training run is, and what happens around its steps. It never calls the model.

The loop stays in the script that trains: see ``train`` in classifier.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from training.loop.batches import SINGLE, micro_batches
from training.loop.checkpoints import ResumePoint, StopRequest, resume_path, run_settings
from training.loop.devices import autocast_for, half_type, peak_memory, set_threads
from training.loop.processes import (
    all_reduce_gradients,
    any_process,
    broadcast_from_main,
    broadcast_parameters,
    is_main_process,
)
from training.loop.progress import Progress
from training.loop.record import Record

if TYPE_CHECKING:
    from training.reports.report import Report

LOOK_EVERY = 10  # steps until it is asked whether losses should be read from the device


@dataclass
class Position:
    """Where a run is; a resume point keeps it."""

    epoch: int = 1
    batch: int = 0  # finished batches of the epoch
    step: int = 0  # finished steps of the run
    history: list[dict[str, float]] = field(default_factory=list)  # the results of each epoch
    times: list[float] = field(default_factory=list)  # seconds at the end of each
    scores: list[float] = field(default_factory=list)  # what is_best was asked about
    means: dict[str, list[float]] = field(default_factory=dict)
    pieces: int = 0
    seconds: float = 0.0
    stateful: dict[str, Any] = field(default_factory=dict)
    threads: int = 0  # of the CPU: another number may round differently; 0: not known


class Run:
    """A training run: its position, and what has to be done around the model.

    Args:
        args: epochs, and the flags of training/cli/flags.py.
        model, optimizer: on their device; a resumed run puts its tensors into them.
        loader: the batches of an epoch: a TrainingLoader, or what has its ``set_epoch``, length,
            iterator and ``pieces_per_batch``.
        report: where epochs are reported; None if the script does that itself.
        steps_file: for every step's loss and learning rate, if not next to the report.
        point: where an interrupted run is kept, if not next to ``args.filepath``.
        steps: how long the run is, if not ``args.epochs`` whole epochs.
        seconds: how long it is instead, looked at before each update; the rate follows the time.
        stateful: what else belongs to the position: objects with state_dict and load_state_dict.
    """

    def __init__(
        self,
        args: Any,
        model: nn.Module,
        optimizer: Optimizer,
        loader: Any,
        *,
        report: Report | None = None,
        steps_file: Path | None = None,
        point: ResumePoint | None = None,
        steps: int | None = None,
        seconds: float | None = None,
        stateful: Mapping[str, Any] | None = None,
    ):
        self.args, self.model, self.optimizer, self.loader = args, model, optimizer, loader
        self.report = report
        self.point = point or ResumePoint(resume_path(args.filepath), run_settings(args))
        self.steps_file = steps_file or Path(f"{report.prefix}steps.csv")
        self.last_step, self.stateful = steps, dict(stateful or {})
        self.total_steps = steps or args.epochs * len(loader)
        self.last_second, self.seconds = seconds, 0.0  # seconds: at the last update
        self.device = next(model.parameters()).device
        self.autocast = autocast_for(self.device, args.precision)
        is_fp16 = half_type(self.device, args.precision) is torch.float16
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=is_fp16)
        if is_fp16:
            self.stateful["scaler"] = self.scaler
        broadcast_parameters(model)
        self.stop = StopRequest()
        self.position = Position()
        self.rows = 0  # of the batch

    def __enter__(self) -> Run:
        saved = self.point.read(self.model, self.optimizer) if self.args.resume else None
        here = self.position = Position(**saved) if saved else Position()
        for name in self.stateful.keys() & here.stateful:
            self.stateful[name].load_state_dict(here.stateful[name])
        set_threads(here.threads)
        self.record = Record(self.steps_file, here.step, here.means, self.args.tensorboard)
        total = self.total_steps * self.loader.pieces_per_batch
        self.progress = Progress(total, here.pieces, here.seconds)
        self.progress.last_second = self.last_second
        if self.report:
            self.report.print_header()
            for row, seconds in zip(here.history, here.times, strict=True):
                self.report.print_row(row, seconds)
        self.stop.__enter__()  # last: an error before this line leaves Ctrl-C as it was
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.__exit__(*error)
        self.record.flush()
        if self.record.board:
            self.record.board.close()

    # Epochs and batches

    def epochs(self) -> Iterator[int]:
        """The epochs that are left, each ended by ``end_epoch``; the model is in training mode."""
        while not self.is_over():
            self.model.train()
            self.loader.set_epoch(self.position.epoch, self.position.batch)
            yield self.position.epoch

    def batches(self) -> Iterator[dict]:
        """The batches that are left of the epoch."""
        name, first = f"epoch {self.position.epoch}", self.position.batch
        for batch in self.progress.bar(self.loader, name, first, len(self.loader)):
            self.rows = len(batch["labels"])
            yield batch
            if (self.last_step or self.last_second) and self.is_over():
                return

    def micro_batches(
        self, batch: Mapping[str, Tensor], keys: Sequence[str] = SINGLE
    ) -> Iterator[tuple[Tensor, ...]]:
        """The batch, or this process's rows of it, in --accumulate parts, on the device."""
        return micro_batches(batch, self.args.accumulate, self.device, keys)

    def is_over(self) -> bool:
        """Whether the time is up, all epochs or steps are done, or --patience is exhausted."""
        if self.last_second:
            is_done = self.seconds >= self.last_second
        elif self.last_step:
            is_done = self.position.step >= self.last_step
        else:
            is_done = self.position.epoch > self.args.epochs
        return is_done or should_stop_early(self.position.scores, self.args.patience)

    # A step

    def is_last_step(self) -> bool:
        """Whether the run ends with this step, which has been made but not counted yet."""
        if self.last_second:
            return self.seconds >= self.last_second
        return self.position.step + 1 == self.total_steps

    def log(self, count: int, of: int | None = None, **values: Tensor) -> None:
        """Add to the running means of the epoch; nothing is read from the device.

        Args:
            count: how many rows (or words) of the micro-batch the values are about.
            of: how many the whole batch has; its rows, if not given.
            values: by name a mean over them, or numbers whose sum is theirs. ``loss`` is also the
                loss of the step in steps.csv, weighted by the micro-batch's part of the batch.
        """
        self.record.add(count, of or self.rows, values)

    def scale(self, loss: Tensor) -> Tensor:
        """The loss; in fp16 times a factor, without which small gradients would round to 0."""
        return self.scaler.scale(loss)

    def before_update(self) -> None:
        """Sum the gradients of all processes, clip them, set the step's learning rate."""
        all_reduce_gradients(self.model)
        if self.scaler.is_enabled():
            self.unscale_gradients()
        if self.args.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
        done, total = self.position.step, self.total_steps
        if self.last_second:
            self.seconds = broadcast_from_main(self.progress.seconds())
            done, total = self.seconds, self.last_second
        factor = linear_factor(done, total, self.args.warmup, self.args.decay)
        set_learning_rates(self.optimizer, factor)

    def unscale_gradients(self) -> None:
        """In fp16: take the factor of ``scale`` off the gradients; drop them if one is infinite.

        Without gradients the optimizer's step changes nothing. The factor is then halved, and after
        2,000 steps without such a case doubled (Micikevicius et al. 2018, section 3.2). Whether to
        step is decided here, on the CPU: in fp16 every step waits for the device.
        """
        factor = self.scaler.get_scale()
        self.scaler.unscale_(self.optimizer)
        self.scaler.update()
        if self.scaler.get_scale() < factor:
            self.optimizer.zero_grad()

    def end_step(self) -> None:
        """Count the step; once in a while write the resume point, and stop if that was asked."""
        here = self.position
        here.batch, here.step = here.batch + 1, here.step + 1
        rate = self.optimizer.param_groups[0]["lr"]
        self.record.end_step(here.step, here.epoch, here.batch, rate)
        if here.step % LOOK_EVERY == 0 and any_process(self.record.is_due()):
            self.record.read()
        if any_process(self.stop.asked or self.point.due()):
            self.write()
        self.stop.leave_if_asked(self.point)

    # The end of an epoch

    def means(self) -> dict[str, float]:
        """The running means of the epoch by the names given to ``log``."""
        self.record.read()
        return self.record.means()

    def is_best(self, score: float) -> bool:
        """Whether a score is higher than all before it; --patience waits for such a one."""
        self.record.read()  # before the model is saved: nan must not replace the best one so far
        score = broadcast_from_main(score)
        best = max(self.position.scores, default=-math.inf)
        self.position.scores.append(score)
        return score > best

    def end_epoch(self, results: Mapping[str, float] | None = None) -> None:
        """Report an epoch, and write the resume point; saving the model comes before it."""
        here = self.position
        self.record.read()
        if results is not None:
            self.record.sums = {}
            here.history.append(broadcast_from_main({"epoch": here.epoch, **results}))
            here.times.append(self.progress.seconds())
            self.record.draw({f"epoch/{name}": v for name, v in results.items()}, here.step)
            if self.report and is_main_process():
                best = here.history[here.scores.index(max(here.scores))]
                self.report.print_row(here.history[-1], here.times[-1])
                memory = peak_memory(self.device)
                self.report.write(here.history, best, here.times[-1], memory, self.args)
        here.epoch, here.batch = here.epoch + 1, 0
        self.write()
        self.stop.leave_if_asked(self.point)

    def write(self) -> None:
        """Write the resume point, and within an epoch the page of the run so far."""
        here = self.position
        self.record.read()
        self.record.flush()
        here.seconds, here.pieces = self.progress.seconds(), self.progress.pieces
        here.means, here.threads = self.record.sums, torch.get_num_threads()
        here.stateful = {name: part.state_dict() for name, part in self.stateful.items()}
        if self.report and is_main_process() and here.batch:
            memory = peak_memory(self.device)
            self.report.draw_page(here.history, here.seconds, memory, self.args)
        self.point.write(self.model, self.optimizer, dict(vars(here)))


def should_stop_early(scores: Sequence[float], patience: int | None) -> bool:
    """Whether the last ``patience`` of the epochs' dev scores are no better than those before."""
    if patience is None or len(scores) <= patience:
        return False
    return max(scores[-patience:]) <= max(scores[:-patience])


# ---------------------------------------------------------------------------------------------
# The learning rate is set here and nowhere else. torch's LambdaLR computes the same, but counts
# its steps itself; the run's position says which step it is, so there is no second count to save.


def linear_factor(step: float, steps: float, warmup: float, decay: bool) -> float:
    """The factor in step 0, 1, 2 …, or second: a linear warm-up, then constant or a linear decay.

    step / w up to w = warmup · steps, then 1, or (steps − step) / (steps − w) with decay, as
    transformers' get_linear_schedule_with_warmup: with a warm-up, step 0 has the factor 0.
    """
    rising = round(warmup * steps)
    if step < rising:
        return step / rising
    return max(0.0, (steps - step) / max(1, steps - rising)) if decay else 1.0


def set_learning_rates(optimizer: Optimizer, factor: float) -> None:
    """Set every group's learning rate to the one it began with times a factor."""
    for group in optimizer.param_groups:
        group["lr"] = factor * group.setdefault("initial_lr", group["lr"])
