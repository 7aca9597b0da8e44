"""Steps in fixed shapes compute what steps in other shapes do; a GPU alone can record them."""

import copy
from functools import partial

import pytest
import torch
from factories import NO_DROPOUT, tiny_config
from torch.nn.functional import cross_entropy

from pretraining.masking import IGNORED, mask_tokens
from pretraining.model import ROWS, PretrainingModel
from research.benchmarks import fixed_shapes

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device records here")


@pytest.fixture
def model() -> PretrainingModel:
    torch.manual_seed(0)
    config = tiny_config(initializer_range=0.3, **NO_DROPOUT)
    return PretrainingModel(config, objective="nsp").double()


def loss_of(model, ids, mask, labels):
    return cross_entropy(model(ids, mask)[1], labels)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
def test_replayed_steps_in_fixed_shapes_are_the_steps_of_a_plain_loop(device, model):
    """On a CPU, a stand-in for a recording computes the step again on the same tensors."""
    twin, recordings = copy.deepcopy(model.to(device)), []

    def record(step, pool):
        recordings.append(step)
        return step if device == "cpu" else fixed_shapes.recorded(step, pool)

    fixed = fixed_shapes.fixed_steps(model, partial(loss_of, model), 1e-3, record)
    plain = torch.optim.AdamW(twin.parameters(), 1e-3, eps=1e-6, weight_decay=0.0)
    with torch.cuda.stream(None if device == "cpu" else torch.cuda.Stream()):
        for rows, length in [(5, 9), (5, 20), (5, 16), (3, 18), (5, 3), (5, 9), (4, 30)]:
            mask = torch.ones(rows, length, dtype=torch.int64)
            mask[0, length // 2 :] = 0
            batch = torch.randint(1, 100, mask.shape), mask, torch.arange(rows) % 2
            ids, mask, labels = fixed_shapes.padded(5, *batch)
            assert ids.shape == mask.shape == (5, 32 if length > 16 else 16)
            loss = fixed(ids, mask, labels)
            expected = loss_of(twin, *(tensor.to(device) for tensor in batch))
            plain.zero_grad()
            expected.backward()
            plain.step()
            torch.testing.assert_close(loss, expected.float())
    assert len(recordings) == 2
    for own, wanted in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(own, wanted, rtol=1e-9, atol=1e-9)


def test_a_fixed_number_of_positions_holds_all_masked_tokens_and_their_loss(model):
    ids = torch.randint(5, 100, (40, 22))
    inputs, labels = mask_tokens(ids, ids < 0, 1, 100)
    count, mask, masked = fixed_shapes.most_masked(ids.numel()), ids > 0, labels[labels != IGNORED]
    assert len(masked) <= count == 2 * ROWS
    positions, targets = fixed_shapes.positions_of(labels, count)
    loss = cross_entropy(model(inputs, mask, None, positions)[0], targets)
    torch.testing.assert_close(loss, cross_entropy(model(inputs, mask)[0], labels.flatten()))
    assert positions.shape == (count,)
    positions, targets = fixed_shapes.positions_of(labels, 9)  # fewer than there are
    assert targets.tolist() == ids.flatten()[positions].tolist() == masked[:9].tolist()
