"""Intervals and tables of results (research/experiments/report.py)."""

import numpy as np
import pytest
from running import assert_refused, succeeded
from scipy.stats import ttest_rel

from research.experiments import report, results


def test_intervals_are_those_of_students_t():
    rng = np.random.default_rng(1)
    ours, theirs = rng.normal(1, 0.1, 5), rng.normal(0, 0.2, 5)
    expected = ttest_rel(ours, theirs).confidence_interval(0.95)
    ends = report.interval(ours - theirs, 0.0)[1:]
    assert ends == pytest.approx((expected.low, expected.high))
    assert report.interval(ours[:1], 0.0)[1:] == (-np.inf, np.inf)


def fill(seeds: dict[str, tuple], digits: str = "a1") -> None:
    """Results of made-up runs on 11 rows of SST.

    Args:
        seeds: name → (seed, how many predictions are right) …
    """
    for name, runs in seeds.items():
        for seed, right in runs:
            result = {"name": name, "seed": seed, "flags": "", "seconds": 90.0}
            result |= {"metrics": {"sst": right / 11, "nli": 1.0}, "last": {"sst": 0.25}}
            results.append_line(results.RESULTS, result | {"data": {"sst": digits}})


def test_the_report(place, run_script_here):
    fill({"base": ((0, 5), (1, 8)), "better": ((0, 11), (1, 10), (2, 0)), "one": ((None, 11),)})
    lines = succeeded(run_script_here(report, "base", "better", "one")).out.splitlines()
    mean, sd = np.mean([5 / 11, 8 / 11]), np.std([5 / 11, 8 / 11], ddof=1)
    assert f"| base | 2 | {mean:.3f} ({sd:.3f}) | 0.250 (0.000) | 1.5 |" in lines
    (cells,) = [line.split("|")[2:4] for line in lines if line.startswith("| better | +")]
    assert cells[0].startswith(f" +{21 / 22 - mean:.3f} [-")  # of the two seeds that both ran
    assert cells[0].endswith(", not resolved ")
    assert cells[1].startswith(" +0.000 [")
    assert f"| one | +{1 - mean:.3f}, no interval | +0.000, no interval |" in lines


def test_the_spread_over_examples_is_added(place, run_script_here):
    fill({"base": ((0, 5), (1, 5)), "better": ((0, 11), (1, 11))})
    key = {"baseline": "base", "name": "better", "seeds": [0, 1], "baseline_seeds": [0, 1]}
    results.append_line(report.EXAMPLE_SD, key | {"example_sd": {"sst": 0.1}})
    done = succeeded(run_script_here(report, "base", "better"))
    assert "| better | +0.545 [+0.349, +0.741] |" in done.out  # 1.96 times it


def test_runs_on_other_data_are_not_compared(place, run_script_here):
    fill({"base": ((0, 5), (1, 5))})
    fill({"other": ((0, 6), (1, 6))}, digits="b2")
    message = "these runs were measured on different dev files of sst"
    assert_refused(run_script_here(report, "base", "other"), message)
