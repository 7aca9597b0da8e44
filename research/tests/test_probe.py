"""The linear probe of a frozen BERT (research/experiments/probe.py)."""

import json

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from support import make_rows, succeeded, write_table
from transformers import BertModel, BertTokenizer

from datasets import load_data
from research.experiments import probe


@pytest.fixture
def files(tmp_path) -> dict[str, str]:
    columns = "id sentence sentiment"
    return {
        f"--{name}": write_table(tmp_path / f"{name}.csv", columns, make_rows(count, 1, "01", at))
        for name, count, at in (("train", 40, 0), ("dev", 30, 100))
    }


def vectors_by_transformers(folder, texts) -> np.ndarray:
    """One text at a time, so that nothing is padded."""
    tokenizer, model = BertTokenizer.from_pretrained(folder), BertModel.from_pretrained(folder)
    with torch.no_grad():
        states = [model(**tokenizer(t, return_tensors="pt")).last_hidden_state for t in texts]
    return np.stack([one[0].mean(dim=0).numpy() for one in states])


def test_vectors_and_score_are_those_of_transformers(
    run_script_here, files, tiny_model_folder, tmp_path
):
    rows = {name: load_data(path, "dev") for name, path in files.items()}
    theirs = {
        name: vectors_by_transformers(tiny_model_folder, [row[0] for row in some])
        for name, some in rows.items()
    }
    args = probe.ProbeFlags(model=str(tiny_model_folder), precision="fp32")
    model = probe.BertModel.from_pretrained(str(tiny_model_folder))
    for name, some in rows.items():
        np.testing.assert_allclose(probe.encode(model, some, args), theirs[name], atol=1e-5)
    scaler = StandardScaler().fit(theirs["--train"])
    labels = {name: [label for _, label, _ in some] for name, some in rows.items()}
    regression = LogisticRegression(max_iter=1000)
    regression.fit(scaler.transform(theirs["--train"]), labels["--train"])
    expected = regression.score(scaler.transform(theirs["--dev"]), labels["--dev"])
    flags = [part for pair in files.items() for part in pair]
    flags += ["--model", tiny_model_folder, "--out", tmp_path / "out", "--precision", "fp32"]
    succeeded(run_script_here(probe, *flags))
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["best"]["dev_acc"] == pytest.approx(expected)
