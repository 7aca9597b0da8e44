"""Returns booleans, complex numbers, sparse, quantized, meta and half tensors.

Defended by: worker.py sends numbers only; judge.py compares kinds.
"""

CODE = {
    "bert.py": """
def attention(self, *_):
    return torch.ones(3, 9, 32, dtype=torch.bool)
def add_norm(self, input, *_):
    return torch.ones(input.shape, dtype=torch.complex64)
def layer(self, hidden_states, *_):
    return torch.ones(hidden_states.shape).to_sparse()
def embed(self, input_ids, *_):
    return torch.empty(*input_ids.shape, 32, device="meta")
BertSelfAttention.attention, BertLayer.add_norm = attention, add_norm
BertLayer.forward, BertModel.embed = layer, embed
""",
}
