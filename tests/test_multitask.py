"""multitask_classifier.py: its contract, the model, training, outputs, the students' skeleton."""

import copy
import io
import json
import os
import re
import shutil
import signal
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from factories import PAIRS, ROOT, with_random_weights
from running import (
    assert_refused,
    assert_same_tensors,
    assert_shapes_and_padding,
    draw_nothing,
    left_by,
    one_line_error,
    succeeded,
)
from torch import nn
from torch.nn import functional as F

import classifier
import evaluation
import multitask_classifier as multitask
from course import handout
from course.answers import VARIANTS, installed_source, put, read
from datasets import load_pairs
from multitask_classifier import FILE_COLUMNS, HEADS, TASKS, MultitaskBERT
from optimizer import AdamW
from tokenizer import BertTokenizer
from training.cli.task_flags import multitask_files, task_names
from training.files import course_files
from training.files.predictions import read_predictions
from training.loop.checkpoints import load_checkpoint
from training.loop.run import Run
from training.reports.report import Report
from utils import seed_everything

CPU = torch.device("cpu")


def make_config(model: Path, **values) -> SimpleNamespace:
    """The least that the contract asks of a configuration, and the model's folder."""
    config = {"hidden_size": 32, "hidden_dropout_prob": 0.3, "option": "finetune"}
    return SimpleNamespace(**(config | {"model": str(model)} | values))


@pytest.fixture
def flags(tiny_model_folder, tiny_data, tmp_path, monkeypatch) -> Namespace:
    """Exactly the attributes that older callers set, in fp32, and no pictures of the training."""
    monkeypatch.setenv("MINBERT_MODEL", str(tiny_model_folder))
    monkeypatch.chdir(tmp_path)
    draw_nothing(monkeypatch)
    files = {
        f"{name}_{split}": str(tiny_data / f"{course_files.COURSE_STEMS[name]}-{ending}.csv")
        for name in TASKS
        for split, ending in course_files.SPLITS.items()
    }
    outputs = {
        f"{name}_{split}_out": f"predictions/{name}-{split}-output.csv"
        for name in TASKS
        for split in ("dev", "test")
    }
    return Namespace(
        **files,
        **outputs,
        seed=11711,
        epochs=1,
        option="finetune",
        use_gpu=False,
        batch_size=8,
        hidden_dropout_prob=0.3,
        lr=1e-3,
        filepath="finetune-1-0.001-multitask.pt",
    )


def quick(tiny_model_folder, tiny_data, *more: str) -> list[str]:
    line = ["--model", tiny_model_folder, "--data_dir", tiny_data, "--option", "finetune"]
    return [*line, "--epochs", "1", "--lr", "1e-3", *more]


# ---------------------------------------------------------------------------------------------
# The command line


def test_flags_and_defaults():
    args = vars(multitask.get_args([]))
    expected = {
        "seed": 11711,
        "epochs": 10,
        "option": "pretrain",
        "use_gpu": False,
        "batch_size": 8,
        "hidden_dropout_prob": 0.3,
        "lr": 1e-5,
        "filepath": "pretrain-10-1e-05-multitask.pt",
        "tasks": ["sst", "para", "sts"],
    }
    for name, file in (("sst", "ids-sst"), ("para", "quora"), ("sts", "sts")):
        expected[f"{name}_train"] = f"data/{file}-train.csv"
        expected[f"{name}_dev"] = f"data/{file}-dev.csv"
        expected[f"{name}_test"] = f"data/{file}-test-student.csv"
        for split in ("dev", "test"):
            expected[f"{name}_{split}_out"] = f"predictions/{name}-{split}-output.csv"
    assert {name: args[name] for name in expected} == expected
    assert task_names("sts, sst") == ["sst", "sts"]  # in one order, however they are given


# ---------------------------------------------------------------------------------------------
# The model


def make_model(folder: Path, kind: type = MultitaskBERT, **values) -> nn.Module:
    """A model whose random weights make a difference, in evaluation mode."""
    return with_random_weights(kind(make_config(folder, **values)))


def test_a_bi_encoder_compares_two_pooled_vectors(tiny_model_folder):
    model = make_model(tiny_model_folder)
    assert_shapes_and_padding(model)
    ids_1, mask_1, ids_2, mask_2 = PAIRS
    u = model.bert(ids_1, mask_1)["pooler_output"]
    v = model.bert(ids_2, mask_2)["pooler_output"]
    features = torch.cat([u, v, (u - v).abs()], dim=1)  # (4, 96)
    assert torch.equal(model(ids_1, mask_1), u)
    assert torch.equal(model.predict_sentiment(ids_1, mask_1), model.sentiment(u))
    assert torch.equal(model.predict_paraphrase(*PAIRS), model.paraphrase(features)[:, 0])
    expected = 5 * model.similarity(features)[:, 0].sigmoid()
    assert torch.equal(model.predict_similarity(*PAIRS), expected)


def test_dropout_before_every_head(tiny_model_folder):
    model = make_model(tiny_model_folder, hidden_dropout_prob=0.9)
    model.dropout.train()
    assert model.dropout.p == 0.9
    for head, call, inputs in (
        (model.sentiment, model.predict_sentiment, PAIRS[:2]),
        (model.paraphrase, model.predict_paraphrase, PAIRS),
        (model.similarity, model.predict_similarity, PAIRS),
    ):
        seen = []
        head.register_forward_hook(lambda module, inputs, output, seen=seen: seen.append(inputs[0]))
        call(*inputs)
        assert 0.7 < (seen[0] == 0).float().mean() < 1


def test_heads_compute_in_float32(tiny_model_folder):
    """bf16 has 128 numbers between 2 and 4: most of many scores would be the same."""
    model = make_model(tiny_model_folder)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        vectors = model.bert(*PAIRS[:2])["pooler_output"]
        outputs = [model.predict_sentiment(*PAIRS[:2]), model.predict_paraphrase(*PAIRS)]
        outputs.append(model.predict_similarity(*PAIRS))
    assert vectors.dtype == torch.bfloat16
    assert {output.dtype for output in outputs} == {torch.float32}
    assert not torch.equal(outputs[2], outputs[2].bfloat16().float())


# ---------------------------------------------------------------------------------------------
# The score


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ({"sst": 0.541, "para": 0.901, "sts": 0.891}, 0.79583333),  # a published leaderboard entry
        ({"sst": 0.5, "sts": -1.0, "nli": 0.9}, 0.25),
        ({"nli": 0.9}, 0.9),
    ],
)
def test_overall_by_hand(scores, expected):
    assert multitask.overall(scores) == pytest.approx(expected, abs=1e-6)


# ---------------------------------------------------------------------------------------------
# Data files


def test_without_course_files_all_three_tasks_take_the_practice_set(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("MINBERT_DATA", raising=False)
    monkeypatch.setattr(course_files, "COURSE_DATA", tmp_path)
    files = multitask_files()
    assert {Path(file).parent for file in files.values()} == {course_files.PRACTICE_DATA}
    assert capsys.readouterr().out.count("PRACTICE SET") == 1
    assert len(load_pairs(files["para_train"], "train", "is_duplicate")) == 400
    assert len(load_pairs(files["sts_test"], "test", "")) == 100


@pytest.fixture
def data(tmp_path, tiny_data) -> Path:
    """A copy of the tiny data that a test may spoil."""
    return Path(shutil.copytree(tiny_data, tmp_path / "data"))


def test_small_quora_stands_in_loudly_and_has_no_test_predictions(
    run_script_here, tiny_model_folder, data, tmp_path
):
    (data / "quora-test-student.csv").unlink()
    for split in ("train", "dev"):
        (data / f"quora-{split}.csv").rename(data / f"quora-small-{split}.csv")
    line = quick(tiny_model_folder, data, "--tasks", "para", "--steps_per_epoch", "1")
    result = succeeded(run_script_here(multitask, *line))
    assert "*** quora-train.csv is not there: taking quora-small-train.csv" in result.out
    names = {file.name for file in (tmp_path / "predictions").iterdir()}
    assert "para-dev-output.csv" in names
    assert "para-test-output.csv" not in names


# ---------------------------------------------------------------------------------------------
# Training


def test_train_and_test_with_the_attributes_of_older_callers(flags, tiny_data):
    before = vars(flags).copy()
    assert multitask.train_multitask(flags) is None
    assert multitask.test_model(flags) is None
    assert multitask.test_multitask is multitask.test_model
    assert vars(flags) == before
    metrics = json.loads(Path("predictions/multitask-metrics.json").read_text())
    scores = {}
    # scores that hardly differ yet: their correlation turns on the last digits of an evaluation
    close = partial(pytest.approx, abs=1e-3)
    for task in TASKS:
        rows = multitask.read_set(task, flags, "dev")
        dev = read_predictions(getattr(flags, f"{task}_dev_out"), FILE_COLUMNS[task])
        assert list(dev) == [row[-1] for row in rows]
        predictions = {"y_true": [row[-2] for row in rows], "y_pred": list(dev.values())}
        scores[task] = multitask.score(task, predictions)
        assert metrics["best"][task] == close(scores[task])
        test = read_predictions(getattr(flags, f"{task}_test_out"), FILE_COLUMNS[task])
        assert list(test) == [row[-1] for row in multitask.read_set(task, flags, "test")]
    assert metrics["best"]["overall"] == close(multitask.overall(scores))


class ByLength(nn.Module):
    """Predictions that betray which texts they were made of: their numbers of word pieces."""

    def predict_sentiment(self, ids, mask):
        return F.one_hot(mask.sum(dim=1) % 5, 5).float()

    def predict_paraphrase(self, ids_1, mask_1, ids_2, mask_2):
        return (mask_1.sum(dim=1) - mask_2.sum(dim=1)).float()  # 0 is no

    def predict_similarity(self, ids_1, mask_1, ids_2, mask_2):
        return mask_1.sum(dim=1) + mask_2.sum(dim=1) / 1000


def expected_by_length(name: str, row: tuple) -> float:
    tokenizer = BertTokenizer.from_pretrained(None)
    counts = [len(tokenizer.encode(text)) for text in row[: len(row) - 1] if isinstance(text, str)]
    if name == "sst":
        return counts[0] % 5
    return float(counts[0] > counts[1]) if name == "para" else counts[0] + counts[1] / 1000


@pytest.mark.parametrize("tested", ["multitask_classifier", "evaluation"])
def test_predictions_stand_beside_the_right_ids(flags, monkeypatch, tested):
    """Batches go by length, files do not: each id must keep its own prediction.

    By our own script, and by what older scripts call with a model of their own.
    """
    if tested == "evaluation":
        evaluation.test_multitask(flags, ByLength(), CPU)
    else:
        config = SimpleNamespace(model=None)
        monkeypatch.setattr(multitask, "load_model", lambda *_: (ByLength(), config))
        multitask.test_model(flags)
    for task in TASKS:
        for split in ("dev", "test"):
            rows = multitask.read_set(task, flags, split)
            expected = {row[-1]: expected_by_length(task, row) for row in rows}
            assert len(set(expected.values())) > 1
            path = getattr(flags, f"{task}_{split}_out")
            predictions = read_predictions(path, FILE_COLUMNS[task])
            assert predictions == pytest.approx(expected, abs=1e-5)
            assert list(predictions) == list(expected)


def test_tasks_take_turns(flags, monkeypatch):
    """As many steps as give every row a turn: 25 rows in batches of 8 are 4 steps, three times."""
    called = []
    for task, name in HEADS.items():

        def watched(self, *inputs, head=getattr(MultitaskBERT, name), task=task):  # noqa: B008
            if self.training:
                called.append(task)
            return head(self, *inputs)

        monkeypatch.setattr(MultitaskBERT, name, watched)
    multitask.train_multitask(flags)
    assert called == ["sst", "para", "sts"] * 4


def test_the_best_epoch_overall_is_kept(flags, monkeypatch):
    """Of overall scores .3, .5, .5, .4 the second is the best, and the first of its equals."""
    scores = iter([(0.6, 0.0, -0.4), (0.1, 0.9, 0.0), (0.9, 0.1, 0.0), (0.0, 0.2, 1.0)])
    epochs = []

    def pretended(model, loaders, device):
        epochs.append({key: value.clone() for key, value in model.state_dict().items()})
        row = dict(zip(TASKS, next(scores), strict=True))
        return row | {"overall": multitask.overall(row)}

    monkeypatch.setattr(multitask, "evaluate", pretended)
    flags.epochs, flags.steps_per_epoch = 4, 3
    multitask.train_multitask(flags)
    assert_same_tensors(load_checkpoint(flags.filepath)["model"], epochs[1])
    assert not torch.equal(epochs[1]["sentiment.weight"], epochs[2]["sentiment.weight"])
    metrics = json.loads(Path("predictions/multitask-metrics.json").read_text())
    assert metrics["best"]["epoch"] == 2
    assert [row["overall"] for row in metrics["epochs"]] == pytest.approx([0.3, 0.5, 0.5, 0.4])


# ---------------------------------------------------------------------------------------------
# Interrupted runs


def test_stopped_and_resumed_it_ends_with_the_same_bytes(
    run_script_here, tiny_model_folder, tiny_data, tmp_path, monkeypatch
):
    """Stopped within the first epoch, within the second, and then not at all."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    draw_nothing(monkeypatch)
    monkeypatch.setattr(Report, "describe", lambda *_: None)
    words = quick(tiny_model_folder, tiny_data, "--steps_per_epoch", "7", "--filepath", "x.pt")
    words += "--epochs 2 --accumulate 2 --clip 1 --warmup 0.2".split()
    assert run_script_here(multitask, *words).code == 0
    expected = left_by(tmp_path, "*.pt", "predictions/*")
    gather_gradients = Run.gather_gradients
    for more, stop_at in (([], 3), (["--resume"], 6), (["--resume"], None)):
        steps = []

        def watched(self, steps=steps, stop_at=stop_at):
            steps.append(0)
            if len(steps) == stop_at:
                signal.raise_signal(signal.SIGINT)
            gather_gradients(self)

        monkeypatch.setattr(Run, "gather_gradients", watched)
        result = run_script_here(multitask, *words, *more)
        if stop_at:
            assert result.err == "stopped; --resume goes on from x.resume\n"
            assert load_checkpoint("x.resume")["position"]["batch"] == (3 if stop_at == 3 else 2)
        else:
            assert (result.code, len(steps)) == (0, 5)
    assert left_by(tmp_path, "*.pt", "predictions/*") == expected
    assert_refused(run_script_here(multitask, *words, "--resume"), "x.pt exists", code=1)


# ---------------------------------------------------------------------------------------------
# The script

OUTPUTS = {
    *(f"{name}-{split}-output.csv" for name in TASKS for split in ("dev", "test")),
    *("multitask-metrics.json", "multitask-steps.csv"),
    *(f"multitask-{name}-{end}" for name in TASKS for end in ("report.txt", "mistakes.tsv")),
    "multitask-report.html",
}


def test_a_run_writes_all_its_files(run_script_here, tiny_model_folder, tiny_data, tmp_path):
    result = succeeded(run_script_here(multitask, *quick(tiny_model_folder, tiny_data)))
    assert result.err == ""
    assert {file.name for file in tmp_path.iterdir()} == {
        *("predictions", "finetune-1-0.001-multitask.pt"),
    }
    folder = tmp_path / "predictions"
    assert {file.name for file in folder.iterdir()} == OUTPUTS
    for name, column in zip(TASKS, evaluation.COLUMNS, strict=True):
        text = (folder / f"{name}-dev-output.csv").read_text()
        assert text.startswith(f"id,{column}\n")
        assert text.count("\n") == 12
    metrics = json.loads((folder / "multitask-metrics.json").read_text())
    assert set(metrics) == {"best", "epochs", "seconds", "peak_mb", "args"}
    losses = {"loss", "sst_loss", "para_loss", "sts_loss"}
    assert set(metrics["best"]) == losses | {"epoch", "sst", "para", "sts", "overall"}


@pytest.fixture(scope="module")
def checkpoint(tiny_model_folder, tmp_path_factory) -> Path:
    """A model that prefers class 3, yes, and a similarity of 5 / (1 + e) · e."""
    config = make_config(tiny_model_folder)
    model = MultitaskBERT(config)
    with torch.no_grad():
        for head in (model.sentiment, model.paraphrase, model.similarity):
            head.weight.zero_()
            head.bias.zero_()
        model.sentiment.bias[3] = 9.0
        model.paraphrase.bias.fill_(2.0)
        model.similarity.bias.fill_(1.0)
    path = tmp_path_factory.mktemp("checkpoint") / "x.pt"
    multitask.save_model(model, AdamW(model.parameters()), Namespace(), config, path)
    return path


SENTENCE_LINE = "class 3   [0: 0.000  1: 0.000  2: 0.000  3: 1.000  4: 0.000]   {}"
PAIR_LINE = "paraphrase 0.881  similarity 3.66   {} | {}"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([" A dull film"], [SENTENCE_LINE.format("A dull film")]),
        (["One?", "Two"], [PAIR_LINE.format("One?", "Two")]),
        ([], [SENTENCE_LINE.format("one film"), PAIR_LINE.format("one", "two")]),
    ],
)
def test_predict(run_script_here, checkpoint, monkeypatch, words, expected):
    """What is on the command line, or the lines of standard input."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("one film\n\none\ttwo\n\tx\n"))
    result = run_script_here(multitask, "--predict", *words, "--checkpoint", checkpoint)
    lines = [line for line in succeeded(result).out.splitlines() if " | " in line or "[" in line]
    assert lines == expected


def test_a_text_to_predict_that_is_cut_is_noted(run_script_here, checkpoint):
    words = ("a " * 600, "Two")
    for count in (1, 2):
        line = ("--predict", *words[:count], "--checkpoint", checkpoint)
        done = succeeded(run_script_here(multitask, *line))
        assert f"data: 1 of {count} texts were cut at 512 tokens" in done.out


@pytest.mark.parametrize("texts", [[""], ["one", " "]])
def test_an_empty_text_is_refused(run_script_here, checkpoint, texts):
    result = run_script_here(multitask, "--predict", *texts, "--checkpoint", checkpoint)
    assert_refused(result, "argument --predict: the text is empty")


def test_predict_names_the_class(run_script_here, tiny_model_folder):
    names = ["negative", "somewhat negative", "neutral", "somewhat positive", "positive"]
    model, config = make_model(tiny_model_folder), make_config(tiny_model_folder, labels=names)
    multitask.save_model(model, AdamW(model.parameters()), Namespace(), config, "x.pt")
    result = run_script_here(multitask, "--predict", "a film", "--checkpoint", "x.pt")
    assert re.search(r"class (\d), [a-z ]+   \[negative: 0\.\d+  somewhat neg", result.out)


def test_predict_says_nothing_of_tasks_that_were_not_trained(run_script_here, tiny_model_folder):
    model = make_model(tiny_model_folder)

    def said_by(tasks: list[str], *texts: str):
        config = make_config(tiny_model_folder, tasks=tasks)
        multitask.save_model(model, AdamW(model.parameters()), Namespace(), config, "x.pt")
        return run_script_here(multitask, "--predict", *texts, "--checkpoint", "x.pt")

    line = said_by(["sst", "sts"], "one", "two").out.splitlines()[-1]
    assert line.startswith("similarity")
    assert "paraphrase" not in line
    assert_refused(said_by(["sst"], "one", "two"), "no answer to a pair", code=1)
    assert_refused(said_by(["para", "sts"], "one"), "no answer to one text", code=1)


def test_checkpoints_that_are_not_ours(tiny_model_folder, checkpoint, tmp_path):
    model, config = multitask.load_model(checkpoint, CPU)
    assert not model.training
    other = make_config(tiny_model_folder, num_labels=5)
    sentiment = classifier.BertSentimentClassifier(other)
    technique = make_config(tiny_model_folder, adapt="lora")
    without_option = Namespace(**{k: v for k, v in vars(config).items() if k != "option"})
    wrong_shape = copy.deepcopy(model)
    wrong_shape.sentiment = nn.Linear(32, 7)
    for saved, saved_config, fact in (
        (sentiment, other, "not a checkpoint of multitask_classifier.py"),
        (model, without_option, "not a checkpoint of multitask_classifier.py"),
        (model, technique, "techniques have a script of their own"),
        (wrong_shape, config, "does not hold the tensors of a MultitaskBERT"),
    ):
        optimizer = AdamW(saved.parameters())
        multitask.save_model(saved, optimizer, Namespace(), saved_config, tmp_path / "x.pt")
        with one_line_error(fact):
            multitask.load_model(tmp_path / "x.pt", CPU)


# ---------------------------------------------------------------------------------------------
# The student's skeleton


def test_the_skeleton_trains_on_sst_once_it_is_filled_in(flags, capsys):
    skeleton = handout.build(ROOT, "2").text("multitask_classifier.py")
    filled_in = put(read(VARIANTS, "multitask/plain"), source=skeleton)
    flags.epochs, flags.lr, flags.hidden_dropout_prob = 12, 3e-3, 0.0
    seed_everything(flags.seed)
    with installed_source("multitask_classifier.py", filled_in) as module:
        module.train_multitask(flags)
    assert "trains sst only: LOSSES has no loss for para, sts" in capsys.readouterr().out
    metrics = json.loads(Path("predictions/multitask-metrics.json").read_text())
    assert set(metrics["best"]) == {"epoch", "loss", "sst_loss", "sst", "overall"}
    assert metrics["epochs"][-1]["loss"] < 0.95 * metrics["epochs"][0]["loss"]
    with installed_source("multitask_classifier.py", filled_in) as module:
        module.test_model(flags)
    assert f"  overall {metrics['best']['overall']:.3f}\n" in capsys.readouterr().out
    for task in TASKS:
        for split in ("dev", "test"):
            path = getattr(flags, f"{task}_{split}_out")
            rows = multitask.read_set(task, flags, split)
            assert list(read_predictions(path, FILE_COLUMNS[task])) == [row[-1] for row in rows]
