"""Correct functions, put together from lines that students write, are never false positives."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_true_sentences import examine

HOLD = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def text(*lines: str) -> str:
    return "\n".join(lines) + "\n"


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


@HOLD
@given(st.tuples(SCORES, MASKED, SHARES, DROPPED, MERGED))
def test_attention(pieces):
    head = "def attention(self, key, query, value, attention_mask):"
    source = text(head, *(f"    {piece}" for piece in pieces))
    assert examine("bert.attention", attention=source) == []


STEP = """@torch.no_grad()
def step(self, closure=None):
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    for group in self.param_groups:
        for p in group["params"]:
            if p.grad is None:
                continue
            grad = {grad}
            if grad.is_sparse:
                raise RuntimeError("sparse gradients are not supported")
            state = self.state[p]
            if len(state) == 0:
                state["step"] = {zero}
                state["exp_avg"] = torch.zeros_like({like})
                state["exp_avg_sq"] = torch.zeros_like({like})
            {count}
            t, (beta1, beta2) = {steps}, group["betas"]
            {moments}
            alpha = group["lr"]
            if group["correct_bias"]:
                {correction}
            {update}
    return loss
"""
MOMENTS = one_of(
    'm, v = state["exp_avg"], state["exp_avg_sq"]\n'
    "            m.mul_(beta1).add_(grad, alpha=1 - beta1)\n"
    "            v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)",
    'm = state["exp_avg"] = beta1 * state["exp_avg"] + (1 - beta1) * grad\n'
    '            v = state["exp_avg_sq"] = beta2 * state["exp_avg_sq"] + (1 - beta2) * grad**2',
    'm = state["exp_avg"].lerp_(grad, 1 - beta1)\n'
    '            v = state["exp_avg_sq"].mul_(beta2).add_(grad.square() * (1 - beta2))',
)
UPDATE = one_of(
    'p.addcdiv_(m, v.sqrt() + group["eps"], value=-float(alpha))\n'
    '            p.add_(p, alpha=-group["lr"] * group["weight_decay"])',
    'p.data = p.data - alpha * m / (v.sqrt() + group["eps"])\n'
    '            p.data -= group["lr"] * group["weight_decay"] * p.data',
    'p.mul_(1 - group["lr"] * group["weight_decay"])\n'
    '            p.sub_(alpha * m / torch.add(v**0.5, group["eps"]))',
)


@HOLD
@given(
    grad=one_of("p.grad", "p.grad.data", "p.grad.detach().clone()"),
    zero=one_of("0", "torch.zeros(1)", "torch.tensor(0.0)"),
    like=one_of("p", "p.data", "p, memory_format=torch.preserve_format"),
    count=one_of('state["step"] += 1', 'state["step"] = state["step"] + 1'),
    steps=one_of('state["step"]', 'float(state["step"])'),
    moments=MOMENTS,
    correction=one_of(
        "alpha = alpha * (1 - beta2**t) ** 0.5 / (1 - beta1**t)",
        "alpha *= math.sqrt(1 - beta2**t) / (1 - beta1**t)",
    ),
    update=UPDATE,
)
def test_step(**pieces):
    assert examine("optimizer.step", step=STEP.format(**pieces)) == []
