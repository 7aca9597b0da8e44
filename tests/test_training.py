"""What training runs share (training/): batches, precision, schedule, progress, the run itself."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT, draw_nothing, make_rows, one_line_error
from torch import nn
from torch.nn import functional as F

import classifier
from datasets import SentenceClassificationDataset
from optimizer import AdamW
from training import acceleration
from training.files.errors import InputError
from training.loop import devices
from training.loop.batches import LengthBatches, TrainingLoader, evaluation_loader, micro_batches
from training.loop.checkpoints import ResumePoint, load_checkpoint
from training.loop.encoder_outputs import cache_encoder_outputs
from training.loop.progress import Progress, minutes
from training.loop.run import Run, RunningTotals, check_finite
from training.loop.schedule import linear_factor
from training.reports.report import StepLog
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
    found = list(batches)
    assert sorted(row for batch in found for row in batch) == list(range(count))
    assert len(found) == len(batches) == math.ceil(count / batch_size)
    assert sum(len(batch) != batch_size for batch in found) <= 1
    skip = data.draw(st.integers(0, len(found)))
    batches.set_epoch(epoch, skip=skip)
    assert list(batches) == found[skip:]
    batches.set_epoch(epoch)
    assert list(batches) == found


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
    monkeypatch.setattr(devices, "computes_bf16", lambda device: hardware)
    autocast = devices.autocast_for(torch.device("cpu"), precision)
    layer = torch.nn.Linear(3, 2)
    for _ in range(2):  # it can be entered again and again
        with autocast():
            product = layer(torch.ones(1, 3))
            assert product.dtype == dtype
    product.sum().backward()
    assert layer.weight.grad.dtype == layer.weight.dtype == torch.float32
    assert layer(torch.ones(1, 3)).dtype == torch.float32


# ---------------------------------------------------------------------------------------------
# The update


@pytest.mark.parametrize("steps", [1, 2, 7, 100, 1067])
@pytest.mark.parametrize("warmup", [0.0, 0.06, 0.1, 0.5, 0.99])
def test_the_factor_is_that_of_transformers(steps, warmup):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, round(warmup * steps), steps)
    (theirs,) = schedule.lr_lambdas
    for step in range(steps + 1):
        assert linear_factor(step, steps, warmup, decay=True) == theirs(step)
        constant = theirs(step) if step < round(warmup * steps) else 1.0
        assert linear_factor(step, steps, warmup, decay=False) == constant


def small_run(model=None, optimizer=None, loader=(), **flags) -> Run:
    """A run of ten steps on a small layer; nothing is written before ``with``."""
    torch.manual_seed(0)
    model = model or nn.Linear(3, 2)
    optimizer = optimizer or AdamW(model.parameters(), lr=0.5)
    off = {"clip": None, "warmup": 0.0, "decay": False, "accumulate": 1, "precision": "fp32"}
    off |= {"epochs": 1, "patience": None, "resume": False}
    return Run(
        SimpleNamespace(**(off | flags)),
        model,
        optimizer,
        loader,
        point=ResumePoint("x.resume", {}),
        checkpoint="x.pt",
        totals=("rows", "loss"),
        steps_file="x-steps.csv",
        steps=10,
    )


def small_step(number=4, **flags) -> tuple[nn.Module, AdamW]:
    """A layer with gradients, after the step of that number, of ten."""
    run = small_run(**flags)
    run.model(torch.full((4, 3), 9.0)).square().sum().backward()
    kept = []
    run.optimizer.step = lambda: kept.extend(p.grad.clone() for p in run.model.parameters())
    run.step_number = number
    run.step()
    for parameter, grad in zip(run.model.parameters(), kept, strict=True):
        assert parameter.grad is None  # for the next step
        parameter.grad = grad
    return run.model, run.optimizer


@pytest.mark.parametrize("clip", [0.7, 1e6])
def test_clipping_is_that_of_torch(clip):
    """Small gradients are left alone."""
    plain, _ = small_step()
    clipped, _ = small_step(clip=clip)
    norm = torch.cat([p.grad.flatten() for p in clipped.parameters()]).norm()
    assert (norm.item() == pytest.approx(0.7, rel=1e-4)) == (clip == 0.7)
    nn.utils.clip_grad_norm_(plain.parameters(), clip)
    for ours, theirs in zip(clipped.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


def test_the_learning_rate_of_a_step():
    for flags, expected in (
        ({}, 0.5),
        ({"warmup": 0.5}, 0.5 * 3 / 5),
        ({"decay": True}, 0.5 * 7 / 10),
        ({"warmup": 0.2, "decay": True}, 0.5 * 7 / 8),
    ):
        assert small_step(**flags)[1].param_groups[0]["lr"] == expected


@pytest.mark.parametrize("rows", [1, 5, 8, 11])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 20])
def test_micro_batches_are_a_batch(rows, count):
    ids = torch.arange(rows * 2).view(rows, 2)
    batch = {"token_ids": ids, "attention_mask": ids + 100, "labels": ids[:, 0] + 200}
    found = list(micro_batches(batch, count, CPU))
    assert len(found) <= count
    assert max(len(labels) for *_, labels in found) == math.ceil(rows / count)
    for whole, pieces in zip(
        (ids, ids + 100, ids[:, 0] + 200), zip(*found, strict=True), strict=True
    ):
        assert torch.equal(torch.cat(pieces), whole)


# ---------------------------------------------------------------------------------------------
# The options in a training run


@pytest.fixture
def flags(tiny_model_folder, tiny_data, tmp_path, monkeypatch) -> SimpleNamespace:
    """Flags of classifier.train on a small data set; no plots are drawn."""
    monkeypatch.chdir(tmp_path)
    draw_nothing(monkeypatch)
    line = ["--only", "sst", "--data_dir", tiny_data, "--model", tiny_model_folder]
    line += ["--precision", "fp32", "--option", "finetune", "--lr", "1e-3", "--epochs", "1"]
    line += ["--dev_out", "x-dev-out.csv"]
    (args,) = classifier.plan(classifier.get_args([str(word) for word in line]))
    return args


def trained(args, **more) -> dict[str, torch.Tensor]:
    """The tensors of the best epoch of a run with further flags."""
    args = SimpleNamespace(**(vars(args) | more))
    seed_everything(args.seed)
    classifier.train(args)
    return load_checkpoint(args.filepath)["model"]


def test_curves_for_tensorboard(flags, monkeypatch):
    """By a stand-in for the package; a resumed run forgets the steps after its resume point."""
    points, begun = [], []

    class Writer:
        def __init__(self, folder: str, purge_step: int):
            begun.append((folder, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            points.append((name, step, value))

        def close(self) -> None:
            begun.append("closed")

    stand_in = SimpleNamespace(SummaryWriter=Writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
    trained(flags, tensorboard="board", epochs=2)
    assert begun == [(os.path.join("board", "x"), 1), "closed"]
    steps = pd.read_csv("x-steps.csv")
    losses = [(step, value) for name, step, value in points if name == "loss"]
    assert [step for step, _ in losses] == steps["step"].tolist()
    assert [value for _, value in losses] == pytest.approx(steps["loss"].tolist(), rel=1e-5)
    assert [value for name, _, value in points if name == "lr"] == [1e-3] * len(steps)
    scores = [(step, value) for name, step, value in points if name == "epoch/dev_acc"]
    assert scores == [(len(steps) // 2 * row["epoch"], row["dev_acc"]) for row in last_epochs()]


def test_tensorboard_has_to_be_installed(flags, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with one_line_error("--tensorboard needs a package: pip install tensorboard"):
        trained(flags, tensorboard="board")


def last_epochs() -> list[dict]:
    """The metrics of every epoch of the last run."""
    return json.loads(Path("x-metrics.json").read_text())["epochs"]


def without_dropout(monkeypatch, args) -> None:
    monkeypatch.setattr(nn.Dropout, "forward", lambda self, x: x)
    monkeypatch.setattr(acceleration, "use_short_draws", lambda model: None)
    args.hidden_dropout_prob = 0.0


@pytest.mark.parametrize("count", [2, 3, 5, 30])
def test_parts_have_the_gradients_of_a_batch(flags, monkeypatch, count):
    """Each step's, over 25 rows in batches of 8: the last part and the last batch are smaller."""
    without_dropout(monkeypatch, flags)
    gradients = []

    def keep(self, closure=None):  # and no update, so that all steps are taken at the same place
        gradients[-1].append([p.grad.clone() for p in self.param_groups[0]["params"]])

    monkeypatch.setattr(AdamW, "step", keep)
    losses = []
    for accumulate in (1, count):
        gradients.append([])
        trained(flags, accumulate=accumulate)
        losses.append(last_epochs()[0]["loss"])
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    whole, summed = gradients
    assert len(whole) == len(summed) == 4
    for ours, theirs in zip(whole, summed, strict=True):
        assert max(p.abs().max() for p in ours) > 0.01
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("patience", "last"), [(None, 7), (1, 3), (2, 6), (3, 7)], ids=lambda value: str(value)
)
def test_early_stopping(flags, monkeypatch, patience, last):
    """Equal is not better: 0.3 in the third epoch does not count."""
    accuracies = iter([0.2, 0.3, 0.3, 0.4, 0.1, 0.4, 0.2])
    monkeypatch.setattr(classifier, "model_eval", lambda *_: (next(accuracies), 0.0))
    trained(flags, option="pretrain", epochs=7, patience=patience)
    assert [row["epoch"] for row in last_epochs()] == list(range(1, last + 1))


# ---------------------------------------------------------------------------------------------
# A frozen encoder that runs once


def frozen_model(args) -> tuple[nn.Module, tuple]:
    data = classifier.read_data(args, ("train", "dev"))
    args = SimpleNamespace(**(vars(args) | {"option": "pretrain"}))
    return classifier.new_model(args, data.num_labels)[0], (data.train, data.dev)


def count_encoding(monkeypatch) -> list[int]:
    """How many rows went through BERT's layers, call by call."""
    rows, encode = [], classifier.BertModel.encode

    def counted(self, hidden, mask):
        rows.append(len(hidden))
        return encode(self, hidden, mask)

    monkeypatch.setattr(classifier.BertModel, "encode", counted)
    return rows


def test_remembered_outputs_are_the_encoders(flags, monkeypatch):
    model, sets = frozen_model(flags)
    model.eval()
    names = list(model.state_dict())
    batches = [batch for data in sets for batch in evaluation_loader(data, 5)]
    with torch.no_grad():
        expected = [model(batch["token_ids"], batch["attention_mask"]) for batch in batches]
    rows = count_encoding(monkeypatch)
    model.bert.train()
    cache_encoder_outputs(model.bert, sets, 3, CPU)
    assert sum(rows) == sum(map(len, sets))  # each text once
    model.bert.train()  # as it is while the head learns: there must be no dropout
    for batch, logits in zip(batches, expected, strict=True):
        found = model(batch["token_ids"], batch["attention_mask"])
        torch.testing.assert_close(found, logits, rtol=0, atol=1e-6)
    assert sum(rows) == sum(map(len, sets))
    assert list(model.state_dict()) == names


def test_padding_does_not_hide_a_remembered_text(flags, monkeypatch):
    model, (train_set, _) = frozen_model(flags)
    cache_encoder_outputs(model.bert, [train_set], 8, CPU)
    rows = count_encoding(monkeypatch)
    batch = train_set.collate_fn([train_set[3]])
    wide = [F.pad(batch[key], (0, 5)) for key in ("token_ids", "attention_mask")]
    found = model.bert(*wide)
    assert found["pooler_output"].shape == (1, 32)
    assert found["last_hidden_state"].shape == (1, 1, 32)
    assert rows == []


def test_a_text_not_seen_is_encoded(flags, monkeypatch):
    model, (train_set, _) = frozen_model(flags)
    model.eval()
    batch = train_set.collate_fn([train_set[0], ("not yet seen", 0, "x")])
    inputs = batch["token_ids"], batch["attention_mask"]
    with torch.no_grad():
        expected = model.bert(*inputs)
        cache_encoder_outputs(model.bert, [train_set], 8, CPU)
        rows = count_encoding(monkeypatch)
        found = model.bert(*inputs)
    assert rows == [2]
    assert torch.equal(found["last_hidden_state"], expected["last_hidden_state"])
    assert torch.equal(found["pooler_output"], expected["pooler_output"])


def test_a_head_learns_as_on_a_frozen_encoder_in_evaluation_mode(flags, monkeypatch):
    flags.option, flags.epochs, flags.lr, flags.hidden_dropout_prob = "pretrain", 3, 1e-2, 0.0
    rows = count_encoding(monkeypatch)
    remembered = trained(flags)
    epochs = last_epochs()
    assert sum(rows) == 25 + 11
    # The other way: every batch anew, by an encoder that model.train() does not reach
    monkeypatch.setattr(
        classifier.BertModel, "train", lambda self, mode=True: nn.Module.train(self, False)
    )
    rows.clear()
    anew = trained(flags, reencode=True)
    assert sum(rows) == 3 * (25 + 11)
    for ours, theirs in zip(epochs, last_epochs(), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    for name, tensor in anew.items():
        torch.testing.assert_close(remembered[name], tensor, rtol=0, atol=1e-5)


def test_reencode_has_dropout_in_the_encoder(flags):
    flags.option, flags.hidden_dropout_prob = "pretrain", 0.0
    remembered, anew = trained(flags), trained(flags, reencode=True)
    assert not torch.equal(remembered["classifier.weight"], anew["classifier.weight"])


# ---------------------------------------------------------------------------------------------
# torch.compile


@pytest.mark.parametrize("option", ["pretrain", "finetune"])
def test_compile_changes_neither_names_nor_results(flags, monkeypatch, option):
    """With the part of torch.compile that needs no C++ compiler."""
    without_dropout(monkeypatch, flags)
    flags.option = option
    plain = trained(flags)
    compiled = []

    def compile_eagerly(self):
        compiled.append(self)
        return real(self, backend="eager")

    real = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", compile_eagerly)
    found = trained(flags, compile=True)
    assert len(compiled) == 1
    assert list(found) == list(plain)
    for name, tensor in plain.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-5)
    classifier.load_model(flags.filepath, CPU)


# ---------------------------------------------------------------------------------------------
# Progress


class Clock:
    """A clock that tests move forward."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr("training.loop.progress.time.monotonic", lambda: self.now)


def batch_of(pieces: int) -> dict:
    return {"attention_mask": torch.ones(1, pieces)}


def told_by(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """And every step is timed, the first one, too."""
    monkeypatch.setattr(Progress, "UNTIMED_STEPS", 0)
    return Clock(monkeypatch)


def test_estimate_counts_word_pieces(clock, capsys):
    """40 of 200 pieces took 6 s: 30 s in all, though half of the epoch's batches are done."""
    progress = Progress(total=200, evaluations=2)
    for epoch in (1, 2):
        for pieces in progress.bar([batch_of(40), batch_of(60)], f"epoch {epoch}", 0, 2):
            clock.now += 0.15 * int(pieces["attention_mask"].sum())
    assert progress.done == 200
    assert progress.seconds() == 30.0
    assert told_by(capsys) == ["estimate: training takes about 30 s in all, 24 s are left"]


def test_an_estimate_after_an_interruption_counts_what_went_before(clock, capsys):
    """100 s for the first 50 of 150 pieces; then 6 s for the next 50."""
    progress = Progress(total=150, done=50, seconds=100.0, evaluations=1)
    for _ in progress.bar([batch_of(50)] * 2, "epoch 2", 3, 5):
        clock.now += 6.0
    assert told_by(capsys) == ["estimate: training takes about 1 min 52 s in all, 6 s are left"]


def test_the_bar_goes_on_where_the_run_stopped(monkeypatch):
    shown = {}

    class Bar(list):
        disable = True

        def __init__(self, items, name, **options):
            super().__init__(items)
            shown.update(options, name=name)

    monkeypatch.setattr("training.loop.progress.tqdm", Bar)
    assert len(list(Progress(total=10).bar([batch_of(1)] * 2, "epoch 3", 5, 7))) == 2
    assert (shown["initial"], shown["total"], shown["name"]) == (5, 7, "epoch 3")


def test_the_first_steps_promise_nothing(monkeypatch, capsys):
    """Ten steps of 60 s each, as when torch compiles, then 90 of 1 s: 11 min 30 s, not 100 min."""
    clock = Clock(monkeypatch)
    progress = Progress(total=100)
    monkeypatch.setattr(Progress, "LINE_EVERY", math.inf)
    for number, _ in enumerate(progress.bar([batch_of(1)] * 100, "epoch 1", 0, 100)):
        assert progress.left() is None or number > 10
        clock.now += 60.0 if number < 10 else 1.0
    (told,) = told_by(capsys)
    assert told.startswith("estimate: training takes about 11 min 30 s in all, 1 min 24 s are left")


def test_a_slow_step_does_not_count_for_all_that_follow(clock):
    """The speed is an average over the last steps: one of 50 times their length shows in part."""
    progress = Progress(total=1000)
    steps = progress.bar([batch_of(1)] * 1000, "epoch 1", 0, 1000)
    next(steps)
    for number in range(200):
        clock.now += 50.0 if number == 199 else 1.0
        next(steps)
    assert 1.5 < 1 / progress.speed() < 2.5
    for _ in range(300):
        clock.now += 1.0
        next(steps)
    assert 1 / progress.speed() == pytest.approx(1.0, abs=0.01)


def test_evaluations_that_are_still_to_come_take_as_long_as_the_last(clock):
    progress = Progress(total=300, evaluations=3)
    for epoch in (1, 2):
        for _ in progress.bar([batch_of(10)] * 10, f"epoch {epoch}", 0, 10):
            clock.now += 1.0
        if epoch == 2:
            assert progress.left() == pytest.approx(10.0 + 30.0)  # an epoch and its evaluation
        clock.now += 30.0


@pytest.mark.parametrize(
    ("later", "corrected"),
    [
        (2.0, ["1 min 00 s in all, 54 s are left", "28 s in all, 14 s are left"]),
        (7.0, ["1 min 00 s in all, 54 s are left"]),
        (14.0, ["1 min 00 s in all, 54 s are left", "2 min 04 s in all, 1 min 02 s are left"]),
    ],
)
def test_an_epoch_that_ends_corrects_the_estimate(clock, monkeypatch, capsys, later, corrected):
    """A first batch of 6 s promises 60 s for ten; each of the rest of epoch 1 takes ``later``."""
    monkeypatch.setattr(Progress, "LINE_EVERY", math.inf)
    progress = Progress(total=100)
    for epoch in (1, 2):
        steps = progress.bar([batch_of(10)] * 5, f"epoch {epoch}", 0, 5)
        for number, _ in enumerate(steps):
            clock.now += later if number or epoch > 1 else 6.0
    assert told_by(capsys) == [f"estimate: training takes about {text}" for text in corrected]


def test_short_runs_get_no_estimate(clock, capsys):
    progress = Progress(total=10)
    for _ in progress.bar([batch_of(5)] * 2, "epoch 1", 0, 2):
        clock.now += 2.0
    assert capsys.readouterr().out == ""


def test_a_line_a_minute_where_there_is_no_bar(clock, capsys):
    """The output of a test is no terminal: 150 steps of 1 s give two lines beside the estimate."""
    progress = Progress(total=150)
    for _ in progress.bar([batch_of(1)] * 150, "epoch 1", 0, 150):
        clock.now += 1.0
    first, *lines = told_by(capsys)
    assert first.startswith("estimate: ")
    assert lines == [
        "epoch 1, batch 60 of 150: 1 min 00 s of training, about 1 min 30 s left",
        "epoch 1, batch 120 of 150: 2 min 00 s of training, about 30 s left",
    ]


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


def test_running_totals_add_up_and_go_on():
    totals = RunningTotals(("examples", "loss"), {"examples": 10.0, "loss": 4.0})
    totals.add(examples=3, loss=1.5)
    totals.add(loss=0.5)
    assert totals.sums == {"examples": 10.0, "loss": 4.0}  # the step is not over
    totals.end_step([3.0, 2.0])
    assert totals.sums == {"examples": 13.0, "loss": 6.0}
    assert totals.step == {"examples": 0.0, "loss": 0.0}
    assert totals.mean("loss") == 6 / 13
    with pytest.raises(KeyError):
        totals.add(wrong=1)
    totals.clear()
    assert totals.sums == {"examples": 0.0, "loss": 0.0}
    assert totals.mean("loss") == 0.0  # of nothing


def test_a_step_ends_the_totals_of_all_its_micro_batches():
    run = small_run()
    run.rows = 8
    for weight in (6, 2):
        run.backward(run.model(torch.ones(weight, 3)).mean(), weight=weight)
        run.add(rows=weight, loss=1.0)
    run.reduce()
    assert run.totals.sums == {"rows": 8.0, "loss": 2.0}
    run.reduce()  # nothing is counted twice
    assert run.totals.sums == {"rows": 8.0, "loss": 2.0}
    assert run.loss == pytest.approx(run.model(torch.ones(8, 3)).mean().item())


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_loss_that_is_not_finite_stops(value):
    facts = (f"the loss is {value} in epoch 3, batch 7", "lower --lr", "kept in x.pt")
    with one_line_error(*facts):
        check_finite({"loss": float(value)}, 3, 7, "x.pt")


def test_a_training_loader_goes_on_where_it_was_left(tiny_model_folder):
    """The same batches, and the same random numbers for dropout afterwards."""
    rows = [(text, 0, key) for key, text in make_rows(33)]
    data = SentenceClassificationDataset(rows, SimpleNamespace(model=str(tiny_model_folder)))
    loader = TrainingLoader(data, 4, seed=0)
    assert loader.pieces_per_batch == sum(data.lengths()) / 9
    loader.set_epoch(2)
    torch.manual_seed(7)
    whole, states = [], []
    for batch in loader:
        states.append(torch.get_rng_state())
        whole.append(batch["sent_ids"])
    torch.set_rng_state(states[4])
    loader.set_epoch(2, skip=5)
    assert [batch["sent_ids"] for batch in loader] == whole[5:]
    assert torch.equal(torch.get_rng_state(), states[-1])


# ---------------------------------------------------------------------------------------------
# steps.csv, the table


def steps_in(path) -> list[list[str]]:
    header, *lines = Path(path).read_text().splitlines()
    assert header == "step,epoch,loss,lr"
    return [line.split(",") for line in lines]


def test_every_step_is_logged(flags):
    trained(flags, epochs=2, warmup=0.5, accumulate=2, lr=0.01)
    found = steps_in("x-steps.csv")
    assert [(int(step), int(epoch)) for step, epoch, _, _ in found] == [
        (number, 1 + (number > 4)) for number in range(1, 9)
    ]
    rates = [0.01 * linear_factor(step, 8, 0.5, False) for step in range(8)]
    assert [float(lr) for *_, lr in found] == pytest.approx(rates)
    rows = [8, 8, 8, 1]  # of the batches, in some order
    means = [float(loss) for _, _, loss, _ in found]
    assert min(means[:4]) <= last_epochs()[0]["loss"] <= max(means[:4])
    assert sum(rows) == 25


def test_a_step_log_loses_nothing_and_keeps_nothing_that_is_done_again(tmp_path):
    log = StepLog(tmp_path / "x-steps.csv")
    log.cut(0)
    for step in (1, 2, 3):
        log.add(step, 1, step / 4, 1e-3)
    log.flush()
    log.add(4, 1, 1.0, 1e-3)  # not flushed: the resume point is that of step 3
    again = StepLog(tmp_path / "x-steps.csv")
    again.cut(2)  # or that of step 2
    again.add(3, 1, 0.5, 2e-3)
    again.flush()
    assert steps_in(tmp_path / "x-steps.csv") == [
        ["1", "1", "0.25", "0.001"],
        ["2", "1", "0.5", "0.001"],
        ["3", "1", "0.5", "0.002"],
    ]
    again.cut(0)
    assert steps_in(tmp_path / "x-steps.csv") == []


def test_a_full_disk_is_said_in_one_line(tmp_path):
    (tmp_path / "x-steps.csv").mkdir()
    log = StepLog(tmp_path / "x-steps.csv")
    log.add(1, 1, 0.5, 0.1)
    with pytest.raises(InputError, match=r"cannot write .*x-steps\.csv: Is a directory; make room"):
        log.flush()


def test_a_resumed_run_prints_its_finished_epochs_again(flags, monkeypatch, capsys):
    flags.epochs = 3
    step = Run.step

    def stopping(run):
        if run.step_number == 10:
            run.stop.asked = True
        step(run)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "step", stopping)
        with pytest.raises(InputError, match="stopped"):
            trained(flags)
    table = [line for line in told_by(capsys) if line[:6].strip() in ("epoch", "1", "2", "3")]
    assert len(table) == 3
    trained(flags, resume=True)
    again = [line for line in told_by(capsys) if line[:6].strip() in ("epoch", "1", "2", "3")]
    assert again[:3] == table
    assert len(again) == 4
    assert [row["epoch"] for row in last_epochs()] == [1, 2, 3]


# ---------------------------------------------------------------------------------------------
# Threads


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "100000"),
        ({"GOMP_SPINCOUNT": "5"}, "5"),
        ({"OMP_WAIT_POLICY": "active"}, None),
    ],
)
@pytest.mark.parametrize("script", ["classifier", "lessons.token_classifier"])
def test_how_long_threads_spin_is_set_before_torch(given, expected, script):
    """Where torch is imported the variable stands, whatever script it is."""
    program = (
        "import os, sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'torch':\n"
        "            print(os.environ.get('GOMP_SPINCOUNT'))\n"
        "            raise SystemExit\n"
        "sys.meta_path.insert(0, Watch())\n"
        f"import {script}\n"
    )
    clean = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=clean | given, capture_output=True, text=True
    )
    assert done.stdout == f"{expected}\n", done.stderr


def test_a_run_that_cannot_go_on_leaves_ctrl_c_as_it_was(flags):
    handler = signal.getsignal(signal.SIGINT)
    Path("sst-classifier.resume").write_text("no checkpoint")
    with pytest.raises(InputError, match="start over"):
        trained(flags, resume=True)
    assert signal.getsignal(signal.SIGINT) is handler
