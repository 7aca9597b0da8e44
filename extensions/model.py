"""One BERT with a head for each task, and what the flags put into it and around it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from extensions.features.cross_encoding import concat
from extensions.features.pooling import pool
from extensions.flags import TechniqueFlags
from extensions.loss.cosine import cosine
from extensions.parameters.lora import add_lora
from extensions.parameters.pals import PALs
from extensions.parameters.task_layers import encode, split_top_layers
from extensions.tasks import CLASSES, COURSE
from multitask_classifier import MultitaskBERT
from training.cli.flags import with_defaults
from training.loop.models import check_segments


class TechniquesBERT(MultitaskBERT):
    """Part 2's model with the parts that the flags put into it and around it.

    Args:
        config: of a MultitaskBERT, and ModelFlags.
    """

    def __init__(self, config: Any):
        super().__init__(config)
        flags = with_defaults(config, TechniqueFlags)
        tasks = list(dict.fromkeys((*COURSE, *flags.tasks)))
        self.pooling, self.joins_pairs = flags.pooling, flags.pair_encoding == "cross"

        # Parts put into BERT, in an order in which each finds what it needs
        self.task_layers = split_top_layers(self.bert, flags.separate_layers, tasks)
        if flags.adapt == "lora":
            add_lora(self.bert, flags.rank)
        self.pals = PALs(self.bert, tasks, flags.pals, flags.pal_heads) if flags.pals else None

        # Other heads; a cosine has none
        size = config.hidden_size if self.joins_pairs else self.paraphrase.in_features
        if self.joins_pairs:
            check_segments(self.bert, "--pair_encoding cross")
            self.paraphrase, self.similarity = nn.Linear(size, 1), nn.Linear(size, 1)
        if flags.similarity == "cosine":
            self.similarity = None
        self.relation = nn.Linear(size, CLASSES["nli"]) if "nli" in tasks else None

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        segments: Tensor | None = None,
        task: str = "sst",
    ) -> Tensor:
        """One vector for each sentence, or joined pair: (B, L), (B, L) → (B, D)."""
        with self.pals.use(task) if self.pals else nullcontext():
            output = encode(self.bert, input_ids, attention_mask, segments, self.task_layers[task])
        return pool(output, attention_mask, self.pooling)  # (B, D)

    def pair_features(self, ids_1, mask_1, ids_2, mask_2, task: str) -> Tensor:
        """What the heads of pairs see: (B, D) of a cross-encoder, (B, 3 D) of a bi-encoder.

        A bi-encoder's is [u; v; |u − v|] (Reimers & Gurevych 2019, section 3).
        """
        if self.joins_pairs:
            pad_id, positions = self.bert.config.pad_token_id, self.bert.position_ids.size(1)
            ids, mask, segments = concat(ids_1, mask_1, ids_2, mask_2, pad_id, positions)  # (B, L)
            return self(ids, mask, segments, task)  # (B, D)
        u, v = self(ids_1, mask_1, task=task), self(ids_2, mask_2, task=task)  # (B, D) each
        return torch.cat([u, v, (u - v).abs()], dim=-1)  # (B, 3 D)

    def predict_paraphrase(self, *pair: Tensor) -> Tensor:
        """The logit of "yes, a paraphrase": (B, L1) …, (B, L2) … → (B,)."""
        features = self.pair_features(*pair, task="para")  # (B, D) or (B, 3 D)
        return self.apply_head(self.paraphrase, features).squeeze(-1)  # (B, 1) → (B,)

    def predict_similarity(self, *pair: Tensor) -> Tensor:
        """How similar two sentences are, from 0 to 5: (B, L1) …, (B, L2) … → (B,)."""
        if self.similarity is None:
            u, v = self(*pair[:2], task="sts"), self(*pair[2:], task="sts")  # (B, D) each
            return 5 * cosine(u, v)  # (B,)
        features = self.pair_features(*pair, task="sts")  # (B, D) or (B, 3 D)
        return 5 * self.apply_head(self.similarity, features).squeeze(-1).sigmoid()  # (B, 1) → (B,)

    def predict_relation(self, *pair: Tensor) -> Tensor:
        """Logits of contradiction, neutral, entailment: (B, L1) …, (B, L2) … → (B, 3)."""
        return self.apply_head(self.relation, self.pair_features(*pair, task="nli"))
