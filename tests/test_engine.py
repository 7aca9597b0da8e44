"""What training runs share (engine.py): batches by length, progress, the watch over the loss."""

import math
from types import SimpleNamespace

import pytest
import torch
from conftest import make_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import engine
from datasets import SentenceClassificationDataset
from engine import LengthBatches, Progress, Seen, check_finite, evaluation_loader, minutes
from utils import InputError


def some_lengths(count: int) -> list[int]:
    """Like those of sentences: between 3 and 60, most of them short."""
    generator = torch.Generator().manual_seed(count)
    return (3 + 57 * torch.rand(count, generator=generator) ** 2).int().tolist()


@settings(max_examples=30)
@given(st.integers(1, 900), st.integers(1, 17), st.integers(0, 3), st.integers(0, 99))
def test_every_row_exactly_once_an_epoch(count, batch_size, epoch, seed):
    batches = LengthBatches(some_lengths(count), batch_size, seed)
    batches.epoch = epoch
    found = list(batches)
    assert sorted(row for batch in found for row in batch) == list(range(count))
    assert len(found) == len(batches) == math.ceil(count / batch_size)
    assert sum(len(batch) != batch_size for batch in found) <= 1


def test_order_is_new_each_epoch_and_the_same_for_a_seed():
    lengths = some_lengths(300)

    def orders(seed, epochs=(1, 2, 3)):
        batches = LengthBatches(lengths, 8, seed)
        found = []
        for epoch in epochs:
            batches.epoch = epoch
            found.append(str(list(batches)))
        return found

    first = orders(seed=1)
    assert len(set(first)) == 3
    assert orders(seed=1) == first
    assert orders(seed=1, epochs=(3, 2)) == [first[2], first[1]]  # no memory of earlier epochs
    assert not set(orders(seed=2)) & set(first)


def test_order_does_not_depend_on_the_global_seed():
    torch.manual_seed(0)
    first = list(LengthBatches(some_lengths(50), 8, seed=1))
    torch.manual_seed(1)
    before = torch.get_rng_state()
    assert list(LengthBatches(some_lengths(50), 8, seed=1)) == first
    assert torch.equal(torch.get_rng_state(), before)


def padding(batches, lengths) -> float:
    """The share of pieces in padded batches that is padding."""
    padded = sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)
    return 1 - sum(lengths) / padded


def test_little_padding():
    lengths = some_lengths(2000)
    plain = torch.randperm(2000, generator=torch.Generator().manual_seed(0)).view(-1, 8).tolist()
    assert padding(plain, lengths) > 0.4
    assert padding(list(LengthBatches(lengths, 8, seed=0)), lengths) < 0.05


def test_batches_do_not_come_sorted():
    lengths = some_lengths(400)
    longest = [max(lengths[row] for row in batch) for batch in LengthBatches(lengths, 8, seed=0)]
    assert longest not in (sorted(longest), sorted(longest, reverse=True))
    correlation = torch.corrcoef(torch.tensor([range(len(longest)), longest]).float())[0, 1]
    assert abs(correlation) < 0.5


def test_evaluation_takes_every_row_longest_first(tiny_model_folder):
    rows = [(text, 0, key) for key, text in make_rows(21)]
    data = SentenceClassificationDataset(rows, SimpleNamespace(model=str(tiny_model_folder)))
    batches = list(evaluation_loader(data, 4))
    assert sorted(key for batch in batches for key in batch["sent_ids"]) == sorted(
        key for _, _, key in rows
    )
    widths = [batch["token_ids"].shape[1] for batch in batches]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == max(data.lengths())
    assert [len(batch["sents"]) for batch in batches] == [4, 4, 4, 4, 4, 1]


# ---------------------------------------------------------------------------------------------
# Precision


@pytest.mark.parametrize(
    ("precision", "hardware", "dtype"),
    [
        ("fp32", True, torch.float32),
        ("bf16", False, torch.bfloat16),
        ("auto", True, torch.bfloat16),
        ("auto", False, torch.float32),
    ],
)
def test_precision_of_matrix_products(monkeypatch, precision, hardware, dtype):
    monkeypatch.setattr(engine, "computes_bf16", lambda device: hardware)
    autocast = engine.autocast_for(torch.device("cpu"), precision)
    layer = torch.nn.Linear(3, 2)
    for _ in range(2):  # it can be entered again and again
        with autocast():
            product = layer(torch.ones(1, 3))
            assert product.dtype == dtype
    product.sum().backward()
    assert layer.weight.grad.dtype == layer.weight.dtype == torch.float32
    assert layer(torch.ones(1, 3)).dtype == torch.float32


# ---------------------------------------------------------------------------------------------
# Progress


class Clock:
    """A clock that tests move forward."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(engine.time, "monotonic", lambda: self.now)


def test_estimate_counts_word_pieces(monkeypatch, capsys):
    """40 of 200 pieces took 6 s: 30 s in all, though half of the epoch's batches are done."""
    clock = Clock(monkeypatch)
    loader = [
        {"attention_mask": torch.ones(2, 20)},
        {"attention_mask": torch.ones(2, 30)},
    ]
    progress = Progress(pieces=100, epochs=2)
    for epoch in (1, 2):
        for _ in progress.bar(loader, epoch):
            clock.now += 6.0
    assert progress.done == 200
    assert progress.seconds() == 24.0
    assert capsys.readouterr().out == "estimate: training takes about 30 s in all\n"


def test_short_runs_get_no_estimate(monkeypatch, capsys):
    clock = Clock(monkeypatch)
    progress = Progress(pieces=10, epochs=1)
    for _ in progress.bar([{"attention_mask": torch.ones(1, 5)}] * 2, 1):
        clock.now += 2.0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3599.7, "1 h 00 min"),
        (7800, "2 h 10 min"),
    ],
)
def test_minutes(seconds, text):
    assert minutes(seconds) == text


def test_seen_weighs_batches_by_their_size():
    seen = Seen()
    seen.add(torch.tensor(1.0), torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), torch.ones(3))
    seen.add(torch.tensor(5.0), torch.tensor([[0.0, 1.0]]), torch.zeros(1))
    assert seen.means() == {"loss": 2.0, "train_acc": 0.5}


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_loss_that_is_not_finite_stops(value):
    with pytest.raises(InputError) as caught:
        check_finite(torch.tensor(float(value)), 3, 7, "x.pt")
    message = str(caught.value)
    assert "\n" not in message
    for fact in (f"the loss is {value} in epoch 3, batch 7", "lower --lr", "kept in x.pt"):
        assert fact in message


def test_a_finite_loss_passes():
    assert check_finite(torch.tensor(1e30), 1, 1, "x.pt") is None


def test_loader_and_batches_together(tiny_model_folder):
    """As the scripts use them: each batch is as wide as its longest row."""
    rows = [(text, 0, key) for key, text in make_rows(33)]
    data = SentenceClassificationDataset(rows, SimpleNamespace(model=str(tiny_model_folder)))
    batches = LengthBatches(data.lengths(), 4, seed=0)
    loader = DataLoader(data, batch_sampler=batches, collate_fn=data.collate_fn)
    assert len(loader) == 9
    seen = []
    for batch in loader:
        assert batch["attention_mask"].sum(dim=1).max() == batch["token_ids"].shape[1]
        seen += batch["sent_ids"]
    assert sorted(seen) == [key for _, _, key in rows]
