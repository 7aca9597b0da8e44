"""From BERT to ModernBERT in steps: each switch, their sum, Muon, and runs with a time limit."""

import json
import random
import signal
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from factories import NO_DROPOUT, WORDS, stir, tiny_config, tiny_vocabulary
from running import assert_refused, left_by, needs_fork, run_forked, succeeded
from torch.nn import functional as F

import classifier
from lessons.modern_bert import ModernBertModel
from lessons.modern_config import ModernBertConfig
from optimizer import AdamW
from pretraining import pretrain
from pretraining.flags import PretrainingFlags
from pretraining.model import PretrainingModel
from pretraining.muon import Muon, orthogonalize
from pretraining.report import Report
from pretraining.steps import SWITCHES, StepsModel
from tokenizer import BertTokenizer
from training.loop import progress
from training.loop.checkpoints import load_checkpoint
from training.loop.run import linear_factor

ALL = ",".join(SWITCHES)
SHAPE = NO_DROPOUT | {"num_hidden_layers": 4, "intermediate_size": 96, "local_attention": 6}


def a_model(architecture: str, objective: str = "none", **values) -> StepsModel:
    torch.manual_seed(0)
    return StepsModel.new(tiny_config(**SHAPE | values), architecture, objective)


def a_batch(rows: int = 4, length: int = 20) -> tuple[torch.Tensor, ...]:
    """Ids (B, L) and their mask; the last row is padded."""
    ids = torch.randint(5, 100, (rows, length), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[-1, length // 2 :] = 0
    return ids * mask, mask


# ---------------------------------------------------------------------------------------------
# The model


@pytest.mark.parametrize("objective", ["none", "nsp"])
def test_without_switches_it_is_bert_bit_for_bit(objective):
    bert = stir(PretrainingModel(tiny_config(**SHAPE), objective), 0.3)
    ours = a_model("bert", objective)
    ours.load_state_dict(bert.state_dict())
    ids, mask = a_batch()
    for model in (bert, ours):
        words, relation = model(ids, mask, ids % 2)
        loss = words.square().mean() + (0 if relation is None else relation.square().mean())
        loss.backward()
    assert torch.equal(ours(ids, mask)[0], bert(ids, mask)[0])
    for (name, mine), theirs in zip(ours.named_parameters(), bert.parameters(), strict=True):
        assert theirs.grad is mine.grad is None or torch.equal(mine.grad, theirs.grad), name


@pytest.mark.parametrize("switch", SWITCHES)
def test_each_switch_alone_changes_the_function_and_learns(switch):
    """The tensors that it shares with BERT have the same values."""
    bert = stir(PretrainingModel(tiny_config(**SHAPE), "none"))
    model = a_model(switch)
    shared = {n: t for n, t in bert.state_dict().items() if n in model.state_dict()}
    if switch == "no-bias":
        assert {n for n, _ in model.named_parameters() if n.endswith("bias")} == {"decoder_bias"}
    model.load_state_dict(shared, strict=False)
    ids, mask = a_batch()
    real = mask.flatten().bool()
    assert (model(ids, mask)[0] - bert(ids, mask)[0])[real].abs().mean() > 1e-3
    optimizer = AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        loss = F.cross_entropy(model(ids, mask)[0][real], ids.flatten()[real])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_with_all_switches_it_is_the_lessons_modernbert():
    """Which agrees with transformers: values and gradients on the same weights, and padding."""
    bases = {"global_rope_theta": 700, "local_rope_theta": 50}
    ours = stir(a_model("modern", layer_norm_eps=1e-5, **bases), 0.2).double()
    config = {"vocab_size": 100, "pad_token_id": 0, "hidden_size": 32, "num_attention_heads": 4}
    config |= {"num_hidden_layers": 4, "intermediate_size": 64, "local_attention": 6} | bases
    theirs = ModernBertModel(ModernBertConfig(**config)).double().eval()
    names = {}  # theirs → ours
    for name in theirs.state_dict():
        is_head = name.startswith(("transform", "decoder"))
        inner = name.replace("feed_forward_layer_norm", "out_layer_norm")
        names[name] = name if is_head else f"bert.{inner}"
    state = ours.state_dict()
    theirs.load_state_dict({name: state[own] for name, own in names.items()})
    left = {n for n, _ in ours.named_parameters()} - {*names.values()}
    assert left == {"bert.pooler_dense.weight"}  # for the second task
    ids, mask = a_batch()
    real = mask.flatten().bool()
    words = ours(ids, mask)[0][real]
    logits = theirs(ids, mask)["logits"].flatten(0, 1)[real]
    torch.testing.assert_close(words, logits, rtol=0, atol=1e-12)
    cotangent = torch.randn_like(words)
    for outputs in (words, logits):
        (outputs * cotangent).sum().backward()
    grads = {name: p.grad for name, p in ours.named_parameters()}
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(grads[names[name]], parameter.grad, rtol=0, atol=1e-10)


# ---------------------------------------------------------------------------------------------
# Folders


def test_no_bert_takes_a_folder(tmp_path, run_script_here):
    a_model("pre-norm,local").save_pretrained(tmp_path / "steps")
    BertTokenizer(tiny_vocabulary()).save_pretrained(tmp_path / "steps")
    kind = "its model_type is 'bert with pre-norm,local', not 'bert'"
    fact = f"steps/config.json is not the configuration of a BERT ({kind}); "
    line = ["--model", tmp_path / "steps", "--epochs", 1]
    assert_refused(run_script_here(classifier, *line), fact, code=1)


# ---------------------------------------------------------------------------------------------
# Muon


@pytest.mark.parametrize("shape", [(24, 24), (40, 12), (12, 40)], ids=str)
def test_orthogonalize_is_near_the_polar_factor(shape):
    """Singular vectors stay, singular values come near 1 (the coefficients leave 0.68 to 1.21)."""
    torch.manual_seed(0)
    matrix = torch.randn(shape, dtype=torch.float64)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    values = u.T @ orthogonalize(matrix, torch.float64) @ v.T
    assert values.diagonal().min() > 0.68
    assert values.diagonal().max() < 1.21
    assert (values - values.diagonal().diag()).abs().max() < 1e-9


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_muon_is_that_of_torch(dtype):
    """Seven steps on three matrices with changing rates; torch's products are in bfloat16."""
    torch.manual_seed(0)
    start = [torch.randn(shape, dtype=torch.float64) for shape in ((16, 16), (30, 8), (8, 30))]
    ours, theirs = ([torch.nn.Parameter(x.clone()) for x in start] for _ in range(2))
    mine = Muon([{"params": ours, "momentum": 0.95, "weight_decay": 0.1}], lr=1.0)
    mine.dtype = dtype
    other = torch.optim.Muon(theirs, 1.0, 0.1, adjust_lr_fn="match_rms_adamw")
    exact = mock.patch.object(torch.Tensor, "bfloat16", lambda x: x.to(dtype))
    with exact:
        for step in range(7):
            for optimizer in (mine, other):
                optimizer.param_groups[0]["lr"] = 1 / (1 + step)
            for a, b in zip(ours, theirs, strict=True):
                a.grad = torch.randn_like(a)
                b.grad = a.grad.clone()
            mine.step()
            other.step()
    near = 1e-12 if dtype == torch.float64 else 5e-2
    for a, b, before in zip(ours, theirs, start, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=near)
        assert (a - before).abs().mean() > 4 * near


def test_muon_has_the_layers_matrices_and_adamw_the_rest():
    model = a_model("geglu")
    args = PretrainingFlags(optimizer="muon", lr=0.01, weight_decay=0.1)
    optimizer = pretrain.new_optimizer(args, model)
    names = {p: name for name, p in model.named_parameters()}
    decayed, spared, matrices = ({names[p] for p in g["params"]} for g in optimizer.param_groups)
    assert matrices == {
        n for n in names.values() if "bert_layers" in n and n.endswith("weight") and "norm" not in n
    }
    assert {"bert.word_embedding.weight", "transform_dense.weight"} <= decayed
    assert len(matrices) + len(decayed) + len(spared) == len(names)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0, 0.1]


# ---------------------------------------------------------------------------------------------
# Runs


@pytest.fixture(scope="module")
def line(tmp_path_factory, tiny_model_folder) -> list[str]:
    """The flags of a small run."""
    folder = tmp_path_factory.mktemp("text")
    chance = random.Random(3)
    documents = (
        "\n".join(" ".join(chance.choices(WORDS, k=9)) for _ in range(9)) for _ in "1234567"
    )
    (folder / "text.txt").write_text("\n\n".join(documents))
    shape = tiny_config(hidden_size=16, intermediate_size=96, max_position_embeddings=48).to_dict()
    (folder / "shape.json").write_text(json.dumps(shape | {"local_attention": 8}))
    return (
        f"--text {folder / 'text.txt'} --corpus {folder / 'corpus'} --vocab {tiny_model_folder} "
        f"--config {folder / 'shape.json'} --length 48 --batch_size 4 --held_out 0.3 --eval_rows 8 "
        "--objective none --precision fp32 --lr 3e-3 --eval_every 5 --log_every 2 --out out"
    ).split()


def muon_run(folder, line, last_event=None) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Report, "draw", lambda *_: None)
        options = ["--architecture", "modern", "--optimizer", "muon", "--steps", "12"]
        return run_forked(pretrain.main, folder, [*line, *options, "--resume"], last_event)


@needs_fork
def test_killed_and_resumed_it_ends_with_the_same_bits(line, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    assert muon_run(whole, line) == 0, (whole / "log.txt").read_text()
    assert muon_run(killed, line, last_event=24) == -signal.SIGKILL
    saved = load_checkpoint(killed / "out" / "pretrain.resume")
    assert 1 <= saved["position"]["step"] < 12
    assert any("momentum" in state for state in saved["optimizer"]["state"].values())
    assert muon_run(killed, line) == 0, (killed / "log.txt").read_text()
    assert left_by(killed, "out/*", "out/last/*") == left_by(whole, "out/*", "out/last/*")


def test_the_rate_follows_the_time_and_the_run_ends_with_it(
    line, run_script_here, monkeypatch, tmp_path
):
    """A step takes 7 s, of a minute; a stop after the third, and the hour until it goes on."""
    clock, rates = SimpleNamespace(now=100.0), []

    def step(self):
        rates.append(self.param_groups[0]["lr"])
        clock.now += 7
        if len(rates) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(AdamW, "step", step)
    options = ["--minutes", 1, "--warmup", 0.25, "--eval_every", 100, "--resume"]
    stopped = run_script_here(pretrain, *line, *options)
    assert stopped.code == 1
    assert "plan: 1 min 00 s of 4 rows of up to 48 tokens, lr" in stopped.out
    clock.now += 3600
    succeeded(run_script_here(pretrain, *line, *options))
    seconds = [7 * i for i in range(10)]  # the last one is 63: the time is up
    assert rates == pytest.approx([3e-3 * linear_factor(s, 60, 0.25, True) for s in seconds])
    assert rates[-1] == 0
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [row["step"] for row in metrics["held_out"]] == [10]


@pytest.mark.parametrize(
    ("flags", "fact", "code"),
    [
        (
            "--architecture rope",
            "'rope' is not a switch; give bert, modern, or some of pre-norm,",
            2,
        ),
        ("--architecture bert,rotary", "'bert' is not a switch", 2),
        ("--architecture rotary,local,rotary", "rotary,local,rotary has rotary twice", 2),
        ("--optimizer sgd", "invalid choice: 'sgd'", 2),
        ("--architecture local --model x", "--model keeps its vocabulary and architecture", 2),
        ("--minutes 1 --steps 5", "--minutes and --steps exclude each other", 2),
        (
            "--architecture rotary --config odd.json",
            "rotary does not fit the shape (a head is 5 wide",
            1,
        ),
        (
            "--architecture local --config window.json",
            "local_attention must be a whole number from 1",
            1,
        ),
    ],
)
def test_bad_input_is_one_line(line, run_script_here, tmp_path, flags, fact, code):
    for name, values in {"odd": {"hidden_size": 20}, "window": {"local_attention": 0}}.items():
        shape = tiny_config().to_dict() | values
        (tmp_path / f"{name}.json").write_text(json.dumps(shape))
    if "--model" in flags:
        line = ["--text", "text", "--out", "out"]
    assert_refused(run_script_here(pretrain, *line, *flags.split()), fact, code=code)
