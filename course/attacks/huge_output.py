"""Returns tensors too large to send: stretched, and really large.

Defended by: worker.py and protocol.py: a largest number of numbers; sandbox.py: a largest answer.
"""

CODE = {
    "bert.py": """
def attention(self, *_):
    return torch.zeros(1).expand(2**16, 2**16)
def add_norm(self, *_):
    return torch.zeros(2**26)
def layer(self, *_):
    return torch.zeros(900_000).expand(1, 1, 900_000)
def embed(self, *_):
    return torch.zeros(2**14, 2**14, dtype=torch.uint8)
BertSelfAttention.attention, BertLayer.add_norm = attention, add_norm
BertLayer.forward, BertModel.embed = layer, embed
""",
}
