"""The flags of a run of several tasks: the course's data files, and where predictions go."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from training.cli.flags import FineTuningFlags, Flags, flag, positive_int
from training.files.course_files import COURSE_STEMS, data_folder

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
    sst_dev_out: str = flag("predictions/sst-dev-output.csv", **OUT)
    sst_test_out: str = flag("predictions/sst-test-output.csv", **OUT)
    para_dev_out: str = flag("predictions/para-dev-output.csv", **OUT)
    para_test_out: str = flag("predictions/para-test-output.csv", **OUT)
    sts_dev_out: str = flag("predictions/sts-dev-output.csv", **OUT)
    sts_test_out: str = flag("predictions/sts-test-output.csv", **OUT)
    out_dir: str = flag("predictions", may_change=True, help="folder for everything written")
    filepath: str | None = flag(None, may_change=True, help="for the best model")
    steps_per_epoch: int | None = flag(None, type=positive_int, help="one for each batch")
    most_texts = 2


def find_files(args: Flags) -> Flags:
    """Turn default names, data/NAME and predictions/NAME, into where these files are; → args.

    That is in the folder of the course files, and in --out_dir; the model's name is filled in.
    """
    args.filepath = args.filepath or f"{args.option}-{args.epochs}-{args.lr}-multitask.pt"
    names = {name: x for name, x in vars(type(args)()).items() if getattr(args, name) == x}
    inputs, outputs = (
        [name for name, x in names.items() if isinstance(x, str) and x.startswith(folder)]
        for folder in ("data/", "predictions/")
    )
    folder = data_folder(args.data_dir) if inputs else Path()
    vars(args).update({name: str(folder / Path(names[name]).name) for name in inputs})
    vars(args).update({name: f"{args.out_dir}/{Path(names[name]).name}" for name in outputs})
    return args
