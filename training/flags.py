"""The options that every training script takes, and their defaults.

A script's own options are a dataclass on top of ``TrainingFlags``. Its parser fills one, and that
one goes through the run, into checkpoints and into metrics:

    args = parser.parse_args(arguments, namespace=ClassifierFlags())

argparse leaves what the command line does not name as it is, so that a default is written down
once, here or in the script's own class.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from training.arguments import positive_float, positive_int, probability


@dataclass
class TrainingFlags:
    """What ``Run`` and its neighbours read."""

    seed: int = 11711
    epochs: int = 10
    batch_size: int = 8
    lr: float = 1e-5
    use_gpu: bool = False
    model: str | None = None  # name or folder of the pretrained BERT; None: the course's
    precision: str = "auto"
    accumulate: int = 1
    clip: float | None = None
    warmup: float = 0.0
    decay: bool = False
    patience: int | None = None
    compile: bool = False
    reencode: bool = False
    resume: bool = False


Flags = TypeVar("Flags", bound=TrainingFlags)


def complete(given: Any, kind: type[Flags]) -> Flags:
    """An older caller's args or config as a ``kind``, with defaults for what it does not know.

    Args:
        given: any object with attributes, such as an argparse.Namespace.
        kind: the script's dataclass.
    """
    names = [field.name for field in fields(kind)]
    return kind(**{name: getattr(given, name) for name in names if hasattr(given, name)})


def flag(default: Any, **options: Any) -> Any:
    """A field of a dataclass that is also an option of the command line; see add_fields."""
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata={"options": options})
    return field(default=default, metadata={"options": options})


def add_fields(parser: argparse.ArgumentParser, kind: type) -> None:
    """Add an option for each field that ``flag`` made, with what else argparse is to know of it."""
    for one in fields(kind):
        if "options" in one.metadata:
            parser.add_argument(f"--{one.name}", **one.metadata["options"])


def add_flags(
    parser: argparse.ArgumentParser,
    frozen: bool = True,
    evaluations: str = "epochs without a better dev",
) -> None:
    """Add the options that ``Run`` and its neighbours read; all off but the precision.

    Args:
        frozen: whether the script has a mode in which the encoder does not learn.
        evaluations: what --patience counts.
    """
    add = parser.add_argument
    add(
        "--precision",
        choices=("auto", "fp32", "bf16"),
        default=TrainingFlags.precision,
        help="of matrix products; auto takes bf16 where the hardware computes in it",
    )
    accumulate = TrainingFlags.accumulate
    add("--accumulate", type=positive_int, default=accumulate, help="parts a batch is computed in")
    add("--clip", type=positive_float, help="largest norm of all gradients together")
    warmup = TrainingFlags.warmup
    add("--warmup", type=probability, default=warmup, help="share of the steps with rising lr")
    add(
        "--decay",
        action=argparse.BooleanOptionalAction,
        default=TrainingFlags.decay,
        help="let lr fall linearly to 0 after the warm-up",
    )
    add("--patience", type=positive_int, help=f"stop after that many {evaluations}")
    add("--compile", action="store_true", help="torch.compile the model: slow start, then faster")
    if frozen:
        add("--reencode", action="store_true", help="run a frozen encoder again for every batch")
    add("--resume", action="store_true", help="go on where an interrupted run stopped")
