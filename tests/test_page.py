"""The page of a run (training/reports/page.py), read as text and by a browser."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from factories import ROOT
from running import one_line_error

from lessons.attention_maps import plot_maps
from training.files.course_files import CLASSES, class_names
from training.reports.error_analysis import describe
from training.reports.figures import picture, style
from training.reports.page import write_page

HISTORY = [
    {"epoch": i, "loss": 1 / i, "train_acc": 0.5 + i / 10, "dev_acc": score}
    for i, score in ((1, 0.4), (2, 0.6), (3, 0.5))
]
CURVES = {"train_acc": "train, as seen", "dev_acc": "dev"}
PREDICTIONS = {
    "sent_ids": list("abcde"),
    "y_true": [0, 1, 0, 1, 0],
    "y_pred": [1, 0, 1, 1, 0],
    "confidence": [0.9, 0.8, 0.7, 0.6, 0.6],
}
ROWS = [("<b>one</b>", 0, "a"), ("two", 1, "b"), ("three", 0, "c"), ("x", 1, "d"), ("y", 0, "e")]


def write(folder, history=HISTORY, **more) -> str:
    """The page of a run, written into a folder; ``more``: changes of what is described."""
    result = describe(f"{folder}/sst", PREDICTIONS, ROWS, ["bad", "good"]) | more
    steps = pd.DataFrame({"step": range(1, 9), "epoch": 1, "loss": 1.0, "lr": 1e-3})
    steps.to_csv(folder / "x-steps.csv", index=False)
    args = SimpleNamespace(
        lr=1e-3, seed=3, model="books", option="finetune", train=str(ROOT / "bert.py")
    )
    write_page(f"{folder}/x-", "a <title>", history, args, 61.0, 512.0, CURVES, [result])
    return (folder / "x-report.html").read_text(encoding="utf-8")


def test_a_page_loads_nothing_escapes_what_is_filled_in_and_names_its_run(tmp_path):
    text = write(tmp_path)
    assert not re.search(r'(src|href)="[^#]', text)
    assert text.count("<svg") == 2  # of the loss and of scores: the learning rate did not change
    for part in ("a &lt;title&gt;", "&lt;b&gt;one&lt;/b&gt;", "sha256 ", "512 MB", "seed=3"):
        assert part in text


def test_one_epoch_is_no_curve(tmp_path):
    text = write(tmp_path, HISTORY[:1])
    assert "Training loss by step" in text
    assert "Scores by epoch" not in text


def test_what_is_described(tmp_path):
    result = describe(f"{tmp_path}/x", PREDICTIONS, ROWS, ["bad", "good"])
    assert list(result["mistakes"].columns) == ["gold", "predicted", "confidence", "text"]
    assert (tmp_path / "x-mistakes.tsv").read_text().splitlines()[1].split("\t")[0] == "a"
    assert result["matrix"] == [[1, 2], [1, 1]]
    assert result["score"] == "accuracy 0.400"
    bad, good = result["by_class"]
    assert (bad["precision"], bad["recall"], bad["support"]) == (1 / 2, 1 / 3, 3)
    assert bad["f1-score"] == pytest.approx(2 / 5)
    assert good["recall"] == 1 / 2
    scores = {"sent_ids": ["a", "b", "c"], "y_true": [0.0, 1.0, 2.0], "y_pred": [1.0, 3.0, 5.0]}
    rows = [("one", "two", 0.0, key) for key in "abc"]
    assert describe(f"{tmp_path}/y", scores, rows, [])["score"] == "Pearson correlation 1.000"


def test_the_names_of_classes():
    assert class_names("x/ids-cfimdb-dev.csv", 2) == ["negative", "positive"]
    assert class_names("ids-sst-dev.csv", 3) == ["0", "1", "2"]
    assert class_names("mine.csv", 2, "no, yes") == ["no", "yes"]
    with one_line_error("does not name each of mine.csv's 3 classes"):
        class_names("mine.csv", 3, "no,yes")


SHOWN = """[...document.querySelectorAll(".mistakes tbody tr")].filter(r => !r.hidden)
  .map(r => r.cells[3].textContent)"""
CELL = """[...document.querySelectorAll(".matrix button")]
  .find(c => c.dataset.true === "good" && c.dataset.predicted === "bad")"""


def test_a_click_on_a_cell_shows_its_mistakes(tmp_path, browser):
    write(tmp_path)
    browser.open(tmp_path / "x-report.html")
    mistakes = ["<b>one</b>", "two", "three"]
    assert browser.eval(SHOWN) == mistakes
    for place, wanted in (
        (CELL, ["two"]),
        (CELL, mistakes),
        ("document.querySelectorAll('.mistakes th button')[2]", mistakes[::-1]),
    ):
        browser.click(place)
        assert browser.eval(SHOWN) == wanted
    assert browser.complaints() == []


OUTSIDE = """[...document.querySelectorAll(".mistakes td, .matrix button")]
  .filter(cell => cell.getBoundingClientRect().right > innerWidth).length"""


def test_mistakes_and_matrix_fit_a_phone(tmp_path, browser):
    names = list(CLASSES["ids-sst"])
    long = pd.DataFrame({"gold": names, "predicted": names, "text": "so " * 80 + "x" * 60})
    by_class = [{"precision": 1, "recall": 1, "f1-score": 1, "support": 9}] * 5
    matrix = [[1234] * 5] * 5
    write(tmp_path, classes=names, mistakes=long, by_class=by_class, matrix=matrix)
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser("Emulation.setDeviceMetricsOverride", **size)
    browser.open(tmp_path / "x-report.html")
    outside = browser.eval(OUTSIDE)
    browser("Emulation.clearDeviceMetricsOverride")
    assert outside == 0


@pytest.mark.parametrize("name", ["cost$5_vs_$10", "a$$b", r"o$\beta_$", r"q$\x$"])
def test_dollars_in_a_name_are_no_formula(tmp_path, name):
    assert name in picture("epoch", "score", [([1, 2], [3, 4], style(0, label=name))])
    plot_maps(tmp_path / "y.png", np.ones((1, 1, 2, 2)), [name, "b"])
