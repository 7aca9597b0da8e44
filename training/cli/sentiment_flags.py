"""The flags of classifier.py, and the runs they ask for: SST and CFIMDB, or one's own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from training.cli.flags import (
    FineTuningFlags,
    OneLineParser,
    add_fields,
    check_outputs,
    data_dir_flag,
    flag,
    positive_int,
    some_text,
)
from training.files.course_files import SPLITS, class_names, data_folder
from training.files.hub import default_model
from training.loop import on_main_process, refuse_ended, resume_path
from training.reports.report import Report

# The course's two data sets: number of classes, and a batch size where it is fixed
DATA_SETS = {"sst": (5, None), "cfimdb": (2, 8)}
# The table that grows by the epoch: headings and keys
COLUMNS = {"loss": "loss", "train acc": "train_acc", "dev acc": "dev_acc", "dev macro F1": "dev_f1"}


@dataclass
class ClassifierFlags(FineTuningFlags):
    """The options of the command line, and what ``plan`` fills in for each data set."""

    batch_size: int = flag(8, type=positive_int, help="of SST; CFIMDB always takes 8")
    dev_out: str | None = flag(None, path="writes", help="file for predictions; one data set only")
    test_out: str | None = flag(None, path="writes", help="file for predictions; one data set only")
    data_dir: str | None = data_dir_flag()
    only: str | None = flag(
        None, may_change=True, choices=tuple(DATA_SETS), help="run one data set"
    )
    train: str | None = flag(
        None, path="reads", help="your training file: tab-separated id, sentence, label"
    )
    dev: str | None = flag(None, path="reads", help="its dev file")
    test: str | None = flag(
        None, path="reads", may_change=True, help="its test file, unlabelled (optional)"
    )
    labels: str | None = flag(None, help="names of the classes, separated by commas")
    predict: str | None = flag(
        None,
        may_change=True,
        nargs="?",
        const="-",
        type=some_text,
        metavar="TEXT",
        help="classify this text, or lines of standard input",
    )
    checkpoint: str | None = flag(None, may_change=True, help="the model that predicts")
    num_labels: int | None = None  # None: as many as the training set has
    filepath: str | None = field(default=None, metadata={"path": "writes"})  # the checkpoint


def get_args(arguments: Sequence[str] | None = None) -> ClassifierFlags:
    """Read and check the command line."""
    parser = OneLineParser(
        prog="classifier.py", description="Sentiment of single sentences with BERT."
    )
    add_fields(parser, ClassifierFlags)
    args = parser.parse_args(arguments, namespace=ClassifierFlags())
    if (args.train or args.dev or args.test) and not (args.train and args.dev):
        parser.error("give --train and --dev together (--test is optional)")
    if args.train and args.only:
        parser.error("--only chooses one of the course's data sets; --train names another one")
    if (args.dev_out or args.test_out) and not (args.train or args.only):
        parser.error("--dev_out and --test_out name the files of ONE data set, but two would run")
    if args.test_out and args.train and not args.test:
        parser.error("--test_out is where predictions for --test go: give both")
    if args.predict is not None and not args.checkpoint:
        parser.error("--predict needs --checkpoint")
    if args.checkpoint and args.predict is None:
        parser.error("--checkpoint is the model that --predict uses; --resume continues a run")
    return args


def plan(args: ClassifierFlags) -> list[ClassifierFlags]:
    """The flags of each data set that will run: its files, and the names of what is written."""
    args.model = args.model or on_main_process(default_model)
    if args.train:
        runs = {Path(args.train).stem: args}
    else:
        folder = data_folder(args.data_dir)
        runs = {}
        for name in (args.only,) if args.only else DATA_SETS:
            num_labels, batch_size = DATA_SETS[name]
            files = {key: str(folder / f"ids-{name}-{end}.csv") for key, end in SPLITS.items()}
            batch_size = batch_size or args.batch_size
            runs[name] = replace(args, num_labels=num_labels, batch_size=batch_size, **files)
    planned = [
        replace(
            run,
            filepath=f"{name}-classifier.pt",
            dev_out=args.dev_out or f"predictions/{args.option}-{name}-dev-out.csv",
            test_out=args.test_out or f"predictions/{args.option}-{name}-test-out.csv",
        )
        for name, run in runs.items()
    ]
    for run in planned:
        check_outputs(run)
    results = [run.filepath for run in planned]
    refuse_ended(args, results, [resume_path(result) for result in results])
    return planned


def is_ours(config: Mapping[str, Any]) -> bool:
    """Whether a checkpoint's configuration is of a model of classifier.py."""
    labels, dropout = config.get("num_labels"), config.get("hidden_dropout_prob")
    return (
        config.get("option") in ("pretrain", "finetune")
        and isinstance(labels, int)
        and labels > 0
        and isinstance(dropout, (int, float))
        and 0 <= dropout < 1
    )


def output_stem(args: ClassifierFlags) -> str:
    """What the names of a run's output files begin with: predictions/finetune-sst."""
    return str(Path(args.dev_out).with_suffix("")).removesuffix("-dev-out")


def report_of(args: ClassifierFlags) -> Report:
    """Where the run's reports go, and what they are called."""
    return Report(f"{output_stem(args)}-", Path(output_stem(args)).name, COLUMNS)


def classes_of(args: ClassifierFlags, count: int) -> list[str]:
    """The names of a run's classes: those of --labels, the course's, or numbers."""
    return class_names(args.dev or "", count, args.labels)
