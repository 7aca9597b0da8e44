"""Options as fields of a dataclass: those of every training script, and how a script adds its own.

    @dataclass
    class ClassifierFlags(TrainingFlags):
        option: str = flag("pretrain", choices=("pretrain", "finetune"))

    add_fields(parser, ClassifierFlags)
    args = parser.parse_args(arguments, namespace=ClassifierFlags())

That one object goes through the run, into checkpoints and into metrics.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from training.files.errors import InputError
from training.files.writing import check_writable

# What --fast takes; a handout lacks it, since it solves tasks
HAS_KERNELS = (Path(__file__).resolve().parents[1] / "fast").is_dir()


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, exit status 2."""

    def __init__(self, prog: str | None = None, **options: Any):
        super().__init__(prog=f"python {prog or started_as()}", **options)

    def error(self, message: str):
        """Say what is wrong in one line and leave."""
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def started_as() -> str:
    """What follows ``python`` on the command line: ``-m`` and a module, or a script's name."""
    module = sys.modules["__main__"].__spec__
    return f"-m {module.name}" if module else Path(sys.argv[0]).name


def number(kind: type, fits: Callable[[Any], bool], limits: str) -> Callable[[str], Any]:
    """An argparse type: a number within limits."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not fits(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {limits}")
        return value

    return read


positive_int = number(int, lambda x: 1 <= x < 2**63, "a whole number from 1 to 2**63 - 1")
seed = number(int, lambda x: 0 <= x < 2**32, "an integer from 0 to 2**32 - 1")
positive_float = number(float, lambda x: 0 < x < float("inf"), "a finite number above 0")
probability = number(float, lambda x: 0 <= x < 1, "a number of at least 0 and below 1")


def some_text(text: str) -> str:
    """An argparse type: a text with more than white space."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the text is empty")
    return text


def given_lines(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts on the command line, or lines of standard input, where a tab separates a pair."""
    if texts and list(texts) != ["-"]:
        yield texts
    else:
        yield from (line.split("\t")[:2] for line in standard_input())


def standard_input() -> Iterator[str]:
    """The lines of standard input, without their ends; InputError if it is not UTF-8."""
    try:
        for line in sys.stdin:
            line.encode()  # without a locale Python lets other bytes through, as surrogates
            yield line.rstrip("\n").removeprefix("\ufeff")
    except UnicodeError as error:
        raise InputError(f"standard input is not UTF-8 ({error}); convert it") from None


def flag(default: Any, *, path: str = "", may_change: bool = False, **options: Any) -> Any:
    """A field of a dataclass that is also an option of the command line; see add_fields.

    Args:
        path: "reads" or "writes" for the name of a file.
        may_change: whether a resumed run may have another value; where it writes may always change.
        options: of argparse's ``add_argument``.
    """
    metadata = {"options": options, "path": path, "may_change": may_change or path == "writes"}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def add_fields(parser: argparse.ArgumentParser, kind: type) -> None:
    """Add an option for each field that ``flag`` made."""
    defaults = kind()
    for setting in fields(kind):
        if "options" in setting.metadata:
            default, options = getattr(defaults, setting.name), setting.metadata["options"]
            if not {"type", "action"} & options.keys():
                of_text = os.path.expanduser if setting.metadata["path"] else some_text
                options = {"type": of_text, **options}
            parser.add_argument(f"--{setting.name}", default=default, **options)


Flags = TypeVar("Flags")


def with_defaults(args: Any, kind: type[Flags]) -> Flags:
    """An older caller's args or config, any object, as a ``kind``, with defaults for the rest."""
    names = [setting.name for setting in fields(kind)]
    return kind(**{name: getattr(args, name) for name in names if hasattr(args, name)})


def print_settings(args: Any, tasks: Sequence[str] = ()) -> None:
    """Print a run's settings, and the files that it reads and writes (of ``tasks``, if given)."""
    told: dict[str, list[str]] = {"settings": [], "reads": [], "writes": []}
    for setting in fields(args):
        value, verb = getattr(args, setting.name), setting.metadata.get("path")
        task, _, kind = setting.name.partition("_")
        if verb and value and (not kind or not tasks or task in tasks):
            told[verb].append(str(value))
        elif not verb and value is not None and (value or value != setting.default):
            text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            told["settings"].append(f"{setting.name} {text}")
    print()
    for name, items in told.items():
        text = f"{name}: {', '.join(items)}"
        print(textwrap.fill(text, 60, subsequent_indent="    ", break_long_words=False))


def check_outputs(args: Any) -> None:
    """InputError where a run would write over what it reads, into one file twice, or cannot."""
    names: dict[str, str] = {}  # of the flags, by the files they name
    for verb in ("reads", "writes"):
        for setting in fields(args):
            value = getattr(args, setting.name)
            if not value or setting.metadata.get("path") != verb:
                continue
            place, flag_name = os.path.realpath(value), f"--{setting.name} {value}"
            if verb == "writes":
                if os.path.isdir(place):
                    raise InputError(f"{flag_name} is a folder; name a file in it")
                if place in names:
                    raise InputError(f"{flag_name} is the file of --{names[place]}; name another")
                check_writable(Path(value).parent)
            names[place] = setting.name


def hint_at_rate(args: Any) -> None:
    """Say so where a frozen BERT's head is to learn at a rate for fine-tuning."""
    if args.option == "pretrain" and args.lr < 1e-4:
        print(f"hint: only the head learns, and at --lr {args.lr:g} it hardly moves; try --lr 1e-3")
        print("    (practice set, 10 epochs: 0.215 at 1e-5, which is chance, and 0.350 at 1e-3)")


# ---------------------------------------------------------------------------------------------

FAST_HELP = "PyTorch's kernels for attention and AdamW" if HAS_KERNELS else argparse.SUPPRESS
DECAY_HELP = "let lr fall linearly to 0 after the warm-up"
PRECISION_HELP = "of matrix products; auto: bf16, or fp16 on a GPU without it"
PATIENCE_HELP = "stop after that many epochs without a better dev score"
OPTION_HELP = "pretrain: BERT is frozen; finetune: everything learns"
BOARD_HELP = "folder for TensorBoard's curves"
PRECISIONS = ("auto", "fp32", "bf16", "fp16")
YES = {"action": "store_true"}


@dataclass
class TrainingFlags:
    """What ``Run`` and its neighbours read; everything is off but the precision."""

    seed: int = flag(11711, type=seed, help="of all random numbers")
    epochs: int = flag(10, type=positive_int, help="passes over the training data")
    batch_size: int = flag(8, type=positive_int, help="rows per update")
    lr: float = flag(1e-5, type=positive_float, help="learning rate")
    use_gpu: bool = flag(False, may_change=True, help="CUDA or Apple's MPS", **YES)
    trust_device: bool = flag(False, may_change=True, help="train if the device check fails", **YES)
    fast: bool = flag(False, help=FAST_HELP, **YES)
    model: str | None = flag(None, help="name or folder of the pretrained BERT ($MINBERT_MODEL)")
    precision: str = flag("auto", choices=PRECISIONS, help=PRECISION_HELP)
    accumulate: int = flag(1, type=positive_int, help="compute a batch in that many parts")
    clip: float | None = flag(None, type=positive_float, help="largest gradient norm")
    warmup: float = flag(0.0, type=probability, help="fraction of steps in which lr rises")
    decay: bool = flag(False, action=argparse.BooleanOptionalAction, help=DECAY_HELP)
    patience: int | None = flag(None, type=positive_int, help=PATIENCE_HELP)
    compile: bool = flag(False, may_change=True, help="torch.compile the model", **YES)
    reencode: bool = flag(False, help="run a frozen encoder again for every batch", **YES)
    tensorboard: str | None = flag(None, may_change=True, metavar="DIR", help=BOARD_HELP)
    resume: bool = flag(False, may_change=True, help="continue an interrupted run", **YES)


@dataclass
class FineTuningFlags(TrainingFlags):
    """What the two classifiers read besides."""

    option: str = flag("pretrain", choices=("pretrain", "finetune"), help=OPTION_HELP)
    hidden_dropout_prob: float = flag(0.3, type=probability, help="dropout before the head")
    data_dir: str | None = flag(None, may_change=True, help="folder of the course files")
