"""The flags of a run of several tasks: the course's data files, and where predictions go."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from training.cli.flags import (
    FineTuningFlags,
    OneLineParser,
    add_fields,
    check_outputs,
    flag,
    positive_int,
    some_text,
)
from training.files.course_files import COURSE_STEMS, SPLITS, data_folder
from training.files.errors import InputError

OUT_HELP = "file for predictions (in --out_dir)"
FILEPATH_HELP = "checkpoint ({option}-{epochs}-{lr}-multitask.pt)"
PREDICT_HELP = "a text, or the two of a pair, or standard input"
STEPS_HELP = "default: one for each batch of each task"


def data_file(default: str, split: str) -> Any:
    """A flag that names a data file; another test file does not change a training."""
    what = {"train": "training data", "dev": "dev data", "test": "test data, unlabelled"}[split]
    return flag(default, path="reads", may_change=split == "test", help=f"{what} (%(default)s)")


def task_names(text: str, known: Sequence[str] = tuple(COURSE_STEMS)) -> list[str]:
    """An argparse type: the names of tasks, such as sst,sts, in the order of those known."""
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"no task {unknown[0]!r}; there are {', '.join(known)}")
    return [name for name in known if name in names]


@dataclass
class TaskFlags(FineTuningFlags):
    """All that a run of the three tasks needs to know."""

    tasks: list[str] = flag(list(COURSE_STEMS), type=task_names, help="which tasks")
    sst_train: str = data_file("data/ids-sst-train.csv", "train")
    sst_dev: str = data_file("data/ids-sst-dev.csv", "dev")
    sst_test: str = data_file("data/ids-sst-test-student.csv", "test")
    para_train: str = data_file("data/quora-train.csv", "train")
    para_dev: str = data_file("data/quora-dev.csv", "dev")
    para_test: str = data_file("data/quora-test-student.csv", "test")
    sts_train: str = data_file("data/sts-train.csv", "train")
    sts_dev: str = data_file("data/sts-dev.csv", "dev")
    sts_test: str = data_file("data/sts-test-student.csv", "test")
    sst_dev_out: str | None = flag(None, path="writes", help=OUT_HELP)
    sst_test_out: str | None = flag(None, path="writes", help=OUT_HELP)
    para_dev_out: str | None = flag(None, path="writes", help=OUT_HELP)
    para_test_out: str | None = flag(None, path="writes", help=OUT_HELP)
    sts_dev_out: str | None = flag(None, path="writes", help=OUT_HELP)
    sts_test_out: str | None = flag(None, path="writes", help=OUT_HELP)
    out_dir: str = flag("predictions", may_change=True, help="folder for everything written")
    filepath: str | None = flag(None, path="writes", help=FILEPATH_HELP)
    steps_per_epoch: int | None = flag(None, type=positive_int, help=STEPS_HELP)
    predict: list[str] | None = flag(
        None, may_change=True, nargs="*", type=some_text, metavar="TEXT", help=PREDICT_HELP
    )
    checkpoint: str | None = flag(None, may_change=True, help="the model that predicts")


Flags = TypeVar("Flags", bound=TaskFlags)


def parse_task_flags(
    args: Flags,
    arguments: Sequence[str] | None,
    tasks: Sequence[str],
    faults: Callable[[Flags], Iterable[str]] = lambda args: (),
) -> Flags:
    """Read a command line into ``args`` and check it.

    Args:
        tasks: whose outputs get names.
        faults: what else is wrong with the flags, a sentence each.
    """
    parser = OneLineParser(description="One BERT for sentiment, paraphrases and similarity.")
    add_fields(parser, type(args))
    parser.parse_args(arguments, namespace=args)
    if (args.predict is None) != (args.checkpoint is None):
        parser.error("--predict and --checkpoint go together; --resume continues a run")
    if args.predict is not None and len(args.predict) > 2:
        parser.error("--predict takes one text, or the two of a pair: put each in quotes")
    for fault in faults(args):
        parser.error(fault)
    name_outputs(args, tasks)
    return args


def name_outputs(args: TaskFlags, tasks: Sequence[str]) -> None:
    """Fill in the names of what a run writes, where none were given."""
    args.filepath = args.filepath or f"{args.option}-{args.epochs}-{args.lr}-multitask.pt"
    for task in tasks:
        for split in ("dev", "test"):
            name, default = f"{task}_{split}_out", f"{args.out_dir}/{task}-{split}-output.csv"
            setattr(args, name, getattr(args, name) or default)


def find_files(args: Flags, tasks: Sequence[str], stems: Mapping[str, str] = COURSE_STEMS) -> Flags:
    """Name the outputs, and turn data/NAME, NAME a course file, into where that file is; → args."""
    name_outputs(args, tasks)
    names = {f"{t}_{s}": f"data/{stems[t]}-{end}.csv" for t in stems for s, end in SPLITS.items()}
    wanted = [key for key, name in names.items() if getattr(args, key) == name]
    files = multitask_files(args.data_dir, stems) if wanted else {}
    for key in wanted:
        setattr(args, key, files[key])
    return args


def multitask_files(
    data_dir: str | None = None, stems: Mapping[str, str] = COURSE_STEMS
) -> dict[str, str]:
    """The files of the tasks in ``stems`` by the names of their flags: sst_train, … sts_test.

    Where quora-train.csv is missing, the small split of quora-dev.csv stands in, and para_test may
    be ''.
    """
    folder = data_folder(data_dir)
    files = {f"{t}_{s}": folder / f"{stems[t]}-{e}.csv" for t in stems for s, e in SPLITS.items()}
    small = folder / "quora-small-train.csv"
    if "para" in stems and small.is_file() and not files["para_train"].is_file():
        files |= {"para_train": small, "para_dev": folder / "quora-small-dev.csv"}
        print("*** quora-train.csv is not there: taking quora-small-train.csv and -dev.csv.")
        print("Numbers will differ from those on all of Quora. ***")
        if not files["para_test"].is_file():
            files["para_test"] = ""
    return {key: str(file) for key, file in files.items()}


def tasks_with_loss(names: Sequence[str], losses: Mapping[str, Callable]) -> list[str]:
    """Those tasks that have a loss and so are trained; says which have none."""
    trained = [name for name in names if name in losses]
    rest = ", ".join(name for name in names if name not in losses)
    if not trained:
        raise InputError(f"nothing to train: LOSSES has no loss for {rest}")
    if rest:
        print(f"trains {', '.join(trained)} only: LOSSES has no loss for {rest}")
    return trained


def check_files(args: TaskFlags) -> None:
    """InputError if a data file of args.tasks is missing or an output cannot be written."""
    for task, split in product(args.tasks, SPLITS):
        path = getattr(args, f"{task}_{split}")
        if split == "test" and not path:
            print(f"*** no --{task}_test: no test predictions for this task ***")
        elif not Path(path).is_file():
            fetch = "python -m data.download fetches the course files"
            what = f"no file {path} (--{task}_{split}): {fetch}"
            raise InputError(f"{what}, or leave {task} out with --tasks")
    check_outputs(args)
