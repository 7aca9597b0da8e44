"""What a run reports: a table that grows by the epoch, metrics.json, and a page.

It is imported where a run begins: a prediction or --help needs none of what draws a page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.files.errors import InputError
from training.files.writing import write_json
from training.loop.progress import minutes
from training.reports.page import Result, write_page

TRAIN_AND_DEV = {"train_acc": "train, as seen", "dev_acc": "dev"}


@dataclass(frozen=True)
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

    def print_header(self) -> None:
        """The table's first line."""
        print(f"{'epoch':>6}{''.join(map(_wide, self.columns))}{'time':>13}", flush=True)

    def print_row(self, row: Mapping[str, float], seconds: float) -> None:
        """An epoch's line of the table."""
        values = "".join(_wide(name, f"{row[key]:.3f}") for name, key in self.columns.items())
        print(f"{row['epoch']:6d}{values}{minutes(seconds):>13}", flush=True)

    def write(
        self, history: Sequence[dict], best: dict, seconds: float, peak_mb: float | None, args: Any
    ) -> None:
        """metrics.json and report.html of the run so far."""
        metrics = {"best": best, "epochs": history, "seconds": round(seconds, 1), "ended": False}
        metrics |= {"peak_mb": peak_mb, "args": vars(args)}
        write_json(f"{self.prefix}metrics.json", metrics)
        self.draw_page(history, seconds, peak_mb, args)

    def draw_page(
        self,
        history: Sequence[dict],
        seconds: float,
        peak_mb: float | None,
        args: Any,
        results: Sequence[Result] = (),
    ) -> None:
        """The page of the run so far, at the end with results on dev."""
        page = (self.prefix, self.title, history, args, seconds, peak_mb, self.curves, results)
        try:
            write_page(*page)
        except InputError as error:  # a page that cannot be written does not stop a run
            print(f"report: {error}")

    def conclude(self, args: Any, results: Sequence[Result]) -> None:
        """The page of a run that is over, with what metrics.json has of it if that is its own."""
        path = Path(f"{self.prefix}metrics.json")
        metrics = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if metrics.get("args", {}).get("filepath") != args.filepath:
            metrics = {}
        history, seconds = metrics.get("epochs", []), metrics.get("seconds", 0.0)
        self.draw_page(history, seconds, metrics.get("peak_mb"), args, results)


def _wide(heading: str, text: str | None = None) -> str:
    """A cell of the table, as wide as its column."""
    return f"  {heading if text is None else text:>{max(6, len(heading) + 1)}}"
