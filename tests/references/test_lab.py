"""lessons/lab.py: parts that are switched off, and patching, as hooks on transformers do them."""

from collections import ChainMap

import numpy as np
import pytest
import torch
import transformers

from lessons.grammar import encode, load, log_probabilities, read_pairs
from lessons.lab import ABOUT, draw, judge
from lessons.switches import PADDING, hooked, patching, switches, verb_pairs
from training.files.hub import MODELS, OWN_MODEL

IDS = torch.randint(5, 8000, (3, 7), generator=torch.Generator().manual_seed(0))  # (B, L)
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture(scope="module")
def both():
    theirs = transformers.BertForMaskedLM.from_pretrained(MODELS / OWN_MODEL, dtype=torch.float32)
    return *load(OWN_MODEL), theirs.eval()


def their_hooks(bert, name):
    """In transformers, what switches this part off; for the mask, the test attends to padding."""
    if name == "the positions":
        table = bert.embeddings.position_embeddings
        return [table.register_forward_hook(lambda module, given, result: 0 * result)]
    layers = [bert.encoder.layer[int(name[6]) - 1]] if name[6].isdigit() else bert.encoder.layer
    if "head" in name:
        off, dense = torch.arange(256) // 64 == int(name[-1]) - 1, layers[0].attention.output.dense
        return [dense.register_forward_pre_hook(lambda _, x: (x[0].masked_fill(off, 0),))]
    norms = [n for x in layers for n in (x.attention.output.LayerNorm, x.output.LayerNorm)]
    chosen = {"the mask": [], "the norms": norms}.get(name, layers)
    return [m.register_forward_hook(lambda module, given, result: given[0]) for m in chosen]


def their_log_probabilities(model, mask, padding=0):
    """Of each token, masked in turn, (B, L - 2); padding behind is not masked out."""
    columns = []
    for i in range(1, IDS.size(1) - 1):
        ids = torch.nn.functional.pad(IDS.index_fill(1, torch.tensor(i), mask), (0, padding))
        columns.append(model(ids).logits[:, i].log_softmax(-1).gather(1, IDS[:, [i]]))  # (B, 1)
    return torch.cat(columns, dim=1)


@pytest.mark.parametrize(
    ("count", "interval"), [(9, "fewer than 10: no interval"), (10, "+0.000, +0.000")]
)
def test_a_verdict_that_is_not_resolved_names_the_guess(count, interval):
    verdict = judge("", {"a": np.ones(count), "b": np.ones(count)}, np.ones(count), "b").verdict
    assert verdict == f"Not resolved: the lead of a over b is +0.000 [{interval}] (you said b)"


@torch.no_grad()
def test_switching_off_costs_what_it_costs_in_transformers(both):
    ours, tokenizer, theirs = both
    mask = tokenizer.mask_token_id
    whole, their_whole = log_probabilities(ours, IDS, mask), their_log_probabilities(theirs, mask)
    for name, switch in ChainMap(*switches(ours).values()).items():
        with switch():
            cost = whole - log_probabilities(ours, IDS, mask)  # (B, L - 2)
        assert torch.equal(log_probabilities(ours, IDS, mask), whole), name  # it is on again
        with hooked(*their_hooks(theirs.bert, name)):
            off = their_log_probabilities(theirs, mask, PADDING * (name == "the mask"))
        torch.testing.assert_close(cost, their_whole - off, **CLOSE)
        assert cost.abs().max() > 1e-2, name


@torch.no_grad()
def test_patching_brings_back_what_it_does_in_transformers(both):
    ours, tokenizer, theirs = both
    chosen = draw([pair for pair in read_pairs(None) if ABOUT in pair.paradigm], 6, 0)
    pairs = verb_pairs(tokenizer, encode(tokenizer, chosen, 100))
    bad = theirs(pairs.bad).logits[:, pairs.verb]  # (N, V)
    states = theirs(pairs.good, output_hidden_states=True).hidden_states[1:]
    back = torch.from_numpy(patching(ours, pairs)[0]).float()  # (L, layers, N)
    for i, j in np.ndindex(back.shape[:2]):

        def put(module, given, result, i=i, state=states[j]):
            return result.index_copy(1, torch.tensor([i]), state[:, [i]])

        with hooked(theirs.bert.encoder.layer[j].register_forward_hook(put)):
            gain = (theirs(pairs.bad).logits[:, pairs.verb] - bad).gather(1, pairs.verbs)  # (N, 2)
        torch.testing.assert_close(back[i, j], gain[:, 0] - gain[:, 1], **CLOSE)
    assert abs(back).max() > 1
