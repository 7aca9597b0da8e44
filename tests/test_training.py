"""What training runs share (training/): batches, precision, schedule, progress, the run itself."""

import ast
import json
import math
import os
import signal
import subprocess
import sys
from collections import Counter
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
from torch.utils._python_dispatch import TorchDispatchMode

import classifier
import multitask_classifier
from bert import BertModel
from datasets import SentenceClassificationDataset
from optimizer import AdamW
from training.files.errors import InputError
from training.loop import devices
from training.loop.batches import (
    LengthBatches,
    RoundRobin,
    TrainingLoader,
    evaluation_loader,
    micro_batches,
)
from training.loop.checkpoints import ResumePoint, load_checkpoint
from training.loop.encoder_outputs import cache_encoder_outputs
from training.loop.means import RunningMeans
from training.loop.progress import Progress, minutes
from training.loop.run import Run
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


def test_order_is_new_each_epoch_and_follows_its_seed_alone():
    lengths = some_lengths(300)

    def orders(seed, epochs=(1, 2, 3)):
        batches = LengthBatches(lengths, 8, seed)
        found = []
        for epoch in epochs:
            batches.set_epoch(epoch)
            found.append(str(list(batches)))
        return found

    first = orders(seed=1)
    assert len(set(first)) == 3
    torch.manual_seed(5)  # the run's random numbers are another matter
    before = torch.get_rng_state()
    assert orders(seed=1) == first
    assert torch.equal(torch.get_rng_state(), before)
    assert orders(seed=1, epochs=(3, 2)) == [first[2], first[1]]  # no memory of earlier epochs
    assert not set(orders(seed=2)) & set(first)


def test_little_padding_in_batches_that_do_not_come_sorted():
    lengths = some_lengths(2000)
    batches = list(LengthBatches(lengths, 8, seed=0))
    longest = [max(lengths[row] for row in batch) for batch in batches]
    assert sum(map(len, batches)) == 2000
    assert sum(lengths) > 0.95 * sum(8 * width for width in longest)
    correlation = torch.corrcoef(torch.tensor([range(len(longest)), longest]).float())[0, 1]
    assert abs(correlation) < 0.5


def small_set(model: Path, count: int, first_id: int = 0) -> SentenceClassificationDataset:
    rows = [(text, 0, key) for key, text in make_rows(count, first_id=first_id)]
    return SentenceClassificationDataset(rows, SimpleNamespace(model=str(model)))


def test_evaluation_takes_every_row_longest_first(tiny_model_folder):
    data = small_set(tiny_model_folder, 21)
    batches = list(evaluation_loader(data, 4))
    assert sorted(key for batch in batches for key in batch["sent_ids"]) == sorted(
        key for _, _, key in data
    )
    widths = [batch["token_ids"].shape[1] for batch in batches]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == max(data.lengths())
    assert [len(batch["sents"]) for batch in batches] == [4, 4, 4, 4, 4, 1]


def test_a_training_loader_continues_where_it_was_left(tiny_model_folder):
    """The same batches, and the same random numbers for dropout afterwards."""
    data = small_set(tiny_model_folder, 33)
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


@pytest.fixture
def round_robin(tiny_model_folder) -> RoundRobin:
    """Sets of 4, 1 and 2 batches; eight steps an epoch."""
    sizes = {"large": 13, "small": 3, "middle": 8}
    loaders = {
        name: TrainingLoader(small_set(tiny_model_folder, size, 100 * i), 4, seed=0)
        for i, (name, size) in enumerate(sizes.items())
    }
    return RoundRobin(loaders, steps=8)


def test_round_robin_takes_the_sets_in_turn_and_each_without_end(round_robin):
    seen, names = {name: [] for name in round_robin.loaders}, []
    for epoch in range(1, 7):
        round_robin.set_epoch(epoch, 0)
        for batch in round_robin:
            names.append(batch["task"])
            seen[names[-1]] += batch["sent_ids"]
    assert names == ["large", "small", "middle", "large", "small", "middle", "large", "small"] * 6
    for name, loader in round_robin.loaders.items():
        rows = {key for _, _, key in loader.dataset}
        rounds = [seen[name][i : i + len(rows)] for i in range(0, len(seen[name]), len(rows))]
        whole = [keys for keys in rounds if len(keys) == len(rows)]
        assert len(whole) >= 3
        assert all(set(keys) == rows for keys in whole)  # each row once in each round
        assert len(set(map(str, whole))) > 1  # in new orders
    pieces = [round_robin.loaders[name].pieces_per_batch for name in names[:8]]
    assert round_robin.pieces_per_batch == pytest.approx(sum(pieces) / 8)


def test_round_robin_resumed_anywhere_has_the_same_rows_and_draws_nothing(round_robin):
    """Nothing from the global random numbers, whether it was interrupted or not."""
    torch.manual_seed(7)
    before = torch.get_rng_state()
    whole = {}
    for epoch in (1, 2, 3):
        round_robin.set_epoch(epoch, 0)
        whole[epoch] = [(batch["task"], batch["sent_ids"]) for batch in round_robin]
    for epoch, skip in ((1, 0), (1, 5), (2, 3), (3, 7), (3, 8)):
        round_robin.set_epoch(epoch, skip)
        rest = [(batch["task"], batch["sent_ids"]) for batch in round_robin]
        assert rest == whole[epoch][skip:]
    assert torch.equal(torch.get_rng_state(), before)
    with one_line_error("--steps_per_epoch 2 is too few", "middle would never have a step"):
        RoundRobin(round_robin.loaders, steps=2)


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


class SmallLoader(list):
    """Batches of numbers, the same in every epoch."""

    pieces_per_batch = 12.0

    def __init__(self, count: int):
        chance = torch.Generator().manual_seed(count)
        mask = torch.ones(4, 3, dtype=torch.int64)
        super().__init__(
            {
                "token_ids": torch.rand(4, 3, generator=chance),
                "attention_mask": mask,
                "labels": mask[:, 0],
            }
            for _ in range(count)
        )

    def set_epoch(self, epoch: int, skip: int) -> None:
        assert skip == 0


def small_run(count=10, **flags) -> Run:
    """A run of ``count`` steps an epoch on a small layer; writes nothing before ``with``."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    off = {"clip": None, "warmup": 0.0, "decay": False, "accumulate": 1, "precision": "fp32"}
    off |= {"epochs": 1, "patience": None, "resume": False, "tensorboard": None}
    return Run(
        SimpleNamespace(**(off | flags)),
        model,
        AdamW(model.parameters(), lr=0.5),
        SmallLoader(count),
        point=ResumePoint("x.resume", {}),
        checkpoint="x.pt",
        steps_file="x-steps.csv",
    )


def one_step(run: Run, batch: dict, scale: float = 1.0) -> None:
    """The body of a script's loop."""
    for rows, _, labels in run.micro_batches(batch):
        logits = run.model(rows)
        loss = scale * F.cross_entropy(logits, labels)
        (loss * len(labels) / len(batch["labels"])).backward()
        run.log(len(labels), loss=loss, train_acc=logits.argmax(dim=-1) == labels)
    run.before_update()
    run.optimizer.step()
    run.optimizer.zero_grad()
    run.end_step()


def before_step(number=4, **flags) -> Run:
    """A run whose model has gradients, before the step of that number, of ten."""
    run = small_run(**flags)
    run.model(torch.full((4, 3), 9.0)).square().sum().backward()
    run.position.step = number
    run.before_update()
    return run


@pytest.mark.parametrize("clip", [0.7, 1e6])
def test_clipping_is_that_of_torch(clip):
    """Small gradients are left alone."""
    plain, clipped = before_step().model, before_step(clip=clip).model
    norm = torch.cat([p.grad.flatten() for p in clipped.parameters()]).norm()
    assert (norm.item() == pytest.approx(0.7, rel=1e-4)) == (clip == 0.7)
    nn.utils.clip_grad_norm_(plain.parameters(), clip)
    for ours, theirs in zip(clipped.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, 0.5),
        ({"warmup": 0.5}, 0.5 * 4 / 5),
        ({"decay": True}, 0.5 * 6 / 10),
        ({"warmup": 0.2, "decay": True}, 0.5 * 6 / 8),
    ],
)
def test_the_learning_rate_of_a_step(flags, expected):
    assert before_step(**flags).optimizer.param_groups[0]["lr"] == expected


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


def last_epochs() -> list[dict]:
    """The metrics of every epoch of the last run."""
    return json.loads(Path("x-metrics.json").read_text())["epochs"]


def without_dropout(monkeypatch, args) -> None:
    monkeypatch.setattr(nn.Dropout, "forward", lambda self, x: x)
    args.hidden_dropout_prob = 0.0


@pytest.mark.parametrize("count", [3, 30])
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


def count_encoding(monkeypatch) -> list[int]:
    """How many rows went through BERT's layers, call by call."""
    rows, encode = [], BertModel.encode

    def counted(self, hidden, mask):
        rows.append(len(hidden))
        return encode(self, hidden, mask)

    monkeypatch.setattr(BertModel, "encode", counted)
    return rows


def test_cached_outputs_are_the_encoders(flags, monkeypatch):
    """Whatever the padding; a batch with a text that was not seen is encoded."""
    flags.option = "pretrain"
    data = classifier.read_data(flags, ("train", "dev"))
    model, _ = classifier.new_model(flags, data.num_labels)
    sets = (data.train, data.dev)
    keys, names = ("token_ids", "attention_mask"), list(model.state_dict())
    batches = [batch for each in sets for batch in evaluation_loader(each, 5)]
    inputs = [tuple(F.pad(batch[key], (0, 5)) for key in keys) for batch in batches]
    unseen = data.train.collate_fn([data.train[0], ("not yet seen", 0, "x")])
    unseen = tuple(unseen[key] for key in keys)
    with torch.no_grad():
        expected = [model.eval()(*tensors) for tensors in (*inputs, unseen)]
        states = model.bert(*unseen)["last_hidden_state"]
    rows = count_encoding(monkeypatch)
    cache_encoder_outputs(model, [model.forward], sets, 3, CPU)
    assert sum(rows) - sum(map(len, sets)) in (3, 6)  # each text once, a batch to look first
    rows.clear()
    model.bert.train()  # as it is while the head learns: there must be no dropout
    for tensors, logits in zip(inputs, expected, strict=False):
        torch.testing.assert_close(model(*tensors), logits, rtol=0, atol=1e-6)
    assert model.bert(*inputs[0])["last_hidden_state"].shape == (5, 1, 32)
    assert rows == []
    torch.testing.assert_close(model.eval()(*unseen), expected[-1], rtol=0, atol=1e-6)
    torch.testing.assert_close(model.bert(*unseen)["last_hidden_state"], states)
    assert rows == [2, 2]
    assert list(model.state_dict()) == names


def mean_of_tokens(self, input_ids, attention_mask):
    """(B, L), (B, L) → (B, D), by all tokens' states."""
    states = self.bert(input_ids, attention_mask)["last_hidden_state"]
    weights = attention_mask[:, : states.shape[1], None].float()
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


def state_of_cls(self, input_ids, attention_mask):
    return self.bert(input_ids, attention_mask)["last_hidden_state"][:, 0]


@pytest.mark.parametrize(("pool", "is_cached"), [(mean_of_tokens, False), (state_of_cls, True)])
def test_a_frozen_bert_is_cached_only_if_the_model_looks_at_cls_alone(
    pool, is_cached, tiny_model_folder, tiny_data, tmp_path, monkeypatch, capsys
):
    """Else the run is the one with --reencode, to the last digit, and says so."""
    monkeypatch.chdir(tmp_path)
    draw_nothing(monkeypatch)
    monkeypatch.setattr(multitask_classifier.MultitaskBERT, "forward", pool)
    line = (
        f"--model {tiny_model_folder} --data_dir {tiny_data} --tasks sst,sts --epochs 2 --lr 0.01"
    )
    results = []
    for more in ("", " --reencode"):
        args = multitask_classifier.get_args((line + more).split())
        seed_everything(args.seed)
        multitask_classifier.train_multitask(args)
        metrics = json.loads(Path("predictions/multitask-metrics.json").read_text())
        results.append(metrics["epochs"])
        said = "the frozen BERT runs again in every step" in capsys.readouterr().out
        assert said == (not is_cached and not more)
        multitask_classifier.test_model(args)
        scores = "  ".join(f"{key} {metrics['best'][key]:.3f}" for key in ("sst", "sts", "overall"))
        assert f"dev  {scores}\n" in capsys.readouterr().out
    assert (results[0] == results[1]) == (not is_cached)  # a cached encoder has no dropout


def test_a_head_learns_as_on_a_frozen_encoder_in_evaluation_mode(flags, monkeypatch):
    flags.option, flags.epochs, flags.lr, flags.hidden_dropout_prob = "pretrain", 3, 1e-2, 0.0
    rows = count_encoding(monkeypatch)
    cached = trained(flags)
    epochs = last_epochs()
    assert sum(rows) == 25 + 11 + 2 * 8  # a batch twice, to see whether [CLS] is enough
    # The other way: every batch again, by an encoder that model.train() does not reach
    monkeypatch.setattr(BertModel, "train", lambda self, mode=True: nn.Module.train(self, False))
    rows.clear()
    again = trained(flags, reencode=True)
    assert sum(rows) == 3 * (25 + 11)
    for ours, theirs in zip(epochs, last_epochs(), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    for name, tensor in again.items():
        torch.testing.assert_close(cached[name], tensor, rtol=0, atol=1e-5)


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


def test_evaluations_that_are_still_to_come_take_as_long_as_the_last(clock):
    progress = Progress(total=300, evaluations=3)
    for epoch in (1, 2):
        for _ in progress.bar([batch_of(10)] * 10, f"epoch {epoch}", 0, 10):
            clock.now += 1.0
        if epoch == 2:
            assert progress.left() == pytest.approx(10.0 + 30.0)  # an epoch and its evaluation
        clock.now += 30.0


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


# ---------------------------------------------------------------------------------------------
# The run


def test_running_means_add_up_and_continue():
    means = RunningMeans({"loss": [4.0, 10]})
    means.add(3, 8, {"loss": torch.tensor(1.5), "right": torch.tensor([1.0, 0.0, 1.0])})
    means.add(5, 8, {"loss": torch.tensor(0.5)})
    assert means.read() == []  # the step is not over
    means.end_step(0.1)
    assert means.read() == [((3 * 1.5 + 5 * 0.5) / 8, 0.1)]
    assert means.sums == {"loss": [4.0 + 4.5 + 2.5, 18], "right": [2.0, 3]}
    assert means.means() == {"loss": 11 / 18, "right": 2 / 3}
    assert means.read() == []  # nothing is counted twice
    means.clear()
    assert means.means() == {}


class Reads(TorchDispatchMode):
    """Notes what makes a CPU wait for a device: numbers that are read, and boolean indices."""

    def __init__(self, monkeypatch):
        super().__init__()
        self.step, self.noted = 0, []
        for name in ("tolist", "numpy"):  # these read without an operator
            method = getattr(torch.Tensor, name)
            monkeypatch.setattr(
                torch.Tensor, name, lambda tensor, m=method, n=name: self.note(n) or m(tensor)
            )

    def note(self, name: str) -> None:
        self.noted.append((self.step, name))

    def __torch_dispatch__(self, function, types, inputs=(), options=None):
        name = str(function.overloadpacket).removeprefix("aten.")
        by_mask = name == "index" and any(i.dtype == torch.bool for i in inputs[1] if i is not None)
        if by_mask or name in ("_local_scalar_dense", "nonzero", "masked_select"):
            self.note(name)
        return function(*inputs, **(options or {}))


@pytest.mark.parametrize("script", [classifier, multitask_classifier])
def test_no_step_reads_from_the_device_but_every_tenth(
    script, tiny_model_folder, tiny_data, tmp_path, monkeypatch
):
    """In what the script does with a batch, from the forward pass to the end of the step."""
    monkeypatch.chdir(tmp_path)
    draw_nothing(monkeypatch)
    batches = Run.batches
    reads = Reads(monkeypatch)

    def watched(run):
        for batch in batches(run):
            reads.step = run.position.step + 1
            with reads:
                yield batch
            reads.step = 0

    monkeypatch.setattr(Run, "batches", watched)
    line = f"--model {tiny_model_folder} --data_dir {tiny_data} --option finetune --epochs 1 "
    if script is classifier:
        (args,) = classifier.plan(
            classifier.get_args([*line.split(), *"--only sst --batch_size 2".split()])
        )
        classifier.train(args)
    else:
        args = multitask_classifier.get_args([*line.split(), "--steps_per_epoch", "13"])
        multitask_classifier.train_multitask(args)
    assert [(step, name) for step, name in reads.noted if step] == [(10, "tolist")]


def test_reads_are_noted(monkeypatch):
    """All that the test before this one looks for."""
    with Reads(monkeypatch) as reads:
        tensor = torch.tensor([1.0, 0.0])
        tensor[0].item()
        bool(tensor[0])
        tensor[tensor > 0]
        tensor.nonzero()
        tensor.tolist()
    names = Counter(name for _, name in reads.noted)
    assert names == {"_local_scalar_dense": 2, "index": 1, "nonzero": 1, "tolist": 1}


def test_run_is_short():
    tree = ast.parse((ROOT / "training" / "loop" / "run.py").read_text(encoding="utf-8"))
    (run,) = (node for node in tree.body if getattr(node, "name", "") == "Run")
    assert run.end_lineno - run.lineno + 1 <= 200


@pytest.mark.parametrize("seconds", [0.0, 60.0], ids=["written every step", "every minute"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_and_nothing_of_it_is_saved(
    flags, monkeypatch, value, seconds
):
    """13 steps an epoch; the loss of step 16 and of all later ones is spoiled."""
    monkeypatch.setattr(ResumePoint.__init__, "__defaults__", (seconds,))
    steps, kept = [], []
    cross_entropy, end_epoch = F.cross_entropy, Run.end_epoch

    def spoiled(logits, labels):
        steps.append(len(labels))
        return cross_entropy(logits, labels) * (value if len(steps) >= 16 else 1.0)

    def keep(run, results):
        end_epoch(run, results)
        kept.append(Path(flags.filepath).read_bytes())

    monkeypatch.setattr(F, "cross_entropy", spoiled)
    monkeypatch.setattr(Run, "end_epoch", keep)
    with one_line_error(f"loss is {value} in epoch 2, batch 3", "lower --lr", flags.filepath):
        trained(flags, epochs=3, batch_size=2)
    assert len(steps) <= 16 + (10 if seconds else 0)
    assert len(kept) == 1  # epoch 1 is the last that ended
    assert Path(flags.filepath).read_bytes() == kept[0]
    point = load_checkpoint("sst-classifier.resume")
    assert point["position"]["step"] == (13 if seconds else 15)
    assert all(tensor.isfinite().all() for tensor in point["model"].values())
    losses = [float(loss) for _, _, loss, _ in steps_in("x-steps.csv")]
    assert len(losses) == 15
    assert all(map(math.isfinite, losses))


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
    means = [float(loss) for _, _, loss, _ in found]
    assert min(means[:4]) <= last_epochs()[0]["loss"] <= max(means[:4])


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


def test_a_resumed_run_prints_its_finished_epochs_again(flags, monkeypatch, capsys):
    flags.epochs = 3
    end_step = Run.end_step

    def stopping(run):
        if run.position.step == 9:
            run.stop.asked = True
        end_step(run)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "end_step", stopping)
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
@pytest.mark.parametrize("script", ["classifier", "multitask_classifier"])
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
