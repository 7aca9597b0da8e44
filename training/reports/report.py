"""What a run reports: a table that grows by the epoch, metrics.json, and a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.files.errors import InputError
from training.files.writing import write_json
from training.loop.devices import peak_memory
from training.loop.progress import minutes

if TYPE_CHECKING:
    from training.loop.run import Run

TRAIN_AND_DEV = {"train_acc": "train, as seen", "dev_acc": "dev"}


@dataclass
class Report:
    """Where a run's reports go and what they show.

    Args:
        prefix: what the names of the files begin with: predictions/finetune-sst-.
        title: of the page.
        columns: of the table: its headings and their keys in an epoch's row.
        curves: metrics on the page beside the loss: their keys and names.
    """

    prefix: str
    title: str
    columns: Mapping[str, str]
    curves: Mapping[str, str] = field(default_factory=lambda: TRAIN_AND_DEV)
    results: list[Any] = field(default_factory=list)  # on dev, once the training is over

    def print_table(self, history: Sequence[Mapping[str, float]]) -> None:
        """The table's heading and the epochs that are done."""
        print(f"{'epoch':>6}{''.join(map(_wide, self.columns))}{'time':>13}", flush=True)
        for row in history:
            self.print_row(row)

    def print_row(self, row: Mapping[str, float]) -> None:
        """An epoch's line of the table."""
        values = "".join(_wide(name, f"{row[key]:.3f}") for name, key in self.columns.items())
        print(f"{row['epoch']:6d}{values}{minutes(row['seconds']):>13}", flush=True)

    def end_epoch(self, run: Run) -> None:
        """A line of the table, metrics.json and the page of the run so far."""
        history = run.history
        self.print_row(history[-1])
        best = history[run.scores.index(max(run.scores))]
        metrics = {"best": best, "epochs": history, "seconds": history[-1]["seconds"]}
        metrics |= {"peak_mb": peak_memory(run.device), "args": vars(run.args)}
        write_json(f"{self.prefix}metrics.json", metrics)
        self.draw_page(run)

    def draw_page(self, run: Run) -> None:
        """The page of the run so far."""
        facts = (run.history, run.args, run.progress.seconds(), peak_memory(run.device))
        self._write_page(*facts)

    def _write_page(self, *facts: Any) -> None:
        from training.reports.page import write_page  # here: --help and a prediction draw nothing

        try:
            write_page(self.prefix, self.title, *facts, self.curves, self.results)
        except InputError as error:  # a page that cannot be written does not stop a run
            print(f"report: {error}")

    def describe(
        self,
        stem: str,
        predictions: Mapping[str, list],
        rows: Iterable[tuple],
        classes: Sequence[str],
    ) -> None:
        """Write what the model does on labelled rows: see error_analysis.describe."""
        from training.reports.error_analysis import describe

        self.results.append(describe(stem, predictions, rows, classes))

    def conclude(self, args: Any) -> None:
        """The page of a run that is over, with what metrics.json has of it if that is its own."""
        path = Path(f"{self.prefix}metrics.json")
        metrics = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if metrics.get("args", {}).get("filepath") != args.filepath:
            metrics = {}
        seconds, peak_mb = metrics.get("seconds", 0.0), metrics.get("peak_mb")
        self._write_page(metrics.get("epochs", []), args, seconds, peak_mb)


def _wide(heading: str, text: str | None = None) -> str:
    """A cell of the table, as wide as its column."""
    return f"  {heading if text is None else text:>{max(6, len(heading) + 1)}}"
