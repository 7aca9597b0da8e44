"""Intervals and tables of results (research/experiments/bootstrap.py, report.py)."""

import itertools
import shutil

import numpy as np
import pytest
from made_up import a_result
from scipy.stats import bootstrap as scipy_bootstrap
from scipy.stats import pearsonr
from support import ROOT, assert_refused, succeeded

from research.experiments import bootstrap, report, results


@pytest.fixture
def noisy() -> tuple[dict, dict, dict]:
    """Gold labels, the predictions of a run, and those of a better one."""
    rng = np.random.default_rng(5)
    gold = {"sst": rng.integers(0, 5, 300), "sts": rng.uniform(0, 5, 200)}
    runs = []
    for wrong, spread in ((0.5, 2.0), (0.4, 1.2)):
        changed = rng.random(300) < wrong
        sst = np.where(changed, (gold["sst"] + 1) % 5, gold["sst"])
        runs.append({"sst": sst[None], "sts": gold["sts"][None] + rng.normal(0, spread, (1, 200))})
    return gold, *runs


def test_intervals_are_those_of_scipy(noisy):
    gold, weak, strong = noisy

    def accuracy_gain(labels, ours, theirs, axis=-1):
        return (ours == labels).mean(axis=axis) - (theirs == labels).mean(axis=axis)

    def pearson_gain(labels, ours, theirs):
        return pearsonr(ours, labels).statistic - pearsonr(theirs, labels).statistic

    intervals = bootstrap.intervals(strong, weak, gold, paired=True, resamples=4000)
    assert intervals.keys() == {"sst", "sts"}
    for task, gain in (("sst", accuracy_gain), ("sts", pearson_gain)):
        sample = (gold[task], strong[task][0], weak[task][0])
        expected = scipy_bootstrap(
            sample, gain, paired=True, n_resamples=4000, method="percentile", rng=1
        ).confidence_interval
        middle, low, high = intervals[task]
        assert middle == pytest.approx(gain(*sample), abs=1e-12)
        assert low == pytest.approx(expected.low, abs=0.006)
        assert high == pytest.approx(expected.high, abs=0.006)
        assert high - low > 0.03  # so that 0.006 says something


def sst_interval(ours: list, theirs: list, paired: bool) -> tuple[float, float, float]:
    """The interval of made-up predictions, all of whose labels are 1."""
    ours, theirs = ({"sst": np.array(rows, float)} for rows in (ours, theirs))
    gold = {"sst": np.ones(ours["sst"].shape[1])}
    return bootstrap.intervals(ours, theirs, gold, paired)["sst"]


def test_seeds_are_drawn_in_pairs_or_apart():
    """A lucky seed lifts both runs: in pairs it cancels out, in other seeds it does not."""
    lucky = [[1, 1, 1, 1], [0, 0, 0, 0]]
    assert sst_interval(lucky, lucky, paired=True) == (0.0, 0.0, 0.0)
    assert sst_interval(lucky, lucky, paired=False) == pytest.approx((0, -1, 1))
    assert sst_interval(lucky, [[1, 1, 0, 0]], paired=False)[0] == 0.0


def test_weighted_pearson_is_pearson_of_repeated_examples():
    rng = np.random.default_rng(0)
    x, y = rng.normal(1000, 1, (2, 12)), rng.normal(size=12)
    counts = rng.multinomial(12, np.full(12, 1 / 12), size=5).T
    correlations = bootstrap.weighted_pearson(x, y, counts.astype(float))
    for s, r in itertools.product(range(2), range(5)):
        expected = pearsonr(np.repeat(x[s], counts[:, r]), np.repeat(y, counts[:, r])).statistic
        assert correlations[s, r] == pytest.approx(expected, abs=1e-9)
    same = bootstrap.weighted_pearson(np.full((1, 12), 2.5), y, np.ones((12, 1)))
    assert same.tolist() == [[0.0]]


# ---------------------------------------------------------------------------------------------
# The tables


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
            results.append_result(result | {"last": {"sst": 0.25}, "peak_mb": 512})


def test_the_report(place, run_script_here):
    fill(
        place,
        {"base": ((0, 5), (1, 8)), "better": ((0, 11), (1, 11), (2, 0)), "one": ((None, 11),)},
    )
    lines = succeeded(run_script_here(report, "base", "better", "one")).out.splitlines()
    mean, sd = np.mean([5 / 11, 8 / 11]), np.std([5 / 11, 8 / 11], ddof=1)
    assert f"| base | 2 | {mean:.3f} ({sd:.3f}) | 1.5 | 512 |" in lines
    assert "| one | 1 | 1.000 | 1.5 | 512 |" in lines
    (cell,) = [line.split("|")[2].strip() for line in lines if line.startswith("| better | +")]
    assert cell.startswith(f"+{1 - mean:.3f} [+")  # of the two seeds that both ran
    assert "not resolved" not in cell
    last = succeeded(run_script_here(report, "base", "--last")).out
    assert "| base | 2 | 0.250 (0.000) | 1.5 | 512 |" in last


def test_intervals_are_kept(place, run_script_here):
    """They need the predictions of the runs' folders once."""
    fill(place, {"base": ((0, 5),), "same": ((0, 5),), "better": ((0, 11),)})
    first = succeeded(run_script_here(report, "base", "same", "better"))
    assert "| same | +0.000 [+0.000, +0.000], not resolved |" in first.out
    shutil.rmtree(place / "runs")
    assert succeeded(run_script_here(report, "base", "same", "better")).out == first.out
    done = succeeded(run_script_here(report, "better", "base"))
    assert "note: no predictions of base-0, better-0; run.py --again" in done.err
    assert "| base | – |" in done.out


def test_what_cannot_be_reported(place, run_script_here, monkeypatch):
    assert_refused(run_script_here(report), "no results of several tasks", code=1)
    fill(place, {"base": ((0, 5),), "other": ((0, 6),)})
    result = run_script_here(report, "base", "nothing")
    assert_refused(result, "error: no results of nothing in", "there are: base, other", code=1)
    monkeypatch.setenv("MINBERT_DATA", str(ROOT / "data" / "practice"))
    message = "other-0 was measured on another sst dev file than"
    assert_refused(run_script_here(report, "base", "other"), message, code=1)


def test_recorded_intervals_belong_to_recorded_runs():
    rows = report.rows_of(results.load_results())
    intervals = report.read_intervals()
    assert len(intervals) > 90
    for baseline, name, seeds, baseline_seeds in intervals:
        assert report.seeds_compared(rows[name], rows[baseline]) == (seeds, baseline_seeds)
