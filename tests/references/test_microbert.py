"""The BERT of plain Python computes what bert.py and optimizer.py compute, in float64."""

import random

import torch
from torch.nn import functional as F

from bert import BertModel
from config import BertConfig
from lessons import microbert
from optimizer import AdamW

IDS, WORD = [3, 1, 0, 1, 5, 2], 6  # [MASK] is 0; a word that is there twice adds its gradients


def tensor(rows, like):
    return torch.tensor(rows, dtype=torch.float64).view_as(like)


def both_models():
    """The same random weights twice: microbert's, and in bert.py with a bias for the decoder."""
    draw = random.Random(1)
    small = microbert.Bert(words=9, positions=8, width=12, layers=2, heads=3, draw=draw)
    for weight in small.weights.values():
        weight.rows = [[number + draw.gauss(0, 0.3) for number in row] for row in weight.rows]
    large = BertModel(
        BertConfig(vocab_size=9, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
                   intermediate_size=48, max_position_embeddings=8,
                   pad_token_id=8)
    )  # fmt: skip
    large = large.double().eval()
    large.tk_type_embedding.weight.data.zero_()  # sentences have one segment
    large.register_parameter("bias", torch.nn.Parameter(torch.zeros(9, dtype=torch.float64)))
    theirs = dict(large.named_parameters()) | {"word_embedding.bias": large.bias}
    pairs = {name: (weight, theirs[name]) for name, weight in small.weights.items()}
    for ours, parameter in pairs.values():
        parameter.data.copy_(tensor(ours.rows, parameter))
    return small, large, list(pairs.values())


def losses(small, large):
    """The loss of one masked word in both, after backward."""
    states = small.hidden(IDS)
    loss = small.expects(IDS).T.pick([WORD]).by_row(microbert.surprise)
    loss.backward()
    hidden = large(torch.tensor([IDS]), torch.ones(1, len(IDS)))["last_hidden_state"][0]  # (L, D)
    logits = hidden @ large.word_embedding.weight.T + large.bias  # (L, V)
    expected = F.cross_entropy(logits[IDS.index(0)], torch.tensor(WORD))
    expected.backward()
    ours = tensor(small.linear(states, "word_embedding").rows, logits)
    torch.testing.assert_close(ours, logits, rtol=0, atol=1e-10)
    microbert.TAPE.clear()
    return loss.rows[0][0], expected.item()


def test_losses_gradients_and_steps_of_adamw_are_those_of_bert_py_and_optimizer_py():
    small, large, pairs = both_models()
    optimizer, state = AdamW([parameter for _, parameter in pairs], lr=0.01, weight_decay=0.1), {}
    for step in (1, 2, 3):
        ours, theirs = losses(small, large)
        assert abs(ours - theirs) < 1e-10
        for weight, parameter in pairs:
            grad = tensor(weight.grad, parameter)
            torch.testing.assert_close(grad, parameter.grad, rtol=0, atol=1e-10)
        optimizer.step()
        optimizer.zero_grad()
        microbert.adamw([weight for weight, _ in pairs], state, step, lr=0.01, decay=0.1)
        for weight, parameter in pairs:
            values = tensor(weight.rows, parameter)
            torch.testing.assert_close(values, parameter.data, rtol=0, atol=1e-10)
