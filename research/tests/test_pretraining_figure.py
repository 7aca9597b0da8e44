"""docs/pretraining_figure.py: numbers and pictures of made-up results."""

import xml.etree.ElementTree as ET

import pytest
from made_up import a_result
from support import ROOT, assert_refused, load_script, succeeded

from research.experiments import results

SVG = "{http://www.w3.org/2000/svg}"

figure = load_script("docs/pretraining_figure.py")


@pytest.fixture
def made_up_runs(place):
    """Five runs from random weights, two from a million pieces, a control, and others' runs."""
    name = "books-sst2-200"
    lines = [
        a_result(f"{name}-pieces-0", seed, {"dev_acc": 0.99}, last={"dev_acc": score})
        for seed, score in enumerate((0.50, 0.52, 0.54, 0.56, 0.58))
    ]
    lines += [
        a_result(f"{name}-pieces-1000000", seed, {"dev_acc": score}, last=None)
        for seed, score in enumerate((0.70, 0.80))
    ]
    lines.append(a_result(f"{name}-control", None, {"dev_acc": 0.61}))
    lines.append(a_result("books-names-pieces-3000000", 0, {"dev_f1": 0.4}))
    lines.append(a_result("annealed-cross", 0, {"overall": 0.7}))
    for line in lines:
        results.append_result(line)
    return results.load_results()


def test_the_table(made_up_runs):
    rows = figure.table(figure.drawn_panels(made_up_runs)).splitlines()
    assert rows[0] == "|  | control | 0 | 1 M | 3 M |"
    assert rows[2] == "| SST-2, accuracy, 200 | 0.610 | 0.540 (0.032; 5) | 0.750 (0.071; 2) | – |"
    assert rows[-1] == "| Names, F1 of entities, 5,000 sentences | – | – | – | 0.400 (1) |"
    assert len(rows) == 2 + 2  # nothing of what was not run
    results.append_result(a_result("books-sst2-200-control-cut", None, {"dev_acc": 0.57}))
    table = figure.table(figure.drawn_panels(results.load_results()))
    assert "| SST-2, accuracy, 200 | 0.570 | " in table  # the control that reads what BERT reads


def test_the_figures(made_up_runs, run_script_here, monkeypatch, tmp_path):
    monkeypatch.setattr(figure, "FOLDER", tmp_path)
    assert_refused(run_script_here(figure), "no results yet; python research/", code=1)
    held_out = [{"pieces": 10**5 * 2**i, "mlm_loss": 7 - i / 4} for i in range(9)]
    curve = {"unigram_entropy": 6.44, "held_out": held_out}
    results.append_result(a_result("books", 0, {"mlm_loss": 5.0}, **curve))
    succeeded(run_script_here(figure))
    for name, expected in (("scores", "Names, F1 of entities"), ("loss", "unigram entropy 6.44")):
        root = ET.parse(tmp_path / f"books-{name}.svg").getroot()
        assert expected in {element.text for element in root.iter(f"{SVG}text")}


def test_every_line_has_its_runs():
    """And its experiment scores what the panel shows."""
    keys = {"classify": "dev_acc", "probe": "dev_acc", "train": "sts", "tag": "dev_f1"}
    runs = [
        experiment
        for path in (ROOT / "research" / "experiments" / "books").glob("books-*.toml")
        for experiment in results.read_experiment(path).with_variants()
    ]
    kinds = {figure.BEGUN.fullmatch(run.name)[1]: run.kind for run in runs}
    assert set(kinds) == {name for panel in figure.PANELS for name in panel.lines.values()}
    for panel in figure.PANELS:
        assert len(panel.lines) == len(panel.colours)
        assert {keys[kinds[name]] for name in panel.lines.values()} == {panel.key}
