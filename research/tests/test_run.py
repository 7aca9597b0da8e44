"""Runs from TOMLs and their results (research/experiments/run.py, results.py)."""

import os
from pathlib import Path
from unittest import mock

import pytest
from factories import ROOT
from made_up import calls, write_toml
from running import assert_refused, succeeded

from research.experiments import results, run

TOMLS = sorted((ROOT / "research" / "experiments").glob("*/*.toml"))


def test_a_run_for_every_seed(place, run_script_here, tiny_data):
    toml = write_toml(place, "plain", "lr = 0.1\nuse_it = true\nnot_this = false")
    succeeded(run_script_here(run, toml))
    assert calls(place) == [
        f"--lr 0.1 --use_it --fast --seed {seed} --out_dir {place / 'runs' / f'plain-{seed}'} "
        f"--filepath {place / 'runs' / f'plain-{seed}' / 'model.pt'}"
        for seed in (0, 1)
    ]
    first, second = results.load_results()
    assert (first["seed"], second["seed"]) == (0, 1)
    assert first["metrics"] == {"sst": 0.5}  # no losses
    dev_file = tiny_data / "ids-sst-dev.csv"
    assert first["data"]["sst"] == run.sha256_of(dev_file)[:12]


def test_runs_already_done_are_skipped_or_made_again(place, run_script_here):
    """A clone has the lines, but not the models with which other runs begin."""
    toml = write_toml(place, "plain", "lr = 0.1")
    succeeded(run_script_here(run, toml, "--seeds", "1"))
    succeeded(run_script_here(run, toml))
    assert [result["seed"] for result in results.load_results()] == [1, 0]
    assert len(calls(place)) == 2
    succeeded(run_script_here(run, toml, "--again"))
    assert len(calls(place)) == 4
    assert len(results.load_results()) == 2
    message = "plain-0 is in results.jsonl with other flags"
    assert_refused(run_script_here(run, write_toml(place, "plain", "lr = 0.2")), message)


def test_a_run_that_fails_is_not_recorded_and_is_resumed(place, run_script_here):
    toml = write_toml(place, "bad", "lr = 13.0")
    assert_refused(run_script_here(run, toml), "bad-0 ended with status 1")
    run_script_here(run, toml)
    assert calls(place)[1].endswith(" --resume")
    assert results.load_results() == []


def test_variants_and_models(place, run_script_here):
    path = place / "labels.toml"
    path.write_text(
        '[run]\nname = "labels"\nkind = "tag"\nseeds = [2]\n'
        'models = ["$RUNS/long-0/pieces-0", "$RUNS/long-0/pieces-50"]\n'
        '[flags]\ntrain = "$MINBERT_DATA/train"\n'
        "[variants.slow]\nlr = 1e-6\nteachers = ['a.pt', 'b.pt']\n"
    )
    runs = results.read_experiment(path).with_variants()
    assert [run.name.removeprefix("labels-") for run in runs] == [
        "pieces-0", "pieces-50", "slow-pieces-0", "slow-pieces-50"
    ]  # fmt: skip
    assert results.command_of(runs[3], 2, Path("out"))[3:] == [
        *("--train", f"{os.environ['MINBERT_DATA']}/train", "--lr", "1e-06"),
        *("--teachers", "a.pt", "b.pt", "--model", str(place / "runs" / "long-0" / "pieces-50")),
        *("--fast", "--seed", "2", "--out", "out"),
    ]


@pytest.mark.parametrize("path", TOMLS, ids=lambda path: path.stem)
def test_the_tomls_of_the_repository(path):
    """Their flags are flags, and those of the recorded runs."""
    import classifier
    from extensions import multitask
    from lessons import token_classifier
    from pretraining import pretrain
    from training.cli.flags import read_flags

    readers = {"pretrain": pretrain.get_args, "classify": classifier.get_args}
    readers["tag"] = lambda arguments: read_flags(token_classifier.TokenFlags(), arguments, "")
    recorded = {line["name"]: line["flags"] for line in results.load_results()}
    for variant in results.read_experiment(path).with_variants():
        arguments = results.command_of(variant, 0, Path("runs"))[3:]
        if variant.kind != "ensemble":
            readers.get(variant.kind, multitask.get_args)(arguments)
        assert recorded.get(variant.name, variant.digest()) == variant.digest()


def test_ctrl_c_waits_for_the_resume_file(tmp_path):
    with mock.patch.object(results.subprocess, "Popen") as started:
        started.return_value.__enter__.return_value.wait.side_effect = [KeyboardInterrupt, 3]
        assert results.call(["a", "run"], tmp_path) == (3, True)
