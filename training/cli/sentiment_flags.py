"""The flags of classifier.py, and the runs they ask for: SST and CFIMDB, or one's own files."""

from __future__ import annotations

import re
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
from training.files.course_files import COURSE_MODEL, OFFLINE_NAME, SPLITS, data_folder
from training.files.errors import InputError
from training.files.texts import read_json
from training.loop.checkpoints import has_ended, resume_path, run_settings

# The course's two data sets: number of classes, and a batch size where it is fixed
DATA_SETS = {"sst": (5, None), "cfimdb": (2, 8)}
HANDED_IN = {"pretrain": 1e-3, "finetune": 1e-5}  # --lr of the runs that part 1 asks for


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
        check_handed_in(run)
    return planned


def check_handed_in(run: ClassifierFlags) -> None:
    """InputError where a file to hand in would not be from the run that its metrics.json tells."""
    handed_in = {f"predictions/{option}-{name}" for option in HANDED_IN for name in DATA_SETS}
    for flag_name in ("dev_out", "test_out"):
        path = Path(getattr(run, flag_name))
        stem = re.sub("-(dev|test)-out$", "", str(path.with_suffix("")))
        metrics = Path(f"{stem}-metrics.json")
        if stem in handed_in and stem != output_stem(run) and metrics.is_file():
            raise InputError(
                f"--{flag_name} {path} is handed in with the flags of {metrics}, and this run's go "
                f"into {output_stem(run)}-metrics.json; choose another name"
            )


def hint_at_replaced(run: ClassifierFlags) -> None:
    """Say so where the files of the run that part 1 asks for are replaced by those of another."""
    stem, name = output_stem(run), str(run.filepath).removesuffix("-classifier.pt")
    try:
        saved = read_json(f"{stem}-metrics.json")["args"]
        if name not in DATA_SETS or not_as_asked(saved, run.option, name):
            return
    except (InputError, KeyError, TypeError):
        return
    if different := not_as_asked(vars(run), run.option, name):
        print(f"hint: {stem}-* are as part 1 asks; this run replaces them: {'; '.join(different)}")


def not_as_asked(args: Mapping[str, Any], option: str, name: str) -> list[str]:
    """The settings in which a run, by its metrics' args, differs from the one part 1 asks for."""
    files = {split: f"ids-{name}-{split}.csv" for split in ("train", "dev")}
    batch_size = DATA_SETS[name][1] or ClassifierFlags.batch_size
    asked = ClassifierFlags(option=option, lr=HANDED_IN[option], batch_size=batch_size)
    asked.model = OFFLINE_NAME if args["model"] == OFFLINE_NAME else COURSE_MODEL  # it stands in
    values = {**args, **{split: Path(args[split]).name for split in files}}
    wanted = run_settings(asked) | files
    return [
        f"{key} {values[key]}, not {wanted[key]}" for key in wanted if values[key] != wanted[key]
    ]


def is_ours(config: Mapping[str, Any]) -> bool:
    """Whether a checkpoint's configuration is of a model of classifier.py."""
    labels, dropout = config.get("num_labels"), config.get("hidden_dropout_prob")
    return (
        config.get("option") in HANDED_IN
        and isinstance(labels, int)
        and labels > 0
        and isinstance(dropout, (int, float))
        and 0 <= dropout < 1
        and isinstance(config.get("model", ""), (str, type(None)))
    )


def output_stem(args: ClassifierFlags) -> str:
    """What the names of a run's output files begin with: predictions/finetune-sst."""
    return str(Path(args.dev_out).with_suffix("")).removesuffix("-dev-out")


def unfinished(runs: Sequence[ClassifierFlags]) -> list[ClassifierFlags]:
    """With --resume not the runs that have ended, unless one before them goes on."""
    left: list[ClassifierFlags] = []
    for run in runs:
        goes_on = any(resume_path(earlier.filepath).is_file() for earlier in left)
        if goes_on or not has_ended(resume_path(run.filepath), f"{output_stem(run)}-", run):
            left.append(run)
    return left
