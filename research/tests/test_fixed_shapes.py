"""Steps in fixed shapes compute what steps in other shapes do; a GPU alone can record them."""

import pytest
import torch
from factories import tiny_config
from torch.nn.functional import cross_entropy

from pretraining.masking import IGNORED, mask_tokens
from pretraining.model import ROWS, PretrainingModel
from research.benchmarks.fixed_shapes import (
    fixed_steps,
    most_masked,
    padded,
    positions_of,
    recorded,
)

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def new_model() -> PretrainingModel:
    torch.manual_seed(0)
    config = tiny_config(initializer_range=0.3, **NO_DROPOUT)
    return PretrainingModel(config, objective="nsp").double()


def batch_of(rows: int, length: int) -> tuple[torch.Tensor, ...]:
    """Ids and mask, in which the first row is shorter, and classes."""
    mask = torch.ones(rows, length, dtype=torch.int64)
    mask[0, length // 2 :] = 0
    return torch.randint(1, 100, (rows, length)), mask, torch.arange(rows) % 2


NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device records here")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
def test_replayed_steps_in_fixed_shapes_are_the_steps_of_a_plain_loop(device):
    """On a CPU, a stand-in for a recording computes the step again on the same tensors."""
    models, recordings = [new_model().to(device), new_model().to(device)], []

    def record(step, pool):
        recordings.append(step)
        return step if device == "cpu" else recorded(step, pool)

    def loss_of(ids, mask, labels, model=models[0]):
        return cross_entropy(model(ids, mask)[1], labels)

    fixed = fixed_steps(models[0], loss_of, 1e-3, record)
    plain = torch.optim.AdamW(models[1].parameters(), 1e-3, eps=1e-6, weight_decay=0.0)
    with torch.cuda.stream(None if device == "cpu" else torch.cuda.Stream()):
        for rows, length in [(5, 9), (5, 20), (5, 16), (3, 18), (5, 3), (5, 9), (4, 30)]:
            batch = batch_of(rows, length)
            ids, mask, labels = padded(5, *batch)
            assert ids.shape == mask.shape == (5, 32 if length > 16 else 16)
            loss = fixed(ids, mask, labels)
            expected = loss_of(*(tensor.to(device) for tensor in batch), models[1])
            plain.zero_grad()
            expected.backward()
            plain.step()
            torch.testing.assert_close(loss, expected.float())
    assert len(recordings) == 2
    for own, wanted in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(own, wanted, rtol=1e-9, atol=1e-9)


def test_a_fixed_number_of_positions_holds_all_masked_tokens_and_their_loss():
    model, ids = new_model(), torch.randint(5, 100, (40, 22))
    inputs, labels = mask_tokens(ids, ids < 0, 1, 100)
    count = most_masked(ids.numel())
    masked = int((labels != IGNORED).sum())
    assert masked <= count == 2 * ROWS
    positions, targets = positions_of(labels, count)
    assert positions.shape == targets.shape == (count,)
    mask = torch.ones_like(ids)
    loss = cross_entropy(model(inputs, mask, None, positions)[0], targets)
    torch.testing.assert_close(loss, cross_entropy(model(inputs, mask)[0], labels.flatten()))
    positions, targets = positions_of(labels, 9)  # fewer than there are
    assert targets.tolist() == labels[labels != IGNORED][:9].tolist()
    assert ids.flatten()[positions].tolist() == targets.tolist()
