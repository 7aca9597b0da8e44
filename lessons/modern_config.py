"""The shape of a ModernBERT (Warner et al. 2024) and its tokenizer, read from a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config import BertConfig
from training.files.errors import InputError, first_line, values_of
from training.files.folder import require
from training.files.texts import read_json

LOCAL, GLOBAL = "sliding_attention", "full_attention"  # transformers' words for kinds of layers
THIS_MODEL = {  # what config.json may not say otherwise
    "model_type": "modernbert",
    "hidden_activation": "gelu",
    "classifier_activation": "gelu",
    "tie_word_embeddings": True,
    "quantization_config": None,
} | dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), False)


@dataclass(init=False)
class ModernBertConfig(BertConfig):
    """Hyper-parameters (Warner et al. 2024, table 4); the defaults are ModernBERT-base's."""

    vocab_size: int = 50368
    num_hidden_layers: int = 22
    intermediate_size: int = 1152
    max_position_embeddings: int = 8192
    attention_dropout: float = 0.0
    embedding_dropout: float = 0.0
    mlp_dropout: float = 0.0
    norm_eps: float = 1e-5
    pad_token_id: int = 50283
    local_attention: int = 128  # the window: half of it to the left, half of it to the right
    global_attn_every_n_layers: int = 3  # layers 0, 3, 6 … see the whole text
    global_rope_theta: int = 160_000
    local_rope_theta: int = 10_000

    def __init__(self, **values):
        super().__init__(**values)
        self.attention_probs_dropout_prob = self.attention_dropout  # bert.py's name
        width = self.hidden_size // self.num_attention_heads
        if width % 2:
            raise ValueError(f"a head has {width} numbers, and rotary positions turn pairs of them")
        every = self.global_attn_every_n_layers
        kinds = [LOCAL if i % every else GLOBAL for i in range(self.num_hidden_layers)]
        self.layer_types = values.get("layer_types") or kinds
        listed = isinstance(self.layer_types, list) and len(self.layer_types) == len(kinds)
        if not listed or any(kind not in (LOCAL, GLOBAL) for kind in self.layer_types):
            raise ValueError(f"layer_types must be {LOCAL} or {GLOBAL} for each of {len(kinds)}")

    @classmethod
    def from_json(cls, path: str | Path) -> ModernBertConfig:
        """Read transformers' ``config.json``; InputError if it is not one of a ModernBERT."""
        with values_of(f"{path} is not the configuration of a ModernBERT", "take another model"):
            values = {"model_type": None} | read_json(path)
            require(values, THIS_MODEL)
            for kind, rope in (values.get("rope_parameters") or {}).items():
                if rope.get("rope_type", "default") != "default":
                    raise ValueError(f"its rope_type is {rope['rope_type']!r}, not 'default'")
                values[f"{'local' if kind == LOCAL else 'global'}_rope_theta"] = rope["rope_theta"]
            for name in [name for name in values if name.endswith("rope_theta")]:
                if isinstance(values[name], float) and values[name].is_integer():  # as 10000.0
                    values[name] = int(values[name])
            return cls(**values)


def read_tokenizer(path: Path, vocab_size: int) -> Any:
    """The tokenizer in a file; InputError if it is not that of a model with so many tokens."""
    try:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
    except ImportError as error:
        raise InputError(f"{path} needs a package ({error}); pip install tokenizers") from None
    except Exception as error:  # tokenizers has no class of its own for it
        why = first_line(error)
        raise InputError(f"{path} cannot be read ({why}); save it with the model") from None
    if tokenizer.get_vocab_size() > vocab_size:
        size = f"{tokenizer.get_vocab_size()} tokens, the model {vocab_size}"
        raise InputError(f"{path} has {size}; take the tokenizer of this model")
    tokenizer.no_padding()  # what was saved with it, transformers sets again at each call
    tokenizer.no_truncation()
    return tokenizer
