"""Calls the attention of transformers, which only the course's own makers need.

Defended by: worker.py hides packages that requirements.txt does not ask for.
"""

BASE = "solution"
TASKS = {"1.2": 10.0, "1.3": 15.0, "1.4": 15.0}

CODE = {
    "bert.py": """
def attention(self, key, query, value, attention_mask):
    from transformers.models.bert.modeling_bert import eager_attention_forward
    self.scaling = key.shape[-1] ** -0.5
    out, _ = eager_attention_forward(
        self, query, key, value, attention_mask, self.scaling, self.dropout.p * self.training)
    return out.reshape(*out.shape[:2], -1)
BertSelfAttention.attention = attention
"""
}
