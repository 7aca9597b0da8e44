"""docs/steps_figure.py: its table and its figure of made-up results."""

import re
import xml.etree.ElementTree as ET

import pytest
from made_up import a_result
from support import ROOT, assert_refused, load_script, succeeded

from pretraining.steps import SWITCHES
from research.experiments import results

SVG = "{http://www.w3.org/2000/svg}"
figure = load_script("docs/steps_figure.py")


@pytest.mark.parametrize("name", figure.LENGTHS)
def test_its_runs_are_those_of_the_tomls_one_change_at_a_time(name):
    """Each has the switches of the one before and another, and an exam of its model and seed."""
    toml = ROOT / "research" / "experiments" / "books" / f"{name}.toml"
    runs = results.read_experiment(toml).with_variants()
    assert [run.name for run in runs] == [name + end for end in figure.STEPS.values()]
    lists = [",".join(SWITCHES[:n]) for n in range(1, len(SWITCHES))]
    wanted = [None, *lists, "modern", "modern"]
    assert [run.flags.get("architecture") for run in runs] == wanted
    exams = results.read_experiment(toml.with_stem(f"{name}-exam")).with_variants()
    assert [exam.name for exam in exams] == [f"{name}-exam{end}" for end in figure.STEPS.values()]
    for run, exam in zip(runs, exams, strict=True):
        arguments = results.command_of(exam, 2, results.RUNS / "x")
        assert str(results.RUNS / f"{run.name}-2") in arguments
        assert exam.seeds == run.seeds


def test_the_table_and_the_figure(place, run_script_here, monkeypatch, tmp_path):
    monkeypatch.setattr(figure, "FIGURE", tmp_path / "steps.svg")
    assert_refused(run_script_here(figure), "no results yet; python research/", code=1)

    def add(name: str, seed: int, loss: float, pieces: int) -> None:
        curve = {"held_out": [{"pieces": pieces, "mlm_loss": loss}]}
        results.append_result(a_result(name, seed, {"mlm_loss": loss}, **curve))

    for seed in (0, 1, 2):
        add("steps", seed, 5 + seed, 90_000)
        results.append_result(a_result("steps-exam", seed, {"grammar": 0.6, "mlm_loss": 9.0}))
        add("steps-pre-norm", seed, 4.6 + 1.1 * seed, 180_000)
    add("steps-512", 0, 5.5, 45_000)
    add("steps-512-pre-norm", 0, 5.2, 45_000)
    done = succeeded(run_script_here(figure))
    line = "| BERT | 6.000 (1.000; 3) | 0.600 (0.000; 3) | 1,000 | 5.500 (1) | – | 500 |"
    assert line in done.out
    assert "| + Muon | – | – | – | – | – | – |" in done.out
    mark, of_one_seed = figure.marks_of(results.load_results())
    assert of_one_seed.difference == pytest.approx((-0.3, -float("inf"), float("inf")))
    middle, _, high = mark.difference
    assert (mark.title, middle) == ("+ pre-norm", pytest.approx(-0.3))
    assert high - middle == pytest.approx(4.302653 * 0.1 / 3**0.5)  # Student's t of two
    root = ET.parse(tmp_path / "steps.svg").getroot()
    assert {"+ pre-norm", "rows of 512 tokens"} <= {text.text for text in root.iter(f"{SVG}text")}
    lines = {path.get("class") for path in root.iter(f"{SVG}path")}
    assert lines & {"line blue", "line orange"} == {"line blue"}
    boxes = [box for box in root.iter(f"{SVG}rect") if box.get("class") == "blue full"]
    zero = next(t for t in root.iter(f"{SVG}text") if t.text == "0")
    assert float(boxes[-1].get("x")) + 9 < float(zero.get("x"))  # better is left
    assert re.search("Left of 0 is better", root.find(f"{SVG}desc").text)
