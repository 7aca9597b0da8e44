"""Held-out documents: the loss of a model on text that it is not trained on."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import islice
from typing import Any

import torch

from pretraining.corpus import Corpus, unigram_entropy
from pretraining.examples import PretrainingExamples
from pretraining.losses import KEYS, pretraining_losses, totals
from pretraining.masking import MASKED
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.files.errors import InputError
from training.loop import autocast_for
from training.loop.batches import LengthBatches, to_device


def check_size(corpus: Corpus, length: int, what: str, remedy: str) -> None:
    """InputError if a text does not fill one row."""
    if corpus.n_tokens < length:
        raise InputError(
            f"{what} has {corpus.n_tokens:,} tokens, less than one row of {length}; {remedy}"
        )


class HeldOut:
    """Rows of documents that are not trained on, with the same masks in every evaluation.

    15 % of the tokens are masked, whatever --mask says, so that losses can be compared. Whole
    batches of about ``args.eval_rows`` rows, drawn at random, bound the time of an evaluation.
    """

    def __init__(self, args: Any, tokenizer: BertTokenizer, corpus: Corpus):
        if args.objective == "nsp" and corpus.n_documents < 2:
            raise InputError(
                "the held-out text is a single document, and next sentences need two; give more "
                "text, a larger --held_out, or --objective sop"
            )
        check_size(corpus, args.length, "the held-out text", "give more text, or --held_out 0")
        self.entropy = unigram_entropy(corpus)
        self.examples = PretrainingExamples(args, tokenizer, corpus, MASKED, epoch=0)
        # in random order, so that the first of them are a random choice
        batches = LengthBatches(self.examples.lengths(), args.batch_size, args.seed)
        self.batches = list(islice(batches, math.ceil(args.eval_rows / args.batch_size)))

    @torch.no_grad()
    def measure(self, model: PretrainingModel, precision: str) -> dict[str, float]:
        """Losses and accuracies, and the perplexity exp(loss) of masked words."""
        device = model.decoder_bias.device
        values, counts = defaultdict(list), defaultdict(int)
        model.eval()
        for rows in self.batches:
            batch = self.examples.collate_fn(self.examples.rows(rows))
            with autocast_for(device, precision)():
                heads = pretraining_losses(model, *(to_device(batch[key], device) for key in KEYS))
            for name, (total, count) in totals(*heads, model.objective).items():
                values[name].append(total)
                counts[name] += count
        model.train()
        sums = {name: sum(torch.stack(totals).tolist()) for name, totals in values.items()}
        means = {name: total / max(1, counts[name]) for name, total in sums.items()}
        return means | {"perplexity": math.exp(min(means["mlm_loss"], 700.0))}
