"""AdamW without its correction (research/experiments/stability.py), and what seeds.py prints."""

import itertools

import numpy as np
import pytest
from made_up import a_result
from scipy.stats import t as student_t
from scipy.stats import ttest_ind_from_stats
from support import assert_refused, succeeded

import classifier
from research.experiments import results, seeds, stability


def test_one_flag_switches_the_correction_off(monkeypatch):
    options = []
    monkeypatch.setattr(classifier, "AdamW", lambda **options: options)
    monkeypatch.setattr(classifier, "main", lambda: options.append(classifier.AdamW()))
    for flags in (["--epochs", "1"], ["--uncorrected"]):
        monkeypatch.setattr("sys.argv", ["stability.py", *flags])
        stability.main()
    assert options == [{}, {"correct_bias": False}]


@pytest.mark.parametrize("scores", [(0.7,), (0.6, 0.6, 0.9, 0.5, 0.9)])
@pytest.mark.parametrize("n", [1, 4])
def test_the_expected_best_is_the_mean_over_all_draws(scores, n):
    draws = [max(draw) for draw in itertools.product(scores, repeat=n)]
    assert seeds.expected_best(scores, n) == pytest.approx(np.mean(draws))


@pytest.mark.parametrize("deviation", [0.004, 0.03])
def test_so_many_seeds_make_one_percent_significant(deviation):
    n = seeds.seeds_needed(deviation)
    at_n, before = (
        ttest_ind_from_stats(0.01, deviation, k, 0, deviation, k).pvalue for k in (n, n - 1)
    )
    assert at_n <= 0.05 < before
    assert seeds.seeds_needed(0.5) is None


@pytest.fixture
def few(place):
    """Three runs, whose last epoch counts, and two of another kind, one with a seed of its own."""
    for seed, accuracy in enumerate((0.80, 0.84, 0.51)):
        last = {"dev_acc": accuracy}
        results.append_result(a_result("few", seed, {"dev_acc": 0.9}, last=last))
    for seed, accuracy in ((2, 0.55), (0, 0.81), (7, 0.2)):  # 7 has no partner
        results.append_result(a_result("other", seed, {"dev_acc": accuracy}))


def test_the_tables(few, run_script_here):
    lines = succeeded(run_script_here(seeds, "few", "other")).out.splitlines()
    best_of_2 = (0.51 + 3 * 0.8 + 5 * 0.84) / 9
    cells = f"0.717 (0.180) | 0.510 | 0.840 | > 1000 | 0.717 | {best_of_2:.3f} | – | – | – |"
    assert f"| few | 3 | {cells}" in lines
    differences = np.array([0.04, 0.01])
    half = student_t.ppf(0.975, 1) * differences.std(ddof=1) / 2**0.5
    low, high = differences.mean() - half, differences.mean() + half
    assert f"| other | 2 | +0.025 [{low:+.3f}, {high:+.3f}] |" in lines
    refused = run_script_here(seeds, "few", "none")
    assert_refused(refused, "no accuracies of none in", code=1)
