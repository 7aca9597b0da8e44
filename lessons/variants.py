"""RoBERTa, ALBERT and DistilBERT as small changes to our BERT, next to each other in a table.

    python -m lessons.variants

Each is a subclass that changes a few lines of BertModel, and reads the checkpoints of Hugging
Face's models of that name, whose outputs it repeats. docs/variants.md explains them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from base_bert import LAYER_NAMES, MODEL_NAMES, load_tensors
from bert import BertModel
from config import REQUIRED, BertConfig
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import values_of
from training.files.folder import CORE, COUNTERS, check_surplus, require
from training.files.hub import find_model
from training.files.texts import read_json

PARTS = (*CORE, "transformer")  # of these models, of which nothing may be passed over


class Variant(BertModel):
    """A BERT with changes, which reads checkpoints under Hugging Face's names for it."""

    MODEL_TYPE: ClassVar[str]  # what the configuration file calls it, and its parameters' prefix
    ACTIVATION: ClassVar[str] = "gelu"  # which it has to name
    CONFIG_NAMES: ClassVar[Mapping[str, str]] = {}  # Hugging Face's name of a field → ours
    LAYER: ClassVar[str] = "encoder.layer.{}."  # what a layer's names begin with
    RENAMED: ClassVar[Mapping[str, str]] = {}  # how BERT's names begin → how this model's do

    def hf_names(self) -> Iterator[tuple[str, str]]:
        """All pairs (Hugging Face's name, our name) of parameters."""

        def renamed(name: str) -> str:
            old = next((old for old in self.RENAMED if name.startswith(old)), "")
            return self.RENAMED.get(old, "") + name.removeprefix(old)

        own = self.state_dict()
        yield from ((renamed(theirs), ours) for theirs, ours in MODEL_NAMES.items() if ours in own)
        for i in range(len(self.bert_layers)):
            for theirs, ours in LAYER_NAMES.items():
                yield self.LAYER.format(i) + renamed(theirs), f"bert_layers.{i}.{ours}"

    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, local_files_only: bool = False) -> Variant:
        """A model with a checkpoint's weights, in evaluation mode."""
        folder = find_model(name_or_path, local_files_only)
        values = read_json(folder / "config.json")
        with values_of(f"{folder} is not a {cls.__name__} as it is here", "take another"):
            values = {cls.CONFIG_NAMES.get(key, key): value for key, value in values.items()}
            wanted = REQUIRED | {"model_type": cls.MODEL_TYPE, "hidden_act": cls.ACTIVATION}
            require(values, wanted | {"num_hidden_groups": 1, "inner_group_num": 1})
            config = BertConfig(**(values | {"hidden_act": "gelu", "name_or_path": str(folder)}))
        return super().from_pretrained(folder, config=config)

    def load_hf_weights(self, tensors: dict[str, Tensor], source: str) -> None:
        """Copy tensors under Hugging Face's names into this model; a task's head is left out."""
        tensors = {k.removeprefix(f"{self.MODEL_TYPE}."): tensor for k, tensor in tensors.items()}
        names = dict(self.hf_names())
        check_surplus(source, tensors.keys() - {*COUNTERS}, names, *PARTS)
        load_tensors(self, tensors, names, source)


def roberta_positions(input_ids: Tensor, pad_token_id: int) -> Tensor:
    """RoBERTa's positions: pad + 1, pad + 2 … for tokens, pad itself for padding.

    (B, L) → (B, L). With pad = 1: ids [0, 7, 9, 2, 1, 1] → [2, 3, 4, 5, 1, 1].
    """
    real = input_ids.ne(pad_token_id).long()  # (B, L)
    return real.cumsum(dim=1) * real + pad_token_id


class RobertaModel(Variant):
    """RoBERTa (Liu et al. 2019): BERT's network, trained better; positions are counted differently.

    There are no segments: one row of that table is left, and added to every token. Positions begin
    after the padding's, whose row is not trained: hence 514 rows for 512 tokens.
    """

    MODEL_TYPE = "roberta"

    def __init__(self, config: BertConfig):
        super().__init__(config)
        self.pos_embedding.padding_idx = config.pad_token_id  # a row without a gradient
        self.init_weights()

    def embed(self, input_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """BERT's sum of embeddings, at RoBERTa's positions: (B, L) → (B, L, D)."""
        counted = self.position_ids
        self.position_ids = roberta_positions(input_ids, self.config.pad_token_id)  # (B, L)
        try:
            return super().embed(input_ids)
        finally:
            self.position_ids = counted


class AlbertModel(Variant):
    """ALBERT (Lan et al. 2020): factorised embeddings, and one layer used again and again.

    Args:
        config: a BERT's, with ``embedding_size`` E besides hidden_size D.
    """

    MODEL_TYPE = "albert"
    ACTIVATION = "gelu_new"  # GELU by its tanh formula (Hendrycks & Gimpel 2016, section 2)
    LAYER = "encoder.albert_layer_groups.0.albert_layers.0."
    RENAMED = {
        "attention.self.": "attention.",
        "attention.output.": "attention.",
        "intermediate.dense.": "ffn.",
        "output.dense.": "ffn_output.",
        "output.LayerNorm.": "full_layer_layer_norm.",
        "pooler.dense.": "pooler.",
    }

    def __init__(self, config: BertConfig):
        super().__init__(config)
        width = config.embedding_size  # E
        # V·E + E·D numbers in place of V·D
        self.word_embedding = nn.Embedding(
            config.vocab_size, width, padding_idx=config.pad_token_id
        )
        self.pos_embedding = nn.Embedding(config.max_position_embeddings, width)
        self.tk_type_embedding = nn.Embedding(config.type_vocab_size, width)
        self.embed_layer_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.embed_to_hidden = nn.Linear(width, config.hidden_size)
        # The same layer everywhere: its gradient is the sum over all places
        layer = self.bert_layers[0]
        layer.interm_af = nn.GELU(approximate="tanh")
        self.bert_layers = nn.ModuleList([layer] * config.num_hidden_layers)
        self.init_weights()

    def embed(self, input_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """BERT's embeddings of width E, projected: (B, L) → (B, L, E) → (B, L, D)."""
        narrow = (input_ids,) if token_type_ids is None else (input_ids, token_type_ids)
        return self.embed_to_hidden(super().embed(*narrow))

    def hf_names(self) -> Iterator[tuple[str, str]]:
        """One layer in the file, which is every layer of ours, and the projection."""
        yield from super().hf_names()
        for kind in ("weight", "bias"):
            yield f"encoder.embedding_hidden_mapping_in.{kind}", f"embed_to_hidden.{kind}"


class NoSegments(nn.Module):
    """Replaces the embedding of segments, and adds nothing."""

    def forward(self, token_type_ids: Tensor) -> Tensor:
        """(B, L) → 0."""
        return torch.zeros(())


class DistilBertModel(Variant):
    """DistilBERT (Sanh et al. 2019): half of BERT's layers, no segments, no pooler."""

    MODEL_TYPE = "distilbert"
    CONFIG_NAMES = {
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "activation": "hidden_act",
    }
    LAYER = "transformer.layer.{}."
    RENAMED = {
        "attention.self.query.": "attention.q_lin.",
        "attention.self.key.": "attention.k_lin.",
        "attention.self.value.": "attention.v_lin.",
        "attention.output.dense.": "attention.out_lin.",
        "attention.output.LayerNorm.": "sa_layer_norm.",
        "intermediate.dense.": "ffn.lin1.",
        "output.dense.": "ffn.lin2.",
        "output.LayerNorm.": "output_layer_norm.",
    }

    def __init__(self, config: BertConfig):
        super().__init__(config)
        self.tk_type_embedding = NoSegments()
        del self.pooler_dense, self.pooler_af
        for layer in self.bert_layers:
            layer.attention_dropout = nn.Identity()  # it has none after the attention

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Like BertModel's, but pooler_output (B, D) is the last hidden state of [CLS]."""
        encoded = self.encode(self.embed(input_ids), attention_mask)  # (B, L, D)
        return {"last_hidden_state": encoded, "pooler_output": encoded[:, 0]}


def configurations() -> dict[str, tuple[type[BertModel], BertConfig]]:
    """BERT and its variants at bert-base's size, with the vocabularies they were published with."""
    roberta = {"vocab_size": 50265, "pad_token_id": 1, "max_position_embeddings": 514}
    roberta |= {"type_vocab_size": 1, "layer_norm_eps": 1e-5}
    albert = {"vocab_size": 30000, "embedding_size": 128}
    return {
        "BERT": (BertModel, BertConfig()),
        "RoBERTa": (RobertaModel, BertConfig(**roberta)),
        "ALBERT": (AlbertModel, BertConfig(**albert)),
        "DistilBERT": (DistilBertModel, BertConfig(num_hidden_layers=6)),
    }


def count(model: BertModel) -> tuple[int, int]:
    """The number of parameters, shared ones counted once, and of those in embeddings."""
    embeddings = ("word_embedding", "pos_embedding", "tk_type_embedding")
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    return sum(sizes.values()), sum(n for name, n in sizes.items() if name.startswith(embeddings))


def main() -> None:
    """Print parameters, counted on the "meta" device, where tensors have shapes and no numbers."""
    OneLineParser(description="BERT next to RoBERTa, ALBERT and DistilBERT.").parse_args()
    print(f"{'model':12}{'parameters':>12}{'embeddings':>12}{'the rest':>12}")
    for name, (kind, config) in configurations().items():
        with torch.device("meta"):
            total, embeddings = count(kind(config))
        print(f"{name:12}{total:12,}{embeddings:12,}{total - embeddings:12,}")


if __name__ == "__main__":
    run_script(main)
