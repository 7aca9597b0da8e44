"""The one configuration of this repository: the shape of a BERT encoder."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from training.files.errors import values_of
from training.files.folder import require
from training.files.hub import find_model
from training.files.texts import read_json

# Entries of a config.json that may not say anything else; a decoder's tokens do not see later ones
REQUIRED = {"model_type": "bert", "position_embedding_type": "absolute", "is_decoder": False}
REQUIRED |= {"add_cross_attention": False, "quantization_config": None}


@dataclass(init=False)
class BertConfig:
    """Hyper-parameters of BERT (Devlin et al. 2019, section 3); the defaults are bert-base-uncased.

    The names are those of Hugging Face's ``config.json``. Keywords that are not fields become
    plain attributes, and every attribute may be set after construction.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    name_or_path: str = ""

    def __init__(self, **values: Any):
        for field in fields(self):
            value = values.pop(field.name, field.default)
            least = 0 if field.name == "pad_token_id" else 1
            if field.type == "int" and not (isinstance(value, int) and value >= least):
                raise ValueError(f"{field.name} must be a whole number from {least}, not {value!r}")
            is_number = isinstance(value, (int, float))
            if field.type == "float" and not (is_number and 0 <= value <= 1):
                raise ValueError(f"{field.name} must be a number from 0 to 1, not {value!r}")
            setattr(self, field.name, value)
        vars(self).update(values)
        if self.pad_token_id >= self.vocab_size:
            raise ValueError(f"pad_token_id {self.pad_token_id} is not below {self.vocab_size}")
        if self.hidden_size % self.num_attention_heads:
            shape = f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads"
            raise ValueError(f"{shape} {self.num_attention_heads}")
        if self.hidden_act != "gelu":
            raise ValueError(f"hidden_act {self.hidden_act!r}: only the exact 'gelu' is here")

    @classmethod
    def from_json(cls, path: str | Path) -> BertConfig:
        """Read a Hugging Face ``config.json``; InputError if it is not one of a BERT."""
        values = read_json(path)
        remedy = "take another model, such as bert-base-uncased"
        with values_of(f"{path} is not the configuration of a BERT", remedy):
            require(values, REQUIRED)
            values.pop("labels", None)  # the name of ours for what id2label holds
            return cls(**(values | {"name_or_path": str(Path(path).parent)}))

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | None, local_files_only: bool = False, **values: Any
    ) -> BertConfig:
        """The configuration of a pretrained model; keywords override what its file says."""
        config = cls.from_json(find_model(name_or_path, local_files_only) / "config.json")
        if name_or_path:
            config.name_or_path = str(name_or_path)
        return cls(**(vars(config) | values))
