"""docs/seeds_figure.py: its power is that of the textbook, its spreads those of the results."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from made_up import a_result
from scipy.stats import nct
from scipy.stats import t as student_t
from support import assert_refused, load_script, succeeded

from research.experiments import report, results

figure = load_script("docs/seeds_figure.py")


@pytest.mark.parametrize("seeds", [3, 10])
def test_the_power_is_that_of_the_t_test(seeds):
    quantile, shift = student_t.ppf(0.975, seeds - 1), 0.01 / 0.008 * seeds**0.5
    expected = nct.sf(quantile, seeds - 1, shift) + nct.cdf(-quantile, seeds - 1, shift)
    assert figure.power(seeds, 0.008, 0.0) == pytest.approx(expected, abs=0.01)
    for examples in (0.0, 0.008, 0.1):
        assert figure.power(seeds, 0.008, examples, difference=0) == pytest.approx(0.05, abs=0.015)
    assert figure.power(1000, 0.008, 0.0051) == pytest.approx(0.5, abs=0.02)  # 0.01 / 1.96


def test_spreads_are_medians_of_the_last_epoch(place, run_script_here, monkeypatch, tmp_path):
    monkeypatch.setattr(figure, "FIGURE", tmp_path / "seeds.svg")
    assert_refused(run_script_here(figure), "no results yet; python research/", code=1)
    scores = {"again-sst": (0.1, 0.1), "a": (0.1, 0.2), "b": (0.1, 0.4), "c": (0.4, 0.3)}
    for name, by_seed in scores.items():
        for seed, score in enumerate(by_seed):
            results.append_result(a_result(name, seed, {"sst": 0.9}, last={"sst": score}))
        if name != "again-sst":
            key = {"baseline": "again-sst", "name": name, "seeds": [0, 1], "baseline_seeds": [0, 1]}
            sds = {"example_sd": {"sst": by_seed[1] / 10}}
            results.append_line(report.EXAMPLE_SD, json.loads(json.dumps(key | sds)))
    (spread,) = figure.measured_spreads()
    assert spread.title == "SST from books"
    assert spread.seeds == pytest.approx(np.std([0, 0.1], ddof=1))
    assert spread.examples == pytest.approx(0.03)
    done = succeeded(run_script_here(figure))
    assert f"| SST from books, any dev set | {0.1 / 2**0.5:.4f} | 0.0300 | " in done.out
    texts = {element.text for element in ET.parse(tmp_path / "seeds.svg").getroot().iter()}
    assert {"SST from books", "any dev set", "seeds of each method"} <= texts
