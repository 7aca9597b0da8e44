"""A correct attention, put together from lines that students write, is never a false positive."""

from hypothesis import given, settings
from hypothesis import strategies as st
from test_true_sentences import examine


def one_of(*pieces: str) -> st.SearchStrategy[str]:
    return st.sampled_from(pieces)


# Scores, (B, H, L, L), with their scale
SCORES = one_of(
    "scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(self.attention_head_size)",
    'scores = torch.einsum("bhqw,bhkw->bhqk", query, key) * key.size(-1) ** -0.5',
    "scores = (query / key.shape[-1] ** 0.5) @ key.permute(0, 1, 3, 2)",
    "scores = torch.matmul(query, key.mT).div_(math.sqrt(query.size(3)))",
    "b, h, l, w = key.size()\n    flat = query.reshape(b * h, l, w).bmm("
    "key.reshape(b * h, l, w).transpose(1, 2))\n    scores = flat.view(b, h, l, l) / w**0.5",
    "scores = (query.unsqueeze(3) * key.unsqueeze(2)).sum(-1) / torch.tensor(key.size(-1)).sqrt()",
    "scores = query.float().to(key.dtype) @ key.mT / math.sqrt(key.shape[-1])",
)
MASKED = one_of(
    "scores = scores + attention_mask",
    "scores += attention_mask",
    "scores = scores.add(attention_mask.expand_as(scores))",
    "scores = scores.masked_fill(attention_mask < 0, torch.finfo(scores.dtype).min)",
    'scores = torch.where(attention_mask == 0, scores, float("-inf"))',
)
SHARES = one_of(
    "share = F.softmax(scores, dim=-1)",
    "share = nn.Softmax(dim=3)(scores)",
    "share = torch.softmax(scores, -1).type_as(value)",
    "scores = (scores - scores.amax(-1, keepdim=True)).exp()\n"
    "    share = scores / scores.sum(-1, keepdim=True)",
    "share = scores.log_softmax(-1).exp()",
)
DROPPED = one_of(
    "share = self.dropout(share)",
    "share = F.dropout(share, self.dropout.p, self.training)",
    "share = F.dropout(input=share, p=self.dropout.p, training=self.training, inplace=True)",
    "share = self.dropout(share) if self.training else share",
)
MERGED = one_of(
    "return (share @ value).transpose(1, 2).flatten(2)",
    "x = torch.matmul(share, value).permute(0, 2, 1, 3).contiguous()\n"
    "    return x.view(x.size(0), x.size(1), -1)",
    'return torch.einsum("bhqk,bhkw->bqhw", share, value).reshape(*value[:, 0].shape[:2], -1)',
    "return torch.cat([(share @ value)[:, i] for i in range(share.size(1))], dim=-1)",
    "return torch.cat((share @ value).unbind(1), -1)",
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.tuples(SCORES, MASKED, SHARES, DROPPED, MERGED))
def test_attention(pieces):
    head = "def attention(self, key, query, value, attention_mask):"
    source = "\n".join([head, *(f"    {piece}" for piece in pieces), ""])
    assert examine("bert.attention", attention=source) == []
