"""What a run reports: a table that grows by the epoch, metrics.json, and a page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from training.files.writing import write_json
from training.loop.progress import minutes

TRAIN_AND_DEV = {"train_acc": "train, as seen", "dev_acc": "dev"}


@dataclass
class Report:
    """Where a run's reports go and what they show.

    Args:
        prefix: what the names of the files begin with: predictions/finetune-sst-.
        title: of the page.
        columns: of the table: its headings and their keys in an epoch's row.
        curves: metrics on the page next to the loss: their keys and names.
    """

    prefix: str
    title: str
    columns: Mapping[str, str]
    curves: Mapping[str, str] = field(default_factory=lambda: TRAIN_AND_DEV)

    def print_table(self, run: Any) -> None:
        """The table's heading and the epochs of a ``Run`` that are done."""
        headings = "".join(f"  {' ' + name:>6}" for name in self.columns)
        print(f"{'epoch':>6}{headings}{'time':>13}", flush=True)
        for row, seconds in zip(run.history, run.times, strict=True):
            self.print_row(row, seconds)

    def print_row(self, row: Mapping[str, float], seconds: float) -> None:
        """An epoch's line of the table."""
        cells = (f"  {row[key]:{max(6, len(name) + 1)}.3f}" for name, key in self.columns.items())
        print(f"{row['epoch']:6d}{''.join(cells)}{minutes(seconds):>13}", flush=True)

    def end_epoch(self, run: Any) -> None:
        """A line of the table, metrics.json and the page of a ``Run`` so far."""
        self.print_row(run.history[-1], run.times[-1])
        best = run.history[run.scores.index(max(run.scores))]
        metrics = {"best": best, "epochs": run.history, "seconds": round(run.times[-1], 1)}
        write_json(f"{self.prefix}metrics.json", metrics | {"args": vars(run.args)})
        self.draw_page(run)

    def draw_page(self, run: Any) -> None:
        """The page of a ``Run`` so far."""
        from training.reports.page import write_page  # here: --help and a prediction draw nothing

        write_page(self, run)
