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


def progress_bar(items: Iterable, name: str, **options: int) -> tqdm:
    """The items, with a bar on a terminal (of the first process) that is gone at the end."""
    disable = None if is_main_process() else True  # None: where there is no terminal
    return tqdm(items, desc=name, leave=False, disable=disable, **options)


class Progress:
    """A bar over an epoch's batches and, once the speed is known, an estimate of the whole run.

    A step's time is taken to grow with its word pieces. The first steps of a process are not timed:
    caches are cold then, threads start, torch may compile.

    Args:
        total: word pieces of the whole run, about.
        pieces: those before an interruption.
        seconds: what they took.
        what: is being done, for the lines.
    """

    UNTIMED_STEPS = 10
    ESTIMATE_AFTER = 5.0  # seconds of timed steps
    LINE_EVERY = 60.0  # seconds
    last_second: float | None = None  # of the run, if it ends by time

    def __init__(self, total: float, pieces: int = 0, seconds: float = 0.0, what: str = "training"):
        self.total, self.before, self.what = total, seconds, what
        self.pieces = pieces  # read so far, with those of the batch that is being computed
        self.begun = self.last_line = time.monotonic()
        self.steps = self.timed_pieces = 0  # of this process
        self.timed_seconds = 0.0
        self.is_estimated = False

    def bar(self, batches: Iterable[dict], name: str, first: int, count: int) -> Iterator[dict]:
        """An epoch's batches from number ``first`` on, of ``count``, timed."""
        bar = progress_bar(batches, name, total=count, initial=first)
        began = time.monotonic()
        for number, batch in enumerate(bar, start=first + 1):
            pieces = pieces_of(batch)
            self.pieces += pieces
            yield batch
            now = time.monotonic()
            self.steps += 1
            if self.steps > self.UNTIMED_STEPS:
                self.timed_pieces += pieces
                self.timed_seconds += now - began
            began = now
            if not self.is_estimated and self.timed_seconds > self.ESTIMATE_AFTER:
                self.is_estimated, left = True, self.left()
                whole = minutes(self.seconds() + left)
                say(f"estimate: {self.what} takes about {whole} in all, {minutes(left)} are left")
            elif bar.disable and now - self.last_line >= self.LINE_EVERY:
                self.last_line, left = now, self.left()
                rest = "" if left is None else f", about {minutes(left)} left"
                took = f"{minutes(self.seconds())} of {self.what}"
                say(f"{name}, batch {number:,} of {count:,}: {took}{rest}")

    def speed(self) -> float | None:
        """Word pieces a second; None before there are timed steps."""
        return self.timed_pieces / max(1e-9, self.timed_seconds) if self.timed_pieces else None

    def left(self) -> float | None:
        """Seconds that are left, about; None as long as the speed is unknown."""
        if self.last_second:
            return max(0.0, self.last_second - self.seconds())
        speed = self.speed()
        return None if speed is None else max(0.0, self.total - self.pieces) / speed

    def seconds(self) -> float:
        """Seconds since the beginning, those before an interruption included."""
        return self.before + time.monotonic() - self.begun


def pieces_of(batch: Mapping[str, Tensor]) -> int:
    """Word pieces of a batch, padding left out."""
    masks = (batch[key].numpy() for key in batch if key.startswith("attention_mask"))
    return sum(int(mask.sum()) for mask in masks)
