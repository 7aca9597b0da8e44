"""The command line of pretrain.py."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pretraining.masking import MASKED
from pretraining.model import OBJECTIVES
from pretraining.steps import architecture
from training.cli.flags import (
    TrainingFlags,
    flag,
    positive_float,
    positive_int,
    probability,
    read_flags,
)

SHAPE = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
PRESETS = {  # Devlin et al. 2019, section 3; Turc et al. 2019, table 1
    "heartbert": (256, 4, 4, 1024, 128),  # ours
    "tiny": (128, 2, 2, 512, 512),
    "mini": (256, 4, 4, 1024, 512),
    "small": (512, 4, 8, 2048, 512),
    "medium": (512, 8, 8, 2048, 512),
    "base": (768, 12, 12, 3072, 512),
    "large": (1024, 24, 16, 4096, 512),
}


@dataclass
class PretrainingFlags(TrainingFlags):
    """The command line's options; the schedule is BERT's, with a longer warm-up."""

    text: list[Path] | None = flag(
        None, may_change=True, nargs="+", type=Path, required=True, help="files, folders of *.txt"
    )
    out: Path | None = flag(
        None, may_change=True, type=Path, required=True, help="folder of the model and its metrics"
    )
    preset: str | None = flag(None, choices=tuple(PRESETS), help="shape of a new model (heartbert)")
    config: Path | None = flag(None, type=Path, help="or the config.json of its shape")
    model: str | None = flag(None, help="or continue from a pretrained model, name or folder")
    architecture: str = flag("bert", type=architecture, help="bert, modern, or some of its changes")
    objective: str = flag("nsp", choices=OBJECTIVES, help="second task: next sentences, or none")
    mask: float = flag(MASKED, type=probability, help="fraction of tokens masked")
    full_sentences: bool = flag(False, action="store_true", help="fill rows across documents")
    length: int = flag(128, type=positive_int, help="tokens per row")
    batch_size: int = flag(32, type=positive_int, help="rows per step")
    epochs: int = flag(1, may_change=True, type=positive_int, help="passes over the text")
    steps: int | None = flag(None, type=positive_int, help="instead of --epochs")
    minutes: float | None = flag(None, type=positive_float, help="or so long; lr follows the time")
    lr: float | None = flag(None, type=positive_float, help="rate (5e-4; 5e-5 with --model)")
    dropout: float | None = flag(None, type=probability, help="dropout (the configuration's)")
    weight_decay: float = flag(0.01, type=probability, help="not on biases and LayerNorm")
    clip: float | None = flag(1.0, type=positive_float, help="largest gradient norm")
    warmup: float = flag(0.1, type=probability, help="fraction of steps in which lr rises")
    decay: bool = flag(True, action=argparse.BooleanOptionalAction, help="let lr fall to 0")
    patience: int | None = flag(None, type=positive_int, help="evaluations without a better loss")
    held_out: float = flag(0.02, type=probability, help="fraction to evaluate on, a text at least")
    eval_rows: int = flag(1024, type=positive_int, help="rows per evaluation")
    eval_every: int | None = flag(None, type=positive_int, help="steps between evaluations")
    keep_at: list[int] = flag([], may_change=True, nargs="+", type=int, help="keep OUT/pieces-N")
    log_every: int = flag(50, type=positive_int, help="steps between printed rows")
    corpus: Path | None = flag(
        None, may_change=True, type=Path, help="folder for tokenized text (OUT/corpus)"
    )
    vocab: str | None = flag(None, help="model or folder whose vocabulary is used")
    train_vocab: int | None = flag(None, type=positive_int, help="or one of that size is learned")
    checksum_of_text: int | None = None  # which ``train`` fills in

    @property
    def filepath(self) -> Path:
        """The folder of the last model, which a complete run leaves."""
        return self.out / "last"

    def faults(self) -> Iterator[str]:
        """Why these flags make no sense together, a sentence each."""
        groups = ("preset", "config", "model"), ("vocab", "train_vocab"), ("minutes", "steps")
        for names in groups:
            if len(given := [f"--{name}" for name in names if getattr(self, name)]) > 1:
                yield f"{' and '.join(given)} exclude each other: give one of them"
        if self.full_sentences and self.objective != "none":
            yield "--full_sentences has no second segment: give --objective none with it"
        if self.model and (self.vocab or self.train_vocab or self.architecture != "bert"):
            yield "--model keeps its vocabulary and architecture: leave --vocab and the like out"
        if self.length < 8:
            yield "--length must be at least 8"
        if not self.mask:
            yield "--mask 0 leaves nothing to predict"
        for text in self.text:
            if self.out.resolve().is_relative_to(text.resolve()):
                yield f"--out {self.out} is inside --text {text} and would be read as text"


def get_args(arguments: Sequence[str] | None = None) -> PretrainingFlags:
    """Read and check the command line."""
    args = read_flags(PretrainingFlags(), arguments, "Pre-train a BERT on raw text.")
    args.lr = args.lr or (5e-5 if args.model else 5e-4)
    args.corpus = args.corpus or args.out / "corpus"
    return args
