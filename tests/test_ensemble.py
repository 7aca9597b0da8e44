"""Averaged answers and averaged weights, on untrained models of a few parameters."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from running import assert_refused
from sklearn.metrics import accuracy_score

from datasets import load_data, load_pairs, preprocess_string
from evaluation import overall, pearson
from extensions import ensemble
from extensions.flags import get_args
from extensions.multitask import load_model, new_model
from extensions.tasks import COURSE, FILE_COLUMNS, STEMS
from tokenizer import BertTokenizer
from training.files.predictions import read_predictions
from training.loop.checkpoints import save_checkpoint

CPU = torch.device("cpu")
SIX = [f"{task}-{split}-output.csv" for task in COURSE for split in ("dev", "test")]


@pytest.fixture
def make(tmp_path, tiny_model_folder):
    """A function that writes a checkpoint with random heads: → its path."""

    def make(name: str, seed: int, *flags: str) -> str:
        args = get_args(["--option", "finetune", *flags])
        args.model = str(tiny_model_folder)
        torch.manual_seed(seed)
        model, config = new_model(args)
        with torch.no_grad():  # so that classes differ between rows, not only between models
            for head in (model.sentiment, model.paraphrase, model.similarity):
                head.weight.normal_(0, 3)
        path = tmp_path / f"{name}.pt"
        saved = {"model": model.state_dict(), "config": vars(config), "args": vars(args)}
        save_checkpoint(path, saved)
        return path.name

    return make


@pytest.fixture
def run(run_script_here, tiny_data, monkeypatch):
    """ensemble.py on the tiny data."""
    monkeypatch.setenv("MINBERT_DATA", str(tiny_data))
    return lambda *arguments: run_script_here(ensemble, *arguments)


def rows_of(task: str, split: str, data: Path) -> list[tuple]:
    path = data / f"{STEMS[task]}-{'test-student' if split == 'test' else 'dev'}.csv"
    if task == "sst":
        return load_data(path, split)
    return load_pairs(path, split, "is_duplicate" if task == "para" else "similarity")


@torch.no_grad()
def said_by(path: str, task: str, row: tuple, model_folder: Path) -> np.ndarray:
    """What one model says of one row, computed without any of ensemble.py and evaluation.py."""
    model, _ = load_model(path, CPU)
    tokenizer = BertTokenizer.from_pretrained(model_folder)
    inputs = []
    for text in row[: 1 if task == "sst" else 2]:
        text = text.strip() if task == "sst" else preprocess_string(text)
        encoded = tokenizer([text], return_tensors="pt")
        inputs += [encoded["input_ids"], encoded["attention_mask"]]
    if task == "sst":
        exponents = np.exp(model.predict_sentiment(*inputs).double().numpy()[0])
        return exponents / exponents.sum()
    if task == "para":
        return 1 / (1 + np.exp(-model.predict_paraphrase(*inputs).double().item()))
    return model.predict_similarity(*inputs).double().item()


def read(task: str, split: str, folder: Path = Path("predictions")) -> dict[str, float]:
    return read_predictions(folder / f"{task}-{split}-output.csv", FILE_COLUMNS[task])


def metrics_in(folder: str) -> dict:
    return json.loads(Path(folder, "ensemble-metrics.json").read_text())


# ---------------------------------------------------------------------------------------------
# Outputs averaged


def test_averages_counted_by_hand(run, make, tiny_data, tiny_model_folder):
    """Two bi-encoders and a cross encoder: 1/3 of each one's probabilities and similarities."""
    paths = [make("a", 1), make("b", 2), make("c", 3, "--pair_encoding", "cross")]
    result = run(*paths, "--precision", "fp32")
    assert (result.code, result.err) == (0, "")
    differs = 0
    for task in COURSE:
        for split in ("dev", "test"):
            rows = rows_of(task, split, tiny_data)
            found = read(task, split)
            assert list(found) == [row[-1] for row in rows]
            for row in rows:
                said = [said_by(path, task, row, tiny_model_folder) for path in paths]
                mean = sum(said) / 3
                if task == "sts":
                    assert found[row[-1]] == pytest.approx(mean, abs=1e-4)
                elif task == "sst":
                    top = np.sort(mean)[-2:]
                    assert found[row[-1]] == mean.argmax() or top[1] - top[0] < 1e-4
                    differs += mean.argmax() != said[0].argmax()
                else:
                    assert found[row[-1]] == (mean > 0.5) or abs(mean - 0.5) < 1e-4
                    differs += (mean > 0.5) != (said[0] > 0.5)
    assert differs > 3  # or the first model alone would have done


def test_scores_are_those_of_the_files(run, make, tiny_data):
    paths = [make("a", 1), make("b", 2)]
    run(*paths, "--out_dir", "out")
    metrics = metrics_in("out")
    expected = {}
    for task in COURSE:
        rows, found = rows_of(task, "dev", tiny_data), read(task, "dev", Path("out"))
        gold, predicted = [row[-2] for row in rows], [found[row[-1]] for row in rows]
        expected[task] = (pearson if task == "sts" else accuracy_score)(gold, predicted)
    assert metrics["best"] == pytest.approx(expected | {"overall": overall(expected)})
    assert [member["checkpoint"] for member in metrics["members"]] == paths
    files = sorted(path.name for path in Path("out").iterdir())
    assert files == sorted([*SIX, "ensemble-metrics.json"])


def test_models_of_one_task_each_go_together(run, make):
    paths = [make(task, seed, "--tasks", task) for seed, task in enumerate(COURSE)]
    assert run(*paths).code == 0
    together = {name: Path("predictions", name).read_bytes() for name in SIX}
    for path, task in zip(paths, COURSE, strict=True):
        assert run(path, "--tasks", task, "--out_dir", "alone").code == 0
        for split in ("dev", "test"):
            name = f"{task}-{split}-output.csv"
            assert Path("alone", name).read_bytes() == together[name]
    assert run(*paths[:2], "--tasks", "sst,para").code == 0


@pytest.mark.parametrize("soup", [(), ("--soup",)])
def test_what_cannot_be_combined_is_refused(run, make, soup):
    torch.save([1], "list.pt")
    few = make("few", 3, "--tasks", "sst,para")
    for paths, fact in (
        ([make("a", 1), "gone.pt"], "no checkpoint at gone.pt: train first"),
        (["list.pt"], "list.pt is not a checkpoint of extensions/multitask.py"),
        ([few], "no checkpoint was trained on sts; leave that out with --tasks"),
    ):
        assert_refused(run(*paths, *soup), fact, code=1)
    assert list(Path("predictions").glob("*.csv")) == []


# ---------------------------------------------------------------------------------------------
# Weights averaged


def test_the_recipe_by_hand():
    """Best first; a tie stays (≥); what lowers the score goes, and the next is tried without it."""
    table = {(2, 0): 0.6, (2, 0, 1): 0.5, (2, 0, 3): 0.7}
    asked = []

    def measure(chosen):
        asked.append(tuple(chosen))
        return table[tuple(chosen)]

    assert ensemble.choose([0.5, 0.4, 0.6, 0.3], measure) == ([2, 0, 3], 0.7)
    assert asked == list(table)


def test_a_soup_is_the_mean_of_its_ingredients(run, make):
    """Never worse on dev than the best of them; a near twin without other predictions joins."""
    paths = [make(f"m{seed}", seed) for seed in (1, 2, 3)]
    saved = torch.load(paths[0], weights_only=True)
    saved["model"]["sentiment.bias"][:] += 1.0  # all classes alike: no prediction changes
    torch.save(saved, "twin.pt")
    result = run("--soup", *paths, "twin.pt")
    assert (result.code, result.err) == (0, "")
    metrics = metrics_in("predictions")
    alone = [overall({key: member[key] for key in COURSE}) for member in metrics["members"]]
    assert metrics["best"]["overall"] >= max(alone)
    assert metrics["ingredients"][0] == paths[int(np.argmax(alone[:3]))]
    states = [torch.load(path, weights_only=True)["model"] for path in metrics["ingredients"]]
    soup, _ = load_model("predictions/soup-multitask.pt", CPU)
    for name, weight in soup.state_dict().items():
        mean = sum(state[name] for state in states) / len(states)
        torch.testing.assert_close(weight, mean.to(weight.dtype))
    assert run("predictions/soup-multitask.pt", "--out_dir", "again").code == 0
    assert metrics_in("again")["best"] == pytest.approx(metrics["best"])
    for name in SIX:
        assert Path("again", name).read_bytes() == Path("predictions", name).read_bytes()
    assert run("--soup", paths[0], "twin.pt").code == 0
    assert metrics_in("predictions")["ingredients"] == [paths[0], "twin.pt"]


def test_a_soup_of_different_kinds_is_refused(run, make):
    bi = make("bi", 1)
    for name, flags in (("cross", ["--pair_encoding", "cross"]), ("few", ["--tasks", "sst,sts"])):
        other = make(name, 2, *flags)
        assert_refused(run("--soup", bi, other), f"{other} and bi.pt are different kinds", code=1)
    # the same kind with another dropout and option goes together
    same = make("same", 4, "--hidden_dropout_prob", "0.1", "--option", "pretrain")
    assert run("--soup", bi, same).code == 0
