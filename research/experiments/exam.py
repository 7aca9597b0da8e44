"""What a model knows of grammar, and its loss on held-out text: a run for each checkpoint.

    python research/experiments/exam.py --model pieces-0 --corpus books-8000 --out one

The exam is lessons/grammar.py's on the pairs that ship. The corpus is what pretrain.py has built;
of it the documents are held out that books/books.toml holds out, with the same masks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import training  # noqa: F401, before torch

# isort: split
import numpy as np
import torch

from lessons import grammar
from lessons.fill_mask import load
from pretraining.corpus import Corpus
from pretraining.flags import PretrainingFlags
from pretraining.held_out import HeldOut
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser, add_fields, flag, seed
from training.cli.scripts import run_script
from training.files.writing import check_writable, write_json
from training.loop.devices import autocast_for


@dataclass
class ExamFlags:
    """The command line's options."""

    model: str = flag("", required=True, help="name or folder, with a head for masked words")
    corpus: str = flag("", required=True, metavar="DIR", help="tokenized text of that vocabulary")
    out: str = flag("", required=True, metavar="DIR", help="metrics.json goes there")
    seed: int = flag(0, type=seed, help="of the long run: which documents are held out")


def grammar_marks(
    model: PretrainingModel, tokenizer: BertTokenizer, pairs: Sequence[grammar.Pair]
) -> dict[str, np.ndarray]:
    """1 for a pair that the model gets right, 1/2 for a tie, else 0: by phenomenon, and "all"."""
    encoded = grammar.encode(tokenizer, pairs, model.config.max_position_embeddings)
    sentences = chain.from_iterable(encoded)
    scores = grammar.sentence_scores(model, sentences, tokenizer.mask_token_id)
    return grammar.by_phenomenon(pairs, grammar.marks(grammar.differences(encoded, scores)))


def held_out_loss(
    model: PretrainingModel, tokenizer: BertTokenizer, corpus: Corpus, seed: int
) -> float:
    """The loss of masked words, nats, on the documents that a run with this seed holds out."""
    rows = PretrainingFlags(objective="none", full_sentences=True, seed=seed)
    _, rest = corpus.split(rows.held_out, rows.seed)
    autocast = autocast_for(torch.device("cpu"), "fp32")
    loss = HeldOut(rows, tokenizer, rest).measure(model, autocast)["mlm_loss"]
    model.eval()  # as it was loaded; after measure it would train on, with dropout
    return loss


def measure(args: ExamFlags) -> dict[str, Any]:
    """Accuracy on all pairs and by phenomenon, and the loss of masked words."""
    model, tokenizer = load(args.model)
    marks = grammar_marks(model, tokenizer, grammar.read_pairs(None))
    loss = held_out_loss(model, tokenizer, Corpus(args.corpus), args.seed)
    phenomena = {name: round(float(points.mean()), 5) for name, points in marks.items()}
    return {"best": {"grammar": phenomena.pop("all"), "mlm_loss": loss}, "phenomena": phenomena}


def main() -> None:
    """Examine one model."""
    parser = OneLineParser(prog="research/experiments/exam.py", description="A grammar exam.")
    add_fields(parser, ExamFlags)
    args = parser.parse_args(namespace=ExamFlags())
    check_writable(args.out)
    start = time.perf_counter()
    metrics = measure(args)
    print("grammar {grammar:.3f}, loss {mlm_loss:.3f}".format_map(metrics["best"]))
    write_json(Path(args.out) / "metrics.json", metrics | {"seconds": time.perf_counter() - start})


if __name__ == "__main__":
    run_script(main)
