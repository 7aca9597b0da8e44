"""Thorough tests of tasks 1.1 to 1.5: a solution to Task 1.8, and what its grading is tried with.

Each function is compared with an oracle that computes the formula another way, in float64, on
sizes of which no two are the same; then come properties: gradients, padding, dropout, inputs that
stay as they are. They ask for nothing that a correct solution may do otherwise.
"""

from __future__ import annotations

import copy
import functools
import math

import torch
from torch import nn

from bert import BertLayer, BertModel, BertSelfAttention
from config import BertConfig

BATCH, HEADS, LENGTH, WIDTH, WIDE = 2, 3, 5, 6, 7
SIZE = HEADS * WIDTH
RATE = 0.25  # of dropout


def small(**settings) -> BertConfig:
    """The shape of a small BERT, with dropout: only training mode may apply it."""
    shape = {
        "vocab_size": 20,
        "hidden_size": SIZE,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "intermediate_size": WIDE,
        "max_position_embeddings": 9,
        "hidden_dropout_prob": RATE,
        "attention_probs_dropout_prob": RATE,
    }
    return BertConfig(**{**shape, **settings})


def stirred(module: nn.Module) -> nn.Module:
    """A module in float64 and evaluation mode with weights of which none is 0 or 1."""
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-1, 1)
    return module


def noise(*shape: int) -> torch.Tensor:
    """Random numbers that take gradients."""
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def close(got, wanted, tolerance: float = 1e-4) -> None:
    """Both are tensors of the same shape and numbers, but for what float32 inside may cost."""
    assert isinstance(got, torch.Tensor), "a tensor is returned"
    assert got.shape == wanted.shape, (got.shape, wanted.shape)
    assert torch.allclose(got.to(wanted), wanted, rtol=tolerance, atol=tolerance), "other numbers"


def same_gradients(got, wanted, sources) -> None:
    """The gradients of two results with respect to the same tensors."""
    weights = torch.randn_like(wanted)
    assert got.requires_grad, "no gradient arrives"
    pairs = [
        torch.autograd.grad(result, sources, weights, retain_graph=True, allow_unused=True)
        for result in (got, wanted)
    ]
    for gradient, right in zip(*pairs, strict=True):
        assert (gradient is None) == (right is None), "a gradient is missing, or too many"
        if right is not None:
            close(gradient, right)


def unchanged(call, *tensors: torch.Tensor):
    """The result of a call, after which its tensors are as before."""
    handed = [tensor.clone() for tensor in tensors]
    before = [tensor.detach().clone() for tensor in handed]
    result = call(*handed)
    for tensor, copied in zip(handed, before, strict=True):
        assert torch.equal(tensor, copied), "an input is changed in place"
    return result


def layer_norm(x: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
    """The formula of layer normalisation, written out."""
    centred = x - x.mean(dim=-1, keepdim=True)
    spread = centred.square().mean(dim=-1, keepdim=True)
    return centred / (spread + norm.eps).sqrt() * norm.weight + norm.bias


def attended(key, query, value, mask) -> torch.Tensor:
    """Attention with loops over sentences, heads and queries."""
    batch, heads, length, width = query.shape
    rows = []
    for b in range(batch):
        for i in range(length):
            for h in range(heads):
                scores = [query[b, h, i].dot(k) / math.sqrt(width) for k in key[b, h]]
                weights = torch.stack(scores) + mask[b, 0, 0]
                weights = (weights - weights.max()).exp()
                rows.append((weights / weights.sum()) @ value[b, h])
    return torch.cat(rows).view(batch, length, heads * width)


def padding_mask(*lengths: int) -> torch.Tensor:
    """(B, 1, 1, L): 0 for a token, a large negative number for padding."""
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.where(real, 0.0, -1e30).double()[:, None, None]


def linear(x: torch.Tensor, layer: nn.Linear) -> torch.Tensor:
    """A linear layer as a product and a sum."""
    return x @ layer.weight.T + layer.bias


def whole_layer(layer: BertLayer, x, mask, attention=1.0, first=1.0, second=1.0) -> torch.Tensor:
    """A layer by its formulas; 0.0 in the place of a dropout: all is dropped there."""
    own, batch, length = layer.self_attention, x.shape[0], x.shape[1]
    heads = [
        linear(x, part).view(batch, length, HEADS, WIDTH).transpose(1, 2)
        for part in (own.key, own.query, own.value)
    ]
    context = attended(*heads, mask) * attention
    x = layer_norm(x + first * linear(context, layer.attention_dense), layer.attention_layer_norm)
    wide = linear(x, layer.interm_dense)
    wide = wide * 0.5 * (1 + torch.erf(wide / math.sqrt(2)))  # the exact GELU
    return layer_norm(x + second * linear(wide, layer.out_dense), layer.out_layer_norm)


def embedded(model: BertModel, ids: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
    """The three embeddings, token by token, summed and normalised."""
    rows = [
        model.word_embedding.weight[i]
        + model.pos_embedding.weight[place]
        + model.tk_type_embedding.weight[kind]
        for row, row_kinds in zip(ids.tolist(), kinds.tolist(), strict=True)
        for place, (i, kind) in enumerate(zip(row, row_kinds, strict=True))
    ]
    return layer_norm(torch.stack(rows).view(*ids.shape, SIZE), model.embed_layer_norm)


def constant_linear(inside: int, outside: int) -> nn.Linear:
    """A linear layer whose output is 1, whatever comes in."""
    layer = nn.Linear(inside, outside).double()
    nn.init.zeros_(layer.weight)
    nn.init.ones_(layer.bias)
    return layer


def close_to_rate(zero: torch.Tensor) -> None:
    """So many numbers are dropped as they should be."""
    assert abs(zero.double().mean().item() - RATE) < 0.05, "another rate of dropout"


def dropped(output: torch.Tensor, kept: torch.Tensor, rate: float) -> None:
    """Of every number: 0, or what it is without dropout over 1 - rate; so many are 0."""
    zero = output == 0
    close(torch.where(zero, 0.0, output), torch.where(zero, 0.0, kept / (1 - rate)))
    close_to_rate(zero)


def test_attention(attention) -> None:
    """Values, gradients, padding, the order of arguments; dropout acts on the probabilities."""
    module = BertSelfAttention(small()).double().eval()
    sources = [noise(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3)]
    for mask in (padding_mask(LENGTH, 2), torch.zeros(BATCH, 1, 1, LENGTH, dtype=torch.float64)):
        got = unchanged(functools.partial(attention, module), *sources, mask)
        wanted = attended(*sources, mask)
        close(got, wanted)
        same_gradients(got, wanted, sources)

    many = 48  # the values are an identity matrix, so the result is the attention weights
    module = BertSelfAttention(small(hidden_size=2 * many, num_attention_heads=2)).double()
    key, query = (noise(2, 2, many, many) for _ in range(2))
    value = torch.eye(many, dtype=torch.float64).expand(2, 2, many, many)
    mask = padding_mask(many, many)
    kept = attention(module.eval(), key, query, value, mask)
    dropped(attention(module.train(), key, query, value, mask), kept, RATE)
    got = attention(module, key, query, torch.ones_like(value), mask).view(2, many, 2, many)
    close(got, got[..., :1].expand_as(got))  # dropped weights change all numbers of a head alike


def test_add_norm(add_norm) -> None:
    """Values and gradients with other modules than its own; dropout acts on the dense output."""
    layer = stirred(BertLayer(small()))
    for wide in (SIZE, WIDE):
        dense = stirred(nn.Linear(wide, SIZE))
        norm = stirred(nn.LayerNorm(SIZE, eps=1e-2))
        drop = nn.Dropout(1.0).eval()
        call = functools.partial(add_norm, layer)
        sources = [noise(BATCH, LENGTH, SIZE), noise(BATCH, LENGTH, wide)]
        got = unchanged(lambda *x: call(*x, dense, drop, norm), *sources)  # noqa: B023
        wanted = layer_norm(sources[0] + linear(sources[1], dense), norm)
        close(got, wanted)
        same_gradients(got, wanted, [*sources, *dense.parameters(), *norm.parameters()])
        layer.train()  # now all of the dense layer's output is dropped
        close(call(*sources, dense, drop.train(), norm), layer_norm(sources[0], norm))
        layer.eval()

    dense, norm = constant_linear(WIDE, SIZE), nn.LayerNorm(SIZE).double()
    zeros, ones = torch.zeros(40, 20, SIZE).double(), torch.ones(40, 20, WIDE).double()
    got = add_norm(layer.train(), zeros, ones, dense, nn.Dropout(RATE), norm)
    close_to_rate(got < 0)


def test_layer(forward) -> None:
    """Values and gradients; where the mask goes; which modules are used where, dropout's too."""
    layer = stirred(BertLayer(small()))
    hidden, mask = noise(BATCH, LENGTH, SIZE), padding_mask(LENGTH, 2)
    got = unchanged(functools.partial(forward, layer), hidden, mask)
    wanted = whole_layer(layer, hidden, mask)
    close(got, wanted)
    used = [p for name, p in layer.named_parameters() if name != "self_attention.key.bias"]
    same_gradients(got, wanted, [hidden, *used])  # of that bias it is 0, up to rounding

    layer.train()
    drops = [layer.self_attention.dropout, layer.attention_dropout, layer.out_dropout]
    for place in range(len(drops)):  # all is dropped in one place, nothing elsewhere
        keep = [1.0, 1.0, 1.0]
        keep[place] = 0.0
        for drop, kept in zip(drops, keep, strict=True):
            drop.p = 1 - kept
        close(forward(layer, hidden, mask), whole_layer(layer, hidden, mask, *keep))
    for drop in drops:
        drop.p = 0.0
    close(forward(layer, hidden, mask), wanted)
    for which in range(2):
        dropped_once(forward, which)


def dropped_once(forward, which: int) -> None:
    """Dropout acts on a dense layer's output, once, and not on its input.

    All inputs of the dense layer are alike, and so are its outputs. The norms only take the mean
    off, so that kept numbers and dropped ones differ by a known amount in each row.

    Args:
        which: 0 for the dense layer after attention, 1 for the last one.
    """
    layer = BertLayer(small(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)).double()
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    for norm in (layer.attention_layer_norm, layer.out_layer_norm):
        norm.eps = 1e6
        nn.init.constant_(norm.weight, 1e3)
    for part in (layer.self_attention.value, layer.interm_dense):
        nn.init.ones_(part.bias)  # of what attention returns, and of what GELU gets
    nn.init.ones_((layer.attention_dense, layer.out_dense)[which].weight)
    (layer.attention_dropout, layer.out_dropout)[which].p = RATE
    size = (SIZE, WIDE * torch.erf(torch.tensor(0.5).sqrt()).add(1).item() / 2)[which]
    hidden = torch.zeros(30, LENGTH, SIZE).double()
    got = forward(layer.train(), hidden, torch.zeros(30, 1, 1, LENGTH).double())
    spread = got.amax(dim=-1) - got.amin(dim=-1)
    spread = spread[spread > 0.1 * size]  # in the others all is kept, or dropped
    close(spread, torch.full_like(spread, size / (1 - RATE)), 1e-2)


def test_embed(embed) -> None:
    """Values for several lengths, with segments and without; gradients; dropout after the norm."""
    model = stirred(BertModel(small()))
    ids = torch.tensor([[1, 5, 7, 7, 3], [2, 9, 4, 0, 0]])
    kinds = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
    for length in (5, 1, 3):
        part = ids[:, :length]
        wanted = embedded(model, part, torch.zeros_like(part))
        close(unchanged(functools.partial(embed, model), part), wanted)
        close(embed(model, part, kinds[:, :length]), embedded(model, part, kinds[:, :length]))
    got, wanted = embed(model, ids), embedded(model, ids, torch.zeros_like(ids))
    real = (ids != 0).double()[..., None]  # no gradient of padding reaches its row of the table
    tables = [model.word_embedding, model.pos_embedding, model.tk_type_embedding]
    parameters = [part.weight for part in (*tables, model.embed_layer_norm)]
    parameters.append(model.embed_layer_norm.bias)
    same_gradients(got * real, wanted * real, parameters)
    longest = torch.arange(9)[None]
    close(embed(model, longest), embedded(model, longest, longest * 0))
    many = torch.randint(20, (60, 9))
    kept = embedded(model, many, many * 0)
    dropped(embed(model.train(), many), kept, RATE)


# ---------------------------------------------------------------------------------------------
# The optimizer

PLAIN = {"lr": 0.05, "betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.0, "correct_bias": True}
GROUPS = [
    PLAIN,
    {**PLAIN, "weight_decay": 0.5},
    {**PLAIN, "betas": (0.5, 0.8), "eps": 1e-2, "weight_decay": 0.1},
    {**PLAIN, "lr": 0.02, "correct_bias": False, "weight_decay": 0.5},
]
SHAPES = [(2, 3), (4,), (), (1,)]  # of each group, which has two parameters of it
STEPS, HALVED, RESUMED = 9, 4, 6  # lr is halved before one step, the state is loaded before another


def by_the_book(theta, gradients, settings, decay_first: bool) -> torch.Tensor:
    """A parameter after each step of AdamW's formulas: (steps, numbers)."""
    m, v, t, path = 0.0, 0.0, 0, []
    (beta1, beta2), decay = settings["betas"], settings["weight_decay"]
    for step, grad in enumerate(gradients):
        if grad is not None:
            lr, t = settings["lr"] * (0.5 if step >= HALVED else 1.0), t + 1
            m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
            size = lr * math.sqrt(1 - beta2**t) / (1 - beta1**t)
            update = (size if settings["correct_bias"] else lr) * m / (v.sqrt() + settings["eps"])
            theta = theta - update - lr * decay * (theta if decay_first else theta - update)
        path.append(theta.flatten())
    return torch.stack(path)


def walk(AdamW, thetas, gradients, groups) -> list[torch.Tensor]:
    """The same of an optimizer: all parameters, one after the other."""
    parameters = [nn.Parameter(theta.clone()) for theta in thetas]
    each = len(parameters) // len(groups)

    def made() -> torch.optim.Optimizer:
        parts = [parameters[each * i : each * i + each] for i in range(len(groups))]
        pairs = zip(parts, groups, strict=True)
        return AdamW([{"params": part, **group} for part, group in pairs])

    optimizer, paths = made(), [[] for _ in parameters]
    for step in range(STEPS):
        if step == RESUMED:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = made()
            optimizer.load_state_dict(state)
        for group in optimizer.param_groups:
            group["lr"] *= 0.5 if step == HALVED else 1.0
        for parameter, own in zip(parameters, gradients, strict=True):
            parameter.grad = None if own[step] is None else own[step].clone()
        assert optimizer.step() is None, "step returns what a closure returns"
        for parameter, own, path in zip(parameters, gradients, paths, strict=True):
            assert own[step] is None or torch.equal(parameter.grad, own[step]), "p.grad is changed"
            path.append(parameter.detach().clone().flatten())
    return [torch.stack(path) for path in paths]


def test_adamw(AdamW) -> None:
    """Trajectories with all settings and events, in either order of the decay; a closure."""
    for scale in (1.0, 1e-3):  # gradients far larger than eps, and not
        thetas = [torch.randn(shape).double() for shape in SHAPES for _ in range(2)]
        gradients = [[scale * torch.randn_like(t) for _ in range(STEPS)] for t in thetas]
        for parameter, step in ((1, 0), (2, 3), (2, 4), (5, 7)):
            gradients[parameter][step] = None
        paths = walk(AdamW, thetas, gradients, GROUPS)
        settings = [group for group in GROUPS for _ in range(2)]
        triples = list(zip(thetas, gradients, settings, strict=True))
        books = [[by_the_book(*triple, first) for triple in triples] for first in (False, True)]
        assert any(
            all(torch.allclose(*pair, atol=1e-5) for pair in zip(paths, book, strict=True))
            for book in books
        ), "another path than that of the formula"

    parameter, losses = nn.Parameter(torch.tensor([3.0])), []
    optimizer = AdamW([parameter], lr=0.1)

    def closure() -> torch.Tensor:
        losses.append(parameter.square().sum())
        losses[-1].backward()
        return losses[-1]

    assert optimizer.step(closure) is losses[0]
    assert len(losses) == 1
    assert abs(parameter.item() - 2.9) < 1e-3
    parameter.grad = torch.tensor([1.0]).to_sparse()
    refused = False
    try:
        optimizer.step()
    except RuntimeError as error:
        refused = not isinstance(error, NotImplementedError)  # which torch's operations raise
    assert refused, "sparse gradients are not refused"
