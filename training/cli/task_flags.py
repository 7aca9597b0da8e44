"""The flags of a run of several tasks: the course's data files, and where predictions go."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from training.cli.flags import FineTuningFlags, flag, positive_int
from training.files.course_files import COURSE_STEMS, SPLITS, data_folder

OUT_HELP = "file for predictions (in --out_dir)"
FILEPATH_HELP = "checkpoint ({option}-{epochs}-{lr}-multitask.pt)"
ABOUT = "One BERT for sentiment, paraphrases and similarity."
STEPS_HELP = "default: one for each batch of each task"


def data_file(default: str, split: str) -> Any:
    """A flag that names a data file; another test file does not change a training."""
    what = {"train": "training data", "dev": "dev data", "test": "test data, unlabelled"}[split]
    return flag(default, may_change=split == "test", help=f"{what} (%(default)s)")


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
    sst_dev_out: str | None = flag(None, may_change=True, help=OUT_HELP)
    sst_test_out: str | None = flag(None, may_change=True, help=OUT_HELP)
    para_dev_out: str | None = flag(None, may_change=True, help=OUT_HELP)
    para_test_out: str | None = flag(None, may_change=True, help=OUT_HELP)
    sts_dev_out: str | None = flag(None, may_change=True, help=OUT_HELP)
    sts_test_out: str | None = flag(None, may_change=True, help=OUT_HELP)
    out_dir: str = flag("predictions", may_change=True, help="folder for everything written")
    filepath: str | None = flag(None, may_change=True, help=FILEPATH_HELP)
    steps_per_epoch: int | None = flag(None, type=positive_int, help=STEPS_HELP)

    def faults(self) -> Iterator[str]:
        """Why these flags make no sense together, a sentence each."""
        yield from super().faults()
        if self.predict and len(self.predict) > 2:
            yield "--predict takes one text or the two of a pair; give more on standard input"


Flags = TypeVar("Flags", bound=TaskFlags)


def name_outputs(args: Flags, tasks: Sequence[str]) -> Flags:
    """Fill in the names of what a run of these tasks writes, where none were given; → args."""
    args.filepath = args.filepath or f"{args.option}-{args.epochs}-{args.lr}-multitask.pt"
    for task in tasks:
        for split in ("dev", "test"):
            name, default = f"{task}_{split}_out", f"{args.out_dir}/{task}-{split}-output.csv"
            setattr(args, name, getattr(args, name) or default)
    return args


def find_files(args: Flags, tasks: Sequence[str], stems: Mapping[str, str] = COURSE_STEMS) -> Flags:
    """Name the outputs, and turn data/NAME, NAME a course file, into where that file is; → args."""
    name_outputs(args, tasks)
    names = {f"{t}_{s}": f"{stems[t]}-{end}.csv" for t in stems for s, end in SPLITS.items()}
    wanted = [key for key, name in names.items() if getattr(args, key) == f"data/{name}"]
    folder = data_folder(args.data_dir) if wanted else Path()
    vars(args).update({key: str(folder / names[key]) for key in wanted})
    return args
