"""research/experiments/exam.py, one checkpoint, and docs/grammar_figure.py, all of them."""

import math
import re
import xml.etree.ElementTree as ET

import pytest
import torch
from made_up import a_result
from support import (
    ROOT,
    WORDS,
    assert_refused,
    load_script,
    succeeded,
    tiny_config,
    tiny_vocabulary,
)

from lessons import grammar
from pretraining.building import build
from pretraining.model import PretrainingModel
from pretraining.steps import StepsModel
from research.experiments import exam, results
from tokenizer import BertTokenizer

SVG = "{http://www.w3.org/2000/svg}"
figure = load_script("docs/grammar_figure.py")


@pytest.mark.parametrize("architecture", ["bert", "rotary,local"])
def test_accuracies_and_loss_of_a_model(architecture, run_script_here, tmp_path, monkeypatch):
    """One that predicts all tokens alike: every pair of sentences of one length is a tie."""
    vocabulary = [*tiny_vocabulary(), *WORDS]
    tokenizer = BertTokenizer(vocabulary)
    config = tiny_config(vocab_size=len(vocabulary), max_position_embeddings=128)
    model = PretrainingModel(config, objective="none")
    if architecture != "bert":
        model = StepsModel.new(config, architecture, "none")
    torch.nn.init.zeros_(model.bert.word_embedding.weight)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join([" ".join(WORDS * 9)] * 60), encoding="utf-8")
    build([text], tokenizer, tmp_path / "corpus")
    pairs = tmp_path / "pairs"
    pairs.mkdir()
    (pairs / "one-a.txt").write_text("a film\na dull film\n", encoding="utf-8")
    (pairs / "two-b.txt").write_text("a warm film\na dull film\na\na dull\n", encoding="utf-8")
    monkeypatch.setattr(grammar, "SAMPLE", pairs)
    line = ("--model", tmp_path / "model", "--corpus", tmp_path / "corpus", "--out", tmp_path)
    succeeded(run_script_here(exam, *line))
    result = results.read_metrics(tmp_path, "exam")
    assert result["phenomena"] == {"one": 0.0, "two": 0.25}
    assert results.rounded_scores(result["metrics"])["grammar"] == pytest.approx(1 / 6, abs=1e-5)
    assert result["metrics"]["mlm_loss"] == pytest.approx(math.log(len(vocabulary)), abs=1e-4)


def test_the_figure_has_each_checkpoint(place, run_script_here, monkeypatch, tmp_path):
    monkeypatch.setattr(figure, "FOLDER", tmp_path)
    assert_refused(run_script_here(figure), "0 checkpoints have results", code=1)
    for tokens, accuracy in ((10**6, 0.7), (0, 0.5), (10**5, 0.6)):
        metrics = {"grammar": accuracy, "mlm_loss": 9 - accuracy}
        phenomena = {name: accuracy - 0.1 for name in figure.SHOWN if name != "all"}
        name = f"grammar-pieces-{tokens}"
        results.append_result(a_result(name, 0, metrics, phenomena=phenomena))
    results.append_result(a_result("books-names-pieces-3000000", 0, {"dev_f1": 0.4}))
    done = succeeded(run_script_here(figure))
    assert "| tokens read | 0 | 100,000 | 1 M |" in done.out
    assert "| loss | 8.500 | 8.400 | 8.300 |" in done.out
    root = ET.parse(tmp_path / "grammar-learned.svg").getroot()
    lines = [path for path in root.iter(f"{SVG}path") if "thick" in path.get("class", "")]
    heights = [float(y) for y in re.findall(r" ([\d.]+)", lines[0].get("d"))]
    assert len(heights) == 3
    assert heights == sorted(heights, reverse=True)  # more is above
    assert {"all 13 phenomena", "8.30"} <= {text.text for text in root.iter(f"{SVG}text")}


def test_what_is_shown_is_in_the_exam():
    phenomena = {pair.phenomenon for pair in grammar.read_pairs(None)}
    assert set(figure.SHOWN) - {"all"} <= phenomena
    assert len(phenomena) == 13  # as a name in the figure says
    toml = ROOT / "research" / "experiments" / "books" / "grammar.toml"
    runs = results.read_experiment(toml).with_variants()
    long_run = results.read_experiment(toml.with_name("books.toml"))
    tokens = [int(figure.BEGUN.fullmatch(run.name)[2]) for run in runs]
    assert tokens == long_run.flags["keep_at"]
