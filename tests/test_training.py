"""What training runs share (training/): batches, precision, schedule, progress, the run itself."""

import functools
import json
import math
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch._dynamo
import transformers
from factories import make_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from running import assert_refused, draw_nothing, one_line_error
from torch import nn
from torch.nn import functional as F

import classifier
import multitask_classifier
from bert import BertModel
from datasets import SentenceClassificationDataset
from optimizer import AdamW
from training.loop import devices, on_request
from training.loop import run as loop
from training.loop.batches import LengthBatches, RoundRobin, TrainingLoader
from training.loop.checkpoints import ResumePoint, Stopped, load_checkpoint
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


def test_order_is_new_each_epoch_and_follows_its_seed_alone():
    def order(seed: int, epoch: int) -> str:
        batches = LengthBatches(some_lengths(300), 8, seed)
        batches.set_epoch(epoch)
        return str(list(batches))

    before = torch.get_rng_state()  # the run's random numbers are another matter
    orders = {(seed, epoch): order(seed, epoch) for seed in (1, 2) for epoch in (1, 2, 3)}
    assert len(set(orders.values())) == 6
    assert order(1, 2) == orders[1, 2]
    assert torch.equal(torch.get_rng_state(), before)


def test_little_padding_in_batches_that_do_not_come_sorted():
    lengths = some_lengths(2000)
    longest = [max(lengths[row] for row in batch) for batch in LengthBatches(lengths, 8, seed=0)]
    assert sum(lengths) > 0.95 * sum(8 * width for width in longest)
    correlation = torch.corrcoef(torch.tensor([range(len(longest)), longest]).float())[0, 1]
    assert abs(correlation) < 0.5


def small_set(model: Path, count: int, first_id: int = 0) -> SentenceClassificationDataset:
    rows = [(text, 0, key) for key, text in make_rows(count, first_id=first_id)]
    return SentenceClassificationDataset(rows, SimpleNamespace(model=str(model)))


@pytest.fixture
def round_robin(tiny_model_folder) -> RoundRobin:
    """Sets of 4, 1 and 2 batches; eight steps an epoch."""
    loaders = {
        name: TrainingLoader(small_set(tiny_model_folder, size, first_id), 4, seed=0)
        for name, size, first_id in (("large", 13, 0), ("small", 3, 100), ("middle", 8, 200))
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
        ("fp16", True, torch.float16),
    ],
)
def test_precision_of_matrix_products(monkeypatch, precision, hardware, dtype):
    monkeypatch.setattr(devices, "computes", lambda *_: hardware)
    autocast = devices.autocast_for(CPU, precision)
    layer = torch.nn.Linear(3, 2)
    for _ in range(2):  # it can be entered again and again
        with autocast():
            product = layer(torch.ones(1, 3))
            assert product.dtype == dtype
    product.sum().backward()
    assert layer.weight.grad.dtype == layer.weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("capability", "has_bf16", "dtype"),
    [
        ((6, 0), False, None),  # P100
        ((7, 0), False, torch.float16),  # V100
        ((7, 5), False, torch.float16),  # T4, RTX 20
        ((8, 0), True, torch.bfloat16),  # A100
    ],
)
def test_what_a_gpu_multiplies_in_by_itself(monkeypatch, capability, has_bf16, dtype):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_bf16)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert devices.half_type(torch.device("cuda"), "auto") == dtype


def test_fp16_on_a_cpu_without_it(run_script_here, flags, monkeypatch):
    monkeypatch.setattr(devices, "computes", lambda *_: False)
    line = ["--model", flags.model, "--train", flags.train, "--dev", flags.dev]
    result = run_script_here(classifier, *line, "--precision", "fp16")
    assert_refused(result, "--precision fp16", "cpu")


# ---------------------------------------------------------------------------------------------
# The update


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


def test_every_step_is_logged_for_tensorboard_too(flags, monkeypatch):
    """By a stand-in for the package."""
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
    options = {"warmup": 0.5, "decay": True, "accumulate": 2, "lr": 0.01}
    trained(flags, tensorboard="board", epochs=2, **options)
    assert begun == [(os.path.join("board", "x"), 1), "closed"]
    steps = steps_in("x-steps.csv")
    assert [(int(step), int(epoch)) for step, epoch, _, _ in steps] == [
        (number, 1 + (number > 4)) for number in range(1, 9)
    ]
    rates = [0.01 * linear_factor(step, 8, 0.5, True) for step in range(8)]
    assert [float(rate) for *_, rate in steps] == pytest.approx(rates)
    means = [float(loss) for _, _, loss, _ in steps]
    assert min(means[:4]) <= last_epochs()[0]["loss"] <= max(means[:4])
    for name, values in (("loss", means), ("lr", rates)):
        curve = [(step, value) for point, step, value in points if point == name]
        assert curve == [(i, pytest.approx(value, 1e-5)) for i, value in enumerate(values, 1)]
    scores = [(step, value) for name, step, value in points if name == "epoch/dev_acc"]
    assert scores == [(4 * row["epoch"], row["dev_acc"]) for row in last_epochs()]


def steps_in(path) -> list[list[str]]:
    header, *lines = Path(path).read_text().splitlines()
    assert header == "step,epoch,loss,lr"
    return [line.split(",") for line in lines]


def last_epochs() -> list[dict]:
    """The metrics of every epoch of the last run."""
    return json.loads(Path("x-metrics.json").read_text())["epochs"]


def without_dropout(monkeypatch, args) -> None:
    monkeypatch.setattr(nn.Dropout, "forward", lambda self, x: x)
    args.hidden_dropout_prob = 0.0


def test_parts_have_the_gradients_of_a_batch_which_may_be_clipped(flags, monkeypatch):
    """Each step's, over 25 rows in batches of 8: the last part and the last batch are smaller."""
    without_dropout(monkeypatch, flags)
    steps, losses = [], []

    def keep(self, closure=None):  # and no update, so that all steps are taken at the same place
        steps[-1].append(torch.cat([p.grad.flatten() for p in self.param_groups[0]["params"]]))

    monkeypatch.setattr(AdamW, "step", keep)
    for options in ({"accumulate": 1}, {"accumulate": 3}, {"clip": 0.01}, {"clip": 1e6}):
        steps.append([])
        trained(flags, **options)
        losses.append(last_epochs()[0]["loss"])
    assert losses == pytest.approx([losses[0]] * 4, abs=1e-6)
    for whole, summed, clipped, unclipped in zip(*steps, strict=True):
        assert whole.abs().max() > 0.01
        torch.testing.assert_close(summed, whole, rtol=0, atol=1e-6)
        torch.testing.assert_close(clipped, whole * 0.01 / whole.norm(), rtol=1e-3, atol=1e-6)
        assert torch.equal(unclipped, whole)


@pytest.mark.parametrize(("patience", "last"), [(None, 7), (1, 3), (2, 6), (3, 7)])
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
    line = f"--model {tiny_model_folder} --data_dir {tiny_data} --tasks sst,sts --epochs 2 "
    results = []
    for more in ("--lr 0.01", "--lr 0.01 --reencode"):
        args = multitask_classifier.get_args((line + more).split())
        seed_everything(args.seed)
        multitask_classifier.train_multitask(args)
        metrics = json.loads(Path("predictions/multitask-metrics.json").read_text())
        results.append(metrics["epochs"])
        said = "the frozen BERT runs again in every step" in capsys.readouterr().out
        assert said == (not is_cached and "reencode" not in more)
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


@pytest.fixture
def compiled_shapes(monkeypatch) -> Iterator[list[tuple[int, ...]]]:
    """The shapes that a run compiles, by the part of torch.compile that needs no C++ compiler."""
    shapes: list[tuple[int, ...]] = []

    def backend(graph, inputs):
        shapes.extend(tuple(x.shape) for x in inputs if x.dim() == 3 and not x.is_leaf)
        return graph.forward

    monkeypatch.setattr(on_request, "FEWEST_STEPS", 1)
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    torch._dynamo.reset()
    with torch._dynamo.config.patch(suppress_errors=False, recompile_limit=8):
        yield shapes


@pytest.mark.parametrize("accumulate", [1, 2])
def test_compile_changes_neither_names_nor_results(accumulate, flags, monkeypatch, compiled_shapes):
    """25 rows in batches of 8, or parts of 4: the last one is computed as without."""
    without_dropout(monkeypatch, flags)
    flags.accumulate = accumulate
    plain = trained(flags)
    tensors = trained(flags, compile=True)
    width = tensors["bert.word_embedding.weight"].shape[1]
    assert set(compiled_shapes) == {(8 // accumulate, 32, width)}
    assert list(tensors) == list(plain)
    for name, tensor in plain.items():
        torch.testing.assert_close(tensors[name], tensor, rtol=0, atol=1e-5)


def test_a_compiled_run_that_was_interrupted_ends_as_if_untouched(
    flags, monkeypatch, compiled_shapes
):
    flags.compile, flags.batch_size = True, 4
    untouched = trained(flags)
    gather_gradients, steps = Run.gather_gradients, []

    def stop_at_the_fourth(run):
        gather_gradients(run)
        steps.append(run)
        if len(steps) == 4:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "gather_gradients", stop_at_the_fourth)
        with pytest.raises(Stopped, match="--resume"):
            trained(flags)
    torch._dynamo.reset()
    again = trained(flags, resume=True)
    assert compiled_shapes
    assert all(torch.equal(again[name], untouched[name]) for name in untouched)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"epochs": 1}, "it pays from about 500 steps on"),
        ({}, "torch cannot compile here (no compiler is installed)"),
    ],
)
def test_where_compile_does_not_help_it_says_so_and_goes_on(
    more, reason, flags, monkeypatch, capsys
):
    def compile_nothing(function, **options):
        raise RuntimeError("no compiler is installed\nand much more about that")

    if "epochs" not in more:
        monkeypatch.setattr(on_request, "FEWEST_STEPS", 1)
    monkeypatch.setattr(torch, "compile", compile_nothing)
    tensors = trained(flags, compile=True, **more)
    lines = [line for line in capsys.readouterr().out.splitlines() if "--compile" in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"--compile: left out, since {reason}")
    plain = trained(flags, **more)
    assert all(torch.equal(tensors[name], plain[name]) for name in plain)


# ---------------------------------------------------------------------------------------------
# Progress


def test_what_is_left_is_estimated(monkeypatch, capsys):
    """Four steps of 20 took 6 s: 24 s are left."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("training.loop.progress.time.monotonic", lambda: clock.now)
    monkeypatch.setattr(Progress, "UNTIMED_STEPS", 0)
    run = SimpleNamespace(epoch=1, batch=0, step=0, total_steps=20)
    for _ in Progress(run).bar(["batch"] * 10):
        clock.now += 1.5
        run.batch, run.step = run.batch + 1, run.step + 1
    assert capsys.readouterr().out == "epoch 1, batch 4 of 10: 6 s, about 24 s left\n"


# ---------------------------------------------------------------------------------------------
# The run


@pytest.mark.parametrize("seconds", [0.0, 60.0], ids=["written every step", "every minute"])
def test_a_loss_that_is_not_finite_stops_and_nothing_of_it_is_saved(flags, monkeypatch, seconds):
    """13 steps an epoch; the loss of step 16 and of all later ones is spoiled."""
    monkeypatch.setattr(ResumePoint.__init__, "__defaults__", (seconds,))
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
    with one_line_error("loss is nan in epoch 2, batch 3", "lower --lr"):
        trained(flags, epochs=3, batch_size=2)
    assert len(steps) <= 16 + (10 if seconds else 0)
    assert [Path(flags.filepath).read_bytes()] == kept  # epoch 1 is the last that ended
    point = load_checkpoint("sst-classifier.resume")
    assert point["position"]["step"] == (13 if seconds else 15)
    assert all(tensor.isfinite().all() for tensor in point["model"].values())
    losses = [float(loss) for _, _, loss, _ in steps_in("x-steps.csv")]
    assert len(losses) == 15
    assert all(map(math.isfinite, losses))
