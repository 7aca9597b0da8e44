"""Pre-training runs on a small text: what is kept and measured, what each step learns from."""

import copy
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from running import assert_refused, at_call, succeeded
from torch.nn import functional as F
from training_scripts import PRETRAIN, make_files

from base_bert import read_weights
from optimizer import AdamW
from pretraining import pretrain, vocabulary
from pretraining.corpus import Corpus, unigram_entropy
from pretraining.examples import PretrainingExamples
from pretraining.model import PretrainingModel
from pretraining.report import Report
from tokenizer import BertTokenizer
from training.loop import devices, progress
from training.loop.run import linear_factor

LINE = PRETRAIN.replace("--steps 12 ", "").split()[1:]


@pytest.fixture
def run(run_script_here, tmp_path):
    """A function: pre-train in ``tmp_path``, without dropout, on the contract's twelve texts."""
    make_files(tmp_path)
    return lambda *flags, line=LINE: run_script_here(pretrain, *line, *flags)


def metrics_in(folder: str) -> dict:
    return json.loads(Path(folder, "metrics.json").read_text())


def test_what_is_kept_has_the_losses_of_the_table(run):
    """Measured again from files; a further run from the best one begins where that one was."""
    succeeded(run("--epochs", 5, "--eval_every", 12, "--keep_at", 0, 900, 10**7))
    metrics = metrics_in("out")
    losses = [row["mlm_loss"] for row in metrics["held_out"]]
    assert metrics["best"]["mlm_loss"] == min(losses)
    assert metrics["best"]["perplexity"] == pytest.approx(math.exp(min(losses)))
    kept = sorted(Path("out").glob("pieces-*"))
    assert [folder.name for folder in kept] == ["pieces-0", "pieces-900"]
    biases = [read_weights(folder)["cls.predictions.bias"] for folder in kept]
    assert [bool(bias.any()) for bias in biases] == [False, True]  # the first one is untrained
    args = SimpleNamespace(**metrics["args"])
    tokenizer = BertTokenizer.from_pretrained("out")
    train, held = Corpus("out/corpus/corpus.bin").split(0.2, 11711)
    assert metrics["unigram_entropy"] == unigram_entropy(held) != unigram_entropy(train)
    report = Report(args, tokenizer, held)
    for folder, row in (("out", metrics["best"]), ("out/last", metrics["held_out"][-1])):
        model = PretrainingModel.from_pretrained(folder, objective="nsp")
        again = report.measure(model)
        assert again == pytest.approx({key: row[key] for key in again}, abs=1e-5)

    line = [word for word in LINE if word not in ("--config", "shape.json", "--vocab", "words")]
    options = ["--model", "out", "--out", "next", "--steps", 1, "--eval_every", 1, "--lr", 1e-9]
    result = succeeded(run(*options, line=line))
    assert "starts from random values" not in result.out
    assert metrics_in("next")["best"]["mlm_loss"] == pytest.approx(min(losses), abs=1e-4)


def test_a_vocabulary_of_ones_own(run, monkeypatch):
    line = [word for word in LINE if word not in ("--vocab", "words")] + ["--train_vocab", "90"]
    succeeded(run("--steps", 2, line=line))
    tokenizer = BertTokenizer.from_pretrained("out")
    assert 60 < len(tokenizer) <= 90
    assert len(tokenizer.tokenize("never")) < 5  # word pieces, not letters
    learned = [vocabulary.train_vocabulary([Path("text")], 60).pieces for _ in range(8)]
    assert learned == learned[:1] * 8
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert_refused(run(line=line), "error: --train_vocab needs Hugging Face's tokenizers")


def test_another_device_is_compared_with_the_cpu(run, monkeypatch):
    monkeypatch.setattr(devices, "REFERENCE", "another")
    done = succeeded(run("--steps", 1, "--use_gpu"))
    assert "device check: cpu computes as the CPU does" in done.out


def test_another_text_cannot_be_resumed(run, resumable, monkeypatch):
    with monkeypatch.context() as patch:
        at_call(patch, AdamW, "step", 4, Mock(side_effect=KeyboardInterrupt))
        assert run("--steps", 6).code == 1
    Path("text/00.txt").write_text("Another.\n")
    assert_refused(run("--steps", 6, "--resume"), "text=")


@pytest.fixture
def steps(monkeypatch) -> list[SimpleNamespace]:
    """What each step had: its model and batch, its groups' rates, and the gradients."""
    seen, losses, step = [], pretrain.pretraining_losses, AdamW.step

    def watched_losses(model, *batch):
        seen.append(SimpleNamespace(model=copy.deepcopy(model), batch=batch))
        return losses(model, *batch)

    def watched_step(self, closure=None):
        seen[-1].rates = {group["lr"] for group in self.param_groups}
        learning = (p for group in self.param_groups for p in group["params"])
        seen[-1].gradients = [p.grad.clone() for p in learning if p.grad is not None]
        return step(self, closure)

    monkeypatch.setattr(pretrain, "pretraining_losses", watched_losses)
    monkeypatch.setattr(AdamW, "step", watched_step)
    return seen


def test_every_epoch_has_rows_and_rates_of_its_own(run, steps):
    """Two epochs: other rows and masks in the second; the rate rises and falls to about 0."""
    succeeded(run("--epochs", 2, "--eval_every", 10**6, "--lr", 0.01, "--warmup", 0.25))
    count = len(steps)
    rows = [{row.numpy().tobytes() for row in step.batch[3]} for step in steps]  # labels
    assert set.union(*rows[: count // 2]).isdisjoint(set.union(*rows[count // 2 :]))
    expected = [{0.01 * linear_factor(i, count, 0.25, True)} for i in range(count)]
    assert [step.rates for step in steps] == expected


def test_a_step_learns_from_the_two_means_and_masks_are_of_training_alone(run, steps, monkeypatch):
    """The gradients are those of mean(masked words) + mean(pairs), computed plainly."""
    make, masked = PretrainingExamples.batch, []

    def watched_batch(examples, rows):
        batch = make(examples, rows)
        masked.append((batch["labels"] != -100).float().mean())
        return batch

    monkeypatch.setattr(PretrainingExamples, "batch", watched_batch)
    flags = "--config dropout.json --dropout 0 --mask 0.6 --clip 1e9 --steps 1"
    succeeded(run(*flags.split()))
    model, (ids, segments, mask, labels, relation) = steps[0].model, steps[0].batch
    assert (labels != -100).float().mean() > 0.35
    assert min(masked) < 0.25  # of those that are held out
    saved = json.loads(Path("out/config.json").read_text())
    assert saved["hidden_dropout_prob"] == saved["attention_probs_dropout_prob"] == 0.1
    words, relations = model(ids, mask, segments)
    loss = F.cross_entropy(words, labels.flatten()) + F.cross_entropy(relations, relation)
    loss.backward()
    wanted = sorted(model.parameters(), key=lambda parameter: parameter.dim() < 2)
    for one, other in zip(steps[0].gradients, wanted, strict=True):
        torch.testing.assert_close(one, other.grad, atol=1e-6, rtol=1e-4)


def test_the_rate_follows_the_time_and_the_run_ends_with_it(run, monkeypatch):
    """A step takes 7 s, of a minute."""
    clock, rates = SimpleNamespace(now=100.0), []

    def step(self):
        rates.append(self.param_groups[0]["lr"])
        clock.now += 7

    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(AdamW, "step", step)
    done = succeeded(run("--minutes", 1, "--warmup", 0.25, "--eval_every", 100))
    assert "plan: 1 min 00 s of 8 rows of up to 48 tokens, lr" in done.out
    seconds = [7 * i for i in range(10)]  # the last one is 63: the time is up
    assert rates == pytest.approx([3e-3 * linear_factor(s, 60, 0.25, True) for s in seconds])
    assert [row["step"] for row in metrics_in("out")["held_out"]] == [10]
