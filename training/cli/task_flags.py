"""The flags of a run of several tasks: the course's data files, and where predictions go."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.cli.flags import FineTuningFlags, Flags, flag, positive_int
from training.files.course_files import COURSE_STEMS, SPLITS, data_folder

DATA = {"help": "tab-separated (%(default)s)"}
OUT = {"may_change": True, "help": "file for predictions (in --out_dir)"}
ABOUT = "One BERT for sentiment, paraphrases and similarity."


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
    sst_train: str = flag("data/ids-sst-train.csv", **DATA)
    sst_dev: str = flag("data/ids-sst-dev.csv", **DATA)
    sst_test: str = flag("data/ids-sst-test-student.csv", may_change=True, **DATA)
    para_train: str = flag("data/quora-train.csv", **DATA)
    para_dev: str = flag("data/quora-dev.csv", **DATA)
    para_test: str = flag("data/quora-test-student.csv", may_change=True, **DATA)
    sts_train: str = flag("data/sts-train.csv", **DATA)
    sts_dev: str = flag("data/sts-dev.csv", **DATA)
    sts_test: str = flag("data/sts-test-student.csv", may_change=True, **DATA)
    sst_dev_out: str | None = flag(None, **OUT)
    sst_test_out: str | None = flag(None, **OUT)
    para_dev_out: str | None = flag(None, **OUT)
    para_test_out: str | None = flag(None, **OUT)
    sts_dev_out: str | None = flag(None, **OUT)
    sts_test_out: str | None = flag(None, **OUT)
    out_dir: str = flag("predictions", may_change=True, help="folder for everything written")
    filepath: str | None = flag(None, may_change=True, help="for the best model")
    steps_per_epoch: int | None = flag(None, type=positive_int, help="one for each batch")

    def faults(self) -> Iterator[str]:
        """Why these flags make no sense together, a sentence each."""
        yield from super().faults()
        if self.predict and len(self.predict) > 2:
            yield "--predict takes one text or the two of a pair; give more on standard input"


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
