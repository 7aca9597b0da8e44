"""docs/techniques_figure.py: differences and marks of made-up results."""

import pytest
from support import ROOT, load_script

from research.experiments import results
from research.experiments.report import Row

FOLDER = ROOT / "research" / "experiments" / "techniques"


@pytest.fixture
def script():
    return load_script("docs/techniques_figure.py")


def test_marks_are_in_the_order_of_the_panel(script, monkeypatch):
    names = ("again-sst", "again-sst-smart", "offline-sst", "offline-sst-smart")
    names += ("offline-sst-simcse", "again-sts-smart")
    rows = {name: Row(name, {0: {}}) for name in names}
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
