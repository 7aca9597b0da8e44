"""Dropout by sixteen bits is dropout: the same probability, scale and gradient as PyTorch's."""

import copy

import pytest
import torch
from support import tiny_config
from torch import nn

from bert import BertModel
from training.fast.dropout import VALUES, dropout_by_bits, use_short_draws


def dropped_by_bits(p=0.1, in_training=True):
    module = nn.Sequential(nn.Dropout(p))
    use_short_draws(module)
    return module.train(in_training)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9, 1e-4])
def test_the_share_that_is_dropped_is_p(p):
    """In each of the four parts of a draw, and within five standard deviations of a binomial."""
    torch.manual_seed(0)
    result = dropped_by_bits(p)(torch.ones(1_000_003))
    for part in range(4):
        mine = result[part::4]
        deviation = (p * (1 - p) / len(mine)) ** 0.5
        assert abs((mine == 0).float().mean().item() - p) < 5 * deviation + 1 / VALUES


def test_what_stays_is_scaled_as_by_pytorch():
    """The mean stays what it is, and for a p that sixteen bits hold exactly so does the scale."""
    x = torch.randn(5000, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for p in (0.25, 0.1):
        result = dropped_by_bits(p)(x)
        exact = 1 / (1 - round(p * VALUES) / VALUES)
        assert abs(exact * (1 - p) - 1) < 2 / VALUES
        stays = result != 0
        torch.testing.assert_close(result[stays], (x * exact)[stays], rtol=1e-12, atol=0)
        theirs = nn.functional.dropout(x, p)
        both = stays & (theirs != 0)
        assert both.sum() > 1000
        torch.testing.assert_close(result[both], theirs[both], rtol=2 / VALUES, atol=0)


def test_neighbours_are_dropped_independently():
    """Four numbers share a draw: knowing one of them says nothing about the next ones."""
    torch.manual_seed(0)
    is_dropped = (dropped_by_bits(0.3)(torch.ones(400_000)) == 0).double().view(-1, 4)
    correlations = torch.corrcoef(is_dropped.T) - torch.eye(4)
    assert correlations.abs().max() < 5 / 100_000**0.5


def test_the_gradient_is_that_of_what_stayed():
    x = torch.randn(40, 30, requires_grad=True)
    result = dropped_by_bits(0.25)(x)
    result.backward(torch.full_like(result, 3.0))
    assert 0 < (result == 0).sum() < result.numel()
    torch.testing.assert_close(x.grad, torch.where(result == 0, 0.0, 3.0 / 0.75))


@pytest.mark.parametrize("shape", [(7,), (0,), (3, 5, 2), ()])
def test_types_and_shapes_stay(shape):
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        result = dropped_by_bits(0.5)(torch.ones(shape, dtype=dtype))
        assert (result.shape, result.dtype) == (torch.Size(shape), dtype)
        assert {*result.flatten().tolist()} <= {0.0, 2.0}


def test_every_call_draws_again_and_follows_the_seed():
    module, x = dropped_by_bits(), torch.ones(999)
    torch.manual_seed(3)
    first, second = module(x), module(x)
    torch.manual_seed(3)
    assert torch.equal(module(x), first)
    assert not torch.equal(first, second)


def test_without_training_or_p_nothing_is_dropped():
    x = torch.randn(100)
    assert torch.equal(dropped_by_bits(0.5, in_training=False)(x), x)
    assert torch.equal(dropped_by_bits(0.0)(x), x)
    assert torch.equal(dropped_by_bits(1.0)(x), torch.zeros(100))


def test_every_dropout_of_a_bert_takes_it_and_so_do_copies():
    model = BertModel(tiny_config())
    use_short_draws(model)
    for each in (model, copy.deepcopy(model)):
        found = [one for one in each.modules() if isinstance(one, nn.Dropout)]
        assert len(found) == 1 + 3 * model.config.num_hidden_layers
        for one in found:
            assert one.forward.__func__ is dropout_by_bits
            assert one.forward.__self__ is one


def test_a_dropout_of_another_kind_keeps_its_own():
    class Mine(nn.Dropout):
        pass

    model = nn.Sequential(Mine(0.5))
    use_short_draws(model)
    assert "forward" not in vars(model[0])
