"""docs/techniques_figure.py: differences and marks of made-up results."""

import re
from dataclasses import replace

import numpy as np
import pytest
from support import ROOT, load_script

from docs.figures import Drawing
from research.experiments import results
from research.experiments.report import Row
from training.files.errors import InputError

GOLD = {"sst": np.arange(40.0) % 5}


@pytest.fixture
def script():
    return load_script("docs/techniques_figure.py")


def a_row(name: str, wrong_by_seed: dict[int, int]) -> Row:
    """A run of sentiment whose first so many answers are wrong."""
    predicted = np.stack([GOLD["sst"].copy() for _ in wrong_by_seed])
    for row, wrong in zip(predicted, wrong_by_seed.values(), strict=True):
        row[:wrong] += 1
    return Row(name, tuple(wrong_by_seed), {"sst": predicted}, (1.0,), None)


def test_marks_are_differences_of_the_seeds_that_both_have(script):
    rows = [
        a_row("again-sst", {0: 8, 1: 10}),
        a_row("again-sst-smart", {0: 4, 1: 6, 2: 40}),
        a_row("offline-sst", {0: 8}),
        a_row("offline-sst-smart", {0: 10}),
        a_row("offline-sst-simcse", {0: 8}),
        a_row("again-sts-smart", {0: 8}),
    ]
    found = script.marks_of(script.PANELS[0], {row.name: row for row in rows}, GOLD)
    said = [(mark.title, mark.colour, round(mark.difference[0], 6)) for mark in found]
    assert said == [("SimCSE", "orange", 0.0), ("SMART", "blue", 0.1), ("SMART", "orange", -0.05)]
    assert all(mark.difference[1] <= mark.difference[0] <= mark.difference[2] for mark in found)


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
            one = results.read_experiment(ROOT / f"research/experiments/{model}-{tasks}.toml")
            named |= {variant.name for variant in one.with_variants()}
            assert script.run_of(f"{model}-{panel.baseline}") in named
        for variant in panel.variants.values():
            runs = {script.run_of(f"{model}-{tasks}-{variant}") for model in script.MODELS}
            assert runs & named, variant


def test_three_tasks_from_books_are_drawn_after_twelve_epochs(script):
    panel = next(panel for panel in script.PANELS if panel.baseline == "three")
    names = ("again-three", "again-three-double", "again-three-quadruple", "again-three-pals")
    rows = {name: a_row(name, {0: wrong}) for name, wrong in zip(names, (8, 4, 0, 8), strict=True)}
    found = script.marks_of(replace(panel, score="sst"), rows, GOLD)
    said = [(mark.title, round(mark.difference[0], 6)) for mark in found]
    assert said == [("half of the epochs", -0.1), ("twice the epochs", 0.1)]


def test_no_results(script, monkeypatch, tmp_path):
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results.jsonl")
    monkeypatch.setattr(script, "FIGURE", tmp_path / "techniques.svg")
    with pytest.raises(InputError, match="no results yet"):
        script.main()
    assert not script.FIGURE.exists()
