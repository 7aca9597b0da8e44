"""Intervals and tables of results (research/experiments/intervals.py, report.py)."""

import shutil

import numpy as np
import pytest
from factories import ROOT
from made_up import a_result
from running import assert_refused, succeeded
from scipy.stats import pearsonr, ttest_ind, ttest_rel

from research.experiments import intervals, report, results


def made_up_run(rng, seeds: int, by_seed: float, by_example: float, by_both: float) -> np.ndarray:
    """Which of 400 examples each seed has right, (S, 400): one in two, whatever the spreads."""
    z = rng.normal(0, by_example, 400)
    return (z + rng.normal(0, by_seed, (seeds, 1)) + rng.normal(0, by_both, (seeds, 400))) > 0


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("spreads", [(0.2, 1.0, 0.01), (0.0, 1.0, 0.0), (0.0, 0.3, 1.0)])
def test_without_a_difference_one_interval_of_twenty_excludes_0(seeds, spreads):
    """Whether runs differ by seed, by example, or by both together."""
    rng = np.random.default_rng(0)
    resolved = 0
    for _ in range(500):
        ours, theirs = (made_up_run(rng, seeds, *spreads).astype(float) for _ in range(2))
        sides = [ours - theirs]
        variance = intervals.example_variance(sides)
        _, low, high = intervals.interval([side.mean(axis=1) for side in sides], variance)
        resolved += low > 0 or high < 0
    assert 0.02 < resolved / 500 < 0.085


@pytest.mark.parametrize("paired", [True, False])
def test_intervals_are_those_of_students_t(paired):
    rng = np.random.default_rng(1)
    ours, theirs = rng.normal(1, 0.1, 5), rng.normal(0, 0.2, 5)
    test = ttest_rel(ours, theirs) if paired else ttest_ind(ours, theirs, equal_var=False)
    expected = test.confidence_interval(0.95)
    sides = report.differences(ours, theirs, paired)
    assert intervals.interval(sides, 0.0)[1:] == pytest.approx((expected.low, expected.high))
    assert intervals.interval([ours[:1]], 0.0)[1:] == (-np.inf, np.inf)


def test_what_examples_contribute_to_a_correlation():
    """Their mean is the correlation, their spread that of leaving one example out."""
    rng = np.random.default_rng(2)
    gold = rng.uniform(0, 5, 300)
    predicted = gold + rng.normal(0, 2, (2, 300))
    contributed = intervals.by_example("sts", predicted, gold)
    for i in range(2):
        assert contributed[i].mean() == pytest.approx(pearsonr(predicted[i], gold).statistic)
        without = [
            pearsonr(np.delete(predicted[i], j), np.delete(gold, j)).statistic for j in range(300)
        ]
        jackknife = np.var(without) * 299
        assert contributed[i].var() / 300 == pytest.approx(jackknife, rel=0.03)


def fill(place, seeds: dict[str, tuple]) -> None:
    """Results of runs on the tiny data (11 rows of SST), and their predictions in their folders.

    Args:
        seeds: name → (seed, how many of the first predictions are right) …
    """
    path = results.dev_files({})["sst"]
    ids, labels = results.gold("sst", path)
    data = results.fingerprints({"sst": path}, ["sst"])
    for name, runs in seeds.items():
        for seed, right in runs:
            predicted = [int(x) if i < right else int(x + 1) % 5 for i, x in enumerate(labels)]
            folder = place / "runs" / results.run_name(name, seed)
            folder.mkdir(parents=True)
            rows = "".join(f"{key},{value}\n" for key, value in zip(ids, predicted, strict=True))
            (folder / "sst-dev-output.csv").write_text("id,Predicted_Sentiment\n" + rows)
            result = a_result(name, seed, {"sst": right / 11, "nli": 1.0}, data)
            results.append_line(results.RESULTS, result | {"last": {"sst": 0.25}})


def test_the_report(place, run_script_here):
    fill(
        place,
        {"base": ((0, 5), (1, 8)), "better": ((0, 11), (1, 10), (2, 0)), "one": ((None, 11),)},
    )
    lines = succeeded(run_script_here(report, "base", "better", "one")).out.splitlines()
    mean, sd = np.mean([5 / 11, 8 / 11]), np.std([5 / 11, 8 / 11], ddof=1)
    assert f"| base | 2 | {mean:.3f} ({sd:.3f}) | 0.250 (0.000) | 1.5 |" in lines
    (cells,) = [line.split("|")[2:4] for line in lines if line.startswith("| better | +")]
    assert cells[0].startswith(f" +{21 / 22 - mean:.3f} [-")  # of the two seeds that both ran
    assert cells[0].endswith(", not resolved ")
    assert cells[1].startswith(" +0.000 [")
    assert f"| one | +{1 - mean:.3f}, a single seed | +0.000, a single seed |" in lines


def test_the_spread_over_examples_is_kept(place, run_script_here):
    """It needs the predictions of the runs' folders once."""
    seeds = ((0, 5), (1, 5))
    fill(place, {"base": seeds, "same": seeds, "better": ((0, 11), (1, 11))})
    first = succeeded(run_script_here(report, "base", "same", "better"))
    assert "| same | +0.000 [+0.000, +0.000], not resolved |" in first.out
    half = 1.96 * (5 / 11 * 6 / 11 / 10) ** 0.5  # all from the examples: 6 of 11 are better
    assert f"| better | +0.545 [+{6 / 11 - half:.3f}, +{6 / 11 + half:.3f}] |" in first.out
    shutil.rmtree(place / "runs")
    assert succeeded(run_script_here(report, "base", "same", "better")).out == first.out
    done = succeeded(run_script_here(report, "better", "base"))
    assert "note: no predictions of base-0, base-1, better-0, better-1; run.py" in done.err


def test_runs_on_other_data_are_not_compared(place, run_script_here, monkeypatch):
    fill(place, {"base": ((0, 5), (1, 5)), "other": ((0, 6), (1, 6))})
    monkeypatch.setenv("MINBERT_DATA", str(ROOT / "data" / "practice"))
    done = run_script_here(report, "base", "other")
    assert_refused(done, "other-0 was measured on another sst dev file than")
