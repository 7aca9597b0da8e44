"""What training runs share (training/): batches, precision, schedule, progress, the run itself."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from running import one_line_error
from torch import nn
from torch.nn import functional as F

import classifier
import multitask_classifier
from training.loop import devices
from training.loop import run as loop
from training.loop.batches import LengthBatches
from training.loop.checkpoints import load_checkpoint
from training.loop.progress import Progress
from training.loop.run import Run, linear_factor
from utils import seed_everything

CPU = torch.device("cpu")


def some_lengths(count: int) -> list[int]:
    """Like those of sentences: between 3 and 60, most of them short."""
    generator = torch.Generator().manual_seed(count)
    return (3 + 57 * torch.rand(count, generator=generator) ** 2).int().tolist()


@settings(max_examples=30)
@given(st.integers(1, 900), st.integers(1, 17), st.integers(0, 3), st.integers(0, 99), st.data())
def test_every_row_exactly_once_an_epoch_and_it_goes_on(count, batch_size, epoch, seed, data):
    batches = LengthBatches(some_lengths(count), batch_size, seed)
    batches.set_epoch(epoch)
    whole = list(batches)
    assert sorted(row for batch in whole for row in batch) == list(range(count))
    assert len(whole) == len(batches) == math.ceil(count / batch_size)
    assert sum(len(batch) != batch_size for batch in whole) <= 1
    skip = data.draw(st.integers(0, len(whole)))
    batches.set_epoch(epoch, skip=skip)
    assert list(batches) == whole[skip:]
    batches.set_epoch(epoch)
    assert list(batches) == whole


def test_little_padding_in_batches_that_do_not_come_sorted():
    lengths = some_lengths(2000)
    longest = [max(lengths[row] for row in batch) for batch in LengthBatches(lengths, 8, seed=0)]
    assert sum(lengths) > 0.95 * sum(8 * width for width in longest)
    correlation = torch.corrcoef(torch.tensor([range(len(longest)), longest]).float())[0, 1]
    assert abs(correlation) < 0.5


@pytest.mark.parametrize(
    ("precision", "hardware", "dtype"),
    [
        ("fp32", True, torch.float32),
        ("bf16", False, torch.bfloat16),
        ("auto", True, torch.bfloat16),
        ("auto", False, torch.float32),
        ("fp16", True, torch.float16),
    ],
)
def test_precision_of_matrix_products(monkeypatch, precision, hardware, dtype):
    monkeypatch.setattr(devices, "has_bf16", lambda _: hardware)
    autocast = devices.autocast_for(CPU, precision)
    layer = torch.nn.Linear(3, 2)
    for _ in range(2):  # it can be entered again and again
        with autocast():
            product = layer(torch.ones(1, 3))
            assert product.dtype == dtype
    product.sum().backward()
    assert layer.weight.grad.dtype == layer.weight.dtype == torch.float32


@pytest.mark.parametrize(("has_bf16", "dtype"), [(False, torch.float16), (True, torch.bfloat16)])
def test_what_a_gpu_multiplies_in_by_itself(monkeypatch, has_bf16, dtype):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_bf16)
    assert devices.half_type(torch.device("cuda"), "auto") == dtype


@pytest.mark.parametrize("steps", [1, 7, 100])
@pytest.mark.parametrize("warmup", [0.0, 0.06, 0.5, 0.99])
def test_the_factor_is_that_of_transformers(steps, warmup):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, round(warmup * steps), steps)
    (theirs,) = schedule.lr_lambdas
    for step in range(steps + 1):
        assert linear_factor(step, steps, warmup, decay=True) == theirs(step)
        constant = theirs(step) if step < round(warmup * steps) else 1.0
        assert linear_factor(step, steps, warmup, decay=False) == constant


@pytest.fixture
def flags(sst_line, resumable, tmp_path, monkeypatch) -> SimpleNamespace:
    """Flags of classifier.train on a small data set."""
    monkeypatch.chdir(tmp_path)
    more = "--batch_size 8 --precision fp32 --epochs 1 --dev_out x-dev-out.csv".split()
    (args,) = classifier.plan(classifier.get_args([*sst_line, *more]))
    return args


def trained(args, **more) -> dict[str, torch.Tensor]:
    """The tensors of the best epoch of a run with further flags."""
    args = SimpleNamespace(**(vars(args) | more))
    seed_everything(args.seed)
    classifier.train(args)
    return load_checkpoint(args.filepath)["model"]


def last_epochs() -> list[dict]:
    """The metrics of every epoch of the last run."""
    return json.loads(Path("x-metrics.json").read_text())["epochs"]


def test_every_steps_loss_and_learning_rate_are_in_a_file(flags):
    """The mean loss of an epoch is that of its steps, weighted by their rows: 8, 8, 8 and 1."""
    trained(flags, epochs=2, warmup=0.5, decay=True, accumulate=2, lr=0.01)
    steps = pd.read_csv("x-steps.csv")
    assert [*steps.columns] == ["step", "epoch", "loss", "lr"]
    assert [*steps["step"]] == [*range(1, 9)]
    assert [*steps["epoch"]] == [1] * 4 + [2] * 4
    rates = [0.01 * linear_factor(step, 8, 0.5, True) for step in range(8)]
    assert [*steps["lr"]] == pytest.approx(rates)
    batches = LengthBatches(classifier.read_data(flags, "train")["train"].lengths(), 8, flags.seed)
    for row in last_epochs():
        batches.set_epoch(row["epoch"])
        losses = steps["loss"][steps["epoch"] == row["epoch"]]
        mean = np.average(losses, weights=[len(batch) for batch in batches])
        assert row["loss"] == pytest.approx(mean, rel=1e-4)


@pytest.mark.parametrize(("patience", "last"), [(None, 7), (1, 3), (2, 6), (3, 7)])
def test_early_stopping(flags, monkeypatch, patience, last):
    """Equal is not better: 0.3 in the third epoch does not count."""
    accuracies = iter([0.2, 0.3, 0.3, 0.4, 0.1, 0.4, 0.2])
    monkeypatch.setattr(classifier, "model_eval", lambda *_: (next(accuracies), 0.0))
    trained(flags, option="pretrain", epochs=7, patience=patience)
    assert [row["epoch"] for row in last_epochs()] == list(range(1, last + 1))


def test_what_is_left_is_estimated(monkeypatch, capsys):
    """Four steps of 20 took 6 s: 24 s are left."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("training.loop.progress.time.monotonic", lambda: clock.now)
    run = SimpleNamespace(epoch=1, batch=0, step=0, total_steps=20)
    for _ in Progress(run).bar(["batch"] * 10):
        clock.now += 1.5
        run.batch, run.step = run.batch + 1, run.step + 1
    assert capsys.readouterr().out == "epoch 1, batch 4 of 10: 6 s, about 24 s left\n"


@pytest.mark.parametrize(
    ("losses", "lines"),
    [
        ([1.7] * 300, 1),  # once
        ([1.7] * 99, 0),
        ([1.6] * 300, 0),
        ([2.9] * 50 + [1.5] * 100, 0),  # it begins badly, and learns
        ([1.0] * 100 + [1.7] * 100, 1),
    ],
)
def test_a_loss_that_stays_above_that_of_a_guess_gets_one_line(losses, lines, tmp_path, capsys):
    record = loop.Record(tmp_path / "steps.csv", 0, guess=math.log(5))
    for step, loss in enumerate(losses, start=1):
        record.add(step, 1, {"loss": torch.tensor(loss)})
        record.steps.append((step, 1, step, 1e-3))
        if step % loop.READ_EVERY == 0:
            record.read()
    said = capsys.readouterr().out
    assert said.count("the same answer for every row would give 1.609") == lines


def test_the_loss_of_a_guess_is_that_of_equal_probabilities_or_of_the_mean():
    rows = [("a", label, "id") for label in (0, 1, 1, 0)]
    guess = multitask_classifier.loss_of_a_guess
    assert guess("sst", rows) == pytest.approx(math.log(5))
    assert guess("para", rows) == pytest.approx(math.log(2))
    assert guess("sts", rows) == pytest.approx(0.5**2 / 5**2)


def test_a_loss_that_is_not_finite_stops_and_nothing_of_it_is_saved(flags, monkeypatch):
    """13 steps an epoch; the loss of step 16 and of all later ones is spoiled."""
    with one_line_error("the model returns nan", "optimizer_test.py"):
        trained(flags, epochs=1, batch_size=100, lr=1e38)
    assert not Path(flags.filepath).exists()
    monkeypatch.setattr(loop, "READ_EVERY", 1)
    steps, kept = [], []
    cross_entropy, end_epoch = F.cross_entropy, Run.end_epoch

    def spoiled(logits, labels):
        steps.append(len(labels))
        return cross_entropy(logits, labels) * (math.nan if len(steps) >= 16 else 1.0)

    def keep(run, results):
        end_epoch(run, results)
        kept.append(Path(flags.filepath).read_bytes())

    monkeypatch.setattr(F, "cross_entropy", spoiled)
    monkeypatch.setattr(Run, "end_epoch", keep)
    with one_line_error("loss is nan in epoch 2, batch 3", "optimizer_test.py"):
        trained(flags, epochs=3, batch_size=2)
    assert len(steps) == 16
    assert [Path(flags.filepath).read_bytes()] == kept  # epoch 1 is the last that ended
    point = load_checkpoint("sst-classifier.resume")
    assert point["position"]["step"] == 15
    assert all(tensor.isfinite().all() for tensor in point["model"].values())
    losses = pd.read_csv("x-steps.csv")["loss"]
    assert len(losses) == 15
    assert np.isfinite(losses).all()
    monkeypatch.setattr(loop, "READ_EVERY", 50)  # read before the evaluation all the same
    monkeypatch.setattr(loop.ResumePoint, "due", lambda _: False)
    with one_line_error("batch 1; no update was made before it", "python sanity_check.py"):
        trained(flags, epochs=1, batch_size=100)
