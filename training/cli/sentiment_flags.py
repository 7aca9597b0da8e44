"""The flags of classifier.py, and the runs they ask for: SST and CFIMDB, or one's own files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from training.cli.flags import FineTuningFlags, flag, positive_int, read_flags
from training.files.course_files import SPLITS, data_folder
from training.files.hub import default_model
from training.loop.processes import on_main_process
from training.reports.report import Report

# The course's two data sets: number of classes, and a batch size where it is fixed
DATA_SETS = {"sst": (5, None), "cfimdb": (2, 8)}
# The table that grows by the epoch: headings and keys
COLUMNS = {"loss": "loss", "train acc": "train_acc", "dev acc": "dev_acc", "dev macro F1": "dev_f1"}

OUT = {"may_change": True, "help": "file for predictions; one data set only"}


@dataclass
class ClassifierFlags(FineTuningFlags):
    """The options of the command line, and what ``plan`` fills in for each data set."""

    batch_size: int = flag(8, type=positive_int, help="of SST; CFIMDB always takes 8")
    dev_out: str | None = flag(None, **OUT)
    test_out: str | None = flag(None, **OUT)
    only: str | None = flag(None, may_change=True, choices=[*DATA_SETS], help="run one data set")
    train: str | None = flag(None, help="your file: tab-separated id, sentence, label")
    dev: str | None = flag(None, help="its dev file")
    test: str | None = flag(None, may_change=True, help="its test file (optional)")
    num_labels: int | None = None  # None: as many as the training set has
    filepath: str | None = field(default=None, metadata={"may_change": True})

    def faults(self) -> Iterator[str]:
        """Why these flags make no sense together, a sentence each."""
        yield from super().faults()
        if (self.train or self.dev or self.test) and not (self.train and self.dev):
            yield "give --train and --dev together (--test is optional)"
        if self.train and self.only:
            yield "--only chooses one of the course's data sets; --train names another one"
        if (self.dev_out or self.test_out) and not (self.train or self.only):
            yield "--dev_out and --test_out name the files of ONE data set, but two would run"

    @property
    def stem(self) -> str:
        """What the names of the run's output files begin with: predictions/finetune-sst."""
        return str(Path(self.dev_out).with_suffix("")).removesuffix("-dev-out")

    @property
    def report(self) -> Report:
        """Where the run's reports go, and what they are called."""
        return Report(f"{self.stem}-", Path(self.stem).name, COLUMNS)


def get_args(arguments: Sequence[str] | None = None) -> ClassifierFlags:
    """Read and check the command line."""
    return read_flags(ClassifierFlags(), arguments, "Sentiment of single sentences with BERT.")


def plan(args: ClassifierFlags) -> list[ClassifierFlags]:
    """The flags of each data set that will run: its files, and the names of what is written."""
    args.model = args.model or on_main_process(default_model)
    folder = None if args.train else data_folder(args.data_dir)
    runs = []
    for name in [Path(args.train).stem] if args.train else [args.only] if args.only else DATA_SETS:
        stem = f"predictions/{args.option}-{name}"
        run = replace(
            args,
            filepath=f"{name}-classifier.pt",
            dev_out=args.dev_out or f"{stem}-dev-out.csv",
            test_out=args.test_out or f"{stem}-test-out.csv",
        )
        if folder:
            run.num_labels, batch_size = DATA_SETS[name]
            run.batch_size = batch_size or args.batch_size
            for key, end in SPLITS.items():
                setattr(run, key, str(folder / f"ids-{name}-{end}.csv"))
        runs.append(run)
    return runs
