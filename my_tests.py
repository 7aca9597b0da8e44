import torch

from bert import BertSelfAttention
from config import BertConfig


def test_attention(attention):
    torch.manual_seed(0)
    module = BertSelfAttention(BertConfig(hidden_size=6, num_attention_heads=2)).eval()
    key, query, value = torch.randn(3, 1, 2, 4, 3)
    mask = torch.tensor([0,0,0,-1e9])[None,None,None]
    context = attention(module, key, query, value, mask)
    p = torch.softmax(query @ key.mT / 3**.5 + mask, -1)
    assert torch.allclose(context,  (p @ value).transpose(1,2).flatten(2))

def test_adamw(AdamW): pass
def test_embed(embed): pass
def test_layer(embed): pass
def test_add_norm(embed): pass
