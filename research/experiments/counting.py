"""What a model fills in that only counts neighbours, compared with a BERT that read the same text.

    python research/experiments/counting.py --corpus research/experiments/runs/books-8000

Prints ten sentences with what both put in place of [MASK], and the loss of both on held-out text,
with the masks that pretraining/pretrain.py measures on (--length, --seed and --held_out as there).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import training  # noqa: F401, before torch

# isort: split
import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.special import log_softmax

from lessons.fill_mask import fill_mask, load
from pretraining.corpus import Corpus
from pretraining.held_out import HeldOut
from pretraining.masking import IGNORED
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser, positive_int, probability
from training.cli.scripts import run_script
from training.files.hub import OWN_MODEL
from training.loop.devices import autocast_for

SENTENCES = (
    "The captain looked at the [MASK].",
    "She opened the [MASK] and walked into the garden.",
    "He put the bread on the [MASK] and sat down to eat.",
    "The doctor said that [MASK] would be late.",
    "They were married in the [MASK] on a fine morning in May.",
    "The ship sailed at dawn, and by evening the [MASK] was out of sight.",
    "My dear [MASK], I am very glad to see you.",
    "It was so dark that he lit a [MASK].",
    "The king and the [MASK] rode through the town.",
    "I have never been so [MASK] in my life.",
)
PRIOR = 200.0  # how many observations the frequencies alone are worth
SHOWN = 3  # tokens a sentence


class NeighbourCounts:
    """p(w | l, r) ∝ p(w | l) p(r | w), from how often tokens follow each other.

    Each conditional is smoothed by the frequencies p: p(w | l) = (c(l, w) + k p(w)) / (c(l) + k),
    with k = PRIOR (MacKay & Peto 1995).

    Args:
        corpus: the text that is counted.
        size: of the vocabulary.
    """

    def __init__(self, corpus: Corpus, size: int):
        documents = [
            corpus.ids[starts[0] : starts[-1]].astype(np.int64)
            for starts in map(corpus.starts, range(corpus.n_documents))
        ]
        first = np.concatenate([ids[:-1] for ids in documents])
        second = np.concatenate([ids[1:] for ids in documents])
        counts = coo_array((np.ones(len(first)), (first, second)), shape=(size, size))
        self.after, self.before = counts.tocsr(), counts.tocsc()  # c(l, w), by l and by w
        self.total = np.bincount(first, minlength=size).astype(float)  # (V,)
        frequency = np.bincount(np.concatenate(documents), minlength=size) + 1.0
        self.frequency = frequency / frequency.sum()  # (V,)

    def log_probabilities(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """(M,) tokens before and behind M gaps → (M, V)."""
        p, total = self.frequency, self.total
        follows = self.after[left].toarray() + PRIOR * p  # (M, V)
        leads = self.before[:, right].toarray().T + PRIOR * p[right, None]  # (M, V)
        return log_softmax(np.log(follows) + np.log(leads) - np.log(total + PRIOR), axis=1)


def held_out_losses(
    counts: NeighbourCounts, model: PretrainingModel, held: HeldOut
) -> dict[str, dict[str, float]]:
    """Loss in nats and accuracy of both, at the masks that pre-training measures on."""
    autocast = autocast_for(torch.device("cpu"), "auto")
    masked, loss, right = 0, 0.0, 0
    for rows in held.batches:
        batch = held.examples.collate_fn(held.examples.rows(rows))
        ids, labels = batch["token_ids"].numpy(), batch["labels"].numpy()  # (B, L)
        row, place = np.nonzero(labels != IGNORED)  # M of them; [CLS] and [SEP] are never masked
        predicted = counts.log_probabilities(ids[row, place - 1], ids[row, place + 1])  # (M, V)
        true = labels[row, place]  # (M,)
        masked += len(true)
        loss -= predicted[np.arange(len(true)), true].sum()
        right += (predicted.argmax(axis=1) == true).sum()
    counting = {"mlm_loss": loss / masked, "mlm_acc": right / masked}
    return {"counting": counting, "BERT": held.measure(model, autocast)}


def ten_sentences(
    counts: NeighbourCounts, model: PretrainingModel, tokenizer: BertTokenizer
) -> list[str]:
    """Rows of a Markdown table: a sentence, what counting fills in, what BERT does."""
    lines = ["| sentence | neighbours counted | BERT |", "|---|---|---|"]
    for text in SENTENCES:
        ids = np.array(tokenizer(text)["input_ids"])
        gap = np.flatnonzero(ids == tokenizer.mask_token_id)
        chances = np.exp(counts.log_probabilities(ids[gap - 1], ids[gap + 1])[0])  # (V,)
        most = chances.argsort()[::-1][:SHOWN]
        words = tokenizer.convert_ids_to_tokens(most.tolist())
        counted = zip(words, chances[most], strict=True)
        (filled,) = fill_mask(model, tokenizer, text, SHOWN)
        cells = (", ".join(f"{w} {p:.0%}" for w, p in words) for words in (counted, filled))
        lines.append(f"| {text} | {' | '.join(cells)} |")
    return lines


def get_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(
        prog="counting.py", description="Counting neighbours compared with BERT."
    )
    parser.add_argument("--corpus", type=Path, required=True, help="that pretrain.py wrote")
    parser.add_argument("--model", default=OWN_MODEL, help="pre-trained on it: name or folder")
    parser.add_argument("--length", type=positive_int, default=128, help="tokens a row")
    parser.add_argument("--batch_size", type=positive_int, default=32)
    parser.add_argument("--eval_rows", type=positive_int, default=1024)
    parser.add_argument("--held_out", type=probability, default=0.02)
    parser.add_argument("--seed", type=int, default=0, help="of the pre-training")
    parser.set_defaults(objective="none", full_sentences=True, whole_word=False)
    return parser.parse_args(arguments)


def main() -> None:
    """Count, compare, print."""
    args = get_args()
    model, tokenizer = load(args.model)
    corpus, held_out = Corpus(args.corpus).split(args.held_out, args.seed)
    counts = NeighbourCounts(corpus, len(tokenizer))
    print("\n".join(ten_sentences(counts, model, tokenizer)))
    held = HeldOut(args, tokenizer, held_out)
    print(f"\nheld-out text, unigram entropy {held.entropy:.3f}")
    for name, scores in held_out_losses(counts, model, held).items():
        print(f"{name:>8}: loss {scores['mlm_loss']:.3f}, accuracy {scores['mlm_acc']:.3f}")


if __name__ == "__main__":
    run_script(main)
