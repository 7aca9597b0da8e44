"""How far a run is and how long the rest takes: a bar, or lines where there is no terminal."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

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
    """A bar over each epoch of a ``Run``; once the speed is known, each minute, what is left."""

    ESTIMATE_AFTER, LINE_EVERY = 5.0, 60.0  # seconds

    def __init__(self, run: Any):
        self.run, self.began = run, time.monotonic()  # of a resumed run: earlier by what it took
        self.next_line = self.began + self.ESTIMATE_AFTER

    def bar(self, loader: Any) -> Iterator[dict]:
        """The batches that are left of an epoch."""
        name, batches = f"epoch {self.run.epoch}", len(loader)
        bar = progress_bar(loader, name, total=batches, initial=self.run.batch)
        for batch in bar:
            yield batch
            if (now := time.monotonic()) > self.next_line:
                self.next_line = now + self.LINE_EVERY if bar.disable else float("inf")
                took, left = minutes(self.seconds()), minutes(self.left())
                say(f"{name}, batch {self.run.batch:,} of {batches:,}: {took}, about {left} left")

    def left(self) -> float:
        """Seconds that are left, about, once some steps are done."""
        pace = self.seconds() / max(1, self.run.step)
        return pace * max(0, self.run.total_steps - self.run.step)

    def seconds(self) -> float:
        """Seconds since the beginning, those before an interruption included."""
        return time.monotonic() - self.began
