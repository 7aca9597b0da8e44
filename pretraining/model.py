"""``bert.py``'s encoder with the heads of pre-training: masked words, and next sentences."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from base_bert import BertPreTrainedModel, load_tensors
from bert import BertModel
from config import BertConfig
from training.files.errors import InputError
from training.files.folder import check_surplus
from training.loop.models import check_segments

# The decoder's rows come in multiples of this: on a CPU PyTorch keeps code and buffers for every
# number of rows it has met, gigabytes in a long run.
ROWS = 128
OBJECTIVES = ("nsp", "none")  # of the second head; none: there is none

# Hugging Face's name → ours; the decoder's weight is the word embedding's
MASKED_WORD_NAMES = {
    "cls.predictions.transform.dense.weight": "transform_dense.weight",
    "cls.predictions.transform.dense.bias": "transform_dense.bias",
    "cls.predictions.transform.LayerNorm.weight": "transform_norm.weight",
    "cls.predictions.transform.LayerNorm.bias": "transform_norm.bias",
    "cls.predictions.bias": "decoder_bias",
}
DECODER = "cls.predictions.decoder.weight"
# The same tensor under its other name, which is there as well, or instead
BIASES = {"cls.predictions.decoder.bias": "cls.predictions.bias"}
RELATION_NAMES = {
    "cls.seq_relationship.weight": "relation.weight",
    "cls.seq_relationship.bias": "relation.bias",
}


class PretrainingModel(BertPreTrainedModel):
    """BERT with the two heads it is pre-trained with (Devlin et al. 2019, section 3.1, appendix A).

    Masked words: dense, GELU, LayerNorm, then a decoder whose weight is the word embedding's, with
    a bias of its own. Two segments: a linear layer on the pooled output, whose class 1 is "the
    second does not follow"; with the objective "none" there is no such layer.
    """

    encoder = BertModel  # steps.py has another one

    def __init__(self, config: BertConfig, objective: str = "nsp"):
        super().__init__(config)
        self.bert = self.encoder(config)
        self.transform_dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.transform_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder_bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.relation = None if objective == "none" else nn.Linear(config.hidden_size, 2)
        if self.relation:
            check_segments(self.bert, "next-sentence prediction")
        self.init_weights()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Logits of tokens (M, V), and of two segments' relation (B, 2) or None without that head.

        They have the parameters' type, whatever type the matrix products are made in.

        Args:
            input_ids, attention_mask, token_type_ids: (B, L), as BertModel takes them.
            positions: (M,), those that are predicted, in the flattened (B · L); all if not given.
                The decoder has a row for every token of the vocabulary, so computing it at a
                seventh of the positions saves a good part of a small model's time.
        """
        encoded = self.bert(input_ids, attention_mask, token_type_ids)
        hidden = encoded["last_hidden_state"].flatten(0, 1)  # (B · L, D)
        hidden = hidden if positions is None else hidden[positions]  # (M, D)
        filled = F.pad(hidden, (0, 0, 0, -len(hidden) % ROWS))  # (R, D), R ≥ M
        filled = self.transform_norm(F.gelu(self.transform_dense(filled)))  # (R, D)
        words = F.linear(filled, self.bert.word_embedding.weight, self.decoder_bias)  # (R, V)
        words = words[: len(hidden)].to(self.dtype)  # (M, V)
        if self.relation is None:
            return words, None
        return words, self.relation(encoded["pooler_output"]).to(self.dtype)  # (B, 2)

    def heads(self) -> dict[str, dict[str, str]]:
        """The heads that this model has: Hugging Face's name → ours, of each tensor."""
        relation = {"next sentences": RELATION_NAMES} if self.relation else {}
        return {"masked words": MASKED_WORD_NAMES} | relation

    def load_hf_weights(self, tensors: dict[str, Tensor], source: str) -> None:
        """As BertPreTrainedModel's, and the heads where the checkpoint has them."""
        known = {name: tensor for name, tensor in tensors.items() if name.startswith("cls.")}
        super().load_hf_weights({k: v for k, v in tensors.items() if k not in known}, source)
        check_surplus(source, known, {*MASKED_WORD_NAMES, DECODER, *BIASES, *RELATION_NAMES}, "cls")
        self.check_decoder(tensors, source)
        known = {BIASES.get(name, name): tensor for name, tensor in known.items()}
        for head, names in self.heads().items():
            if names.keys() <= known.keys():
                load_tensors(self, known, names, source)
            else:
                print(f"weights: {source} has no head for {head}; it starts from random values")

    def check_decoder(self, tensors: dict[str, Tensor], source: str) -> None:
        """InputError where the decoder is not the word embedding, with the one bias."""
        if not self.has_head(tensors):
            return
        is_absent = DECODER not in tensors and not getattr(self.config, "tie_word_embeddings", True)
        pairs = [(DECODER, "embeddings.word_embeddings.weight"), *BIASES.items()]
        pairs = [(tensors[a], tensors[b]) for a, b in pairs if a in tensors and b in tensors]
        if is_absent or not all(torch.equal(own, ours) for own, ours in pairs):
            what = f"{source} has a decoder of its own (tie_word_embeddings, {DECODER})"
            raise InputError(f"{what}, and here it is the word embedding; take another model")

    @staticmethod
    def has_head(names: Collection[str]) -> bool:
        """Whether a checkpoint has the head for masked words."""
        return MASKED_WORD_NAMES.keys() <= {BIASES.get(name, name) for name in names}

    def to_hf_weights(self) -> dict[str, Tensor]:
        """All tensors under the names of Hugging Face's BertForPreTraining, on the CPU."""
        tensors = {f"bert.{name}": tensor for name, tensor in super().to_hf_weights().items()}
        own = self.state_dict()
        for names in self.heads().values():
            tensors |= {theirs: own[ours].cpu().contiguous() for theirs, ours in names.items()}
        return tensors

    def save_pretrained(self, folder: str | Path, **entries: Any) -> None:
        """Write config.json and model.safetensors that ``transformers`` and all scripts here load.

        transformers' BertForPreTraining, BertForMaskedLM and BertModel take what they need of it.
        """
        architecture = "BertForPreTraining" if self.relation else "BertForMaskedLM"
        super().save_pretrained(folder, **({"architectures": [architecture]} | entries))
