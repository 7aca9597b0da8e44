"""``Run``: where a training run is, and what happens around its steps. It never calls the model.

The loop stays in the script that trains: see ``train`` in classifier.py.
"""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from training.files.errors import InputError, Stopped, trouble_in_one_line
from training.files.writing import write_whole
from training.loop.checkpoints import ResumePoint, resume_path, run_settings
from training.loop.devices import half_type, set_threads, widest
from training.loop.processes import gather, is_main_process, rank, sum_gradients, world_size
from training.loop.progress import Progress, say

POSITION = ("epoch", "batch", "step", "history", "times", "scores")  # attributes that are saved
READ_EVERY = 50  # steps between two readings of losses from the device
STUCK = 100  # steps after which a loss that is no better than a guess is worth a line


class Run:
    """A training run: its position, its means, its reports, and the file that --resume reads.

    Args:
        args: epochs, and the flags of training/cli/flags.py.
        model, optimizer: on their device; a resumed run puts its tensors into them.
        loader: a TrainingLoader, or what has its ``set_epoch``, length and iterator.
        report: what prints the table and writes what people read, steps.csv next to it.
        settings: what --resume may not change, besides the flags.
        steps: how long the run is, if not ``args.epochs`` whole epochs.
        extra_state: what else is saved: objects with state_dict and load_state_dict, by name.
        guess: the loss of giving every row the same answer, if the script knows it.

    Attributes:
        epoch, batch, step: the current epoch from 1 on, its finished batches, all finished steps.
        total_steps: how long the run is; a script may set it to ``step + 1`` to end there.
        history, times: the results of each epoch, and the seconds at its end.
    """

    def __init__(
        self,
        args: Any,
        model: nn.Module,
        optimizer: Optimizer,
        loader: Any,
        report: Any,
        *,
        settings: Mapping[str, Any] | None = None,
        steps: int | None = None,
        extra_state: Mapping[str, Any] | None = None,
        guess: float = math.inf,
    ):
        self.args, self.model, self.optimizer = args, model, optimizer
        self.loader, self.report, self.guess = loader, report, guess
        settings = run_settings(args) | dict(settings or {})
        self.point = ResumePoint(resume_path(args.filepath), settings)
        self.total_steps = steps or args.epochs * len(loader)
        self.epoch, self.batch, self.step = 1, 0, 0
        self.history, self.times, self.scores = [], [], []  # scores: what is_best was asked about
        self.rows = 0  # of the batch
        self.has_failed = False  # or was stopped
        device = next(model.parameters()).device
        self.progress, self.asked_to_stop = Progress(self), False
        is_fp16 = half_type(device, args.precision) is torch.float16
        self.scaler = torch.amp.GradScaler(device.type, enabled=is_fp16)
        self.extra_state = {"scaler": self.scaler, **(extra_state or {})}
        if not is_main_process():
            torch.manual_seed(torch.initial_seed() + rank())  # each process has its own dropout

    def __enter__(self) -> Run:
        saved = self.point.read(self.model, self.optimizer) if self.args.resume else None
        for name in POSITION if saved else ():
            setattr(self, name, saved[name])
        self.record = Record(Path(f"{self.report.prefix}steps.csv"), self.step, self.guess)
        if saved:
            for name, part in self.extra_state.items():
                part.load_state_dict(saved["extra_state"][name])
            self.record.sums, self.progress.before = saved["means"], saved["seconds"]
            set_threads(saved["threads"])  # another number may round differently
        self.report.print_table(self)
        # last: an error before this line leaves Ctrl-C as it was
        signals = (signal.SIGINT, signal.SIGTERM)
        self.handlers = {number: signal.signal(number, self._ask_to_stop) for number in signals}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        self.has_failed = any(error)
        if self.has_failed and self.step and is_main_process():
            with suppress(InputError):  # a full disk was reported before
                self.report.draw_page(self)

    def epochs(self) -> Iterator[int]:
        """The epochs that are left, each ended by ``end_epoch``; the model is in training mode."""
        while self.batch or (self.step < self.total_steps and not self._stops_early()):
            self.model.train()
            self.loader.set_epoch(self.epoch, self.batch)
            yield self.epoch

    def batches(self) -> Iterator[dict]:
        """The batches that are left of the epoch."""
        for batch in self.progress.bar(self.loader):
            if self.step >= self.total_steps:
                return
            self.rows = len(batch["labels"])
            yield batch

    def scale(self, loss: Tensor) -> Tensor:
        """The loss; in fp16 times a factor, without which small gradients would round to 0."""
        return self.scaler.scale(loss)

    def log(self, count: int, of: int | None = None, **values: Tensor) -> None:
        """Add to the running means of the epoch; nothing is read from the device.

        Args:
            count: how many rows (or words) of the part the values are about.
            of: how many the whole batch has; its rows, if not given.
            values: by name a mean over them, or numbers whose sum is theirs. ``loss`` is also the
                loss of the step in steps.csv, weighted by the part's fraction of the batch.
        """
        self.record.add(count, of or self.rows, values)

    def gather_gradients(self) -> None:
        """After a step's backward passes: sum those of all processes; in fp16 unscale them.

        One infinite gradient drops them all, and the optimizer's step changes nothing. The factor
        of the loss is then halved, and after 2,000 steps without such a case doubled (Micikevicius
        et al. 2018, section 3.2).
        """
        sum_gradients(self.model)
        if self.scaler.is_enabled():
            factor = self.scaler.get_scale()
            self.scaler.unscale_(self.optimizer)
            self.scaler.update()
            if self.scaler.get_scale() < factor:
                self.optimizer.zero_grad()

    def end_step(self) -> None:
        """Count the step; once a minute write the resume point, and stop if that was asked."""
        self.batch, self.step = self.batch + 1, self.step + 1
        rate = self.optimizer.param_groups[0]["lr"]
        self.record.end_step(self.step, self.epoch, self.batch, rate)
        is_reading = self.step % READ_EVERY == 0
        # several processes agree on it only where they exchange numbers anyway
        may_save = is_reading or world_size() == 1
        if may_save and any(gather(self.asked_to_stop or self.point.due())):
            self.save()
        elif is_reading:
            self.record.read()

    def means(self) -> dict[str, float]:
        """The running means of the epoch by the names given to ``log``."""
        self.record.read()
        return self.record.means()

    def is_best(self, score: float) -> bool:
        """Whether a score is higher than all before it; --patience waits for such a one."""
        self.record.read()  # before the model is saved: nan must not replace the best one so far
        self.scores.append(gather(score)[0])
        return self.scores[-1] > max(self.scores[:-1], default=-math.inf)

    def end_epoch(self, results: Mapping[str, float] | None = None) -> None:
        """Report an epoch, and write the resume point; saving the model comes before it."""
        if results is not None:
            self.record.sums = {}
            self.history.append({"epoch": self.epoch, **results})
            self.times.append(self.progress.seconds())
            if is_main_process():
                self.report.end_epoch(self)
        self.epoch, self.batch = self.epoch + 1, 0
        self.save()

    def save(self) -> None:
        """Write the resume point, and the page so far; leave if a stop was asked for."""
        self.record.read()
        position = {name: getattr(self, name) for name in POSITION} | {"means": self.record.sums}
        position |= {"seconds": self.progress.seconds(), "threads": torch.get_num_threads()}
        extra_state = {name: part.state_dict() for name, part in self.extra_state.items()}
        self.point.write(self.model, self.optimizer, position | {"extra_state": extra_state})
        if any(gather(self.asked_to_stop)):
            raise Stopped(f"stopped; --resume goes on from {self.point.path}")
        if self.batch and is_main_process():
            self.report.draw_page(self)

    def _stops_early(self) -> bool:
        patience = self.args.patience or sys.maxsize
        before = self.scores[:-patience]  # nothing, if there are fewer scores
        return bool(before) and max(self.scores[-patience:]) <= max(before)

    def _ask_to_stop(self, number: int, frame: object) -> None:
        """Stop at the end of the current step; the next signal does what it did before the run."""
        self.asked_to_stop = True
        if world_size() == 1:  # torchrun passes a signal on: all get it twice
            signal.signal(number, self.handlers[number])
        print("\nstopping after this step (once more to stop at once)", flush=True)


class Record:
    """Sums and counts by name, and steps.csv at ``path``; what is logged is read by ``read``.

    Reading a number from a GPU waits for all the work that was given to it; so values stay there,
    and are read together once in a while, and before every resume point: a run that goes on after
    ``step`` steps finds them all in the file, and later ones are removed.
    """

    def __init__(self, path: Path, step: int, guess: float):
        self.path, self.guess = path, guess
        self.sums: dict[str, list[float]] = {}  # name: [sum, count]
        self.unread: list[tuple[str, int, Tensor]] = []  # name, count and sum
        self.steps: list[tuple[int, int, int, float]] = []  # step, epoch, batch, learning rate
        self.losses: list[Tensor] = []  # of these steps
        self.step_loss: Tensor | float = 0.0  # a tensor made here would have to be copied
        self.recent: list[float] = []  # losses of up to STUCK steps, as long as guess is of use
        old = path.read_text("utf-8").splitlines(True) if path.is_file() else []
        write_whole(path, "".join(["step,epoch,loss,lr\n", *old[1 : step + 1]]))

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
        finite = [*takewhile(math.isfinite, losses)]
        self.write(finite)
        if len(finite) < len(losses):
            _, epoch, batch, _ = self.steps[len(finite)]
            place = f"the loss is {losses[len(finite)]} in epoch {epoch}, batch {batch}"
            remedy = "lower --lr, and run python optimizer_test.py"
            raise InputError(f"{place}; {remedy}. No model of this epoch is saved")
        for name, count, total in (entry for entries, _ in everywhere for entry in entries):
            pair = self.sums.setdefault(name, [0.0, 0])
            pair[0], pair[1] = pair[0] + total, pair[1] + count
        self.unread, self.steps, self.losses = [], [], []
        self.recent = [*self.recent, *losses][-STUCK:]
        self.hint_at_guess()

    def write(self, losses: Sequence[float]) -> None:
        """Append these losses, of the first steps that were not read before, to the file."""
        if is_main_process() and losses:
            with trouble_in_one_line("free space", f"cannot write {self.path}: "):
                with open(self.path, "a", encoding="utf-8") as file:
                    for (step, epoch, _, rate), loss in zip(self.steps, losses, strict=False):
                        file.write(f"{step},{epoch},{loss:.6g},{rate:.6g}\n")

    def hint_at_guess(self) -> None:
        """Say once if STUCK steps, and the later half of them, are no better than a guess."""
        if len(self.recent) < STUCK:
            return
        mean, late = fmean(self.recent), fmean(self.recent[STUCK // 2 :])
        if min(mean, late) > self.guess:
            what = f"hint: the mean loss of the last {STUCK} steps is {mean:.3f}; the same answer"
            remedy = "try another --lr, and run python sanity_check.py and python optimizer_test.py"
            say(f"{what} for every row would give {self.guess:.3f}. If it stays there, {remedy}")
            self.guess = math.inf

    def means(self) -> dict[str, float]:
        """Each sum divided by its count."""
        return {name: total / max(1, count) for name, (total, count) in self.sums.items()}


def clip(model: nn.Module, most: float | None) -> None:
    """Scale the gradient down to the norm ``most``, if there is one and it is longer."""
    if most:
        for parameter in model.parameters():  # norms take no sparse ones
            parameter.grad = None if parameter.grad is None else parameter.grad.to_dense()
        nn.utils.clip_grad_norm_(model.parameters(), most)


def set_lr(optimizer: Optimizer, args: Any, done: float, total: float) -> None:
    """Set every group's learning rate for the step after ``done`` of ``total``: --warmup, --decay.

    It is set here and nowhere else: LambdaLR would count the steps, which a run has counted.
    """
    for group in optimizer.param_groups:
        factor = linear_factor(done, total, args.warmup, args.decay)
        group["lr"] = factor * group.setdefault("initial_lr", group["lr"])


def linear_factor(step: float, steps: float, warmup: float, decay: bool) -> float:
    """The factor in step 0, 1, 2 …, or second: a linear warm-up, then constant or a linear decay.

    step / w up to w = warmup · steps, then 1, or (steps − step) / (steps − w) with decay, as
    transformers' get_linear_schedule_with_warmup: with a warm-up, step 0 has the factor 0.
    """
    rising = round(warmup * steps)
    if step < rising:
        return step / rising
    return max(0.0, (steps - step) / max(1, steps - rising)) if decay else 1.0
