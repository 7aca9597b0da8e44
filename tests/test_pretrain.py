"""Pre-training runs on a small text: what is kept and measured, what each step learns from."""

import copy
import json
import math
import random
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from factories import NO_DROPOUT, WORDS, tiny_config
from running import assert_refused, needs_fork, run_forked, succeeded
from torch.nn import functional as F

from base_bert import read_weights
from optimizer import AdamW
from pretraining import pretrain, vocabulary
from pretraining.corpus import Corpus, unigram_entropy
from pretraining.examples import PretrainingExamples
from pretraining.held_out import HeldOut
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.loop import progress
from training.loop.checkpoints import ResumePoint
from training.loop.run import linear_factor


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_model_folder) -> SimpleNamespace:
    """Twelve documents, and the flags of a small run without dropout."""
    folder = tmp_path_factory.mktemp("text")
    chance = random.Random(3)
    for d in range(12):
        sentences = (
            " ".join(chance.choices(WORDS, k=chance.randint(2, 4))).capitalize() + "."
            for _ in range(14)
        )
        (folder / f"{d:02d}.txt").write_text("\n".join(sentences) + "\n")
    shape = folder / "shape.json"
    config = tiny_config(hidden_size=16, intermediate_size=32, max_position_embeddings=48)
    shape.write_text(json.dumps(config.to_dict() | NO_DROPOUT | {"name_or_path": ""}))
    line = (
        f"--text {folder} --out out --corpus {folder / 'corpus'} --config {shape} "
        "--length 48 --batch_size 8 --held_out 0.2 --eval_rows 16 --log_every 2 --eval_every 5 "
        f"--precision fp32 --lr 3e-3 --vocab {tiny_model_folder}"
    ).split()
    return SimpleNamespace(text=folder, line=line)


def metrics_of(folder: Path) -> dict:
    return json.loads((folder / "out" / "metrics.json").read_text())


# ---------------------------------------------------------------------------------------------
# What a run keeps


def test_what_is_kept_has_the_losses_of_the_table(place, run_script_here, tmp_path):
    """Measured again from files; a further run from the best one begins where that one was."""
    flags = ["--epochs", 5, "--eval_every", 12, "--keep_at", 0, 900, 10**7]
    succeeded(run_script_here(pretrain, *place.line, *flags))
    metrics = metrics_of(tmp_path)
    losses = [row["mlm_loss"] for row in metrics["held_out"]]
    assert metrics["best"]["mlm_loss"] == min(losses)
    assert metrics["best"]["perplexity"] == pytest.approx(math.exp(min(losses)))
    kept = sorted(path.name for path in tmp_path.glob("out/pieces-*"))
    assert kept == ["pieces-0", "pieces-900"]
    biases = [read_weights(tmp_path / "out" / name)["cls.predictions.bias"] for name in kept]
    assert [bool(bias.any()) for bias in biases] == [False, True]  # the first one is untrained
    args = SimpleNamespace(**metrics["args"])
    tokenizer = BertTokenizer.from_pretrained(str(tmp_path / "out"))
    train, held = Corpus(f"{args.corpus}/corpus.bin").split(0.2, 11711)
    assert metrics["unigram_entropy"] == unigram_entropy(held) != unigram_entropy(train)
    rows = HeldOut(args, tokenizer, held)
    for folder, row in (("out", metrics["best"]), ("out/last", metrics["held_out"][-1])):
        model = PretrainingModel.from_pretrained(tmp_path / folder, objective="nsp")
        again = rows.measure(model, "fp32")
        assert again == pytest.approx({key: row[key] for key in again}, abs=1e-5)

    i, j = place.line.index("--config"), place.line.index("--vocab")
    line = place.line[:i] + place.line[i + 2 : j]
    options = ["--model", "out", "--out", "next", "--steps", 1, "--eval_every", 1, "--lr", 1e-9]
    result = succeeded(run_script_here(pretrain, *line, *options))
    assert "starts from random values" not in result.out
    after = json.loads((tmp_path / "next" / "metrics.json").read_text())["best"]
    assert after["mlm_loss"] == pytest.approx(min(losses), abs=1e-4)


@pytest.mark.parametrize(
    ("flags", "evaluations", "has_pairs"),
    [
        ("--whole_word --log_every 1", 1, True),
        ("--objective none", 1, False),
        ("--precision bf16 --no-decay --workers 1", 1, True),
        ("--patience 1 --lr 1e-9 --steps 400 --eval_every 1", range(2, 10), True),
    ],
)
def test_flags(place, run_script_here, tmp_path, flags, evaluations, has_pairs):
    result = succeeded(run_script_here(pretrain, *place.line, "--steps", 3, *flags.split()))
    metrics = metrics_of(tmp_path)
    assert len(metrics["held_out"]) in ([evaluations] if evaluations == 1 else evaluations)
    assert ("nsp_loss" in metrics["best"]) == ("nsp_loss" in result.out) == has_pairs
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_a_vocabulary_of_ones_own(place, run_script_here, tmp_path, monkeypatch):
    line = place.line[: place.line.index("--vocab")] + ["--train_vocab", "90"]
    succeeded(run_script_here(pretrain, *line, "--corpus", "own-corpus", "--steps", 2))
    tokenizer = BertTokenizer.from_pretrained(str(tmp_path / "out"))
    assert 60 < len(tokenizer) <= 90
    assert len(tokenizer.tokenize("never")) < 5  # word pieces, not letters
    text = tmp_path / "text.txt"
    text.write_text("\n".join("a warm dull film that never quite finds its feet".split()) * 9)
    learned = [vocabulary.train_vocabulary([text], 60).pieces for _ in range(8)]
    assert learned == learned[:1] * 8
    assert {"f", "##t"} <= {*learned[0]}
    assert "##f" not in learned[0]  # no word has an f inside
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    result = run_script_here(pretrain, *line)
    assert_refused(result, "error: --train_vocab needs Hugging Face's tokenizers")


@needs_fork
def test_another_text_cannot_be_resumed(place, run_script_here, tmp_path):
    texts = [path.read_text() for path in place.text.glob("*.txt")] * 2
    (tmp_path / "less.txt").write_text("\n\n".join(texts))
    killed = run_forked(pretrain.main, tmp_path, [*place.line, "--steps", "6"], 20)
    assert killed == -signal.SIGKILL
    flags = ["--text", tmp_path / "less.txt", "--corpus", "less", "--steps", 6, "--resume"]
    assert_refused(run_script_here(pretrain, *place.line, *flags), "text=")


# ---------------------------------------------------------------------------------------------
# The update: epochs, rate, masks, loss


@pytest.fixture
def watched(monkeypatch) -> SimpleNamespace:
    """What a run did: a copy of its new model, epochs and batches, and each step's groups."""
    seen = SimpleNamespace(models=[], epochs=[], batches=[], rates=[], gradients=[])
    new_model, make, step = pretrain.new_model, PretrainingExamples.batch, AdamW.step

    def watched_model(*args):
        model = new_model(*args)
        seen.models.append(copy.deepcopy(model))
        return model

    def watched_batch(self, rows):
        seen.epochs.append(self.epoch)
        seen.batches.append(make(self, rows))
        return seen.batches[-1]

    def watched_step(self, closure=None):
        groups = self.param_groups
        seen.rates.append({group["lr"] for group in groups})
        learning = (p for group in groups for p in group["params"] if p.grad is not None)
        seen.gradients.append([p.grad.clone() for p in learning])
        return step(self, closure)

    monkeypatch.setattr(pretrain, "new_model", watched_model)
    monkeypatch.setattr(PretrainingExamples, "batch", watched_batch)
    monkeypatch.setattr(PretrainingExamples, "__getitems__", watched_batch)
    monkeypatch.setattr(AdamW, "step", watched_step)
    return seen


@pytest.mark.parametrize("flags", ["", "--objective none", "--objective none --full_sentences"])
def test_every_epoch_has_rows_and_rates_of_its_own(
    place, run_script_here, watched, tmp_path, flags
):
    """Two epochs: other rows and masks in the second; the rate rises and falls to about 0."""
    line = [*place.line, *flags.split(), "--epochs", 2, "--eval_every", 10**6, "--lr", 0.01]
    succeeded(run_script_here(pretrain, *line, "--warmup", 0.25))
    assert set(watched.epochs) == {0, 1, 2}  # 0 is that of the held-out text
    rows = {0: set(), 1: set(), 2: set()}
    for epoch, batch in zip(watched.epochs, watched.batches, strict=True):
        rows[epoch] |= {row.numpy().tobytes() for row in batch["labels"]}
    assert rows[1].isdisjoint(rows[2])
    steps = metrics_of(tmp_path)["args"]["steps"]
    assert watched.rates == [{0.01 * linear_factor(i, steps, 0.25, True)} for i in range(steps)]
    assert steps == 2 * watched.epochs.count(1)


def test_a_step_learns_from_the_two_means_and_masks_are_of_training_alone(
    place, run_script_here, watched, tmp_path
):
    """The gradients are those of mean(masked words) + mean(pairs), computed plainly."""
    config = tiny_config(hidden_size=16, intermediate_size=32, max_position_embeddings=48)
    (tmp_path / "shape.json").write_text(json.dumps(config.to_dict()))  # with dropout
    flags = ["--config", tmp_path / "shape.json", "--dropout", "0", "--mask", "0.6"]
    succeeded(run_script_here(pretrain, *place.line, *flags, "--clip", "1e9", "--steps", 1))
    model, batch = watched.models[0], watched.batches[0]
    first, *held_out, _ = ((batch["labels"] != -100).float().mean() for batch in watched.batches)
    assert first > 0.35
    assert max(held_out) < 0.25
    saved = json.loads((tmp_path / "out" / "config.json").read_text())
    assert saved["hidden_dropout_prob"] == saved["attention_probs_dropout_prob"] == 0.1
    words, relations = model(batch["token_ids"], batch["attention_mask"], batch["token_type_ids"])
    loss = F.cross_entropy(words, batch["labels"].flatten())
    (loss + F.cross_entropy(relations, batch["next_labels"])).backward()
    wanted = [
        p.grad
        for is_matrix in (True, False)
        for p in model.parameters()
        if (p.dim() > 1) is is_matrix
    ]
    for one, other in zip(watched.gradients[0], wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_the_rate_follows_the_time_and_the_run_ends_with_it(
    place, run_script_here, monkeypatch, tmp_path
):
    """A step takes 7 s, of a minute; a stop after the third, and the hour until it goes on."""
    clock, rates = SimpleNamespace(now=100.0, stops=[3]), []

    def step(self):
        if len(rates) in clock.stops:
            raise KeyboardInterrupt(clock.stops.clear())
        rates.append(self.param_groups[0]["lr"])
        clock.now += 7

    monkeypatch.setattr(ResumePoint.__init__, "__defaults__", (0.0,))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(AdamW, "step", step)
    options = ["--minutes", 1, "--warmup", 0.25, "--eval_every", 100, "--resume"]
    stopped = run_script_here(pretrain, *place.line, *options)
    assert stopped.code == 1
    assert "plan: 1 min 00 s of 8 rows of up to 48 tokens, lr" in stopped.out
    clock.now += 3600
    succeeded(run_script_here(pretrain, *place.line, *options))
    seconds = [7 * i for i in range(10)]  # the last one is 63: the time is up
    assert rates == pytest.approx([3e-3 * linear_factor(s, 60, 0.25, True) for s in seconds])
    assert rates[-1] == 0
    assert [row["step"] for row in metrics_of(tmp_path)["held_out"]] == [10]
