"""Held-out documents: the loss of a model on text that it is not trained on."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import torch

from pretraining.corpus import Corpus, unigram_entropy
from pretraining.examples import PretrainingExamples
from pretraining.losses import KEYS, Sums, pretraining_losses
from pretraining.masking import MASKED
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.files.errors import InputError
from training.loop import autocast_for
from training.loop.batches import LengthBatches, to_device


class HeldOut:
    """Rows of documents that are not trained on, with the same masks in every evaluation.

    15 % of the tokens are masked, whatever --mask says, so that losses can be compared. Whole
    batches of about ``args.eval_rows`` rows, drawn at random, bound the time of an evaluation.
    """

    def __init__(self, args: Any, tokenizer: BertTokenizer, corpus: Corpus):
        if corpus.n_tokens < args.length:
            what = f"{corpus.n_tokens:,} tokens, less than a row of {args.length}"
            raise InputError(f"the held-out text has {what}; give more text, or raise --held_out")
        self.entropy = unigram_entropy(corpus)
        self.examples = PretrainingExamples(args, tokenizer, corpus, MASKED, epoch=0)
        # in random order, so that the first of them are a random choice
        batches = LengthBatches(self.examples.lengths(), args.batch_size, args.seed)
        self.batches = list(islice(batches, math.ceil(args.eval_rows / args.batch_size)))

    @torch.no_grad()
    def measure(self, model: PretrainingModel, precision: str) -> dict[str, float]:
        """Losses and accuracies, and the perplexity exp(loss) of masked words."""
        device = model.decoder_bias.device
        totals: dict[str, list[Sums]] = {}
        model.eval()
        for rows in self.batches:
            batch = self.examples.batch(rows)
            inputs = [to_device(batch[key], device) for key in KEYS]
            with autocast_for(device, precision)():
                heads = pretraining_losses(model, *inputs)
            for head, sums in heads.items():
                totals.setdefault(head, []).append(sums)
        model.train()
        sums = {head: Sums(*map(sum, zip(*parts, strict=True))) for head, parts in totals.items()}
        means = {k: v.item() for head, total in sums.items() for k, v in total.means(head).items()}
        return means | {"perplexity": math.exp(min(means["mlm_loss"], 700.0))}
