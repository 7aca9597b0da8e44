"""Your own tests: one function for each of tasks 1.1 to 1.5 (Task 1.8, docs/testing.md).

Each gets an implementation of a task's function, right or wrong. It raises AssertionError if that
is wrong, and returns otherwise. Then ask how many bugs your tests catch:

    python sanity_check.py --hunt --task 1.1

``attention`` and the other functions are methods: their first argument is the module they belong
to. Make it yourself, as small as you like. What you import from bert.py is the implementation
under test, too. The hunt of a function stops after two minutes; --limit changes that.
"""

import torch  # noqa: F401

from bert import BertLayer, BertModel, BertSelfAttention  # noqa: F401
from config import BertConfig


def small(**settings) -> BertConfig:
    """The shape of a small BERT: two heads, each three numbers wide; no dropout unless asked."""
    shape = {
        "vocab_size": 20,
        "hidden_size": 6,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 10,
        "max_position_embeddings": 8,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    return BertConfig(**{**shape, **settings})


def test_attention(attention) -> None:
    """``attention(module, key, query, value, attention_mask)`` of a BertSelfAttention."""
    # module = BertSelfAttention(small())
    # key, query, value = torch.randn(3, 1, 2, 4, 3)              three of (B, H, L, W)
    # context = attention(module, key, query, value, torch.zeros(1, 1, 1, 4))
    raise NotImplementedError("Task 1.8 · test_attention")


def test_add_norm(add_norm) -> None:
    """``add_norm(layer, input, output, dense_layer, dropout, ln_layer)`` of a BertLayer."""
    raise NotImplementedError("Task 1.8 · test_add_norm")


def test_layer(forward) -> None:
    """``forward(layer, hidden_states, attention_mask)`` of a BertLayer."""
    raise NotImplementedError("Task 1.8 · test_layer")


def test_embed(embed) -> None:
    """``embed(model, input_ids)`` of a BertModel; token_type_ids are a third argument."""
    raise NotImplementedError("Task 1.8 · test_embed")


def test_adamw(AdamW) -> None:
    """The class: ``AdamW([parameter], lr=0.1)``; then set ``parameter.grad`` and call ``step``."""
    raise NotImplementedError("Task 1.8 · test_adamw")
