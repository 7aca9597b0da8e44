"""``Run``: where a training run is, and what happens around its steps. It never calls the model.

The loop stays in the script that trains: see ``train`` in classifier.py.
"""

from __future__ import annotations

import math
import signal
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from training.files.errors import InputError, Stopped, trouble_in_one_line
from training.files.writing import write_whole
from training.loop.checkpoints import ResumePoint
from training.loop.devices import half_type, set_threads, unscale
from training.loop.processes import gather, is_main_process, rank, sum_gradients, world_size
from training.loop.progress import Progress, say

# Attributes of a run that are saved
POSITION = ("epoch", "batch", "step", "history", "times", "scores", "notes")
READ_EVERY = 50  # steps between two readings of losses from the device
STUCK = 100  # steps after which a loss that is no better than a guess is worth a line


class Run:
    """A training run: its position, its means, its reports, and the file that --resume reads.

    Args:
        args: the flags, and filepath, where the model goes.
        model, optimizer: on their device; a resumed run puts its tensors into them.
        loader: a TrainingLoader, or what has its ``set_epoch``, length and iterator.
        report: what prints the table and writes what people read, steps.csv next to it.
        guess: the loss of giving every row the same answer, if the script knows it.

    Attributes:
        epoch, batch, step: the current epoch from 1 on, its finished batches, all finished steps.
        total_steps: how long the run is, which a script may set.
        history, times: the results of each epoch, and the seconds at its end.
        notes: plain values of the script's, which a resumed run finds again.
    """

    def __init__(
        self, args, model: nn.Module, optimizer: Optimizer, loader, report, guess: float = math.inf
    ):
        self.args, self.model, self.optimizer = args, model, optimizer
        self.loader, self.report, self.guess = loader, report, guess
        self.total_steps = args.epochs * len(loader)
        self.epoch, self.batch, self.step = 1, 0, 0
        self.history, self.times, self.scores = [], [], []  # scores: what is_best was asked about
        self.notes: dict[str, Any] = {}
        self.has_failed = self.asked_to_stop = False  # has_failed: or was stopped
        self.progress = Progress(self)
        device = next(model.parameters()).device
        is_fp16 = half_type(device, args.precision) is torch.float16
        self.scaler = torch.amp.GradScaler(device.type, enabled=is_fp16)
        self.point = ResumePoint(args, model=model, optimizer=optimizer, scaler=self.scaler)
        if not is_main_process():
            torch.manual_seed(torch.initial_seed() + rank())  # each process has its own dropout

    def __enter__(self) -> Run:
        if saved := self.args.resume and self.point.read():
            vars(self).update({name: saved[name] for name in POSITION})
            self.progress.began -= saved["seconds"]
            set_threads(saved["threads"])  # another number may round differently
        self.args.resume = False  # the files of a resumed run say the same as any other's
        self.record = Record(Path(f"{self.report.prefix}steps.csv"), self.step, self.guess)
        self.record.sums = saved["means"] if saved else {}
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

    def _ask_to_stop(self, number: int, frame: object) -> None:
        """Stop at the end of the current step; the next signal does what it did before the run."""
        self.asked_to_stop = True
        if world_size() == 1:  # torchrun passes a signal on: all get it twice
            signal.signal(number, self.handlers[number])
        print("\nstopping after this step (once more to stop at once)", flush=True)

    def epochs(self) -> Iterator[int]:
        """The epochs that are left, each ended by ``end_epoch``; the model is in training mode."""
        while self.batch or (self.step < self.total_steps and not self._stops_early()):
            self.model.train()
            self.loader.set_epoch(self.epoch, self.batch)
            yield self.epoch

    def _stops_early(self) -> bool:
        """Whether the last --patience scores were no better than those before."""
        patience = self.args.patience or sys.maxsize
        before = self.scores[:-patience]  # nothing, if there are fewer scores
        return bool(before) and max(self.scores[-patience:]) <= max(before)

    def batches(self) -> Iterator[dict]:
        """The batches that are left of the epoch."""
        for batch in self.progress.bar(self.loader):
            if self.step >= self.total_steps:
                break
            yield batch
        self.record.read()  # before an evaluation, which would say less of nan

    def scale(self, loss: Tensor) -> Tensor:
        """The loss; in fp16 times a factor, without which small gradients would round to 0."""
        return self.scaler.scale(loss)

    def log(self, count: float, **values: Tensor) -> None:
        """Add to the means of the epoch; nothing is read from the device.

        Args:
            count: how many rows (or words) of the batch the values are about.
            values: by name a mean over them, or numbers whose sum is theirs. ``loss`` is also the
                step's in steps.csv, the mean of its parts.
        """
        self.record.add(self.step + 1, count, values)

    def gather_gradients(self) -> None:
        """After a step's backward passes: sum those of all processes; in fp16 unscale them."""
        sum_gradients(self.model)
        unscale(self.scaler, self.optimizer)

    def end_step(self) -> None:
        """Count the step; once a minute write the resume point, and stop if that was asked."""
        self.batch, self.step = self.batch + 1, self.step + 1
        rate = self.optimizer.param_groups[0]["lr"]
        self.record.steps.append((self.step, self.epoch, self.batch, rate))
        is_reading = self.step % READ_EVERY == 0
        # several processes agree on it only where they exchange numbers anyway
        may_save = is_reading or world_size() == 1
        if may_save and any(gather(self.asked_to_stop or self.point.due())):
            self.save()
        elif is_reading:
            self.record.read()

    def means(self) -> dict[str, float]:
        """The means of what was given to ``log`` since the last call, by name."""
        self.record.read()
        sums, self.record.sums = self.record.sums, {}
        return {name: total / (count or 1) for name, (total, count) in sums.items()}

    def is_best(self, score: float) -> bool:
        """Whether a score is higher than all before it; --patience waits for such a one."""
        self.record.read()  # before the model is saved: nan must not replace the best one so far
        self.scores.append(gather(score)[0])
        return self.scores[-1] > max(self.scores[:-1], default=-math.inf)

    def end_epoch(self, results: Mapping[str, float] | None = None) -> None:
        """Report an epoch, its means and results, and write the resume point, after the model."""
        if results is not None:
            self.history.append({"epoch": self.epoch, **self.means(), **results})
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
        self.point.write(position)
        if any(gather(self.asked_to_stop)):
            raise Stopped(f"stopped; --resume goes on from {self.point.path}")
        if self.batch and is_main_process():
            self.report.draw_page(self)


class Record:
    """Sums and counts by name, and steps.csv at ``path``; what is logged is read by ``read``.

    Reading a number from a GPU waits for all the work that was given to it; so values stay there,
    and are read together once in a while, and before every resume point: a run that goes on after
    ``step`` steps finds them all in the file, and later ones are removed.
    """

    def __init__(self, path: Path, step: int, guess: float):
        self.path, self.guess = path, guess
        self.sums: dict[str, list[float]] = {}  # name: [sum, count]
        self.losses: dict[int, list[float]] = {}  # step: [sum, count], those not in the file yet
        self.steps: list[tuple[int, int, int, float]] = []  # step, epoch, batch, learning rate
        self.unread: list[tuple[int, str, float, Tensor]] = []  # step, name, count, sum
        self.recent: deque[float] = deque(maxlen=STUCK)  # losses
        old = path.read_text("utf-8").splitlines(True) if path.is_file() else []
        write_whole(path, "".join(["step,epoch,loss,lr\n", *old[1 : step + 1]]))

    def add(self, step: int, count: float, values: Mapping[str, Tensor]) -> None:
        """Add means over ``count`` items, or numbers to sum up, which belong to that step."""
        for name, value in values.items():
            value = value.detach().float()
            total = value.sum() if value.dim() else value * count
            self.unread.append((step, name, count, total))

    def read(self) -> None:
        """Add what was not read yet to sums and lines, over all processes, which all call this.

        Raises:
            InputError: a loss is nan or infinite: nothing after it would be worth keeping.
        """
        totals = [total for *_, total in self.unread]
        numbers = torch.stack(totals).tolist() if totals else []
        mine = [(*entry, x) for (*entry, _), x in zip(self.unread, numbers, strict=True)]
        for step, name, count, total in chain.from_iterable(gather(mine)):
            pairs = [self.sums.setdefault(name, [0.0, 0])]
            if name == "loss":
                pairs.append(self.losses.setdefault(step, [0.0, 0]))
            for pair in pairs:
                pair[0], pair[1] = pair[0] + total, pair[1] + count
        lines, fault = [], ""
        for step, epoch, batch, rate in self.steps:
            total, count = self.losses.pop(step, (0.0, 1))
            if not math.isfinite(total):
                fault = f"the loss is {total} in epoch {epoch}, batch {batch}"
                remedy = "lower --lr, and run python optimizer_test.py"
                if step == 1:
                    remedy = "no update was made before it: run python sanity_check.py"
                break
            lines.append(f"{step},{epoch},{total / count:.6g},{rate:.6g}\n")
            self.recent.append(total / count)
        if is_main_process() and lines:
            with trouble_in_one_line("free space", f"cannot write {self.path}: "):
                with open(self.path, "a", encoding="utf-8") as file:
                    file.writelines(lines)
        if fault:
            raise InputError(f"{fault}; {remedy}. No model of this epoch is saved")
        self.unread, self.steps = [], []
        if len(self.recent) == STUCK:
            self.hint_at_guess()

    def hint_at_guess(self) -> None:
        """Say once if STUCK steps, and the later half of them, are no better than a guess."""
        mean, late = fmean(self.recent), fmean([*self.recent][STUCK // 2 :])
        if min(mean, late) > self.guess:
            what = f"hint: the mean loss of the last {STUCK} steps is {mean:.3f}; the same answer"
            remedy = "try another --lr, and run python sanity_check.py and python optimizer_test.py"
            say(f"{what} for every row would give {self.guess:.3f}. If it stays there, {remedy}")
            self.guess = math.inf


def clip(model: nn.Module, most: float | None) -> None:
    """Scale the gradient down to the norm ``most``, if there is one and it is longer."""
    if most:
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
