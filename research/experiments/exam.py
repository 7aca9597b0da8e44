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
from pretraining.steps import StepsModel
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


def examined(name: str) -> tuple[PretrainingModel | StepsModel, BertTokenizer]:
    """A BERT, or a model that pretrain.py --architecture wrote, and its tokenizer."""
    if model := StepsModel.read(name):
        return model, BertTokenizer.from_pretrained(name)
    return load(name)


def measure(
    model: PretrainingModel | StepsModel,
    tokenizer: BertTokenizer,
    pairs: Sequence[grammar.Pair],
    corpus: Corpus | None,
    seed: int,
) -> tuple[dict[str, np.ndarray], float | None]:
    """1, 1/2 or 0 for each pair, by phenomenon and "all"; the loss of masked words, in nats.

    Without a corpus there is no loss; with one, the model is in training mode afterwards.
    """
    encoded = grammar.encode(tokenizer, pairs, model.config.max_position_embeddings)
    sentences = chain.from_iterable(encoded)
    scores = grammar.sentence_scores(model, sentences, tokenizer.mask_token_id)
    marks = grammar.by_phenomenon(pairs, grammar.marks(grammar.differences(encoded, scores)))
    if corpus is None:
        return marks, None
    rows = PretrainingFlags(objective="none", full_sentences=True, seed=seed)
    _, rest = corpus.split(rows.held_out, rows.seed)
    autocast = autocast_for(torch.device("cpu"), "fp32")
    return marks, HeldOut(rows, tokenizer, rest).measure(model, autocast)["mlm_loss"]


def main() -> None:
    """Examine one model."""
    parser = OneLineParser(prog="research/experiments/exam.py", description="A grammar exam.")
    add_fields(parser, ExamFlags)
    args = parser.parse_args(namespace=ExamFlags())
    check_writable(args.out)
    start = time.perf_counter()
    pairs, corpus = grammar.read_pairs(None), Corpus(args.corpus)
    marks, loss = measure(*examined(args.model), pairs, corpus, args.seed)
    phenomena = {name: round(float(points.mean()), 5) for name, points in marks.items()}
    best = {"grammar": phenomena.pop("all"), "mlm_loss": loss}
    print("grammar {grammar:.3f}, loss {mlm_loss:.3f}".format_map(best))
    metrics = {"best": best, "phenomena": phenomena, "seconds": time.perf_counter() - start}
    write_json(Path(args.out) / "metrics.json", metrics)


if __name__ == "__main__":
    run_script(main)
