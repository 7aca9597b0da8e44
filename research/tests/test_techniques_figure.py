"""docs/techniques_figure.py: differences and marks of made-up results."""

import re

import pytest
from support import ROOT, load_script

from docs.drawing import Drawing
from research.experiments import results
from research.experiments.report import Row
from training.files.errors import InputError

FOLDER = ROOT / "research" / "experiments" / "techniques"


@pytest.fixture
def script():
    return load_script("docs/techniques_figure.py")


def test_marks_are_in_the_order_of_the_panel(script, monkeypatch):
    names = ("again-sst", "again-sst-smart", "offline-sst", "offline-sst-smart")
    names += ("offline-sst-simcse", "again-sts-smart")
    rows = {name: Row(name, (0,), ({},)) for name in names}
    asked = []

    def interval_of(row, baseline):
        asked.append((row.name, baseline.name))
        return {"sst": (0.1, 0.0, 0.2)}

    monkeypatch.setattr(script, "interval_of", interval_of)
    found = script.marks_of(script.PANELS[0], rows)
    assert [(mark.title, mark.colour) for mark in found] == [
        ("SimCSE", "orange"),
        ("SMART", "blue"),
        ("SMART", "orange"),
    ]
    assert asked[1] == ("again-sst-smart", "again-sst")


def test_gains_are_to_the_right(script):
    marks = [
        script.Mark("loses", "blue", (-0.1, -0.15, -0.05)),
        script.Mark("gains", "orange", (0.1, 0.05, 0.15)),
    ]
    drawing = Drawing()
    script.draw_panel(drawing, "A task", marks, 0)
    boxes = re.findall(r'<rect class="([^"]+)" x="([-0-9.]+)"', "".join(drawing.parts))
    (lost, lost_at), (gained, gained_at) = boxes
    assert (lost, gained) == ("blue full", "orange full")
    zero = (script.LEFT + script.RIGHT) / 2  # the axis goes as far to the left as to the right
    assert float(lost_at) < zero < float(gained_at)


def test_every_technique_is_a_variant_of_an_experiment(script):
    for panel in script.PANELS:
        tasks = panel.baseline.removesuffix("-sum")
        named = set()
        for model in script.MODELS:
            one = results.read_experiment(FOLDER / f"{model}-{tasks}.toml")
            named |= {variant.name for variant in one.with_variants()}
            assert f"{model}-{panel.baseline}" in named
        for variant in panel.variants.values():
            runs = {f"{model}-{tasks}-{variant}" for model in script.MODELS}
            assert runs & named, variant


def test_no_results(script, monkeypatch, tmp_path):
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results.jsonl")
    monkeypatch.setattr(script, "FIGURE", tmp_path / "techniques.svg")
    with pytest.raises(InputError, match="no results yet"):
        script.main()
    assert not script.FIGURE.exists()
