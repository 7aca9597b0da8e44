"""The fast ways of training/fast/ compute what bert.py and optimizer.py say, and are not needed."""

import copy
import shutil
from types import SimpleNamespace

import pytest
import torch
from support import ROOT, as_process, left_by, succeeded, tiny_config

import classifier
import multitask_classifier
from bert import BertModel, BertSelfAttention
from optimizer import AdamW
from training import acceleration
from training.acceleration import accelerate
from training.fast import seen_rows
from training.fast.adamw import use_fused_step
from training.fast.attention import is_padded, use_attention_kernel
from training.fast.seen_rows import SeenRows, train_seen_rows
from utils import get_extended_attention_mask

IDS = torch.randint(1, 100, (3, 9), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("in_training", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("length", [5, 9])
def test_the_attention_kernel_agrees_with_the_formula(dtype, tolerance, length, in_training):
    found = []
    mask = torch.ones_like(IDS)
    mask[1, length:] = 0  # of length 9 nothing is padded
    for is_fast in (False, True):
        torch.manual_seed(0)
        model = BertModel(tiny_config(initializer_range=0.3)).to(dtype).eval()
        if is_fast:
            use_attention_kernel(model, in_training)
        output = model(IDS, mask)
        output["pooler_output"].sum().backward()
        gradient = model.bert_layers[0].self_attention.query.weight.grad
        found.append((output["last_hidden_state"][mask == 1].detach(), gradient))
    assert found[0][1].abs().max() > 1e-2
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=10 * tolerance, atol=10 * tolerance)


def test_the_kernel_drops_out_in_training_only():
    model = BertModel(tiny_config(hidden_dropout_prob=0.0))
    use_attention_kernel(model, in_training=True)
    run = lambda: model(IDS, torch.ones_like(IDS))["pooler_output"]  # noqa: E731
    assert not torch.equal(model.train() and run(), run())
    assert torch.equal(model.eval() and run(), run())


@pytest.mark.parametrize(
    ("accelerated", "in_training", "expected"),
    [(False, False, (True, True)), (True, True, (False, False)), (True, False, (True, False))],
)
def test_when_the_formula_is_used(accelerated, in_training, expected, monkeypatch):
    """A model as bert.py makes it always runs the function that a student wrote."""
    calls = []
    formula = BertSelfAttention.attention
    monkeypatch.setattr(
        BertSelfAttention, "attention", lambda *given: calls.append(1) or formula(*given)
    )
    model = BertModel(tiny_config())
    if accelerated:
        accelerate(model, kernel_in_training=in_training)
    for each in (model, copy.deepcopy(model)):
        for training, is_called in zip((True, False), expected, strict=True):
            calls.clear()
            each.train(training)(IDS, torch.ones_like(IDS))
            assert bool(calls) == is_called


def test_the_kernel_gets_a_mask_only_where_something_is_padded():
    """A mask of zeros would change no score; one padded piece, in any row, does."""
    mask = torch.ones(2, 5, dtype=torch.int64)
    assert not is_padded(get_extended_attention_mask(mask, torch.float32))
    mask[1, 4] = 0
    assert is_padded(get_extended_attention_mask(mask, torch.float32))


def parameters_after(steps: range, saved: dict | None = None, is_fast: bool = True, **options):
    """Two parameters and an optimizer's state after some steps, of which one sees only a part."""
    parameters = [torch.nn.Parameter(torch.linspace(-1, 1, n)) for n in (5, 700)]
    optimizer = AdamW(parameters, lr=1e-2, eps=1e-3, **options)
    if saved:
        optimizer.load_state_dict(saved)
    if is_fast:
        assert use_fused_step(optimizer)
    for t in steps:
        for k, parameter in enumerate(parameters):
            missing = k == 0 and t % 4 == 0  # so that the two step counts differ
            wave = torch.cos(torch.arange(len(parameter)) * 0.7 + t) * 10.0 ** (-k * 3)
            parameter.grad = None if missing else wave
        optimizer.step()
    return torch.cat([p.detach() for p in parameters]), optimizer.state_dict()


@pytest.mark.parametrize("correct_bias", [True, False])
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_the_fused_step_agrees_with_the_plain_one(correct_bias, weight_decay):
    options = {"weight_decay": weight_decay, "correct_bias": correct_bias}
    fast, saved = parameters_after(range(1, 21), **options)
    plain, saved_plain = parameters_after(range(1, 21), is_fast=False, **options)
    assert (fast - torch.cat([torch.linspace(-1, 1, n) for n in (5, 700)])).abs().max() > 0.02
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-6)
    # each goes on from what the other saved
    assert [saved["state"][i]["step"] for i in (0, 1)] == [15, 20]
    onwards, _ = parameters_after(range(21, 25), saved_plain, **options)
    expected, _ = parameters_after(range(21, 25), saved, is_fast=False, **options)
    torch.testing.assert_close(onwards, expected, rtol=0, atol=1e-6)


def test_the_fused_step_calls_a_closure():
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = AdamW([parameter])
    assert use_fused_step(optimizer)

    def closure():
        loss = parameter.sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 3
    assert parameter.lt(1).all()


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_other_optimizers_keep_their_step(kind):
    optimizer = kind([torch.nn.Parameter(torch.ones(3))])
    step = optimizer.step
    assert not use_fused_step(optimizer)
    assert optimizer.step == step


def test_double_precision_keeps_the_plain_step():
    assert not use_fused_step(AdamW([torch.nn.Parameter(torch.ones(3, dtype=torch.float64))]))


# ---------------------------------------------------------------------------------------------
# Word vectors that can move


@pytest.fixture
def fast_products(monkeypatch):
    """As on a machine that computes in bfloat16."""
    monkeypatch.setattr(seen_rows, "computes_bf16", lambda device: True)


def texts_with(pieces):
    """What train_seen_rows asks of a data set."""
    return SimpleNamespace(seen=lambda: {*pieces})


def trained(seen=(), fast_step=True, steps=4):
    """A BERT after some steps, and its optimizer; the texts' pieces are 2 to 30."""
    torch.manual_seed(0)
    bert = BertModel(tiny_config()).train()
    optimizer = AdamW(bert.parameters(), lr=1e-2)
    if seen:
        said = train_seen_rows(bert, optimizer, [texts_with(seen)])
        assert said == f"{len(seen) + 1} of {bert.config.vocab_size} word vectors can move"
    if fast_step:
        assert use_fused_step(optimizer)
    for _ in range(steps):
        ids = torch.randint(2, 31, (3, 7))
        ids[0, 5:] = 0
        bert(ids, ids.ne(0).long())["pooler_output"].square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return bert, optimizer


@pytest.mark.parametrize("fast_step", [True, False])
def test_training_only_seen_rows_is_exact(fast_products, fast_step):
    """Not one bit differs from training all, and the rows that nobody saw are as they were."""
    plain, _ = trained(fast_step=fast_step)
    fewer, optimizer = trained(range(2, 31), fast_step)
    start, _ = trained(steps=0)
    expected, found = plain.state_dict(), fewer.state_dict()
    assert [*found] == [*expected]
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    table, before = found["word_embedding.weight"], start.word_embedding.weight
    is_moved = table.ne(before).any(dim=1)
    assert {*is_moved.nonzero().flatten().tolist()} <= {*range(2, 31)}
    assert is_moved.sum() > 20
    assert {len(state["exp_avg"]) for state in optimizer.state.values()} & {30, 100} == {30}
    ids = torch.arange(100).view(10, 10)
    mask = torch.ones_like(ids)
    for name, states in plain.eval()(ids, mask).items():
        assert torch.equal(states, fewer.eval()(ids, mask)[name])


def test_seen_rows_are_saved_and_loaded_as_a_table(fast_products):
    plain, _ = trained()
    fewer, _ = trained(range(2, 31), steps=1)
    fewer.load_state_dict(plain.state_dict())
    assert torch.equal(fewer.state_dict()["word_embedding.weight"], plain.word_embedding.weight)
    torch.testing.assert_close(fewer.word_embedding.rows[1], plain.word_embedding.weight[2])
    BertModel(tiny_config()).load_state_dict(fewer.state_dict())
    other = BertModel(tiny_config(vocab_size=90)).state_dict()
    for wrong in (None, other["word_embedding.weight"]):
        with pytest.raises(RuntimeError, match=r"word_embedding\.weight"):
            fewer.load_state_dict(plain.state_dict() | {"word_embedding.weight": wrong})


@pytest.mark.parametrize("why", ["decay", "frozen", "most are seen", "slow products"])
def test_where_all_rows_stay(why, fast_products, monkeypatch):
    bert = BertModel(tiny_config())
    optimizer = AdamW(bert.parameters(), weight_decay=0.1 if why == "decay" else 0.0)
    if why == "frozen":
        bert.requires_grad_(False)
    if why == "slow products":
        monkeypatch.setattr(seen_rows, "computes_bf16", lambda device: False)
    seen = range(90 if why == "most are seen" else 20)
    assert train_seen_rows(bert, optimizer, [texts_with(seen)]) == ""
    assert not isinstance(bert.word_embedding, SeenRows)


@pytest.mark.parametrize("script", [classifier, multitask_classifier])
def test_a_run_predicts_the_same_with_seen_rows(
    script, tiny_model_folder, tiny_data, tmp_path, run_script_here, monkeypatch
):
    line = ["--model", tiny_model_folder, "--data_dir", tiny_data, "--option", "finetune"]
    line += ["--epochs", "2", "--lr", "1e-3", "--precision", "fp32"]
    found = []
    for is_on in (True, False):
        monkeypatch.setattr(seen_rows, "computes_bf16", lambda device, is_on=is_on: is_on)
        done = run_script_here(script, *line)
        assert done.code == 0, done.err
        assert ("word vectors can move" in done.out) == is_on
        found.append(left_by(tmp_path, "predictions/*.csv"))
    assert found[0] == found[1]
    assert len(found[0]) >= 4


def test_a_run_says_what_it_uses(capsys, monkeypatch):
    model = BertModel(tiny_config())
    accelerate(model)
    assert capsys.readouterr().out == ""
    accelerate(model, AdamW(model.parameters()))
    said = "attention: PyTorch's kernel in evaluation; step of AdamW: PyTorch's kernel\n"
    assert capsys.readouterr().out == said
    monkeypatch.setattr(acceleration, "HAS_FAST_WAYS", False)
    optimizer = AdamW(model.parameters())
    accelerate(model, optimizer)
    assert capsys.readouterr().out == "attention: bert.py; step of AdamW: its own\n"
    assert "step" not in vars(optimizer)


def test_without_the_folder_a_run_uses_bert_and_optimizer(tmp_path, tiny_model_folder, tiny_data):
    """As in a student's copy, where both are the student's; in evaluation, too."""
    for path in ROOT.glob("*.py"):
        shutil.copy(path, tmp_path)
    shutil.copytree(ROOT / "training", tmp_path / "training", ignore=shutil.ignore_patterns("fast"))
    line = ["classifier.py", "--model", tiny_model_folder, "--data_dir", tiny_data, "--epochs", "1"]
    line += ["--only", "sst", "--option", "finetune"]
    done = succeeded(as_process(*line, folder=tmp_path))
    assert "attention: bert.py; step of AdamW: its own" in done.out

    formula = "        scores = query @"
    stop = "        if not self.training:\n            raise SystemExit('in evaluation')\n"
    text = (tmp_path / "bert.py").read_text()
    assert text.count(formula) == 1
    (tmp_path / "bert.py").write_text(text.replace(formula, stop + formula))
    done = as_process(*line, folder=tmp_path)
    assert done.code == 1
    assert "in evaluation" in done.err
