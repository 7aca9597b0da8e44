"""From BERT to ModernBERT in steps: bert.py's encoder with any of ModernBERT's changes.

Each of SWITCHES is one change; rotary also drops segments, geglu its own biases. With none of them
a StepsModel computes what bert.py does, with all of them what lessons/modern_bert.py does;
rotations, the window and the gate are that file's.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bert import BertLayer, BertModel, BertSelfAttention
from config import BertConfig
from lessons.modern_bert import GeGLU, ModernBertSelfAttention, local_mask
from pretraining.model import PretrainingModel
from utils import get_extended_attention_mask

SWITCHES = (
    "pre-norm",  # x + Sublayer(LayerNorm(x)), and a LayerNorm at the end (Xiong et al. 2020)
    "no-bias",  # no biases but the decoder's
    "rotary",  # positions turn queries and keys; embeddings are of words alone (Su et al. 2021)
    "geglu",  # a feed-forward network with a gate, of as many parameters (Shazeer 2020)
    "local",  # two layers of three see a window only (Beltagy et al. 2020)
)
MULTIPLE = 8  # the gate's width is rounded to a multiple of it, which kernels prefer


def architecture(text: str) -> str:
    """An argparse type: switches, in the order of SWITCHES; modern is all of them, bert none."""
    names = {"bert": [], "modern": [*SWITCHES]}.get(text, text.split(","))
    for name in names:
        if name not in SWITCHES:
            known = f"bert, modern, or some of {','.join(SWITCHES)}"
            raise argparse.ArgumentTypeError(f"{name!r} is not a switch; give {known}")
    return ",".join(name for name in SWITCHES if name in names) or "bert"


@dataclass(init=False)
class StepsConfig(BertConfig):
    """BERT's hyper-parameters, the switches, and the sizes that they need."""

    architecture: str = "bert"
    local_attention: int = 128  # the window: half of it to the left, half of it to the right
    global_attn_every_n_layers: int = 3  # with "local": layers 0, 3, 6 … see the whole text
    global_rope_theta: int = 10_000  # 160,000 in ModernBERT, whose texts have up to 8,192 tokens
    local_rope_theta: int = 10_000

    def __init__(self, **values: Any):
        super().__init__(**values)
        self.architecture = architecture(str(self.architecture))
        self.mlp_dropout = self.hidden_dropout_prob  # GeGLU's name

    def has(self, switch: str) -> bool:
        """Whether the architecture has that change."""
        return switch in self.architecture.split(",")


class RotarySelfAttention(ModernBertSelfAttention):
    """bert.py's self-attention, biases included, on turned queries and keys."""

    def __init__(self, config: StepsConfig, theta: float):
        BertSelfAttention.__init__(self, config)  # ModernBERT's would take the biases off
        self.theta = theta


class StepsLayer(BertLayer):
    """bert.py's layer with the switches of its configuration."""

    def __init__(self, config: StepsConfig, index: int):
        super().__init__(config)
        self.is_pre_norm = config.has("pre-norm")
        self.is_local = config.has("local") and index % config.global_attn_every_n_layers > 0
        if self.is_pre_norm and index == 0:  # its input comes from the embeddings' norm
            self.attention_layer_norm = nn.Identity()
        if config.has("rotary"):
            theta = config.local_rope_theta if self.is_local else config.global_rope_theta
            self.self_attention = RotarySelfAttention(config, theta)
        self.feed_forward = None
        if config.has("geglu"):  # three matrices of 2/3 of the width are as large as two
            width = max(1, round(config.intermediate_size * 2 / 3 / MULTIPLE)) * MULTIPLE
            self.feed_forward = GeGLU(replace(config, intermediate_size=width))
            del self.interm_dense, self.interm_af, self.out_dense, self.out_dropout

    def forward(self, hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
        """One layer: (B, L, D) and a mask (B, 1, 1, L), or (B, 1, L, L) → (B, L, D)."""
        x = hidden_states
        if self.is_pre_norm:
            x = x + self.attend(self.attention_layer_norm(x), attention_mask)
            return x + self.feed(self.out_layer_norm(x))
        x = self.attention_layer_norm(x + self.attend(x, attention_mask))
        return self.out_layer_norm(x + self.feed(x))

    def attend(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """What the first sublayer adds: (B, L, D) → (B, L, D)."""
        return self.attention_dropout(self.attention_dense(self.self_attention(x, attention_mask)))

    def feed(self, x: Tensor) -> Tensor:
        """What the second sublayer adds: (B, L, D) → (B, L, D)."""
        if self.feed_forward:
            return self.feed_forward(x)
        return self.out_dropout(self.out_dense(self.interm_af(self.interm_dense(x))))


class StepsEncoder(BertModel):
    """bert.py's encoder with the switches of its configuration."""

    def __init__(self, config: StepsConfig):
        super().__init__(config)
        layers = range(config.num_hidden_layers)
        self.bert_layers = nn.ModuleList(StepsLayer(config, index) for index in layers)
        self.final_layer_norm = nn.Identity()
        if config.has("pre-norm"):  # the last layer ends in a sum
            self.final_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        if config.has("rotary"):
            del self.pos_embedding, self.tk_type_embedding

    def embed(self, input_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """As bert.py's; with rotary positions Dropout(LayerNorm(word)): (B, L) → (B, L, D)."""
        if not self.config.has("rotary"):
            return super().embed(input_ids, token_type_ids)
        return self.embed_dropout(self.embed_layer_norm(self.word_embedding(input_ids)))

    def encode(self, hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
        """All layers in turn: (B, L, D) and a mask (B, L) of 1 and 0 → (B, L, D)."""
        hides_padding = get_extended_attention_mask(attention_mask, self.dtype)  # (B, 1, 1, L)
        hides_far = self.far_mask(attention_mask) if self.config.has("local") else None
        for layer in self.bert_layers:
            mask = hides_far if layer.is_local else hides_padding
            hidden_states = layer(hidden_states, mask)  # (B, L, D)
        return self.final_layer_norm(hidden_states)

    def far_mask(self, attention_mask: Tensor) -> Tensor:
        """What a local layer adds to scores, in their type: a mask (B, L) → (B, 1, L, L)."""
        kind = attention_mask.device.type
        is_half = torch.is_autocast_enabled(kind)
        dtype = torch.get_autocast_dtype(kind) if is_half else self.dtype
        near = local_mask(attention_mask.size(1), self.config.local_attention)  # (L, L)
        seen = (attention_mask[:, None, None, :] > 0) & near.to(attention_mask.device)
        return (~seen).to(dtype) * torch.finfo(dtype).min


class StepsModel(PretrainingModel):
    """A StepsEncoder with the heads of pre-training; its folders are not those of a BERT."""

    encoder = StepsEncoder

    def __init__(self, config: StepsConfig, objective: str = "nsp"):
        super().__init__(config, objective)
        if config.has("no-bias"):
            for module in self.modules():
                if isinstance(module, (nn.Linear, nn.LayerNorm)):
                    module.bias = None

    def to_hf_weights(self) -> dict[str, Tensor]:
        """All tensors on the CPU, under our names: Hugging Face has none for them."""
        return {name: tensor.cpu().contiguous() for name, tensor in self.state_dict().items()}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors, which no BERT loads."""
        kind = f"bert with {self.config.architecture}"
        super().save_pretrained(folder, model_type=kind, architectures=[type(self).__name__])
