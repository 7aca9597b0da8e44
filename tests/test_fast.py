"""What is read is what runs; what --fast puts in its place computes the same.

Its step of AdamW is in references/test_optimizer.py.
"""

import functools
from collections import Counter

import pytest
import torch
from factories import tiny_config
from running import draw_nothing
from torch import nn

import classifier
from bert import BertModel, BertSelfAttention
from optimizer import AdamW
from training.fast import replace_by_kernels
from training.fast.methods import VALUES

IDS = torch.randint(1, 100, (3, 9), generator=torch.Generator().manual_seed(1))

# ---------------------------------------------------------------------------------------------
# Which code runs


@pytest.fixture
def calls(monkeypatch) -> Counter:
    """Counts the calls of what one reads, by the method's name and whether the model trains."""
    counts = Counter()

    def watch(owner: type, name: str) -> None:
        method = getattr(owner, name)

        @functools.wraps(method)
        def watched(self, *inputs):
            counts[name, getattr(self, "training", True)] += 1
            return method(self, *inputs)

        monkeypatch.setattr(owner, name, watched)

    watch(AdamW, "step")
    watch(BertSelfAttention, "attention")
    watch(nn.Dropout, "forward")
    watch(BertModel, "embed")
    return counts


@pytest.mark.parametrize("is_fast", [False, True])
def test_what_is_read_is_what_runs(is_fast, sst_line, calls, tmp_path, monkeypatch, capsys):
    """In training, in the evaluation on dev, and in the test of the checkpoint."""
    monkeypatch.chdir(tmp_path)
    draw_nothing(monkeypatch)
    line = [*sst_line, "--epochs", "1", *["--fast"] * is_fast]
    (args,) = classifier.plan(classifier.get_args(line))
    classifier.train(args)
    assert calls["embed", True] == 7
    assert calls["attention", True] == 2 * 7  # on a CPU the formula trains
    assert calls["step", True] == (0 if is_fast else 7)
    assert (calls["forward", True] == 0) == is_fast
    on_dev = calls["embed", False]
    classifier.test(args)
    passes = calls["embed", False]
    assert passes > on_dev > 0
    assert calls["attention", False] == (0 if is_fast else 2 * passes)
    assert (calls["forward", False] >= 7 * passes) != is_fast  # BERT's, without the heads'
    said = [text for text in capsys.readouterr().out.splitlines() if text.startswith("--fast: ")]
    assert len(said) == (2 if is_fast else 0)


# ---------------------------------------------------------------------------------------------
# Attention, and the last layer


def mix(layer_norm: nn.Module, given: tuple) -> tuple:
    """Add to each position the mean of all, as PALs add what they attend to."""
    return (given[0] + given[0].mean(dim=1, keepdim=True),)


@pytest.mark.parametrize("is_hooked", [False, True])
@pytest.mark.parametrize("names", ["pooler_output", "pooler_output last_hidden_state"])
def test_the_kernel_and_a_last_layer_for_one_position_compute_the_whole_layers(names, is_hooked):
    mask, results = torch.ones_like(IDS), []
    mask[1, 5:] = 0
    for is_fast in (False, True):
        torch.manual_seed(0)
        model = BertModel(tiny_config(initializer_range=0.3)).double().eval()
        if is_fast:
            replace_by_kernels(model)
        if is_hooked:
            model.bert_layers[-1].out_layer_norm.register_forward_pre_hook(mix)
        output = model(IDS, mask, token_type_ids=IDS % 2)
        values = {name: output[name] for name in names.split()}
        sum(value.sin().sum() for value in values.values()).backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        assert gradients["bert_layers.0.self_attention.query.weight"].abs().max() > 1e-2
        results.append(values | gradients)
        assert all(output[name] is value for name, value in values.items())  # computed once
        with pytest.raises(KeyError, match="hidden"):
            output["hidden"]
    torch.testing.assert_close(results[1], results[0], rtol=1e-10, atol=1e-12)


# ---------------------------------------------------------------------------------------------
# Dropout by sixteen bits: the same probability, scale and gradient as PyTorch's


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9, 1e-4])
def test_the_fraction_that_is_dropped_is_p_and_the_rest_is_scaled_as_by_pytorch(p):
    """Of each of the four numbers that share a draw, within five standard deviations."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Dropout(p), nn.Linear(1, 1))
    replace_by_kernels(module)
    x = torch.randn(400_000, dtype=torch.float64, requires_grad=True)
    result = module[0](x)
    result.backward(torch.full_like(result, 3.0))
    is_dropped = (result == 0).double().view(-1, 4)
    deviation = (p * (1 - p) / len(is_dropped)) ** 0.5
    assert (is_dropped.mean(dim=0) - p).abs().max() < 5 * deviation + 1 / VALUES
    correlations = torch.corrcoef(is_dropped.T) - torch.eye(4)  # neighbours are independent
    assert correlations.abs().max() < 5 / len(is_dropped) ** 0.5
    scales = (result != 0).double() / (1 - round(p * VALUES) / VALUES)  # p as sixteen bits hold it
    torch.testing.assert_close(result, x * scales, rtol=1e-12, atol=0)
    torch.testing.assert_close(x.grad, 3.0 * scales, rtol=1e-12, atol=0)
