"""What a model fills in that only counts neighbours, compared with a BERT that read the same text.

    python research/experiments/counting.py --corpus research/experiments/runs/books-8000

Prints ten sentences with what both put in place of [MASK], and the loss of both on held-out text,
with the masks that pretraining/pretrain.py measures on (--length, --seed and --held_out as there).
Discounts are tuned on a part of the text that is trained on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import training  # noqa: F401, before torch

# isort: split
import numpy as np
import torch
from scipy.sparse import coo_array

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
PAIR_DISCOUNTS = (0.75, 0.85, 0.95)  # of which the best is chosen
GAP_DISCOUNTS = (0.85, 0.9, 0.95)
TUNING_ROWS = 256  # of text, for choosing
SHOWN = 3  # tokens a sentence


class KneserNey:
    """p(w | c) of a token w next to c (Kneser & Ney 1995; interpolated, as in Chen & Goodman 1999).

    p(w | c) = max(n(c, w) − D, 0) / n(c) + D · types(c) / n(c) · q(w), with D the discount,
    types(c) the number of different tokens next to c, and q(w) the fraction of pairs, each counted
    once, that have w. Next to a token that the text lacks, such as [MASK], it is w's frequency.
    """

    def __init__(self, context: np.ndarray, token: np.ndarray, frequency: np.ndarray):
        size = len(frequency)
        counts = coo_array((np.ones(len(token)), (context, token)), shape=(size, size))
        self.counts, self.frequency = counts.tocsr(), frequency
        self.total = np.bincount(context, minlength=size)  # n(c)
        self.types = np.diff(self.counts.indptr)
        pairs = np.bincount(self.counts.indices, minlength=size) + 0.5  # none has q(w) = 0
        self.backoff = pairs / pairs.sum()  # q, (V,)

    def probabilities(self, context: np.ndarray, discount: float) -> np.ndarray:
        """(M,) tokens → (M, V)."""
        n = self.total[context][:, None]
        kept = np.maximum(self.counts[context].toarray() - discount, 0)
        left_over = discount * self.types[context][:, None] * self.backoff
        return np.where(n > 0, (kept + left_over) / np.maximum(n, 1), self.frequency)


class NeighbourModel:
    """p(w | l, r) of the token between l and r, from how often tokens stand next to each other.

    Where the text has l, another token, r: max(n(l, w, r) − E, 0) / n(l, ·, r), and what the
    discount E leaves is distributed as p(w | l) · p(w | r) / p(w), each by KneserNey.

    Args:
        corpus: the text that is counted.
        size: of the vocabulary.
    """

    def __init__(self, corpus: Corpus, size: int):
        documents = [
            corpus.ids[starts[0] : starts[-1]].astype(np.int64)
            for starts in map(corpus.starts, range(corpus.n_documents))
        ]
        frequency = np.bincount(np.concatenate(documents), minlength=size) + 1.0
        self.frequency = frequency / frequency.sum()  # p, (V,)
        first = np.concatenate([ids[:-1] for ids in documents])
        second = np.concatenate([ids[1:] for ids in documents])
        self.after = KneserNey(first, second, self.frequency)
        self.before = KneserNey(second, first, self.frequency)
        around = np.concatenate([ids[:-2] * size + ids[2:] for ids in documents])
        between = np.concatenate([ids[1:-1] for ids in documents])
        code, self.counts = np.unique(around * size + between, return_counts=True)
        self.around, self.between = np.divmod(code, size)  # with counts: n(l, w, r)
        self.pair_discount, self.gap_discount = PAIR_DISCOUNTS[0], GAP_DISCOUNTS[0]

    def log_probabilities(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """(M,) tokens before and behind M gaps → (M, V)."""
        follows = self.after.probabilities(left, self.pair_discount)  # (M, V)
        leads = self.before.probabilities(right, self.pair_discount)
        p = follows * leads / self.frequency
        p /= p.sum(axis=1, keepdims=True)
        key = left.astype(np.int64) * len(self.frequency) + right
        begins, ends = (np.searchsorted(self.around, key, side) for side in ("left", "right"))
        for i in np.flatnonzero(ends > begins):
            here = slice(begins[i], ends[i])
            counts, n = self.counts[here], self.counts[here].sum()
            p[i] *= self.gap_discount * len(counts) / n
            p[i, self.between[here]] += (counts - self.gap_discount) / n
        return np.log(p)


def tuned(corpus: Corpus, tokenizer: BertTokenizer, args: argparse.Namespace) -> NeighbourModel:
    """A model of a text, whose discounts have the lowest loss on a part that is set aside first."""
    counted, aside = corpus.split(args.held_out, args.seed + 1)
    part = argparse.Namespace(**vars(args) | {"eval_rows": min(TUNING_ROWS, args.eval_rows)})
    held = HeldOut(part, tokenizer, aside)
    trial, losses = NeighbourModel(counted, len(tokenizer)), {}
    for discounts in product(PAIR_DISCOUNTS, GAP_DISCOUNTS):
        trial.pair_discount, trial.gap_discount = discounts
        losses[discounts] = counting_loss(trial, held)["mlm_loss"]
    model = NeighbourModel(corpus, len(tokenizer))
    model.pair_discount, model.gap_discount = min(losses, key=losses.__getitem__)
    return model


def counting_loss(counts: NeighbourModel, held: HeldOut) -> dict[str, float]:
    """Loss in nats and accuracy at the masks that pre-training measures on."""
    masked, loss, correct = 0, 0.0, 0
    for rows in held.batches:
        batch = held.examples.collate_fn(held.examples.rows(rows))
        ids, labels = batch["token_ids"].numpy(), batch["labels"].numpy()  # (B, L)
        row, place = np.nonzero(labels != IGNORED)  # M of them; [CLS] and [SEP] are never masked
        predicted = counts.log_probabilities(ids[row, place - 1], ids[row, place + 1])  # (M, V)
        true = labels[row, place]  # (M,)
        masked += len(true)
        loss -= predicted[np.arange(len(true)), true].sum()
        correct += (predicted.argmax(axis=1) == true).sum()
    return {"mlm_loss": loss / masked, "mlm_acc": correct / masked}


def ten_sentences(
    counts: NeighbourModel, model: PretrainingModel, tokenizer: BertTokenizer
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
    counts = tuned(corpus, tokenizer, args)
    print("\n".join(ten_sentences(counts, model, tokenizer)))
    held = HeldOut(args, tokenizer, held_out)
    print(f"\nheld-out text, unigram entropy {held.entropy:.3f}")
    print(f"discounts: {counts.pair_discount} of pairs, {counts.gap_discount} of gaps")
    autocast = autocast_for(torch.device("cpu"), "auto")
    losses = {"counting": counting_loss(counts, held), "BERT": held.measure(model, autocast)}
    for name, scores in losses.items():
        print(f"{name:>8}: loss {scores['mlm_loss']:.3f}, accuracy {scores['mlm_acc']:.3f}")


if __name__ == "__main__":
    run_script(main)
