"""BERT's encoder, by hand (Devlin et al. 2019; the layer is Vaswani et al. 2017's).

Shapes: B batch, L tokens, D hidden size, H heads, W = D / H width of a head.
Four functions are the student's:
``BertSelfAttention.attention``, ``BertLayer.add_norm``, ``BertLayer.forward``, ``BertModel.embed``.
"""

from __future__ import annotations

### BEGIN SOLUTION bert.imports
import math

### END SOLUTION bert.imports
import torch
from torch import Tensor, nn

### BEGIN SOLUTION bert.functional
from torch.nn import functional as F

### END SOLUTION bert.functional
from base_bert import BertPreTrainedModel
from config import BertConfig
from utils import get_extended_attention_mask


class BertSelfAttention(nn.Module):
    """Multi-head scaled dot-product self-attention (Vaswani et al. 2017, section 3.2.2)."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.num_attention_heads = config.num_attention_heads  # H
        self.attention_head_size = config.hidden_size // config.num_attention_heads  # W
        self.all_head_size = self.num_attention_heads * self.attention_head_size  # D
        self.query = nn.Linear(config.hidden_size, self.all_head_size)
        self.key = nn.Linear(config.hidden_size, self.all_head_size)
        self.value = nn.Linear(config.hidden_size, self.all_head_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def transform(self, x: Tensor, linear_layer: nn.Linear) -> Tensor:
        """Project and split into heads: (B, L, D) → (B, H, L, W).

        Figure: docs/figures/projections.svg
        """
        batch, length = x.shape[:2]
        projected = linear_layer(x)  # (B, L, D)
        heads = projected.view(
            batch, length, self.num_attention_heads, self.attention_head_size
        )  # (B, L, H, W)
        return heads.transpose(1, 2)  # (B, H, L, W)

    def attention(
        self, key: Tensor, query: Tensor, value: Tensor, attention_mask: Tensor
    ) -> Tensor:
        """Attend: softmax(Q Kᵀ / √W + mask) V for every head (Vaswani et al. 2017, equation 1).

        Mind the order of the arguments. Dropout acts on the probabilities, after the softmax.
        Figures: docs/figures/attention.svg, docs/figures/heads.svg

        Args:
            key, query, value: (B, H, L, W) each.
            attention_mask: (B, 1, 1, L), 0 for a token, a large negative number for padding.

        Returns:
            The heads' outputs side by side, (B, L, D).
        """
        ### BEGIN SOLUTION bert.attention
        ### STUB: # scores for every query and key, scaled, plus the mask; a softmax over the keys;
        ### STUB: # self.dropout; the weighted sum of the values; the heads put side by side again.
        scores = query @ key.transpose(-1, -2)  # (B, H, L, W) @ (B, H, W, L) → (B, H, L, L)
        scores = scores / math.sqrt(query.size(-1))
        scores = scores + attention_mask  # (B, H, L, L) + (B, 1, 1, L)
        probabilities = self.dropout(F.softmax(scores, dim=-1))  # (B, H, L, L), rows sum to 1
        context = probabilities @ value  # (B, H, L, L) @ (B, H, L, W) → (B, H, L, W)
        return context.transpose(1, 2).flatten(2)  # (B, L, H, W) → (B, L, D)
        ### END SOLUTION bert.attention

    def forward(self, hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, L, D) and an additive mask (B, 1, 1, L) → (B, L, D)."""
        key = self.transform(hidden_states, self.key)  # (B, H, L, W)
        value = self.transform(hidden_states, self.value)  # (B, H, L, W)
        query = self.transform(hidden_states, self.query)  # (B, H, L, W)
        return self.attention(key, query, value, attention_mask)  # (B, L, D)


class BertLayer(nn.Module):
    """One encoder layer: self-attention and a feed-forward network, each with add & norm.

    Figure, of its activation function: docs/figures/gelu.svg
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        # Multi-head attention and its add & norm
        self.self_attention = BertSelfAttention(config)
        self.attention_dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.attention_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.attention_dropout = nn.Dropout(config.hidden_dropout_prob)
        # Feed-forward network
        self.interm_dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.interm_af = nn.GELU()  # the exact one, with erf
        # Its second projection and its add & norm
        self.out_dense = nn.Linear(config.intermediate_size, config.hidden_size)
        self.out_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.out_dropout = nn.Dropout(config.hidden_dropout_prob)

    def add_norm(
        self,
        input: Tensor,
        output: Tensor,
        dense_layer: nn.Linear,
        dropout: nn.Dropout,
        ln_layer: nn.LayerNorm,
    ) -> Tensor:
        """LayerNorm(x + Dropout(Dense(Sublayer(x)))) (Vaswani et al. 2017, sections 3.1, 5.4).

        Figure: docs/figures/add_norm.svg

        Args:
            input: what went into the sublayer, (B, L, D).
            output: what came out of it, (B, L, D) or (B, L, intermediate size).

        Returns:
            (B, L, D)
        """
        ### BEGIN SOLUTION bert.add_norm
        ### STUB: # dense_layer and dropout act on the output only; ln_layer on the sum.
        return ln_layer(input + dropout(dense_layer(output)))
        ### END SOLUTION bert.add_norm

    def forward(self, hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
        """One layer (Vaswani et al. 2017, figure 1 left): (B, L, D), (B, 1, 1, L) → (B, L, D)."""
        ### BEGIN SOLUTION bert.layer
        ### STUB: # 1. self-attention    2. add & norm    3. feed-forward: interm_dense, interm_af
        ### STUB: # 4. add & norm, with out_dense as its dense layer
        attended = self.self_attention(hidden_states, attention_mask)  # (B, L, D)
        attended = self.add_norm(
            hidden_states,
            attended,
            self.attention_dense,
            self.attention_dropout,
            self.attention_layer_norm,
        )  # (B, L, D)
        expanded = self.interm_af(self.interm_dense(attended))  # (B, L, intermediate size)
        return self.add_norm(
            attended, expanded, self.out_dense, self.out_dropout, self.out_layer_norm
        )  # (B, L, D)
        ### END SOLUTION bert.layer


class BertModel(BertPreTrainedModel):
    """Embeddings, a stack of layers and the pooler (Devlin et al. 2019, section 3, figure 2).

    Figure: docs/figures/model.svg
    """

    def __init__(self, config: BertConfig):
        super().__init__(config)
        # Embeddings of tokens, positions and segments
        self.word_embedding = nn.Embedding(
            config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id
        )
        self.pos_embedding = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.tk_type_embedding = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.embed_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.embed_dropout = nn.Dropout(config.hidden_dropout_prob)
        self.register_buffer(
            "position_ids", torch.arange(config.max_position_embeddings).unsqueeze(0)
        )  # (1, max positions)
        # The encoder
        self.bert_layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        # The pooler: a dense layer and a tanh on [CLS]
        self.pooler_dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.pooler_af = nn.Tanh()
        self.init_weights()

    def embed(self, input_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """Dropout(LayerNorm(word + position + segment)) (Devlin et al. 2019, figure 2).

        Figure: docs/figures/embeddings.svg

        Args:
            input_ids: (B, L), L at most config.max_position_embeddings.
            token_type_ids: (B, L) of 0 (first sentence) and 1 (second); all 0 if not given.

        Returns:
            (B, L, D)
        """
        ### BEGIN SOLUTION bert.embed
        ### STUB: # three embeddings, summed: of the tokens, of positions 0 … L-1 (position_ids), of
        ### STUB: # segments (all 0 unless token_type_ids is given); then the norm, then dropout.
        length = input_ids.size(1)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)  # (B, L)
        words = self.word_embedding(input_ids)  # (B, L, D)
        positions = self.pos_embedding(self.position_ids[:, :length])  # (1, L, D)
        segments = self.tk_type_embedding(token_type_ids)  # (B, L, D)
        return self.embed_dropout(self.embed_layer_norm(words + segments + positions))
        ### END SOLUTION bert.embed

    def encode(self, hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
        """All layers in turn: (B, L, D) and a mask (B, L) of 1 and 0 → (B, L, D)."""
        additive_mask = get_extended_attention_mask(attention_mask, self.dtype)  # (B, 1, 1, L)
        for layer in self.bert_layers:
            hidden_states = layer(hidden_states, additive_mask)  # (B, L, D)
        return hidden_states

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Encode a batch.

        Args:
            input_ids: (B, L) ids of tokens, [CLS] first.
            attention_mask: (B, L), 1 for a token, 0 for padding.
            token_type_ids: (B, L) segments of sentence pairs, optional.

        Returns:
            last_hidden_state (B, L, D), and pooler_output (B, D) = tanh(pooler_dense([CLS])).
        """
        if token_type_ids is None:
            embedded = self.embed(input_ids)  # (B, L, D)
        else:
            embedded = self.embed(input_ids, token_type_ids)  # (B, L, D)
        encoded = self.encode(embedded, attention_mask)  # (B, L, D)
        pooled = self.pooler_af(self.pooler_dense(encoded[:, 0]))  # (B, D)
        return {"last_hidden_state": encoded, "pooler_output": pooled}
