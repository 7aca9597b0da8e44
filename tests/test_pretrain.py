"""Pre-training: heads equal to transformers', files that others load, runs that go on."""

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
import torch._dynamo  # which torch takes in late: here once, rather than in every process
from factories import NO_DROPOUT, WORDS, stir, tiny_config
from running import (
    MODULES,
    as_process,
    assert_refused,
    assert_same_tensors,
    left_by,
    needs_fork,
    needs_gloo,
    run_as_two,
    run_forked,
    succeeded,
)
from torch.nn import functional as F
from transformers import BertConfig as TheirConfig
from transformers import BertForMaskedLM, BertForPreTraining

from base_bert import read_weights
from optimizer import AdamW
from pretraining import pretrain, vocabulary
from pretraining.corpus import Corpus, unigram_entropy
from pretraining.examples import PretrainingExamples
from pretraining.held_out import HeldOut
from pretraining.losses import pretraining_losses
from pretraining.masking import masked_positions
from pretraining.model import PretrainingModel
from pretraining.report import Report
from tokenizer import BertTokenizer
from training.loop.checkpoints import load_checkpoint
from training.loop.run import linear_factor

TOLERANCE = {torch.float32: (1e-6, 1e-4, 1e-7), torch.float64: (1e-13, 1e-10, 1e-12)}


# ---------------------------------------------------------------------------------------------
# The model beside transformers'


def rows(objective: str = "nsp") -> tuple[torch.Tensor, ...]:
    """Five padded rows of two segments: ids, segments, mask, labels, relation."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 100, (5, 12), generator=generator)
    mask = (torch.arange(12) < torch.tensor([12, 7, 9, 12, 4])[:, None]).long()
    segments = (torch.arange(12) >= torch.tensor([5, 3, 4, 8, 2])[:, None]).long() * mask
    chosen = (torch.rand(5, 12, generator=generator) < 0.3) & mask.bool()
    relation = torch.tensor([0, 1, 1, 0, 1])
    if objective == "none":
        segments, relation = torch.zeros_like(ids), torch.full((5,), -100)
    return ids * mask, segments, mask, ids.masked_fill(~chosen, -100), relation


@pytest.fixture(params=[torch.float32, torch.float64], ids=["fp32", "fp64"])
def pair(request, tmp_path):
    """Their model and ours with the same random weights, read from a folder they wrote."""
    torch.manual_seed(1)
    config = TheirConfig(**(tiny_config(initializer_range=0.3).to_dict() | NO_DROPOUT))
    theirs = stir(BertForPreTraining(config))
    theirs.save_pretrained(tmp_path / "theirs")
    ours = PretrainingModel.from_pretrained(tmp_path / "theirs", objective="nsp")
    return theirs.to(request.param).eval(), ours.to(request.param), request.param


def test_values_losses_and_gradients_are_those_of_transformers(pair):
    theirs, ours, dtype = pair
    value, rtol, atol = TOLERANCE[dtype]
    ids, segments, mask, labels, relation = rows()
    their = theirs(ids, mask, segments, labels=labels, next_sentence_label=relation)
    words, relations = ours(ids, mask, segments)  # at every position
    # weights ten times as large as a trained model's make more rounding, too
    limit = 3 * value * their.prediction_logits.abs().max().item()
    torch.testing.assert_close(words, their.prediction_logits.flatten(0, 1), atol=limit, rtol=0)
    torch.testing.assert_close(relations, their.seq_relationship_logits, atol=value * 10, rtol=0)
    chosen = (labels != -100).flatten()
    positions, _ = masked_positions(labels)
    some, _ = ours(ids, mask, segments, positions)  # at those that were chosen
    torch.testing.assert_close(some, words[chosen], atol=1000 * atol, rtol=0)

    heads = pretraining_losses(ours, ids, segments, mask, labels, relation)
    of_words, of_pairs = heads["mlm"], heads["nsp"]
    assert (of_words.count, of_pairs.count) == (chosen.sum(), 5)
    assert of_words.right == (words.argmax(-1) == labels.flatten()).sum()
    assert of_pairs.right == (relations.argmax(-1) == relation).sum()
    loss = of_words.loss / of_words.count + of_pairs.loss / of_pairs.count
    assert loss.item() == pytest.approx(their.loss.item(), rel=10 * value)
    their.loss.backward()
    loss.backward()
    own = {parameter.data_ptr(): parameter for parameter in ours.parameters()}
    by_name = dict(theirs.named_parameters())
    compared = [name for name in ours.to_hf_weights() if name in by_name]
    assert len(compared) == len(by_name) > 30
    for name in compared:
        mine, wanted = own[ours.to_hf_weights()[name].data_ptr()].grad, by_name[name].grad
        near = max(10 * atol, rtol * wanted.abs().max().item())
        torch.testing.assert_close(mine, wanted, rtol=rtol, atol=near, msg=name)


# ---------------------------------------------------------------------------------------------
# Folders


@pytest.mark.parametrize("objective", ["nsp", "sop", "none"])
def test_transformers_loads_what_is_saved(tmp_path, objective):
    torch.manual_seed(2)
    model = PretrainingModel(tiny_config(), objective).eval()
    with torch.no_grad():
        model.decoder_bias.normal_()
    model.save_pretrained(tmp_path)
    ids, segments, mask, _, _ = rows(objective=objective)
    kind = BertForMaskedLM if objective == "none" else BertForPreTraining
    theirs, report = kind.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert all("pooler" in key for key in report["unexpected_keys"])
    with torch.no_grad():
        words, relations = model(ids, mask, segments)
        their_words, *their_relations = theirs(ids, mask, segments).to_tuple()
    torch.testing.assert_close(words, their_words.flatten(0, 1), atol=1e-5, rtol=0)
    for wanted in their_relations:
        torch.testing.assert_close(relations, wanted, atol=1e-5, rtol=0)


def test_what_is_saved_loads_bit_for_bit(tmp_path, capsys):
    model = PretrainingModel(tiny_config(), "sop")
    model.save_pretrained(tmp_path)
    again = PretrainingModel.from_pretrained(tmp_path, objective="sop")
    assert "weights:" not in capsys.readouterr().out
    assert_same_tensors(again.state_dict(), model.state_dict())
    # heads that are not there, or of another objective, are new, and it says so
    other = PretrainingModel.from_pretrained(tmp_path, objective="nsp")
    assert "has no head for nsp; it starts from random values" in capsys.readouterr().out
    assert not torch.equal(other.relation.weight, model.relation.weight)
    assert torch.equal(other.transform_dense.weight, model.transform_dense.weight)


# ---------------------------------------------------------------------------------------------
# Runs on a small text


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_model_folder) -> SimpleNamespace:
    """Twelve documents, a shape, and the flags of a small run."""
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
    shape.write_text(json.dumps(config.to_dict() | {"name_or_path": ""}))
    line = (
        f"--text {folder} --out out --corpus {folder / 'corpus'} --vocab {tiny_model_folder} "
        "--length 48 --batch_size 8 --held_out 0.2 --eval_rows 16 --log_every 2 --eval_every 5 "
        "--precision fp32 --lr 3e-3"
    ).split()
    return SimpleNamespace(text=folder, shape=shape, line=[*line, "--config", str(shape)])


@pytest.fixture(scope="module")
def trained(place, tmp_path_factory) -> Path:
    """The folder of a run that learned something."""
    folder = tmp_path_factory.mktemp("trained")
    flags = ["--epochs", "20", "--eval_every", "30"]
    succeeded(
        as_process("-m", "pretraining.pretrain", *place.line, *flags, folder=folder, **MODULES)
    )
    return folder


def metrics_of(folder: Path) -> dict:
    return json.loads((folder / "out" / "metrics.json").read_text())


def test_it_learns_and_the_best_and_last_model_are_kept(trained):
    """The best one's held-out loss is the one in the table: measured again, from its files."""
    metrics = metrics_of(trained)
    losses = [row["mlm_loss"] for row in metrics["held_out"]]
    assert losses[-1] < losses[0] - 0.3
    assert metrics["best"]["mlm_loss"] == min(losses)
    assert metrics["best"]["perplexity"] == pytest.approx(math.exp(min(losses)))
    assert not list(trained.glob("out/*.resume"))
    args = SimpleNamespace(**metrics["args"])
    tokenizer = BertTokenizer.from_pretrained(str(trained / "out"))
    train, held = Corpus(f"{args.corpus}/corpus.bin").split(0.2, 11711)
    assert metrics["unigram_entropy"] == unigram_entropy(held) != unigram_entropy(train)
    rows = HeldOut(args, tokenizer, held)
    for folder, row in (("out", metrics["best"]), ("out/last", metrics["held_out"][-1])):
        model = PretrainingModel.from_pretrained(trained / folder, objective="nsp")
        again = rows.measure(model, "fp32")
        assert again["mlm_loss"] == pytest.approx(row["mlm_loss"], abs=1e-5)
        assert again["nsp_acc"] == pytest.approx(row["nsp_acc"])


def test_going_on_from_a_checkpoint(trained, place, run_script_here, tmp_path):
    """The heads come along: the first look is as good as the last one before."""
    line = [flag for flag in place.line if flag not in ("--config", str(place.shape))]
    vocab = line.index("--vocab")
    line = line[:vocab] + line[vocab + 2 :]
    options = ["--model", trained / "out", "--steps", 1, "--eval_every", 1]
    result = succeeded(run_script_here(pretrain, *line, *options))
    assert "starts from random values" not in result.out
    before, after = metrics_of(trained)["best"], metrics_of(tmp_path)["best"]
    assert abs(after["mlm_loss"] - before["mlm_loss"]) < 0.1


@pytest.mark.parametrize(
    ("flags", "keys"),
    [
        ("--objective sop --whole_word", {"sop_loss", "sop_acc"}),
        ("--objective none --full_sentences --held_out 0", set()),
        ("--precision bf16 --no-decay --workers 1", {"nsp_loss"}),
        ("--patience 1 --lr 1e-9 --steps 400 --eval_every 1 --log_every 1", {"nsp_loss"}),
    ],
)
def test_flags(place, run_script_here, tmp_path, flags, keys):
    succeeded(run_script_here(pretrain, *place.line, "--steps", 3, *flags.split()))
    metrics = metrics_of(tmp_path)
    assert metrics["training"][-1].keys() >= {"step", "mlm_loss", "mlm_acc"} | keys
    assert ("nsp_loss" in metrics["training"][-1]) == ("nsp_loss" in keys)
    assert (metrics["best"] is None) == ("--held_out 0" in flags)
    assert (tmp_path / "out" / "model.safetensors").is_file()
    if "--patience" in flags:
        assert len(metrics["held_out"]) < 10


def test_a_vocabulary_of_ones_own(place, run_script_here, tmp_path, monkeypatch):
    pytest.importorskip("tokenizers")
    line = list(place.line)
    i = line.index("--vocab")
    line[i : i + 2] = ["--train_vocab", "90"]
    succeeded(run_script_here(pretrain, *line, "--corpus", "own-corpus", "--steps", 2))
    tokenizer = BertTokenizer.from_pretrained(str(tmp_path / "out"))
    assert 60 < len(tokenizer) <= 90
    text = tmp_path / "text.txt"
    text.write_text("\n".join("a warm dull film that never quite finds its feet".split()) * 9)
    learned = [vocabulary.train_vocabulary([text], 60).pieces for _ in range(8)]
    assert learned == learned[:1] * 8
    assert {"f", "##t"} <= {*learned[0]}
    assert "##f" not in learned[0]  # no word has an f inside
    assert len(tokenizer.tokenize("never")) < 5  # word pieces, not letters
    result = run_script_here(pretrain, *line, "--train_vocab", 2**20 + 1)
    assert_refused(result, "--train_vocab must be at most 1,048,576", code=2)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    result = run_script_here(pretrain, *line)
    assert_refused(result, "error: --train_vocab needs Hugging Face's tokenizers", code=1)


# ---------------------------------------------------------------------------------------------
# The update: epochs, rate, parts, processes


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
        seen.gradients.append([p.grad.clone() for group in groups for p in group["params"]])
        return step(self, closure)

    monkeypatch.setattr(pretrain, "new_model", watched_model)
    monkeypatch.setattr(PretrainingExamples, "batch", watched_batch)
    monkeypatch.setattr(PretrainingExamples, "__getitems__", watched_batch)
    monkeypatch.setattr(AdamW, "step", watched_step)
    return seen


def test_every_epoch_has_rows_and_rates_of_its_own(place, run_script_here, watched, tmp_path):
    """Two epochs: other rows and masks in the second; the rate rises and falls to about 0."""
    line = [*place.line, "--epochs", 2, "--held_out", 0, "--lr", 0.01, "--warmup", 0.25]
    succeeded(run_script_here(pretrain, *line))
    assert set(watched.epochs) == {1, 2}
    rows = {1: set(), 2: set()}
    for epoch, batch in zip(watched.epochs, watched.batches, strict=True):
        rows[epoch] |= {row.numpy().tobytes() for row in batch["labels"]}
    assert rows[1].isdisjoint(rows[2])
    steps = metrics_of(tmp_path)["args"]["steps"]
    assert watched.rates == [{0.01 * linear_factor(i, steps, 0.25, True)} for i in range(steps)]
    assert steps == 2 * watched.epochs.count(1)


def test_masking_and_dropout_are_those_of_training_alone(place, run_script_here, watched, tmp_path):
    flags = ["--mask", "0.6", "--dropout", "0", "--steps", "1"]
    succeeded(run_script_here(pretrain, *place.line, *flags))
    first, *held_out, _ = ((batch["labels"] != -100).float().mean() for batch in watched.batches)
    assert first > 0.35
    assert held_out
    assert max(held_out) < 0.25
    dropouts = [m.p for m in watched.models[0].modules() if isinstance(m, torch.nn.Dropout)]
    assert dropouts
    assert not any(dropouts)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["hidden_dropout_prob"] == config["attention_probs_dropout_prob"] == 0.1


@pytest.fixture
def plain_line(place, tmp_path) -> list:
    """A command line for a model without dropout."""
    config = json.loads(place.shape.read_text()) | NO_DROPOUT
    (tmp_path / "shape.json").write_text(json.dumps(config))
    return [*place.line, "--config", tmp_path / "shape.json"]


def test_the_loss_is_the_sum_of_two_means(plain_line, run_script_here, watched):
    """The gradients of a step are those of mean(masked words) + mean(pairs), computed plainly."""
    line = [*plain_line, "--clip", "1e9", "--held_out", 0, "--steps", 1]
    succeeded(run_script_here(pretrain, *line))
    model, batch = watched.models[0], watched.batches[0]
    words, relations = model(batch["token_ids"], batch["attention_mask"], batch["token_type_ids"])
    loss = F.cross_entropy(words, batch["labels"].flatten())
    loss = loss + F.cross_entropy(relations, batch["next_labels"])
    loss.backward()
    matrices, others = (
        [p.grad for p in model.parameters() if (p.dim() > 1) is x] for x in (True, False)
    )
    wanted = matrices + others
    for one, other in zip(watched.gradients[0], wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


@needs_gloo
@needs_fork
def test_parts_of_a_batch_and_processes_add_up(plain_line, tmp_path, run_script_here):
    line = [*plain_line, "--steps", "4"]
    succeeded(run_script_here(pretrain, *line, "--out", "one"))
    succeeded(run_script_here(pretrain, *line, "--out", "parts", "--accumulate", 3))
    said = run_as_two(pretrain.main, tmp_path / "log", [*line, "--out", tmp_path / "two"])
    assert said.count("plan: 4 steps") == 1
    one, two = (json.loads((tmp_path / f / "metrics.json").read_text()) for f in ("one", "two"))
    for kind in ("training", "held_out"):
        assert len(one[kind]) == len(two[kind]) > 0
        for mine, theirs in zip(one[kind], two[kind], strict=True):
            assert theirs == pytest.approx(mine, abs=1e-4)
    whole = read_weights(tmp_path / "one" / "last")
    for out, near in (("parts", (1e-5, 0)), ("two", (1e-4, 1e-4))):
        for name, tensor in read_weights(tmp_path / out / "last").items():
            atol, rtol = near
            torch.testing.assert_close(tensor, whole[name], atol=atol, rtol=rtol, msg=name)


# ---------------------------------------------------------------------------------------------
# Killed


STEPS = ["--epochs", "4", "--seed", "7", "--keep_at", "0", "900", "10000000"]


@needs_fork
def test_killed_within_an_epoch_and_resumed_it_has_the_same_curve(place, tmp_path, monkeypatch):
    """With other numbers of workers, too."""
    monkeypatch.setattr(Report, "draw", lambda *_: None)
    wanted = tmp_path / "whole"
    wanted.mkdir()
    assert run_forked(pretrain.main, wanted, [*place.line, *STEPS]) == 0
    kept = sorted(path.name for path in wanted.glob("out/pieces-*"))
    assert kept == ["pieces-0", "pieces-900"]
    for last_event, workers in ((16, 0), (20, 1), (9, 2), (None, 0)):
        line = [*place.line, *STEPS, "--resume", "--workers", str(workers)]
        code = run_forked(pretrain.main, tmp_path, line, last_event)
        assert code == (0 if last_event is None else -signal.SIGKILL)
        if last_event == 20:
            assert load_checkpoint(tmp_path / "out" / "pretrain.resume")["position"]["batch"] > 0
    files = ("out/*", "out/last/*", "out/pieces-900/*")
    assert left_by(tmp_path, *files) == left_by(wanted, *files)


@needs_fork
def test_another_text_cannot_be_resumed(place, run_script_here, tmp_path):
    line = [*place.line, "--steps", "6"]
    texts = [path.read_text() for path in place.text.glob("*.txt")] * 2
    (tmp_path / "less.txt").write_text("\n\n".join(texts))
    assert run_forked(pretrain.main, tmp_path, line, 20) == -signal.SIGKILL
    for flags, named in (
        (["--length", "40"], "length=48"),
        (["--text", tmp_path / "less.txt", "--corpus", "less"], "text="),
    ):
        result = run_script_here(pretrain, *place.line, *flags, "--steps", 6, "--resume")
        assert_refused(result, named, code=1)


# ---------------------------------------------------------------------------------------------
# Bad input


@pytest.mark.parametrize(
    ("flags", "fact", "code"),
    [
        ("--full_sentences", "give --objective none", 2),
        ("--length 4", "--length must be at least 8", 2),
        ("--model x", "--config and --model exclude each other", 2),
        ("--preset huge", "invalid choice: 'huge'", 2),
        ("--held_out 1", "is not a number of at least 0 and below 1", 2),
        ("--held_out 0 --patience 2", "--patience needs held-out text", 2),
        ("--eval_rows 0", "'0' is not a whole number from 1", 2),
        ("--eval_rows 9223372036854775808", "to 2**63 - 1", 2),
        ("--workers 99999999999999999999", "--workers must be from 0 to 1024", 2),
        ("--text x --out x/model", "is inside --text x and would be read as text", 2),
        ("--length 49", "--length 49 is more than the model's 48 positions", 1),
        ("--text nowhere", "nowhere", 1),
        ("--config nowhere.json", "nowhere.json cannot be read (No such file", 1),
        ("--held_out 0.001", "next sentences need a second document", 1),
        ("--text short.txt --objective none --held_out 0.1", "the held-out text has ", 1),
        ("--lr 1e30 --warmup 0 --clip 1e30", "lower --lr", 1),
        ("--out /proc/none", "/proc/none", 1),
    ],
)
def test_bad_input_is_one_line(place, run_script_here, tmp_path, flags, fact, code):
    (tmp_path / "short.txt").write_text(f"{WORDS[0]}\n\n{WORDS[1]} {WORDS[2]}\n")
    line = [*place.line, "--steps", 5, "--corpus", "corpus", *flags.split()]
    assert_refused(run_script_here(pretrain, *line), fact, code=code)
