"""docs/pretraining_figure.py: numbers and pictures of made-up results."""

import math
import re
import xml.etree.ElementTree as ET

import made_up
import pytest
from scipy import stats
from support import ROOT, assert_refused, load_script, succeeded

from research.experiments import results

SVG = "{http://www.w3.org/2000/svg}"


def a_score(name: str, seed: int | None, key: str, score: float, **more) -> dict:
    return made_up.a_result(name, seed, {key: score}, **more)


@pytest.fixture
def figure(tmp_path, monkeypatch):
    """The script, with results and curve in a folder of the test's own."""
    script = load_script("docs/pretraining_figure.py")
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results.jsonl")
    return script


@pytest.fixture
def made_up_runs(figure):
    """Five runs from random weights, two from a million pieces, a control, and others' runs."""
    for seed, score in enumerate((0.50, 0.52, 0.54, 0.56, 0.58)):
        last = {"dev_acc": score}
        results.append_result(a_score("books-sst2-200-pieces-0", seed, "dev_acc", 0.99, last=last))
    for seed, score in enumerate((0.70, 0.80)):
        results.append_result(
            a_score("books-sst2-200-pieces-1000000", seed, "dev_acc", score, last=None)
        )
    results.append_result(a_score("books-sst2-200-control", None, "dev_acc", 0.61))
    results.append_result(a_score("books-names-pieces-3000000", 0, "dev_f1", 0.4))
    results.append_result(a_score("annealed-cross", 0, "overall", 0.7))
    return results.load_results()


def test_the_table(figure, made_up_runs):
    rows = figure.table(made_up_runs).splitlines()
    assert rows[0] == "| | control | 0 | 1 M | 3 M |"
    assert rows[2] == "| SST-2, accuracy, 200 | 0.610 | 0.540 (0.032; 5) | 0.750 (0.071; 2) | – |"
    assert rows[-1] == "| Names, F1 of entities, 5,000 sentences | – | – | – | 0.400 (1) |"
    assert len(rows) == 2 + 2  # nothing of what was not run


def test_the_control_is_the_one_that_reads_what_bert_reads(figure, made_up_runs):
    results.append_result(a_score("books-sst2-200-control-cut", None, "dev_acc", 0.57))
    assert "| SST-2, accuracy, 200 | 0.570 | " in figure.table(results.load_results())


def test_the_interval():
    script = load_script("docs/pretraining_figure.py")
    values = [0.5, 0.52, 0.57]
    low, high = stats.t.interval(0.95, 2, loc=sum(values) / 3, scale=stats.sem(values))
    assert script.interval(values) == pytest.approx((high - low) / 2)
    assert script.interval([0.5]) == 0.0


def test_axes(figure):
    axes = figure.Axes(None, (10, 0, 120, 100), [0, 10**6, 10**8], [0.52, 0.71])
    assert (axes.low, axes.high, axes.step) == pytest.approx((0.5, 0.75, 0.05))
    places = [axes.x(n) for n in (0, 10**6, 10**7, 10**8)]
    assert places == pytest.approx([20, 40, 80, 120])  # half a decade, then whole ones
    assert axes.y(0.75) == pytest.approx(0)
    assert axes.y(0.5) == pytest.approx(100)


def test_the_figures(figure, made_up_runs, run_script_here, tmp_path):
    held_out = [{"pieces": 10**5 * 2**i, "mlm_loss": 7 - i / 4} for i in range(9)]
    curve = {"unigram_entropy": 6.44, "held_out": held_out}
    results.append_result(a_score("books", 0, "mlm_loss", 5.0, **curve))
    done = succeeded(run_script_here(figure, "--out", tmp_path))
    assert figure.table(made_up_runs) in done.out
    for name in ("scores", "loss"):
        before = (tmp_path / f"books-{name}.svg").read_bytes()
        root = ET.fromstring(before)
        assert len(root.find(f"{SVG}desc").text) > 40
        words = [one.text for one in root.iter(f"{SVG}text")]
        numbers = map(float, re.findall(r'[ "ML](-?[\d.]+)', before.decode().split("<rect", 1)[1]))
        assert all(math.isfinite(value) and -90 <= value < 1000 for value in numbers)
        if name == "scores":
            assert {"200", "0", "1", "SST-2, accuracy", "Names, F1 of entities"} <= set(words)
            assert "IMDB, accuracy" not in words
        else:
            assert {"unigram entropy 6.44", "5.00", "10"} <= set(words)


def test_what_is_missing_is_said(figure, run_script_here, tmp_path):
    assert_refused(run_script_here(figure), "no results yet; python research/", code=1)


def test_every_line_has_its_runs(figure):
    """And its experiment scores what the panel shows."""
    keys = {"classify": "dev_acc", "probe": "dev_acc", "train": "sts", "tag": "dev_f1"}
    runs = [
        one
        for path in (ROOT / "research" / "experiments" / "books").glob("books-*.toml")
        for one in results.read_experiment(path).with_variants()
    ]
    kinds = {figure.BEGUN.fullmatch(one.name)[1]: one.kind for one in runs}
    assert set(kinds) == {name for panel in figure.PANELS for name in panel.lines.values()}
    for panel in figure.PANELS:
        assert len(panel.lines) == len(panel.colours)
        for name in panel.lines.values():
            assert keys[kinds[name]] == panel.key
