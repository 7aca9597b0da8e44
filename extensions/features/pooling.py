"""One vector for a sentence out of its tokens' vectors (Reimers & Gurevych 2019, section 3).

    pooler   tanh(W h_[CLS] + b)     cls   h_[CLS]     mean   Σ h_i / L

In the model:

    vector = pool(self.bert(ids, mask), mask, "mean")  # (B, D)
"""

from __future__ import annotations

from torch import Tensor

KINDS = ("pooler", "cls", "mean")


def pool(output: dict[str, Tensor], mask: Tensor, kind: str) -> Tensor:
    """(B, D) from what BertModel returns.

    Args:
        output: last_hidden_state (B, L, D) and pooler_output (B, D).
        mask: (B, L), 1 for a token, 0 for padding, which never counts.
        kind: 'pooler': the pooler's output; 'cls': [CLS] as it is; 'mean': of all tokens.
    """
    if kind == "pooler":
        return output["pooler_output"]
    hidden = output["last_hidden_state"]  # (B, L, D)
    if kind == "cls":
        return hidden[:, 0]
    real = mask[:, :, None].bool()  # (B, L, 1)
    return hidden.masked_fill(~real, 0.0).sum(dim=1) / real.sum(dim=1)
