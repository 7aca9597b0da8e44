"""The command line of pretrain.py."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from config import LARGEST
from pretraining.masking import MASKED
from pretraining.model import OBJECTIVES
from pretraining.presets import PRESETS
from pretraining.steps import SWITCHES, architecture
from training.cli.flags import (
    OneLineParser,
    TrainingFlags,
    add_fields,
    flag,
    positive_float,
    positive_int,
    probability,
)


@dataclass
class PretrainingFlags(TrainingFlags):
    """The command line's options; the schedule is BERT's, with a longer warm-up."""

    text: list[Path] | None = flag(
        None,
        may_change=True,
        nargs="+",
        type=Path,
        required=True,
        help="files, or folders of *.txt: a paragraph per line, blank lines between documents",
    )
    out: Path | None = flag(
        None,
        path="writes",
        type=Path,
        required=True,
        help="folder of the model, curves.png, metrics.json",
    )
    preset: str | None = None  # these three exclude each other
    config: Path | None = None
    model: str | None = None
    architecture: str = flag(
        "bert",
        metavar="LIST",
        help=f"bert, modern, or some of {','.join(SWITCHES)}",
    )
    optimizer: str = flag(
        "adamw",
        choices=("adamw", "muon"),
        help="adamw, or muon: Muon for the layers' matrices, AdamW for the rest",
    )
    objective: str = flag(
        "nsp",
        choices=OBJECTIVES,
        help="second task: does a segment follow (nsp), are two in order (sop), or none",
    )
    whole_word: bool = flag(False, action="store_true", help="mask all tokens of a word or none")
    mask: float = flag(MASKED, type=probability, help="fraction of tokens masked")
    full_sentences: bool = flag(
        False,
        action="store_true",
        help="fill rows across documents; with --objective none",
    )
    length: int = flag(128, type=positive_int, help="tokens per row")
    batch_size: int = flag(32, type=positive_int, help="rows per step")
    epochs: int = flag(1, may_change=True, type=positive_int, help="passes over the text")
    steps: int | None = flag(None, type=positive_int, help="instead of --epochs")
    minutes: float | None = flag(
        None, type=positive_float, help="end after that time instead; lr follows the time"
    )
    lr: float | None = flag(
        None, type=positive_float, help="learning rate (5e-4; 5e-5 with --model)"
    )
    dropout: float | None = flag(None, type=probability, help="dropout (the configuration's)")
    weight_decay: float = flag(0.01, type=probability, help="not on biases and LayerNorm")
    clip: float | None = flag(1.0, type=positive_float, help="largest gradient norm")
    warmup: float = flag(0.1, type=probability, help="fraction of steps in which lr rises")
    decay: bool = flag(
        True,
        action=argparse.BooleanOptionalAction,
        help="let lr fall linearly to 0 after the warm-up",
    )
    patience: int | None = flag(
        None,
        type=positive_int,
        help="stop after that many evaluations without a better loss",
    )
    reencode: bool = False  # not an option: all of the model learns
    limit: int | None = flag(
        None, may_change=True, type=positive_int, help="use the first LIMIT sentences"
    )
    held_out: float = flag(0.02, type=probability, help="fraction of text to evaluate on")
    eval_rows: int = flag(1024, type=positive_int, help="rows per evaluation")
    eval_every: int | None = flag(
        None,
        type=positive_int,
        help="steps between evaluations (a twentieth of the run)",
    )
    keep_at: list[int] = flag(
        [],
        may_change=True,
        nargs="+",
        type=int,
        metavar="TOKENS",
        help="keep OUT/pieces-N, the model after N tokens",
    )
    log_every: int = flag(50, type=positive_int, help="steps between printed rows")
    corpus: Path | None = flag(
        None, may_change=True, type=Path, help="folder for tokenized text (OUT/corpus)"
    )
    vocab: str | None = None  # these two exclude each other
    train_vocab: int | None = None
    workers: int | None = flag(
        None,
        may_change=True,
        type=int,
        help="processes that prepare batches (2 with a GPU and enough cores, else 0)",
    )


def make_parser() -> argparse.ArgumentParser:
    """The options of PretrainingFlags."""
    parser = OneLineParser(prog="pretrain.py", description="Pre-train a BERT on raw text.")
    add_fields(parser, PretrainingFlags)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--preset", choices=tuple(PRESETS), help="shape of a new model (heartbert)")
    shape.add_argument("--config", type=Path, help="or the config.json of its shape")
    shape.add_argument("--model", help="or continue from a pretrained model, name or folder")
    vocabulary = parser.add_mutually_exclusive_group()
    vocabulary.add_argument("--vocab", help="model or folder whose vocabulary is used")
    vocabulary.add_argument(
        "--train_vocab",
        type=positive_int,
        metavar="SIZE",
        help="learn a vocabulary of that size from the text (needs the tokenizers library)",
    )
    return parser


def get_args(arguments: Sequence[str] | None = None) -> PretrainingFlags:
    """Read and check the command line."""
    parser = make_parser()
    args = parser.parse_args(arguments, namespace=PretrainingFlags())
    try:
        args.architecture = architecture(args.architecture)
    except ValueError as error:
        parser.error(f"--architecture: {error}")
    if args.full_sentences and args.objective != "none":
        parser.error("--full_sentences has no second segment: give --objective none with it")
    if args.model and (args.vocab or args.train_vocab):
        parser.error("--model keeps its vocabulary; --vocab and --train_vocab need a new model")
    if args.model and args.architecture != "bert":
        parser.error("--model keeps its architecture; --architecture needs a new model")
    if args.minutes and args.steps:
        parser.error("--minutes and --steps both say when the run ends: give one of them")
    if args.length < 8:
        parser.error("--length must be at least 8")
    if not args.mask:
        parser.error("--mask 0 leaves nothing to predict")
    if args.train_vocab and args.train_vocab > LARGEST:
        parser.error(f"--train_vocab must be at most {LARGEST:,}, as a model's vocabulary")
    if args.workers is not None and not 0 <= args.workers <= 1024:
        parser.error("--workers must be from 0 to 1024")
    if not (args.preset or args.config or args.model):
        args.preset = "heartbert"
    args.lr = args.lr or (5e-5 if args.model else 5e-4)
    args.corpus = args.corpus or args.out / "corpus"
    if args.patience and not args.held_out:
        parser.error("--patience needs held-out text, and --held_out 0 keeps none")
    for text in args.text:
        if args.out.resolve().is_relative_to(text.resolve()):
            parser.error(f"--out {args.out} is inside --text {text} and would be read as text")
    return args
