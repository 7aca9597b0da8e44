"""Runs of the lessons that train: parts, processes, the best epoch, killed and resumed."""

import json
import random
import re
import signal
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from heads_support import read_json
from safetensors.torch import load_file
from support import (
    NO_DROPOUT,
    assert_refused,
    left_by,
    needs_fork,
    needs_gloo,
    run_as_two,
    run_forked,
    save_sentiment_checkpoint,
    save_tiny_model,
    succeeded,
)

from extensions.entities import TaggedWords, entity_scores, read_sentences
from lessons import distil, question_answering, token_classifier
from lessons.distil import DistilBertClassifier
from lessons.question_answering import QuestionAnswerer
from lessons.token_classifier import TokenClassifier
from tokenizer import BertTokenizer
from training.loop.run import Run
from training.reports import report

DEV_SCORES = (0.5, 0.9, 0.2, 0.9, 0.9)
NAMES = {"PER": ("ada", "bob"), "LOC": ("rome", "oslo")}
FLAGS = "--epochs 3 --batch_size 8 --lr 3e-3 --length 32 --precision fp32 --out out".split()


def tagged_files(folder: Path) -> list[str]:
    """Files in which a name's type can be learned; → the flags that name them."""
    chance = random.Random(0)
    for name, count in (("train", 40), ("dev", 10), ("test", 8)):
        lines = []
        for _ in range(count):
            for _ in range(chance.randint(1, 3)):
                kind = chance.choice(sorted(NAMES))
                lines += [f"en:{chance.choice(('saw', 'x'))}\tO"]
                lines += [f"en:{chance.choice(NAMES[kind])}\tB-{kind}"]
            lines.append("")
        (folder / name).write_text("\n".join(lines))
    return [part for name in ("train", "dev", "test") for part in (f"--{name}", str(folder / name))]


def question_files(folder: Path) -> list[str]:
    """Questions whose answer is the word after the one that is asked for; → flags."""
    chance = random.Random(0)
    for name, count in (("train", 40), ("dev", 10)):
        paragraphs = []
        for i in range(count):
            words = chance.sample("abcdefgh", 4)
            at = chance.randrange(3)
            answers = [{"text": "9", "answer_start": 2 * (at + 1)}]
            words[at + 1] = "9"
            qas = [{"id": f"{name}{i}", "question": words[at], "answers": answers}]
            paragraphs.append({"context": " ".join(words), "qas": qas})
        (folder / f"{name}.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return [p for name in ("train", "dev") for p in (f"--{name}", str(folder / f"{name}.json"))]


@pytest.fixture(scope="module")
def tagging_line(tiny_model_folder, tmp_path_factory) -> list[str]:
    """A command line of token_classifier.py that learns."""
    files = tagged_files(tmp_path_factory.mktemp("ner"))
    return [*files, "--model", str(tiny_model_folder), *FLAGS]


@pytest.fixture(scope="module")
def answering_line(tiny_model_folder, tmp_path_factory) -> list[str]:
    """A command line of question_answering.py that learns."""
    files = question_files(tmp_path_factory.mktemp("squad"))
    return [*files, "--model", str(tiny_model_folder), *FLAGS, "--stride", "8"]


def tables(scores):
    columns = ("precision", "recall", "f1")
    return [pd.DataFrame({name: {"all": score} for name in columns}) for score in scores]


@pytest.fixture(scope="module")
def distilling_line(tmp_path_factory, tiny_data) -> list[str]:
    """A command line of distil.py that learns from a teacher without dropout."""
    folder = tmp_path_factory.mktemp("teacher")
    save_tiny_model(folder, num_hidden_layers=4, **NO_DROPOUT)
    teacher = save_sentiment_checkpoint(folder / "sst.pt", folder, labels=5, dropout=0.0)
    files = [f"--{name}={tiny_data}/ids-sst-{name}.csv" for name in ("train", "dev")]
    flags = "--epochs 3 --batch_size 4 --lr 3e-3 --precision fp32 --out out".split()
    return ["--teacher", str(teacher), *files, *flags]


@pytest.fixture(params=["tags", "answers", "student"])
def lesson(request):
    """Script, model, a command line that learns, and how to give the epochs other dev scores."""
    if request.param == "tags":
        return SimpleNamespace(
            script=token_classifier,
            model=TokenClassifier,
            line=request.getfixturevalue("tagging_line"),
            metric=("entity_scores", tables(DEV_SCORES)),
        )
    if request.param == "student":
        return SimpleNamespace(
            script=distil,
            model=DistilBertClassifier,
            line=request.getfixturevalue("distilling_line"),
            metric=("model_eval", [(score, 0.1) for score in DEV_SCORES]),
        )
    return SimpleNamespace(
        script=question_answering,
        model=QuestionAnswerer,
        line=request.getfixturevalue("answering_line"),
        metric=("score", [{"exact": score, "f1": score} for score in DEV_SCORES]),
    )


def test_tagging_is_learned_scored_and_used(run_script_here, tagging_line, tmp_path):
    succeeded(
        run_script_here(
            token_classifier, *tagging_line, "--epochs", "6", "--warmup", "0.1", "--decay"
        )
    )
    metrics = read_json(tmp_path / "out/metrics.json")
    assert len(metrics["epochs"]) == 6
    assert metrics["best"]["dev_f1"] > 0.9
    assert not (tmp_path / "out/model.resume").exists()
    scores = read_json(tmp_path / "out/test-scores.json")
    assert scores["all"]["f1"] > 0.9
    assert {"LOC", "PER", "all"} == scores.keys()

    rows = (tmp_path / "out/test-tags.tsv").read_text().split("\n\n")[:-1]
    gold, found = (
        [[cells.split("\t")[k] for cells in row.split("\n")] for row in rows] for k in (1, 2)
    )
    assert gold == [one.tags for one in read_sentences(tagging_line[5])]
    assert entity_scores(gold, found).loc["all", "f1"] == scores["all"]["f1"]

    flags = ["--checkpoint", "out", "--length", "32", "--out", "again"]
    succeeded(run_script_here(token_classifier, "--evaluate", tagging_line[5], *flags))
    assert read_json(tmp_path / "again/test-scores.json") == scores

    said = succeeded(
        run_script_here(token_classifier, "--predict", "x Ada saw Rome", "--checkpoint", "out")
    )
    found = [line.split() for line in said.out.splitlines() if line.startswith("    ")]
    assert [(kind, name) for kind, _, name in found] == [("PER", "Ada"), ("LOC", "Rome")]


def test_answering_is_learned_scored_and_used(run_script_here, answering_line, tmp_path):
    succeeded(run_script_here(question_answering, *answering_line, "--epochs", "6"))
    metrics = read_json(tmp_path / "out/metrics.json")
    assert len(metrics["epochs"]) == 6
    assert metrics["best"]["dev_exact"] > 0.8
    assert not (tmp_path / "out/model.resume").exists()
    scores = read_json(tmp_path / "out/dev-scores.json")
    assert scores["exact"] == metrics["best"]["dev_exact"]
    predictions = read_json(tmp_path / "out/dev-predictions.json")
    hits = Counter(text == "9" for text in predictions.values())
    assert hits[True] / hits.total() == scores["exact"]

    rest = "--checkpoint out --length 32 --stride 8".split()
    succeeded(
        run_script_here(
            question_answering, "--evaluate", answering_line[3], "--out", "again", *rest
        )
    )
    assert read_json(tmp_path / "again/dev-predictions.json") == predictions
    said = succeeded(
        run_script_here(question_answering, "--predict", "a", "--context", "b a 9 c", *rest)
    )
    assert re.search(r"0\.\d{3}  9$", said.out, re.M)


def test_a_step_follows_the_mean_over_the_words_of_its_batch(
    run_script_here, tagging_line, model_without_dropout, monkeypatch
):
    compared, before_update = [], Run.before_update

    def compare(run):
        before_update(run)
        model = run.model
        tokenizer = BertTokenizer.from_pretrained(str(model_without_dropout))
        data = TaggedWords(read_sentences(tagging_line[1]), tokenizer, model.labels, 32)
        batch = data.collate_fn(list(data))
        logits = model(batch["token_ids"], batch["attention_mask"])
        mean = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
        (wanted,) = torch.autograd.grad(mean, model.head.bias)
        torch.testing.assert_close(model.head.bias.grad, wanted, atol=1e-6, rtol=1e-4)
        compared.append(wanted.abs().max() > 1e-3)

    monkeypatch.setattr(Run, "before_update", compare)
    rest = ["--model", str(model_without_dropout), "--hidden_dropout_prob", "0", "--epochs", "1"]
    succeeded(
        run_script_here(
            token_classifier, *tagging_line, *rest, "--batch_size", "40", "--accumulate", "2"
        )
    )
    assert compared == [True]


@needs_gloo
@needs_fork
def test_parts_of_a_batch_and_processes_add_up(
    lesson, run_script_here, model_without_dropout, tmp_path
):
    """Whole batches, batches in three parts, and two processes: one curve, the same weights."""
    line = [*lesson.line, "--epochs", "2"]
    if lesson.script is not distil:
        line += ["--model", str(model_without_dropout)]
    if lesson.script is not question_answering:
        line += ["--hidden_dropout_prob", "0"]
    for flags in (["--out", "one"], ["--out", "parts", "--accumulate", "3"]):
        result = run_script_here(lesson.script, *line, *flags)
        assert result.code == 0, result.err
    two = [*line, "--out", str(tmp_path / "two")]
    output = run_as_two(lesson.script.main, tmp_path / "elsewhere", two)
    assert output.count("processes: 2 train together") == 1
    curves = [
        read_json(tmp_path / out / "metrics.json")["epochs"] for out in ("one", "parts", "two")
    ]
    assert abs(curves[0][0]["loss"] - curves[0][1]["loss"]) > 1e-3
    for mine, *others in zip(*curves, strict=True):
        for other in others:
            assert other["loss"] == pytest.approx(mine["loss"], abs=1e-5)
            assert other["dev_f1"] == pytest.approx(mine["dev_f1"])
    steps = [pd.read_csv(tmp_path / out / "steps.csv")["loss"] for out in ("one", "parts", "two")]
    assert steps[1].tolist() == pytest.approx(steps[0].tolist(), abs=1e-4)
    assert steps[2].tolist() == pytest.approx(steps[0].tolist(), abs=1e-4)
    expected = load_file(tmp_path / "one/model.safetensors")
    for name, tensor in load_file(tmp_path / "parts/model.safetensors").items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-4, rtol=1e-3)


def test_the_best_epoch_is_kept(lesson, run_script_here, monkeypatch):
    """Epochs score 0.5, 0.9, 0.2 on dev: the first two are saved, the third is not."""
    saved, epochs = [], []
    name, results = lesson.metric[0], iter(lesson.metric[1])
    save = lesson.model.save_pretrained

    def watched(model, folder):
        saved.append(len(epochs))
        save(model, folder)

    monkeypatch.setattr(lesson.script, name, lambda *_: next(results))
    monkeypatch.setattr(lesson.model, "save_pretrained", watched)
    monkeypatch.setattr(
        report.Report, "write", lambda self, history, *_: epochs.append(len(history))
    )
    result = run_script_here(lesson.script, *lesson.line)
    assert result.code == 0, result.err
    assert (saved, epochs) == ([0, 1], [1, 2, 3])


@needs_fork
def test_killed_and_resumed_it_ends_as_if_untouched(lesson, tmp_path):
    """Killed before or after written files take their place."""
    main, line = lesson.script.main, lesson.line
    assert run_forked(main, tmp_path / "whole", line) == 0, (tmp_path / "whole/log.txt").read_text()
    untouched = left_by(tmp_path / "whole", "out/*")
    within = 0
    for event in (3, 7, 15, 25):
        folder = tmp_path / str(event)
        assert run_forked(main, folder, line, event) == -signal.SIGKILL
        for point in folder.glob("out/*.resume"):
            saved = torch.load(point, weights_only=True)
            within += bool(saved["position"]["batch"])
    assert within >= 2
    for event in (7, 25):
        folder = tmp_path / str(event)
        assert run_forked(main, folder, [*line, "--resume", "--lr", "0.5"]) == 1
        assert "belongs to a run with lr=0.003" in (folder / "log.txt").read_text()
        code = run_forked(main, folder, [*line, "--resume"])
        assert code == 0, (folder / "log.txt").read_text()
        assert left_by(folder, "out/*") == untouched


BOTH = [
    ("--evaluate x", 2, "need --checkpoint"),
    ("--checkpoint x", 2, "need --checkpoint"),
    ("--train x", 2, "--train and --dev go together"),
    ("--train x --dev y --reencode", 2, "--reencode is for frozen encoders"),
    ("--train x --dev y --seed -1", 2, "--seed must be"),
    ("FILES --model MODEL --length 600", 1, "more than the model's 512 positions"),
    ("", 1, "give --train and --dev, or set $MINBERT_DATA"),
]
TAGS = [
    ("--train x --dev y --model MODEL", 1, "no file x"),
    ("--predict x --checkpoint ./nowhere", 1, "no model folder at nowhere"),
    ("--predict x --checkpoint MODEL", 1, "holds no BertForTokenClassification"),
]
ANSWERS = [
    ("--predict x --context y --checkpoint MODEL", 1, "holds no BertForQuestionAnswering"),
    ("--predict x --checkpoint y", 2, "--predict and --context go together"),
    ("--context y", 2, "--predict and --context go together"),
    ("--train x --dev y --model MODEL", 1, "x cannot be read (No such file"),
    ("FILES --model MODEL --length 100 --stride 120", 1, "no more than --stride 120"),
]


@pytest.mark.parametrize(
    ("script", "flags", "code", "fact"),
    [(token_classifier, *row) for row in BOTH + TAGS]
    + [(question_answering, *row) for row in BOTH + ANSWERS],
)
def test_bad_command_lines(
    run_script_here, monkeypatch, request, tiny_model_folder, script, flags, code, fact
):
    monkeypatch.delenv("MINBERT_DATA", raising=False)
    fixture = "tagging_line" if script is token_classifier else "answering_line"
    files = " ".join(request.getfixturevalue(fixture)[:4])
    flags = flags.replace("MODEL", str(tiny_model_folder)).replace("FILES", files)
    assert_refused(run_script_here(script, *flags.split()), fact, code=code)


def test_questions_without_an_answer_are_not_trained_on(run_script_here, answering_line, tmp_path):
    qas = [{"id": "1", "question": "q?", "answers": []}]
    article = {"paragraphs": [{"context": "a b", "qas": qas}]}
    (tmp_path / "dev.json").write_text(json.dumps({"data": [article]}))
    result = run_script_here(question_answering, *answering_line, "--dev", "dev.json")
    assert_refused(result, "dev.json holds questions without an answer", code=1)
