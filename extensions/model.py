"""MultitaskBERT with techniques: parts put into BERT, other vectors, further layers and heads.

They are put in in an order in which each finds what it needs. Without flags the model has the same
tensors as a MultitaskBERT, drawn from the same random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from datasets import SentenceClassificationTestDataset
from extensions.features.by_hand import (
    PAIR_FEATURES,
    TEXT_FEATURES,
    AddFeatures,
    TagEmbedding,
    tagged,
)
from extensions.features.pooling import pool
from extensions.features.word_tags import WordTags
from extensions.flags import TechniqueFlags
from extensions.loss.task_weights import Uncertainty
from extensions.parameters.adapters import KINDS as ADAPTERS
from extensions.parameters.adapters import add_adapters, choose_task
from extensions.parameters.bitfit import train_biases
from extensions.parameters.heads import make_head
from extensions.parameters.lora import KINDS as LOW_RANK
from extensions.parameters.lora import add_lora
from extensions.parameters.mixout import replace_linears
from extensions.parameters.pals import PALs
from extensions.parameters.reinit import reinitialise_top
from extensions.parameters.task_layers import encode, split_top_layers
from extensions.tasks import TASKS
from multitask_classifier import TASKS as COURSE_TASKS
from multitask_classifier import MultitaskBERT
from solution.cross_encoding import concat
from training.cli.flags import complete
from training.files.errors import InputError
from training.files.writing import sha256_of

RANK = 8  # of LoRA, and the width of adapters, if the flag is not given


class TechniquesBERT(MultitaskBERT):
    """A MultitaskBERT with what the flags of TechniqueModelFlags ask for.

    Args:
        config: hidden_size, hidden_dropout_prob, option, and any of these flags.
    """

    def add_heads(self, config: Any) -> None:
        """All that comes on top of BERT, and into it."""
        flags = complete(config, TechniqueFlags)
        self.cosine, self.pooling = flags.similarity == "cosine", flags.pooling
        if self.joins_pairs and self.cosine:
            raise InputError(
                "--similarity cosine compares two vectors; --pair_encoding cross has 1"
            )
        if flags.reinit:
            reinitialise_top(self.bert, flags.reinit)
        tasks = list(dict.fromkeys((*COURSE_TASKS, *flags.tasks)))
        self.task_layers = split_top_layers(self.bert, flags.separate_layers, tasks)
        self.texts_alone &= (
            flags.pooling in ("pooler", "cls") and not flags.separate_layers and not flags.pals
        )
        width = config.hidden_size * (1 if self.joins_pairs else 3)
        self.added = Additions(self.bert, flags, tasks, width)
        self.dropout = nn.Dropout(flags.hidden_dropout_prob)
        layers = flags.head_layers
        self.sentiment = make_head(config.hidden_size, 5, layers)
        self.paraphrase = make_head(width, 1, layers)
        self.similarity = None if self.cosine else make_head(width, 1, layers)
        self.relation = make_head(width, 3, layers) if "nli" in tasks else None
        self.names = None
        if "names" in tasks:
            self.names = make_head(config.hidden_size, TASKS["names"].classes, layers)
            self.texts_alone = False  # it wants every word's vector

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        segments: Tensor | None = None,
        task: str = "sst",
    ) -> Tensor:
        """One vector for each sentence, or joined pair: (B, L), (B, L) → (B, D)."""
        output = self.encode(input_ids, attention_mask, segments, task)
        return pool(output, attention_mask, self.pooling)  # (B, D)

    def encode(
        self, input_ids: Tensor, attention_mask: Tensor, segments: Tensor | None, task: str
    ) -> dict[str, Tensor]:
        """What BERT returns for these ids (B, L) when it is the task's turn."""
        layers = self.task_layers[task] if self.task_layers else ()
        with self.added.turn(self.bert, task, input_ids, attention_mask):
            if layers or segments is not None:
                return encode(self.bert, input_ids, attention_mask, segments, layers)
            return self.bert(input_ids, attention_mask)

    def two_vectors(self, ids_1, mask_1, ids_2, mask_2, task: str) -> tuple[Tensor, Tensor]:
        """Bi-encoder: each sentence on its own, (B, L1) …, (B, L2) … → (B, D), (B, D)."""
        return self(ids_1, mask_1, task=task), self(ids_2, mask_2, task=task)

    def pair_features(self, *pair: Tensor, task: str) -> Tensor:
        """What the heads of pairs see: (B, D) of a cross-encoder, (B, 3 D) of a bi-encoder."""
        if self.joins_pairs:
            pad_id, positions = self.bert.config.pad_token_id, self.bert.position_ids.size(1)
            ids, mask, segments = concat(*pair, pad_id, positions)  # (B, L)
            features = self(ids, mask, segments, task)  # (B, D)
        else:
            u, v = self.two_vectors(*pair, task)  # (B, D) each
            features = torch.cat([u, v, (u - v).abs()], dim=-1)  # (B, 3 D)
        return self.added.with_counts(features, *pair)

    def predict_sentiment(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits of the five classes: (B, L), (B, L) → (B, 5)."""
        vectors = self(input_ids, attention_mask)  # (B, D)
        vectors = self.added.with_counts(vectors, input_ids, attention_mask)  # (B, D)
        return self.apply_head(self.sentiment, vectors)  # (B, 5)

    def predict_paraphrase(self, *pair: Tensor) -> Tensor:
        """The logit of "yes, a paraphrase": (B, L1) …, (B, L2) … → (B,)."""
        features = self.pair_features(*pair, task="para")  # (B, D) or (B, 3 D)
        return self.apply_head(self.paraphrase, features).squeeze(-1)  # (B, 1) → (B,)

    def predict_similarity(self, *pair: Tensor) -> Tensor:
        """How alike two sentences are, from 0 to 5: (B, L1) …, (B, L2) … → (B,)."""
        if self.cosine:
            u, v = self.two_vectors(*pair, "sts")  # (B, D) each
            return 5 * F.cosine_similarity(u.float(), v.float())  # (B,)
        features = self.pair_features(*pair, task="sts")  # (B, D) or (B, 3 D)
        return 5 * self.apply_head(self.similarity, features).squeeze(-1).sigmoid()  # (B, 1) → (B,)

    def predict_relation(self, *pair: Tensor) -> Tensor:
        """Logits of contradiction, neutral, entailment: (B, L1) …, (B, L2) … → (B, 3)."""
        return self.apply_head(self.relation, self.pair_features(*pair, task="nli"))

    def predict_names(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits of each word piece's tags: (B, L), (B, L) → (B, L, 7)."""
        output = self.encode(input_ids, attention_mask, None, "names")
        return self.apply_head(self.names, output["last_hidden_state"])  # (B, L, 7)


class Additions(nn.Module):
    """What is put into a BERT, and the parts next to it that learn or count.

    Args:
        bert: a BertModel; not a part of this module.
        flags: of the model.
        tasks: names.
        pair_width: of what the heads of pairs see.
    """

    def __init__(self, bert: nn.Module, flags: TechniqueFlags, tasks: list[str], pair_width: int):
        super().__init__()
        if flags.adapt in LOW_RANK:
            add_lora(bert, flags.rank or RANK, kind=flags.adapt)
        elif flags.adapt in ADAPTERS:
            add_adapters(bert, flags.rank or RANK, flags.adapt, tasks)
        elif flags.adapt == "bitfit":
            train_biases(bert)
        if flags.mixout:
            replace_linears(bert, flags.mixout)
        self.adapters = flags.adapt in ADAPTERS
        self.pals = PALs(bert, tasks, flags.pals, flags.pal_heads) if flags.pals else None
        scores = [name for name in tasks if not TASKS[name].classes]
        self.uncertainty = Uncertainty(tasks, scores) if flags.task_weights else None
        counts, width = flags.count_features, bert.config.hidden_size
        self.words = words_of(flags) if flags.tag_words or counts else None
        self.tags = TagEmbedding(self.words.count, width) if flags.tag_words else None
        self.text_counts = AddFeatures(TEXT_FEATURES, width) if counts else None
        self.pair_counts = AddFeatures(PAIR_FEATURES, pair_width) if counts else None

    @contextmanager
    def turn(self, bert: nn.Module, task: str, ids: Tensor, mask: Tensor) -> Iterator[None]:
        """Within it a pass of ids (B, L) through BERT is the task's, and its words have tags."""
        with ExitStack() as stack:
            if self.pals is not None:
                stack.enter_context(self.pals.use(task))
            if self.adapters:
                choose_task(bert, task)
            if self.tags is not None:
                stack.enter_context(tagged(bert, self.tags, self.words.tags(ids, mask)))
            yield

    def with_counts(self, vectors: Tensor, *texts: Tensor) -> Tensor:
        """Vectors (B, D) and what is counted in their texts.

        Args:
            texts: ids and mask (B, L) of one text, or those of both texts of a pair.
        """
        if self.text_counts is None:
            return vectors
        counted, numbers = (
            (self.text_counts, self.words.text_counts)
            if len(texts) == 2
            else (self.pair_counts, self.words.pair_counts)
        )
        return counted(vectors, numbers(*texts).to(vectors.device))


def words_of(flags: TechniqueFlags) -> WordTags:
    """The words behind rows of word pieces, for features of them.

    Raises:
        InputError: no tagger in the file, or another one than the model has learned with.
    """
    found = WordTags(SentenceClassificationTestDataset([], flags).tokenizer, flags.tag_words)
    if found.tagger and flags.tagger not in (None, sha256_of(flags.tag_words)):
        raise InputError(
            f"{flags.tag_words} is another tagger than the one this model learned with"
        )
    return found
