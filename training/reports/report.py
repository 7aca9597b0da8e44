"""What a run reports: a table that grows by the epoch, metrics.json, steps.csv, TensorBoard.

Figures and pages are drawn by the modules beside this one, which are imported when a run draws for
the first time: a prediction or --help needs none of them. This file does not know what is trained.
"""

from __future__ import annotations

import csv
import importlib
import itertools
import json
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from training.files.errors import InputError
from training.files.writing import atomic_write, write_json
from training.loop.processes import is_main_process
from training.loop.progress import minutes

if TYPE_CHECKING:
    from training.reports.page import Result

TRAIN_AND_DEV = {"train_acc": "train, as seen", "dev_acc": "dev"}


def drawing(module: str) -> ModuleType:
    """A module of this package that draws, imported on first use; the one place that does so."""
    return importlib.import_module(f"training.reports.{module}")


@dataclass(frozen=True)
class Report:
    """Where a run's reports go and what they show.

    Args:
        prefix: what the names of the files begin with: predictions/finetune-sst-.
        title: of the picture.
        columns: of the table: its headings and their keys in an epoch's row.
        curves: metrics in the picture beside the loss: their keys and names.
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
        """metrics.json, the learning curves and report.html of the run so far."""
        metrics = {"best": best, "epochs": history, "seconds": round(seconds, 1)}
        metrics |= {"peak_mb": peak_mb, "args": vars(args)}
        write_json(f"{self.prefix}metrics.json", metrics)
        self.draw_curves(history)
        self.draw_page(history, seconds, peak_mb, args)

    def draw_curves(self, history: Sequence[dict]) -> None:
        """The learning curves as a picture."""
        path = f"{self.prefix}curves.png"
        drawing("figures").plot_curves(path, history, self.title, self.curves)

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
            drawing("page").write_page(*page)
        except InputError as error:  # a page that cannot be written does not stop a run
            print(f"report: {error}")

    def conclude(self, args: Any, results: Sequence[Result]) -> None:
        """The page of a run that is over, with what metrics.json has of it if that is its own."""
        path = Path(f"{self.prefix}metrics.json")
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if found.get("args", {}).get("filepath") != args.filepath:
            found = {}
        history, seconds = found.get("epochs", []), found.get("seconds", 0.0)
        self.draw_page(history, seconds, found.get("peak_mb"), args, results)


def describe(
    stem: str, predictions: Mapping[str, list], dataset: Iterable[tuple], classes: Sequence[str]
) -> Result:
    """Write what a model does on labelled rows: error_analysis.describe, imported on first use."""
    return drawing("error_analysis").describe(stem, predictions, dataset, classes)


COLUMNS = 60  # of what a run prints: a split screen, a phone


def print_settings(args: Any, tasks: Sequence[str] = ()) -> None:
    """What a run will do: its settings, bold where they are not the defaults, and its files.

    Args:
        args: a dataclass of flags.
        tasks: whose files are told, where names of flags begin with a task's; none: all are.
    """
    files: dict[str, dict[str, list[str]]] = {"reads": {}, "writes": {}}
    cells = []
    for setting in fields(args):
        value = getattr(args, setting.name)
        default = setting.default_factory() if setting.default is MISSING else setting.default
        verb = setting.metadata.get("path")
        task, _, kind = setting.name.partition("_")
        if verb:
            if value and (not kind or kind == "out" or not tasks or task in tasks):
                folder = files[verb].setdefault(str(Path(value).parent), [])
                folder.append(Path(value).name)
        elif value is not None and (value != default or value not in (False, "", 0.0)):
            text = " ".join(value) if isinstance(value, list) else str(value)
            cells.append((f"{setting.name} {text}", value == default))
    print()
    for left, right in itertools.zip_longest(cells[::2], cells[1::2], fillvalue=("", True)):
        print(f"{emphasized(*left)}  {emphasized(*right)}".rstrip())
    options = {"break_long_words": False, "break_on_hyphens": False}
    for verb, folders in files.items():
        for folder, names in folders.items():
            text = f"{verb} {'' if folder == '.' else f'{folder}: '}{', '.join(names)}"
            print(textwrap.fill(text, COLUMNS, subsequent_indent="    ", **options))


def emphasized(text: str, is_default: bool) -> str:
    """A cell, half as wide as a row: bold on a terminal if it is not a default."""
    cell = f"{text:{COLUMNS // 2 - 2}}"
    return cell if is_default or not sys.stdout.isatty() else f"\033[1m{cell}\033[0m"


def _wide(heading: str, text: str | None = None) -> str:
    """A cell of the table, as wide as its column."""
    return f"  {heading if text is None else text:>{max(6, len(heading) + 1)}}"


class StepLog:
    """steps.csv: step, epoch, loss and learning rate of every step.

    Lines are kept in memory until ``flush``, which comes before every resume point: a run that goes
    on from there, with the same file, finds all steps before it; ``cut`` removes those after it.
    """

    NAMES = ("step", "epoch", "loss", "lr")

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.lines: list[tuple] = []

    @property
    def run_name(self) -> str:
        """What the name of the file begins with, or the name of its folder."""
        return self.path.stem.removesuffix("steps").rstrip("-") or self.path.parent.name

    def cut(self, steps: int) -> None:
        """Begin the file, or keep its first ``steps`` lines."""
        kept: list[str] = []
        if steps and self.path.is_file():
            kept = self.path.read_text(encoding="utf-8").splitlines(keepends=True)[1 : steps + 1]
        with atomic_write(self.path) as file:
            file.write(",".join(self.NAMES) + "\n")
            file.writelines(kept)

    def add(self, step: int, epoch: int, loss: float, lr: float) -> None:
        """One step's line."""
        self.lines.append((step, epoch, f"{loss:.6g}", f"{lr:.6g}"))

    def flush(self) -> None:
        """Append what is kept in memory to the file."""
        if is_main_process() and self.lines:
            try:
                with open(self.path, "a", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows(self.lines)
            except OSError as error:
                raise InputError(
                    f"cannot write {self.path}: {error.strerror or error}; make room"
                ) from error
        self.lines = []


class Board:
    """What TensorBoard shows of a run: numbers by step; without a folder nothing is written.

    Args:
        folder: of --tensorboard.
        name: of the run, a folder in it.
        step: how many steps a resumed run has done; later ones in the file are dropped.
    """

    def __init__(self, folder: str | None, name: str, step: int):
        self.writer = None
        if not folder or not is_main_process():
            return
        try:
            from torch.utils.tensorboard import SummaryWriter  # not everybody has the package
        except ImportError:
            raise InputError("--tensorboard needs a package: pip install tensorboard") from None
        self.writer = SummaryWriter(str(Path(folder) / name), purge_step=step + 1)

    def add(self, numbers: Mapping[str, float], step: int) -> None:
        """A point of each of these curves."""
        for name, value in numbers.items() if self.writer else ():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is still in memory."""
        if self.writer:
            self.writer.close()
