"""docs/techniques_figure.py: its rows are experiments that can be run."""

from support import ROOT, load_script

from research.experiments import results

FOLDER = ROOT / "research" / "experiments" / "techniques"


def test_every_technique_is_a_variant_of_an_experiment():
    script = load_script("docs/techniques_figure.py")
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
