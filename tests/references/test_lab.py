"""lessons/lab.py: parts that are switched off, and patching, as hooks on transformers do them."""

import pytest
import torch
import transformers
from torch.nn.functional import pad

from lessons import lab
from lessons.grammar import draw, encode, load, log_probabilities, read_pairs
from lessons.patching import patching, verb_pairs
from lessons.switches import PADDING, hooked, switches
from training.files.hub import MODELS, OWN_MODEL

IDS = torch.randint(5, 8000, (3, 7), generator=torch.Generator().manual_seed(0))  # (B, L)
ATOL = 1e-5


@pytest.fixture(scope="module")
def both():
    """Our books with its vocabulary, and the same weights in transformers."""
    folder = MODELS / OWN_MODEL
    theirs = transformers.BertForMaskedLM.from_pretrained(folder, dtype=torch.float32)
    return *load(OWN_MODEL), theirs.eval()


def their_hooks(bert, name):
    """The part of this name switched off in transformers."""
    if name == "the mask":
        return []  # the test attends to padding itself
    if name == "the positions":
        zero = bert.embeddings.position_embeddings
        return [zero.register_forward_hook(lambda module, given, result: 0 * result)]
    if "head" in name:
        layer, head = int(name[6]) - 1, int(name[-1]) - 1
        kept = torch.ones(4, 64).index_fill(0, torch.tensor(head), 0.0).flatten()  # (D,)
        dense = bert.encoder.layer[layer].attention.output.dense
        return [dense.register_forward_pre_hook(lambda module, given: (given[0] * kept,))]
    modules = [bert.encoder.layer[int(name[6]) - 1]] if name.startswith("layer") else []
    for layer in [] if modules else bert.encoder.layer:
        modules += [layer.attention.output.LayerNorm, layer.output.LayerNorm]
    return [m.register_forward_hook(lambda module, given, result: given[0]) for m in modules]


@pytest.mark.parametrize("kind", ["heads", "layers", "parts"])
@torch.no_grad()
def test_switching_off_does_what_it_does_in_transformers(both, kind):
    ours, tokenizer, theirs = both
    mask, length, effects = tokenizer.mask_token_id, IDS.size(1), []
    whole = log_probabilities(ours, IDS, mask)
    for name, switch in switches(ours)[kind].items():
        with switch():
            cost = whole - log_probabilities(ours, IDS, mask)  # (B, L - 2)
        for i in range(1, length - 1):
            ids = IDS.index_fill(1, torch.tensor(i), mask)
            logs = theirs(ids).logits[:, i].log_softmax(-1)
            with hooked(*their_hooks(theirs.bert, name)):
                longer = pad(ids, (0, PADDING * (name == "the mask")))
                logs = logs - theirs(longer).logits[:, i].log_softmax(-1)  # (B, V)
            expected = logs.gather(1, IDS[:, i : i + 1])[:, 0]
            torch.testing.assert_close(cost[:, i - 1], expected, atol=ATOL, rtol=ATOL)
        effects.append(cost.abs().max())
    assert min(effects) > 1e-2  # every part does something
    assert torch.equal(log_probabilities(ours, IDS, mask), whole)  # and all is as it was


@torch.no_grad()
def test_patching_brings_back_what_it_does_in_transformers(both):
    ours, tokenizer, theirs = both
    chosen = [pair for pair in read_pairs(None) if lab.ABOUT in pair.paradigm]
    pairs = verb_pairs(tokenizer, encode(tokenizer, draw(chosen, 6, 0), 100))
    verb, other = pairs.verbs.T
    rows = torch.arange(len(verb))

    def difference(ids):
        logits = theirs(ids).logits[:, pairs.verb]
        return logits[rows, verb] - logits[rows, other]

    states = theirs(pairs.good, output_hidden_states=True).hidden_states[1:]
    back, whole = patching(ours, pairs)
    good, bad = difference(pairs.good), difference(pairs.bad)
    torch.testing.assert_close(torch.from_numpy(whole).float(), good - bad, atol=ATOL, rtol=ATOL)
    for i, j in ((i, j) for i in range(len(back)) for j in range(4)):
        where = torch.arange(len(back))[:, None] == i  # (L, 1)
        layer = theirs.bert.encoder.layer[j]
        put = layer.register_forward_hook(lambda m, x, out, s=states[j], w=where: out.where(~w, s))
        with hooked(put):
            expected = difference(pairs.bad) - bad
        torch.testing.assert_close(
            torch.from_numpy(back[i, j]).float(), expected, atol=ATOL, rtol=ATOL
        )
    assert abs(back).max() > 1
