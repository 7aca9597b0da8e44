"""Fine-tuning with two seeds (research/experiments/stability.py), and what seeds.py makes of it."""

import itertools
import json

import numpy as np
import pytest
import torch
from scipy.stats import t as student_t
from scipy.stats import ttest_ind_from_stats
from support import assert_refused, make_rows, random_bert, succeeded, write_table
from torch import nn

from research.experiments import results, seeds, stability

# ---------------------------------------------------------------------------------------------
# The runs


@pytest.fixture
def trained(run_script_here, tiny_model_folder, tmp_path, monkeypatch):
    """A function: flags → (what metrics.json says, the head's first weights)."""
    columns = "id sentence sentiment"
    files = {
        name: write_table(tmp_path / f"{name}.csv", columns, make_rows(count, 1, "01", first))
        for name, count, first in (("train", 22, 0), ("dev", 9, 100))
    }
    heads = []

    def kept(*arguments):
        model, config = new_model(*arguments)
        heads.append(model.classifier.weight.detach().clone())
        return model, config

    new_model = stability.new_model
    monkeypatch.setattr(stability, "new_model", kept)

    def train(*flags):
        given = ["--train", files["train"], "--dev", files["dev"], "--model", tiny_model_folder]
        given += ["--out", tmp_path / "out", "--epochs", 2, "--lr", 1e-3, "--batch_size", 8]
        succeeded(run_script_here(stability, *given, *flags))
        return json.loads((tmp_path / "out" / "metrics.json").read_text())["best"], heads[-1]

    return train


def test_the_two_seeds_and_the_correction(trained):
    one, head = trained("--seed", 1)
    assert len(one["losses"]) == len(one["norms"]["head"]) == 2
    assert one["dev_acc"] * 9 == pytest.approx(round(one["dev_acc"] * 9))  # a share of 9 rows
    assert one["majority"] == 5 / 9
    same, same_head = trained("--seed", 1, "--order_seed", 1)
    assert same == one
    assert torch.equal(same_head, head)
    other_order, same_head = trained("--seed", 1, "--order_seed", 2)
    assert other_order["losses"] != one["losses"]
    assert torch.equal(same_head, head)
    other_head, new_head = trained("--seed", 2, "--order_seed", 1)
    assert other_head["losses"] != one["losses"]
    assert not torch.equal(new_head, head)
    uncorrected, _ = trained("--seed", 1, "--uncorrected")
    assert uncorrected["losses"] != one["losses"]
    # The loss falls from ln 2; without correction the first steps are longer
    assert abs(uncorrected["losses"][0] - np.log(2)) > 0.001


def test_norms_by_layer():
    model = nn.Module()
    model.bert, model.classifier = random_bert(), nn.Linear(32, 2)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    found = stability.gradient_norms(model)
    assert list(found) == ["embeddings", "layer 1", "layer 2", "pooler", "head"]
    head = torch.cat([p.grad.flatten() for p in model.classifier.parameters()])
    assert found["head"] == pytest.approx(head.norm().item())
    whole = nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item()
    assert sum(norm**2 for norm in found.values()) ** 0.5 == pytest.approx(whole, rel=1e-5)


# ---------------------------------------------------------------------------------------------
# What is made of them


@pytest.mark.parametrize("scores", [(0.7,), (0.5, 0.9, 0.8), (0.6, 0.6, 0.9, 0.5, 0.9)])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_expected_best_is_the_mean_over_all_draws(scores, n):
    draws = [max(draw) for draw in itertools.product(scores, repeat=n)]
    assert seeds.expected_best(scores, n) == pytest.approx(np.mean(draws))


@pytest.mark.parametrize("deviation", [0.004, 0.01, 0.03])
def test_so_many_seeds_make_one_percent_significant(deviation):
    n = seeds.seeds_needed(deviation)
    at_n, before = (
        ttest_ind_from_stats(0.01, deviation, k, 0, deviation, k).pvalue for k in (n, n - 1)
    )
    assert at_n <= 0.05 < before
    assert seeds.seeds_needed(0.5) is None


def a_result(name, seed, accuracy, order=None):
    norms = {"embeddings": [2.0, 0.5], "head": [4.0, 1.0]}
    metrics = {"dev_acc": accuracy, "majority": 0.51, "norms": norms}
    flags = {} if order is None else {"order_seed": order}
    rest = {"seconds": 1.0, "data": {}, "dev": {}}
    return {"name": name, "seed": seed, "flags": flags, "metrics": metrics} | rest


@pytest.fixture
def lines(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results.jsonl")
    for seed, accuracy in enumerate((0.80, 0.84, 0.51)):
        results.append_result(a_result("few", seed, accuracy))
    for order, name in enumerate(("two", "two-order-1")):
        for seed in (0, 1):
            results.append_result(a_result(name, seed, 0.7 + seed / 10 + order / 100, order))


def test_the_tables(lines, run_script_here, tmp_path):
    done = succeeded(run_script_here(seeds, "few", "--plot", tmp_path / "seeds.png"))
    assert "| few | 3 | 0.717 (0.180) | 0.510 | 0.840 | 1 |" in done.out
    assert (
        f"| 0.717 | {(0.51 + 3 * 0.8 + 5 * 0.84) / 9:.3f} | – | – | – |" in done.out
    )  # best of 1, of 2
    assert "| few | 2 | 2 → 0.5 | 4 → 1 |" in done.out
    assert "| few, failed | 1 |" in done.out
    assert (tmp_path / "seeds.png").read_bytes().startswith(b"\x89PNG")


def test_differences_are_those_of_the_same_seeds(lines, run_script_here):
    for seed, accuracy in ((2, 0.55), (0, 0.81), (7, 0.2)):  # 7 has no partner
        results.append_result(a_result("other", seed, accuracy))
    done = succeeded(run_script_here(seeds, "few", "other"))
    differences = np.array([0.04, 0.01])
    half = student_t.ppf(0.975, 1) * differences.std(ddof=1) / 2**0.5
    low, high = differences.mean() - half, differences.mean() + half
    assert f"| other | 2 | +0.025 [{low:+.3f}, {high:+.3f}] |" in done.out
    assert "| against few |" not in succeeded(run_script_here(seeds, "few")).out


def test_other_runs_count_by_their_last_epoch_if_they_are_named(lines, run_script_here):
    """A classifier's metrics are those of its best epoch, which dev has chosen."""
    best = {"dev_acc": 0.9}
    for seed, last in enumerate((0.5, 0.7)):
        row = a_result("imdb", seed, 0) | {"metrics": best, "last": {"dev_acc": last}}
        results.append_result(row)
    done = succeeded(run_script_here(seeds, "imdb", "few"))
    assert "| imdb | 2 | 0.600 (0.141) | 0.500 | 0.700 | 0 |" in done.out
    assert "gradient norms" not in done.out
    assert "imdb" not in succeeded(run_script_here(seeds)).out


def test_the_grid_of_two_seeds(lines, run_script_here):
    done = succeeded(run_script_here(seeds, "--grid", "two"))
    assert "| head \\ order | 0 | 1 | mean |" in done.out
    assert "| 1 | 0.800 | 0.810 | 0.805 |" in done.out
    assert "| mean | 0.750 | 0.760 | 0.755 |" in done.out
    assert "| two | 4 | 0.755" in done.out
    results.append_result(a_result("two-order-2", 0, 0.7, 2))
    done = run_script_here(seeds, "--grid", "two")
    assert_refused(done, "the grid of 2 × 3 seeds lacks 1 runs", code=1)
    done = run_script_here(seeds, "none")
    assert_refused(done, "no results of none; there are: few, two", code=1)
