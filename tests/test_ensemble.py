"""Averaged outputs, of untrained models of a few parameters."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score

from evaluation import FILE_COLUMNS, HEADS, overall, pearson
from extensions import ensemble
from extensions.flags import TechniqueFlags, get_args
from extensions.multitask import load_model, new_model
from extensions.tasks import COURSE, read_set
from optimizer import AdamW
from training.cli.task_flags import find_files
from training.files.predictions import read_predictions
from training.loop.batches import input_keys
from training.loop.checkpoints import save_model

SIX = [f"{task}-{split}-output.csv" for task in COURSE for split in ("dev", "test")]


@pytest.fixture
def make(tmp_path, tiny_model_folder):
    """A function that writes a checkpoint with random heads: → its path."""

    def make(name: str, seed: int, *flags: str) -> str:
        args = get_args(["--option", "finetune", "--model", str(tiny_model_folder), *flags])
        torch.manual_seed(seed)
        model, config = new_model(args)
        with torch.no_grad():  # so that classes differ between rows, not only between models
            for head in (model.sentiment, model.paraphrase, model.similarity):
                head.weight.normal_(0, 3)
        save_model(model, AdamW(model.parameters()), args, config, tmp_path / f"{name}.pt")
        return f"{name}.pt"

    return make


@pytest.fixture
def run(run_script_here, tiny_data, monkeypatch):
    """ensemble.py on the tiny data."""
    monkeypatch.setenv("MINBERT_DATA", str(tiny_data))
    return lambda *arguments: run_script_here(ensemble, *arguments)


@torch.no_grad()
def outputs_of(path: str, task: str, rows) -> np.ndarray:
    """What one model says of all rows, as one batch: probabilities, or similarities."""
    batch = rows.collate_fn(list(rows))
    model, _ = load_model(path, torch.device("cpu"))
    outputs = getattr(model, HEADS[task])(*(batch[key] for key in input_keys(batch)))
    if task == "sts":
        return outputs.numpy()
    return (outputs.softmax(dim=1) if task == "sst" else outputs.sigmoid()).numpy()


def test_averages_counted_by_hand(run, make, tiny_data, tiny_model_folder):
    """Two bi-encoders and a cross encoder: 1/3 of each one's probabilities and similarities."""
    paths = [make("a", 1), make("b", 2), make("c", 5, "--pair_encoding", "cross")]
    result = run(*paths, "--precision", "fp32")
    assert result.err == ""
    args = TechniqueFlags(model=str(tiny_model_folder), data_dir=str(tiny_data))
    args, differs, scores = find_files(args), 0, {}
    for name in SIX:
        task, split, _ = name.split("-")
        rows = read_set(task, args, split)
        found = read_predictions(Path("predictions", name), FILE_COLUMNS[task])
        assert list(found) == [row[-1] for row in rows]
        predicted = np.array([*found.values()])
        of_members = [outputs_of(path, task, rows) for path in paths]
        mean = sum(of_members) / 3
        if task == "sts":
            np.testing.assert_allclose(predicted, mean, atol=1e-4)
        else:
            classes = [x.argmax(1) if task == "sst" else x > 0.5 for x in (mean, of_members[0])]
            assert (predicted == classes[0]).all()
            differs += (classes[0] != classes[1]).sum()
        if split == "dev":
            gold = [row[-2] for row in rows]
            scores[task] = (pearson if task == "sts" else accuracy_score)(gold, predicted)
    assert differs > 3  # or the first model alone would have done
    metrics = json.loads(Path("predictions", "ensemble-metrics.json").read_text())
    assert metrics["best"] == pytest.approx(scores | {"overall": overall(scores)})
    assert [member["checkpoint"] for member in metrics["members"]] == paths


def test_models_of_one_task_each_go_together(run, make):
    paths = [make(task, seed, "--tasks", task) for seed, task in enumerate(COURSE)]
    assert run(*paths).code == 0
    together = {name: Path("predictions", name).read_bytes() for name in SIX}
    for path, task in zip(paths, COURSE, strict=True):
        assert run(path, "--out_dir", "alone").code == 0
        for split in ("dev", "test"):
            name = f"{task}-{split}-output.csv"
            assert Path("alone", name).read_bytes() == together[name]
