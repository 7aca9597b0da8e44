"""How far a run is and how long the rest takes: a bar, an estimate, lines where there is no bar."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from torch import Tensor
from tqdm import tqdm

from training.loop.processes import is_main_process


def say(text: str) -> None:
    """Print a line; a bar that is on the screen moves below it."""
    with tqdm.external_write_mode():
        print(text, flush=True)


def minutes(seconds: float) -> str:
    """A duration for people: 45 s, 3 min 05 s, 2 h 10 min."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


def progress_bar(items: Iterable, name: str) -> Iterable:
    """The items, with a bar on a terminal (of the first process) that is gone at the end."""
    return tqdm(items, desc=name, leave=False, disable=None if is_main_process() else True)


class Progress:
    """A bar over an epoch's batches and, once the speed is known, an estimate of the whole run.

    A step's time is taken to grow with its word pieces. The first steps of a process are not timed:
    caches are cold then, threads start, torch may compile. Later ones are averaged with weights
    that fall by 2 % a step, and the evaluations at the end of epochs count as the past ones took.

    Args:
        total: word pieces of the whole run, about.
        done: those before an interruption.
        seconds: what they took.
        evaluations: how many are still to come.
    """

    UNTIMED_STEPS = 10
    ESTIMATE_AFTER = 5.0  # seconds of timed steps
    KEPT = 0.98  # of the weight of earlier steps
    LINE_EVERY = 60.0  # seconds

    def __init__(self, total: float, done: int = 0, seconds: float = 0.0, evaluations: int = 0):
        self.total, self.done, self.before = total, done, seconds
        self.begun_pieces = done  # with those of the batch that is being computed
        self.begun = time.monotonic()
        self.steps = 0  # of this process
        self.timed = 0.0  # seconds of timed steps
        self.recent_seconds = self.recent_pieces = 0.0  # weighted sums over timed steps
        self.evaluations, self.evaluation_seconds = evaluations, 0.0
        self.epoch_ended: float | None = None
        self.promised: float | None = None  # seconds of the whole run, as last printed
        self.last_line = self.begun

    def bar(self, batches: Iterable[dict], name: str, first: int, count: int) -> Iterator[dict]:
        """An epoch's batches from number ``first`` on, of ``count``, timed."""
        hidden = None if is_main_process() else True  # None: only on a terminal
        bar = tqdm(batches, name, total=count, initial=first, leave=False, disable=hidden)
        began = time.monotonic()
        if self.epoch_ended is not None:
            self.evaluation_seconds = began - self.epoch_ended
        for number, batch in enumerate(bar, start=first + 1):
            pieces = pieces_of(batch)
            self.begun_pieces += pieces
            yield batch
            now = time.monotonic()
            self._add(pieces, now - began)
            began = now
            if bar.disable and now - self.last_line >= self.LINE_EVERY:
                self._say_line(f"{name}, batch {number:,} of {count:,}", now)
            elif self.promised is None and self.timed > self.ESTIMATE_AFTER:
                self._estimate(now)
        self.epoch_ended = time.monotonic()
        self.evaluations -= 1
        if self.promised is not None:
            self._estimate(self.epoch_ended)

    def _add(self, pieces: int, seconds: float) -> None:
        self.done += pieces
        self.steps += 1
        if self.steps > self.UNTIMED_STEPS:
            self.timed += seconds
            self.recent_seconds = self.KEPT * self.recent_seconds + seconds
            self.recent_pieces = self.KEPT * self.recent_pieces + pieces

    def speed(self) -> float | None:
        """Word pieces a second, in the last steps above all; None before there are timed steps."""
        return self.recent_pieces / max(1e-9, self.recent_seconds) if self.recent_pieces else None

    def left(self) -> float | None:
        """Seconds that are left, about; None as long as the speed is unknown."""
        speed = self.speed()
        if speed is None:
            return None
        training = max(0.0, self.total - self.done) / speed
        return training + max(0, self.evaluations) * self.evaluation_seconds

    def _estimate(self, now: float) -> None:
        """Say how long the run takes, unless it is over or what was said still holds."""
        if self.done >= self.total:
            return
        left = self.left()
        whole = self.before + now - self.begun + left
        if self.promised is None or abs(whole - self.promised) > self.promised / 5:
            self.promised = whole
            say(f"estimate: training takes about {minutes(whole)} in all, {minutes(left)} are left")

    def _say_line(self, where: str, now: float) -> None:
        """A line for a log, in place of the bar."""
        self.last_line, left = now, self.left()
        rest = "" if left is None else f", about {minutes(left)} left"
        say(f"{where}: {minutes(self.seconds())} of training{rest}")

    def seconds(self) -> float:
        """Seconds since the beginning, those before an interruption included."""
        return self.before + time.monotonic() - self.begun


def pieces_of(batch: Mapping[str, Tensor]) -> int:
    """Word pieces of a batch, padding left out."""
    return sum(int(batch[key].sum()) for key in batch if key.startswith("attention_mask"))
