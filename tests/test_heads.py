"""Runs of the lessons that train: parts, processes, the best epoch, killed and resumed."""

import json
import random
import re
import signal
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from factories import (
    NO_DROPOUT,
    padded_batch,
    save_sentiment_checkpoint,
    save_tiny_model,
    stir,
    tiny_config,
)
from running import (
    assert_refused,
    left_by,
    needs_fork,
    needs_gloo,
    run_as_two,
    run_forked,
    succeeded,
    written_at,
)
from safetensors.torch import load_file

from base_bert import weight_names
from lessons import distil, question_answering, token_classifier
from lessons.entities import NO_LABEL, entity_scores, read_sentences
from lessons.question_answering import QuestionAnswerer, span_loss
from lessons.token_classifier import TokenClassifier, tag_loss


def read_json(path: Path):
    return json.loads(path.read_text())


TAGS = ["O", "B-LOC", "I-LOC"]
HEADS = {
    "tags": (TokenClassifier, TAGS, transformers.BertForTokenClassification),
    "spans": (QuestionAnswerer, ("first", "last"), transformers.BertForQuestionAnswering),
}


@pytest.mark.parametrize(
    ("dtype", "atol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["fp32", "fp64"]
)
@pytest.mark.parametrize("name", HEADS)
def test_loss_and_gradients_are_those_of_transformers(name, dtype, atol, tmp_path):
    """Of the folder that ours wrote, in training without dropout; losses are in float32."""
    kind, labels, theirs = HEADS[name]
    stir(kind(tiny_config(**NO_DROPOUT), labels)).save_pretrained(tmp_path)
    ours = kind.from_pretrained(str(tmp_path)).to(dtype).train()
    theirs = theirs.from_pretrained(tmp_path, attn_implementation="eager").to(dtype).train()
    ids, mask, segments = padded_batch(9, 7, 6, 5)
    if name == "tags":
        targets = torch.arange(36).view(4, 9) % 3
        targets = targets.masked_fill((mask == 0) | (ids % 2 == 0), NO_LABEL)
        logits = (ours(ids, mask),)
        loss = tag_loss(*logits, targets) / (targets != NO_LABEL).sum()
        expected = theirs(ids, attention_mask=mask, labels=targets)
        wanted = (expected.logits,)
    else:
        places = torch.tensor([[4, 6], [0, 0], [2, 2], [3, 3]])
        logits = ours(ids, mask, segments)
        loss = span_loss(*logits, places) / len(places)
        ends = {"start_positions": places[:, 0], "end_positions": places[:, 1]}
        expected = theirs(ids, attention_mask=mask, token_type_ids=segments, **ends)
        wanted = (expected.start_logits, expected.end_logits)
    for mine, other in zip(logits, wanted, strict=True):
        torch.testing.assert_close(mine[mask.bool()], other[mask.bool()], atol=atol, rtol=0)
    torch.testing.assert_close(loss.double(), expected.loss.double(), atol=1e-6, rtol=0)
    loss.backward()
    expected.loss.backward()
    state = {key: p.grad for key, p in theirs.named_parameters()}
    names = [(f"bert.{a}", f"bert.{b}") for a, b in weight_names(2) if not a.startswith("pooler")]
    names += [(f"{kind.HEAD}.{key}", f"head.{key}") for key in ("weight", "bias")]
    assert {hf for hf, _ in names} == state.keys()
    for hf, own in names:  # float64 logits have gone through a loss in float32
        torch.testing.assert_close(ours.get_parameter(own).grad, state[hf], atol=1e-5, rtol=1e-4)
    assert state[f"{kind.HEAD}.weight"].abs().max() > 1e-3


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


@pytest.fixture(scope="module")
def distilling_line(tmp_path_factory, tiny_data) -> list[str]:
    """A command line of distil.py that learns from a teacher without dropout."""
    folder = tmp_path_factory.mktemp("teacher")
    save_tiny_model(folder, num_hidden_layers=4, **NO_DROPOUT)
    teacher = save_sentiment_checkpoint(folder / "sst.pt", folder, labels=5, dropout=0.0)
    files = [f"--{name}={tiny_data}/ids-sst-{name}.csv" for name in ("train", "dev")]
    flags = "--epochs 3 --batch_size 4 --lr 3e-3 --precision fp32 --out out".split()
    return ["--teacher", str(teacher), *files, *flags]


@pytest.fixture(params=["tagging_line", "answering_line", "distilling_line"])
def lesson(request):
    """A script and a command line that learns."""
    scripts = {"tagging_line": token_classifier, "answering_line": question_answering}
    line = request.getfixturevalue(request.param)
    return SimpleNamespace(script=scripts.get(request.param, distil), line=line)


def test_tagging_is_learned_scored_and_used(run_script_here, tagging_line, tmp_path):
    succeeded(
        run_script_here(
            token_classifier, *tagging_line, "--epochs", "6", "--warmup", "0.1", "--decay"
        )
    )
    metrics = read_json(tmp_path / "out/metrics.json")
    assert metrics["best"]["dev_f1"] > 0.9
    assert not (tmp_path / "out/model.resume").exists()
    scores = read_json(tmp_path / "out/test-scores.json")
    flags = ["--checkpoint", "out", "--length", "32", "--out", "again"]
    succeeded(run_script_here(token_classifier, "--evaluate", tagging_line[5], *flags))
    assert read_json(tmp_path / "again/test-scores.json") == scores
    rows = (tmp_path / "out/test-tags.tsv").read_text().split("\n\n")[:-1]
    gold, found = (
        [[cells.split("\t")[k] for cells in row.split("\n")] for row in rows] for k in (1, 2)
    )
    assert gold == [one.tags for one in read_sentences(tagging_line[5])]
    assert entity_scores(gold, found).loc["all", "f1"] == scores["all"]["f1"]

    said = succeeded(
        run_script_here(token_classifier, "--predict", "x Ada saw Rome", "--checkpoint", "out")
    )
    found = [line.split() for line in said.out.splitlines() if line.startswith("    ")]
    assert [(kind, name) for kind, _, name in found] == [("PER", "Ada"), ("LOC", "Rome")]


def test_answering_is_learned_scored_and_used(run_script_here, answering_line, tmp_path):
    succeeded(run_script_here(question_answering, *answering_line, "--epochs", "6"))
    metrics = read_json(tmp_path / "out/metrics.json")
    assert metrics["best"]["dev_exact"] > 0.8
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
    expected = load_file(tmp_path / "one/model.safetensors")
    for name, tensor in load_file(tmp_path / "parts/model.safetensors").items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-4, rtol=1e-3)


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
    for event in (15, 25):
        folder = tmp_path / str(event)
        assert run_forked(main, folder, [*line, "--resume", "--lr", "0.5"]) == 1
        assert "belongs to a run with lr=0.003" in (folder / "log.txt").read_text()
        code = run_forked(main, folder, [*line, "--resume"])
        assert code == 0, (folder / "log.txt").read_text()
        assert left_by(folder, "out/*") == untouched
    before = written_at(folder)
    assert run_forked(main, folder, [*line, "--resume"]) == 1
    assert "so that run has ended" in (folder / "log.txt").read_text()
    assert written_at(folder) == before


REFUSED = {
    token_classifier: [
        ("--evaluate x", 2, "need --checkpoint"),
        ("--train x", 2, "--train and --dev go together"),
        ("--model MODEL", 1, "ner/wikiann_en/test cannot be read (No such file"),
    ],
    question_answering: [
        ("--predict x --context y --checkpoint MODEL", 1, "holds no BertForQuestionAnswering"),
        ("--predict y --checkpoint MODEL", 1, "--predict needs --context"),
        ("FILES --model MODEL --length 100 --stride 120", 1, "no more than --stride 120"),
    ],
}


@pytest.mark.parametrize(
    ("script", "flags", "code", "fact"),
    [(script, *row) for script, rows in REFUSED.items() for row in rows],
)
def test_bad_command_lines(
    run_script_here, monkeypatch, answering_line, tiny_model_folder, script, flags, code, fact
):
    monkeypatch.delenv("MINBERT_DATA", raising=False)
    flags = flags.replace("MODEL", str(tiny_model_folder))
    flags = flags.replace("FILES", " ".join(answering_line[:4]))
    assert_refused(run_script_here(script, *flags.split()), fact, code=code)
