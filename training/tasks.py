"""Several tasks in one run: what each of them is, its files, its turns, its scores.

It knows of a model that each task has a method of it, and of a data set what batches.py knows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from training.cli.arguments import OneLineParser, check_seed, positive_int
from training.cli.flags import TrainingFlags, add_fields, flag, hint_at_rate
from training.files.errors import InputError
from training.files.writing import check_writable
from training.loop.batches import LengthBatches
from training.loop.checkpoints import ResumePoint, resume_path, run_settings
from training.loop.run import Run
from training.reports.report import Report, print_settings

COURSE = ("sst", "para", "sts")  # the tasks of the leaderboard


@dataclass(frozen=True)
class Task:
    """All that the loop, the evaluation and the files have to know of a task."""

    name: str  # of flags and files: --sst_train, predictions/sst-dev-output.csv
    label: str  # the column of the label in its data files
    classes: int  # how many; 0 if the label is a number on a scale
    keys: tuple[str, ...]  # what the head takes of a batch, and the labels
    head: str  # which method of the model
    predict: Callable  # a pass over batches, from evaluation.py
    metric: Callable  # (y_true, y_pred) → a number
    column: str  # of its prediction files
    # where a row has more answers than one: (path, args) → a data set, and what describes it
    read: Callable | None = None
    describe: Callable | None = None


# ---------------------------------------------------------------------------------------------
# Flags


@dataclass
class TaskFlags(TrainingFlags):
    """What a run of several tasks needs to know; the files are those of the course's tasks."""

    sst_train: str = flag("data/ids-sst-train.csv")
    sst_dev: str = flag("data/ids-sst-dev.csv")
    sst_test: str = flag("data/ids-sst-test-student.csv")
    para_train: str = flag("data/quora-train.csv")
    para_dev: str = flag("data/quora-dev.csv")
    para_test: str = flag("data/quora-test-student.csv")
    sts_train: str = flag("data/sts-train.csv")
    sts_dev: str = flag("data/sts-dev.csv")
    sts_test: str = flag("data/sts-test-student.csv")
    sst_dev_out: str | None = flag(None, help="predictions; default: a file in --out_dir")
    sst_test_out: str | None = flag(None)
    para_dev_out: str | None = flag(None)
    para_test_out: str | None = flag(None)
    sts_dev_out: str | None = flag(None)
    sts_test_out: str | None = flag(None)
    data_dir: str | None = flag(None, help="folder of the course files (or $MINBERT_DATA)")
    out_dir: str = flag("predictions", help="folder of all that a run writes")
    filepath: str | None = flag(None, help="default: {option}-{epochs}-{lr}-multitask.pt")
    steps_per_epoch: int | None = flag(
        None, type=positive_int, help="default: as many as give every row a turn"
    )
    predict: list[str] | None = flag(
        None, nargs="*", metavar="TEXT", help="or two texts, or lines of standard input"
    )
    checkpoint: str | None = flag(None, help="which model predicts")


def make_parser(kind: type[TaskFlags]) -> OneLineParser:
    """The command line of a dataclass of flags."""
    parser = OneLineParser(description="One BERT for sentiment, paraphrases and similarity.")
    add_fields(parser, kind)
    return parser


def parse_flags(
    parser: OneLineParser, args: TaskFlags, arguments: Sequence[str] | None, tasks: Iterable[str]
) -> None:
    """Read a command line into ``args``, check it, and name the outputs of these tasks."""
    parser.parse_args(arguments, namespace=args)
    if (args.predict is None) != (args.checkpoint is None):
        parser.error("--predict and --checkpoint go together; --resume goes on with a run")
    if args.predict is not None and len(args.predict) > 2:
        parser.error("--predict takes one text, or the two of a pair: put each in quotes")
    check_seed(parser, args.seed)
    name_outputs(args, tasks)


def task_names(text: str, known: Iterable[str]) -> list[str]:
    """An argparse type: sst,para,sts or fewer of them, in the table's order."""
    asked = [name.strip() for name in text.split(",")]
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"no task {unknown[0]!r}; there are {', '.join(known)}")
    return [name for name in known if name in asked]


# ---------------------------------------------------------------------------------------------
# Files


def name_outputs(args: TaskFlags, tasks: Iterable[str]) -> None:
    """Fill in the names of what a run writes, where none were given."""
    args.filepath = args.filepath or f"{args.option}-{args.epochs}-{args.lr}-multitask.pt"
    for name in tasks:
        for split in ("dev", "test"):
            given = getattr(args, f"{name}_{split}_out")
            default = f"{args.out_dir}/{name}-{split}-output.csv"
            setattr(args, f"{name}_{split}_out", given or default)


def check_run(args: TaskFlags) -> None:
    """Say what will run; InputError if a data file is missing or an output cannot be written."""
    hint_at_rate(args)
    for name in args.tasks:
        for split in ("train", "dev", "test"):
            path = getattr(args, f"{name}_{split}")
            if split == "test" and not path:
                print(f"*** no --{name}_test: no test predictions for this task ***")
            elif not Path(path).is_file():
                raise InputError(
                    f"no file {path} (--{name}_{split}): python data/download.py fetches the "
                    f"course files, or leave {name} out with --tasks"
                )
    outputs = [
        getattr(args, f"{name}_{split}_out") for name in args.tasks for split in ("dev", "test")
    ]
    for out in (*outputs, args.filepath, f"{args.out_dir}/multitask"):
        check_writable(Path(out).parent)
    print_settings(args, args.tasks)


# ---------------------------------------------------------------------------------------------
# Turns


class Turns:
    """The batches of an epoch: of the task whose turn it is, each task's rows without end.

    Args:
        plan: the task of every step of every epoch.
        datasets: each task's training set.
        batches: each task's sampler.
    """

    def __init__(
        self,
        plan: Sequence[Sequence[str]],
        datasets: Mapping[str, Any],
        batches: Mapping[str, LengthBatches],
    ):
        self.plan, self.datasets, self.batches = plan, datasets, batches
        # of each task: how often all rows have gone by, and how many batches of the present round
        self.places = {name: {"epoch": 1, "batch": 0} for name in batches}
        self.names: Sequence[str] = ()  # of the tasks whose turns are left
        self.streams: dict[str, Iterator[dict]] = {}
        means = {
            name: sum(map(sum, rows.pieces())) / len(batches[name])
            for name, rows in datasets.items()
        }
        turns = [means[name] for names in plan for name in names]
        self.pieces_per_batch = sum(turns) / len(turns)

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch whose turns come next, and how many of them to leave out."""
        self.names = self.plan[epoch - 1][skip:]
        self.streams = self.streams or {
            name: infinite_batches(self.datasets[name], self.batches[name], place)
            for name, place in self.places.items()
        }

    def __len__(self) -> int:
        return len(self.plan[0])

    def __iter__(self) -> Iterator[dict]:
        for name in self.names:
            yield next(self.streams[name]) | {"task": name}

    def state_dict(self) -> dict:
        """How far each task's rows have gone by, for a resumed run."""
        return self.places

    def load_state_dict(self, places: dict) -> None:
        """Continue from there."""
        self.places = places


def infinite_batches(dataset: Any, batches: LengthBatches, place: dict) -> Iterator[dict]:
    """Batches of one task without end, from ``place`` on, which keeps pace.

    Args:
        place: {"epoch": 1, "batch": 0} at the beginning: how often all rows have gone by, and how
            many batches of the present round.
    """
    while True:
        batches.set_epoch(place["epoch"], skip=place["batch"])
        for rows in batches:
            place["batch"] += 1
            yield dataset.collate_fn([dataset[i] for i in rows])
        place.update(epoch=place["epoch"] + 1, batch=0)


def input_lengths(rows: Any, model: nn.Module) -> list[int]:
    """Word pieces of each row's input: of a pair the longer text, or both, which share a [CLS]."""
    if model.joins_pairs and rows.texts_per_row == 2:
        return [min(first + second - 1, rows.max_length) for first, second in rows.pieces()]
    return rows.lengths()


# ---------------------------------------------------------------------------------------------
# The run


def new_run(
    args: TaskFlags,
    model: nn.Module,
    optimizer: Optimizer,
    turns: Turns,
    same: Mapping[str, Any] | None = None,
    **further: Any,
) -> Run:
    """The run of these flags: its files, what it sums up and what it reports.

    Args:
        same: what else has to be the same for a run to be resumed.
        further: what else Run takes.
    """
    names = list(turns.datasets)
    places = {flag for flag in vars(args) if flag.endswith(("_train", "_dev", "_test", "_out"))}
    read = [f"{name}_{split}" for name in names for split in ("train", "dev")]
    return Run(
        args,
        model,
        optimizer,
        turns,
        point=ResumePoint(
            resume_path(args.filepath), run_settings(args, read, places) | dict(same or {})
        ),
        checkpoint=args.filepath,
        totals=[f"{name}_{what}" for name in names for what in ("loss", "steps")],
        steps_file=f"{args.out_dir}/multitask-steps.csv",
        report=report_of(args, names),
        **{"stateful": {"turns": turns}} | further,
    )


def report_of(args: TaskFlags, names: Iterable[str]) -> Report:
    """Where the run's reports go, and what they show of these tasks."""
    shown = {name: name for name in (*names, "overall")}
    title = f"{', '.join(names)}, {args.option}"
    return Report(f"{args.out_dir}/multitask-", title, {"loss": "loss"} | shown, shown)


def tasks_with_loss(names: Sequence[str], losses: Mapping[str, Callable]) -> list[str]:
    """Those tasks that have a loss and so are trained; says which have none."""
    found = [name for name in names if name in losses]
    rest = ", ".join(name for name in names if name not in losses)
    if not found:
        raise InputError(f"nothing to train: LOSSES has no loss for {rest}")
    if rest:
        print(f"trains {', '.join(found)} only: LOSSES has no loss for {rest}")
    return found


def mean_losses(sums: Mapping[str, float]) -> dict[str, float]:
    """Loss a step: of all steps of an epoch, and of those of each task that had any."""
    steps = {key.removesuffix("_steps"): n for key, n in sums.items() if key.endswith("_steps")}
    total = sum(sums[f"{name}_loss"] for name in steps)
    each = {f"{name}_loss": sums[f"{name}_loss"] / n for name, n in steps.items() if n}
    return {"loss": total / sum(steps.values()), **each}


@torch.no_grad()
def evaluate(
    model: nn.Module, loaders: Mapping[Task, Iterable], device: torch.device
) -> dict[str, float]:
    """The metric of each task on its dev batches, by the task's name."""
    model.eval()
    scores = {}
    for task, loader in loaders.items():
        found = task.predict(loader, getattr(model, task.head), device)
        scores[task.name] = task.metric(found["y_true"], found["y_pred"])
    return scores


def overall(scores: Mapping[str, float], trained: Collection[str] = COURSE) -> float:
    """The leaderboard's mean of the tasks' accuracies and (r + 1) / 2 for a correlation r.

    A further task does not count next to these: it is there to help them. Nor does one that was
    not trained.
    """
    names = [name for name in COURSE if name in scores and name in trained] or scores
    counted = {name: scores[name] for name in names}
    terms = [(value + 1) / 2 if name == "sts" else value for name, value in counted.items()]
    return sum(terms) / len(terms)
