"""What a model knows of grammar, and its loss on held-out text: a run for each checkpoint.

    python research/experiments/exam.py --model pieces-0 --corpus books-8000 --out one

The exam is lessons/grammar.py's on the pairs that ship. The corpus is what pretrain.py has built;
of it the documents are held out that books/books.toml holds out, with the same masks.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import training  # noqa: F401, before torch

# isort: split
import torch

from lessons import grammar
from lessons.fill_mask import load
from pretraining.corpus import Corpus
from pretraining.flags import PretrainingFlags
from pretraining.held_out import HeldOut
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


def measure(args: ExamFlags) -> dict[str, Any]:
    """Accuracy on all pairs and by phenomenon, and the loss of masked words."""
    if model := StepsModel.read(args.model):
        tokenizer = BertTokenizer.from_pretrained(args.model)
    else:
        model, tokenizer = load(args.model)
    pairs = grammar.read_pairs(None)
    encoded = grammar.encode(tokenizer, pairs, model.config.max_position_embeddings)
    sentences = chain.from_iterable(encoded)
    scores = grammar.sentence_scores(model, sentences, tokenizer.mask_token_id)
    marks = grammar.by_phenomenon(pairs, grammar.marks(grammar.differences(encoded, scores)))
    rows = PretrainingFlags(objective="none", full_sentences=True, seed=args.seed)
    _, rest = Corpus(args.corpus).split(rows.held_out, rows.seed)
    autocast = autocast_for(torch.device("cpu"), "fp32")
    loss = HeldOut(rows, tokenizer, rest).measure(model, autocast)["mlm_loss"]
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
