"""docs/sst_figure.py: every run it looks for is one that an experiment makes, and is drawn."""

import xml.etree.ElementTree as ET

from made_up import a_result
from support import ROOT, assert_refused, load_script, succeeded

from research.experiments import controls, results

figure = load_script("docs/sst_figure.py")


def test_the_figures(place, run_script_here, monkeypatch, tmp_path):
    monkeypatch.setattr(figure, "FOLDER", tmp_path)
    assert_refused(run_script_here(figure), "no results yet; python research/", code=1)
    tomls = sorted((ROOT / "research" / "experiments" / "sst").glob("*.toml"))
    experiments = [results.read_experiment(path) for path in tomls]
    for i, run in enumerate(run for toml in experiments for run in toml.with_variants()):
        for seed, change in ((0, 0.0), (1, 0.02)):
            last = {"dev_acc": 0.2 + i / 100 + change}
            results.append_result(a_result(run.name, seed, {"dev_acc": 0.9}, last=last))
        control = "rates-books" if run.name == "rates-books" else run.name
        if control.startswith("sizes-books") or control == "rates-books":
            results.append_result(a_result(f"{control}-control", None, {"dev_acc": 0.25}))
    made = {control.name for control in controls.controls_of(experiments, None)}
    assert {line["name"] for line in results.load_results() if line["seed"] is None} <= made
    lines = succeeded(run_script_here(figure)).out.splitlines()
    mean = [0.21 + i / 100 for i in range(18)]  # rates-books, rates-minilm, sizes-books …
    spread = "(0.014; 2)"
    rates = [f"{mean[i]:.3f} {spread}" for i in (1, 2, 0, 3, 4)]
    assert f"| from books | {' | '.join(rates)} |" in lines
    sizes = [f"{mean[i]:.3f} {spread}" for i in (10, 11, 12, 13, 3)]  # all labels: a run of rates
    assert f"| from books | {' | '.join(sizes)} |" in lines
    assert f"| TF-IDF | {' | '.join(['0.250 (1)'] * 5)} |" in lines
    for kind, tick in (("rates", "3e-4"), ("sizes", "8,544")):
        root = ET.parse(tmp_path / f"sst-{kind}.svg").getroot()
        assert {tick, "from MiniLM"} <= {element.text for element in root.iter()}
