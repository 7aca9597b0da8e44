"""Has torch's own attention compute Task 1.1.

Not prevented: right numbers are right.
Defended by: library_calls.py: staff are told the file and the line.
"""

BASE = "solution"
TASKS = {"1.1": 20.0, "1.2": 10.0, "1.3": 15.0, "1.4": 15.0}
FLAGS = ("bert.py:", "scaled_dot_product_attention")

CODE = {
    "bert.py": """
def attention(self, key, query, value, attention_mask):
    p = self.dropout.p if self.training else 0.0
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, attention_mask, p)
    return out.transpose(1, 2).flatten(2)
BertSelfAttention.attention = attention
"""
}
