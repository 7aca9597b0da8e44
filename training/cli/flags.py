"""Options as fields of a dataclass: those of every training script, and how a script adds its own.

That one object goes through the run, into checkpoints and into metrics.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from training.files.errors import InputError, values_of

# What --fast takes; a handout lacks it, since it solves tasks
HAS_KERNELS = (Path(__file__).resolve().parents[1] / "fast").is_dir()


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, exit status 2."""

    def __init__(self, **options: Any):
        module = sys.modules["__main__"].__spec__
        started_as = f"-m {module.name}" if module else Path(sys.argv[0]).name
        super().__init__(prog=f"python {started_as}", **options)

    def error(self, message: str):
        """Say what is wrong in one line and leave."""
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def number(kind: type, fits: Callable[[Any], bool], limits: str) -> Callable[[str], Any]:
    """An argparse type: a number within limits."""

    def read(text: str) -> Any:
        with suppress(ValueError):
            if fits(value := kind(text)):
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not {limits}")

    return read


positive_int = number(int, lambda x: 1 <= x < 2**63, "a whole number from 1 to 2**63 - 1")
seed = number(int, lambda x: 0 <= x < 2**32, "an integer from 0 to 2**32 - 1")
positive_float = number(float, lambda x: 0 < x < float("inf"), "a finite number above 0")
probability = number(float, lambda x: 0 <= x < 1, "a number of at least 0 and below 1")


def given_lines(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts on the command line, or lines of standard input, where a tab separates a pair.

    Raises InputError if that is not UTF-8, or has no text.
    """
    if texts and list(texts) != ["-"]:
        yield texts
        return
    has_text = False
    with values_of("standard input is not UTF-8", "convert it"):
        for line in sys.stdin:
            line.encode()  # without a locale Python lets other bytes through, as surrogates
            has_text |= not line.isspace()
            yield line.rstrip("\n").removeprefix("\ufeff").split("\t")[:2]
    if not has_text:
        raise InputError("standard input has no text; give one in quotes after --predict")


def flag(default: Any, *, may_change: bool = False, **options: Any) -> Any:
    """A field of a dataclass that is also an option of the command line; see read_flags.

    Args:
        may_change: whether a resumed run may have another value, as where it writes.
        options: of argparse's ``add_argument``.
    """
    metadata = {"options": options, "may_change": may_change}
    return field(default_factory=lambda: copy(default), metadata=metadata)


Flags = TypeVar("Flags")


def read_flags(args: Flags, arguments: Sequence[str] | None, about: str) -> Flags:
    """Read a command line into ``args``, a dataclass of flags; its first fault ends the program."""
    parser = OneLineParser(description=about)
    for setting in fields(args):
        if options := setting.metadata.get("options"):
            default = getattr(args, setting.name)
            parser.add_argument(f"--{setting.name}", default=default, **options)
    parser.parse_args(arguments, namespace=args)
    for fault in args.faults():
        parser.error(fault)
    return args


def with_defaults(args: Any, kind: type[Flags]) -> Flags:
    """An older caller's args or config, any object, as a ``kind``, with defaults for the rest."""
    names = [setting.name for setting in fields(kind)]
    return kind(**{name: getattr(args, name) for name in names if hasattr(args, name)})


def hint_at_rate(args: Any) -> None:
    """Say so where a frozen BERT's head is to learn at a rate for fine-tuning."""
    if args.option == "pretrain" and args.lr < 1e-4:
        print(f"hint: only the head learns, and at --lr {args.lr:g} it hardly moves; try --lr 1e-3")


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
    trust_device: bool = flag(False, may_change=True, help="train without the device check", **YES)
    fast: bool = flag(False, help="PyTorch's kernels", **YES) if HAS_KERNELS else False
    model: str | None = flag(None, help="name or folder of the pretrained BERT ($MINBERT_MODEL)")
    precision: str = flag("auto", choices=PRECISIONS, help="of matrix products")
    accumulate: int = flag(1, type=positive_int, help="compute a batch in that many parts")
    clip: float | None = flag(None, type=positive_float, help="largest gradient norm")
    warmup: float = flag(0.0, type=probability, help="fraction of steps in which lr rises")
    decay: bool = flag(False, action=argparse.BooleanOptionalAction, help="let lr fall to 0")
    patience: int | None = flag(None, type=positive_int, help="epochs without a better dev score")
    resume: bool = flag(False, may_change=True, help="continue an interrupted run", **YES)


@dataclass
class FineTuningFlags(TrainingFlags):
    """What the two classifiers read besides."""

    option: str = flag("pretrain", choices=("pretrain", "finetune"), help="pretrain freezes BERT")
    hidden_dropout_prob: float = flag(0.3, type=probability, help="dropout before the head")
    data_dir: str | None = flag(None, may_change=True, help="folder of the course files")
    predict: list[str] | None = flag(
        None, may_change=True, nargs="*", metavar="TEXT", help="for it, or for standard input"
    )
    checkpoint: str | None = flag(None, may_change=True, help="the model that predicts")
    most_texts = 1  # that --predict takes; no flag

    def faults(self) -> Iterator[str]:
        """Why these flags make no sense together, a sentence each."""
        if (self.predict is None) != (self.checkpoint is None):
            yield "--predict and --checkpoint go together; --resume continues a run"
        if self.predict and len(self.predict) > self.most_texts:
            texts = f"{self.most_texts} text{'s' * (self.most_texts > 1)}"
            yield f"--predict takes {texts} at most, in quotes; give more on standard input"
        if not all(map(str.strip, self.predict or ())):
            yield "--predict has an empty text"
