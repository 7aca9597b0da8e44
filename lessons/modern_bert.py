"""ModernBERT's encoder, by hand (Warner et al. 2024), to be read next to bert.py.

    python -m lessons.modern_bert                                        shapes of a random model
    python -m lessons.modern_bert --model DIR --text "It was a [MASK]."  words for each [MASK]

Shapes as in bert.py: B batch, L tokens, D hidden size, H heads, W = D / H width of a head, and
I intermediate size, V vocabulary. ``BertSelfAttention.attention`` is bert.py's: the formula of 2017
has not changed. What has: positions are rotations of queries and keys, two thirds of the layers see
a window only, the feed-forward network has a gate, norms come before sublayers, biases are gone.
DIR is a checkpoint as transformers' ModernBertForMaskedLM saves it; to read its tokenizer.json,
``pip install tokenizers``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from base_bert import BertPreTrainedModel, load_tensors
from bert import BertSelfAttention
from lessons.modern_config import LOCAL, ModernBertConfig, read_tokenizer
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.folder import check_surplus
from training.files.hub import find_model

MASK, TOP = "[MASK]", 5  # words shown for each
# transformers' name → ours; a tensor of several names holds them one below the other
LAYER_NAMES = {
    "attn_norm.weight": ("attention_layer_norm.weight",),  # not in layer 0
    "attn.Wqkv.weight": tuple(f"self_attention.{n}.weight" for n in ("query", "key", "value")),
    "attn.Wo.weight": ("attention_dense.weight",),
    "mlp_norm.weight": ("feed_forward_layer_norm.weight",),
    "mlp.Wi.weight": ("feed_forward.interm_dense.weight",),
    "mlp.Wo.weight": ("feed_forward.out_dense.weight",),
}
MODEL_NAMES = {
    "model.embeddings.tok_embeddings.weight": ("word_embedding.weight",),
    "model.embeddings.norm.weight": ("embed_layer_norm.weight",),
    "model.final_norm.weight": ("final_layer_norm.weight",),
    "head.dense.weight": ("transform_dense.weight",),
    "head.norm.weight": ("transform_norm.weight",),
    "decoder.bias": ("decoder_bias",),  # the decoder's weight is the word embedding's
}


def apply_rotary(x: Tensor, theta: float) -> Tensor:
    """Turn queries or keys by angles that grow with their position (Su et al. 2021, eq. 34).

    Number i of a head's first half and number i of its second half are a point in the plane; the
    one of token m is turned by the angle m · θ^(−2i/W); i and m count from 0. The score of two
    vectors then depends on the offset n − m of their tokens, not on where they stand.
    Figure: docs/figures/rotary.svg

    Args:
        x: (B, H, L, W), W even.
        theta: θ; local and global layers have different ones.

    Returns:
        (B, H, L, W) of x's type; angles, sines and cosines are best of float32 at least.
    """
    ### BEGIN SOLUTION modern.rotary
    ### STUB: # frequencies (W / 2,); angles (L, W / 2) of positions times frequencies; the halves
    ### STUB: # of x; each point turned: (a cos − b sin, a sin + b cos); the halves put together.
    length, width = x.shape[-2:]
    exact = torch.promote_types(x.dtype, torch.float32)
    exponents = torch.arange(0, width, 2, device=x.device, dtype=exact) / width  # (W / 2,)
    positions = torch.arange(length, device=x.device, dtype=exact)  # (L,)
    angles = positions[:, None] * (1 / theta**exponents)  # (L, 1) · (W / 2,) → (L, W / 2)
    cos, sin = angles.cos(), angles.sin()
    first, second = x.chunk(2, dim=-1)  # (B, H, L, W / 2) each
    turned = torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
    return turned.to(x.dtype)  # (B, H, L, W)
    ### END SOLUTION modern.rotary


def local_mask(length: int, window: int) -> Tensor:
    """Which tokens see which in a local layer (Beltagy et al. 2020, section 3.1).

    A token sees itself and ``window // 2`` tokens on each side.
    Figure: docs/figures/local_window.svg

    Returns:
        (L, L) of bool, True where the token of the row sees the token of the column.
    """
    ### BEGIN SOLUTION modern.local_mask
    ### STUB: # the distance of every two positions, (L, L); compared with half the window.
    positions = torch.arange(length)  # (L,)
    distances = (positions[:, None] - positions).abs()  # (L, 1) − (L,) → (L, L)
    return distances <= window // 2
    ### END SOLUTION modern.local_mask


class GeGLU(nn.Module):
    """The feed-forward network with a gate: (GELU(x W) ⊙ x V) W₂ (Shazeer 2020, equation 6)."""

    def __init__(self, config: ModernBertConfig):
        super().__init__()
        size = config.intermediate_size
        self.interm_dense = nn.Linear(config.hidden_size, 2 * size, bias=False)  # W and V in one
        self.interm_af = nn.GELU()  # the exact one, with erf
        self.out_dropout = nn.Dropout(config.mlp_dropout)
        self.out_dense = nn.Linear(size, config.hidden_size, bias=False)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """(B, L, D) → (B, L, D); dropout acts on the product, before the last projection.

        The first half of what interm_dense gives goes through GELU, the second half is the gate.
        """
        ### BEGIN SOLUTION modern.geglu
        ### STUB: # interm_dense; its two halves; interm_af on one; their product; out_dropout;
        ### STUB: # out_dense.
        value, gate = self.interm_dense(hidden_states).chunk(2, dim=-1)  # (B, L, I) each
        return self.out_dense(self.out_dropout(self.interm_af(value) * gate))  # (B, L, D)
        ### END SOLUTION modern.geglu


class ModernBertSelfAttention(BertSelfAttention):
    """bert.py's self-attention without biases, on turned queries and keys."""

    def __init__(self, config: ModernBertConfig, theta: float):
        super().__init__(config)
        self.theta = theta
        for linear in (self.query, self.key, self.value):
            linear.bias = None

    def forward(self, hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, L, D) and an additive mask (B, 1, 1, L), or (B, 1, L, L) → (B, L, D)."""
        key = apply_rotary(self.transform(hidden_states, self.key), self.theta)  # (B, H, L, W)
        query = apply_rotary(self.transform(hidden_states, self.query), self.theta)  # (B, H, L, W)
        value = self.transform(hidden_states, self.value)  # (B, H, L, W), not turned
        return self.attention(key, query, value, attention_mask)  # (B, L, D)


class ModernBertLayer(nn.Module):
    """Attention and GeGLU, each with a norm before it and a sum after it (Xiong et al. 2020).

    Figure: docs/figures/norm_places.svg
    """

    def __init__(self, config: ModernBertConfig, index: int):
        super().__init__()
        self.is_local = config.layer_types[index] == LOCAL
        theta = config.local_rope_theta if self.is_local else config.global_rope_theta
        # The first layer's input comes from the embeddings' norm.
        self.attention_layer_norm = norm(config) if index else nn.Identity()
        self.self_attention = ModernBertSelfAttention(config, theta)
        self.attention_dense = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.attention_dropout = nn.Dropout(config.attention_dropout)
        self.feed_forward_layer_norm = norm(config)
        self.feed_forward = GeGLU(config)

    def forward(self, hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
        """Twice x ← x + Sublayer(LayerNorm(x)); shapes as in the attention."""
        attended = self.self_attention(self.attention_layer_norm(hidden_states), attention_mask)
        hidden_states = hidden_states + self.attention_dropout(self.attention_dense(attended))
        return hidden_states + self.feed_forward(self.feed_forward_layer_norm(hidden_states))


def norm(config: ModernBertConfig) -> nn.LayerNorm:
    """A LayerNorm that scales and does not shift."""
    return nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False)


class ModernBertModel(BertPreTrainedModel):
    """Embeddings without positions, layers, a final norm, and a head for masked words."""

    config_class = ModernBertConfig

    def __init__(self, config: ModernBertConfig):
        super().__init__(config)
        self.word_embedding = nn.Embedding(
            config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id
        )
        self.embed_layer_norm = norm(config)
        self.embed_dropout = nn.Dropout(config.embedding_dropout)
        self.bert_layers = nn.ModuleList(
            ModernBertLayer(config, index) for index in range(config.num_hidden_layers)
        )
        self.final_layer_norm = norm(config)  # the last layer ends in a sum
        self.transform_dense = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.transform_norm = norm(config)
        self.decoder_bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.init_weights()

    def embed(self, input_ids: Tensor) -> Tensor:
        """Dropout(LayerNorm(word)): (B, L) → (B, L, D)."""
        most = self.config.max_position_embeddings
        if input_ids.size(1) > most:
            what = (
                f"the text has {input_ids.size(1)} tokens, more than the model's {most} positions"
            )
            raise InputError(f"{what}; give a shorter one")
        return self.embed_dropout(self.embed_layer_norm(self.word_embedding(input_ids)))

    def encode(self, hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
        """All layers in turn: (B, L, D) and a mask (B, L) of 1 and 0 → (B, L, D)."""
        real = attention_mask[:, None, None, :] > 0  # (B, 1, 1, L)
        near = local_mask(hidden_states.size(1), self.config.local_attention)  # (L, L)
        near = real & near.to(real.device)  # (B, 1, L, L)
        lowest = torch.finfo(hidden_states.dtype).min
        masks = [(~seen).to(hidden_states) * lowest for seen in (real, near)]  # global, local
        for layer in self.bert_layers:
            hidden_states = layer(hidden_states, masks[layer.is_local])  # (B, L, D)
        return self.final_layer_norm(hidden_states)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        """(B, L) ids and a mask of 1 and 0 → last_hidden_state (B, L, D), logits (B, L, V)."""
        encoded = self.encode(self.embed(input_ids), attention_mask)  # (B, L, D)
        transformed = self.transform_norm(F.gelu(self.transform_dense(encoded)))  # (B, L, D)
        logits = F.linear(transformed, self.word_embedding.weight, self.decoder_bias)  # (B, L, V)
        return {"last_hidden_state": encoded, "logits": logits}

    def load_hf_weights(self, tensors: dict[str, Tensor], source: str) -> None:
        """Copy tensors under transformers' names into this model, checking every shape."""
        known = dict(weight_names(len(self.bert_layers)))
        check_surplus(source, tensors, known, "model", "head")
        parts: dict[str, Tensor] = {}
        for theirs, names in known.items():
            if theirs in tensors:
                parts |= zip(names, tensors[theirs].chunk(len(names)), strict=False)
        load_tensors(self, parts, {name: name for name in self.state_dict()}, source)


def weight_names(num_hidden_layers: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """All pairs (transformers' name, our names) of a model with that many layers."""
    yield from MODEL_NAMES.items()
    for i in range(num_hidden_layers):
        for theirs, names in LAYER_NAMES.items():
            if i or theirs != "attn_norm.weight":
                yield f"model.layers.{i}.{theirs}", tuple(f"bert_layers.{i}.{n}" for n in names)


@torch.no_grad()
def fill_masks(model: ModernBertModel, folder: Path, text: str) -> Iterator[str]:
    """The most probable tokens for each [MASK] of a text, a line each; InputError without one."""
    tokenizer = read_tokenizer(folder / "tokenizer.json", model.config.vocab_size)
    encoding = tokenizer.encode(text)
    positions = [i for i, token in enumerate(encoding.tokens) if token == MASK]
    if not positions:
        raise InputError(f'"{text[:40]}" has no {MASK}; write one to fill')
    ids = torch.tensor([encoding.ids])  # (1, L)
    logits = model(ids, torch.ones_like(ids))["logits"][0, positions]  # (M, V)
    for chances, tokens in zip(*logits.softmax(dim=-1).topk(min(TOP, logits.size(1))), strict=True):
        words = zip(tokens.tolist(), chances.tolist(), strict=True)
        yield "  ".join(f"{tokenizer.decode([word])!r} {chance:.1%}" for word, chance in words)


def print_shapes(model: ModernBertModel, length: int) -> None:
    """Print each module's output shape for a random text of that many tokens."""
    for name, module in model.named_modules():
        if not [*module.children()]:
            line = f"{name:42} {type(module).__name__:9}"
            module.register_forward_hook(lambda _, __, x, s=line: print(s, (*x.shape,)))
    ids = torch.randint(model.config.vocab_size, (1, length))  # (1, L)
    model(ids, torch.ones_like(ids))


def main() -> None:
    """Fill masks with a checkpoint, or show the shapes of a random model."""
    parser = OneLineParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", help="folder of a ModernBertForMaskedLM")
    parser.add_argument("--text", default=f"The captain looked at the {MASK}.", help="with masks")
    args = parser.parse_args()
    if args.model is None:
        sizes = {"vocab_size": 99, "hidden_size": 24, "num_hidden_layers": 4, "pad_token_id": 0}
        sizes |= {"num_attention_heads": 4, "intermediate_size": 36, "local_attention": 4}
        return print_shapes(ModernBertModel(ModernBertConfig(**sizes)), length=10)
    model = ModernBertModel.from_pretrained(args.model)
    print(*fill_masks(model, find_model(args.model), args.text), sep="\n")


if __name__ == "__main__":
    run_script(main)
