"""lessons/numpy_bert.py: the same numbers as torch, without torch."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from factories import ROOT, padded_batch, save_classifier_folder
from running import as_process, succeeded
from safetensors.torch import load_file, save_file
from sklearn.metrics import accuracy_score

from datasets import SentenceClassificationTestDataset
from lessons import numpy_bert
from lessons.numpy_bert import forward, load

ATOL = 1e-5


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    return folder, *save_classifier_folder(folder)


def batch() -> list[np.ndarray]:
    return [tensor.numpy() for tensor in padded_batch(11, 7, 1, 11, vocabulary=80)]


@pytest.mark.parametrize("with_segments", [False, True])
def test_everything_equals_torch_and_transformers(trained, with_segments):
    folder, model, head = trained
    ids, mask, segments = batch()
    segments = segments if with_segments else None
    _, config, weights, _ = load(str(folder))
    mine = forward(weights, config, ids, mask, segments)
    other = transformers.BertForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        given = [None if x is None else torch.from_numpy(x) for x in (ids, mask, segments)]
        theirs = model(*given)
        theirs["logits"] = head(theirs["pooler_output"])
        wanted = other(*given).logits.numpy()
    assert set(mine) == set(theirs)
    real = mask.astype(bool)
    for name, array in mine.items():
        assert array.dtype == np.float32, name
        rows = real if name == "last_hidden_state" else ...
        assert np.abs(array[rows] - theirs[name].numpy()[rows]).max() < ATOL, name
    assert np.abs(mine["logits"] - wanted).max() < ATOL
    assert np.ptp(mine["logits"], axis=0).min() > 0.01  # the rows do differ


def test_every_step_of_a_sentence_is_shown(run_script_here, trained, tiny_model_folder):
    done = succeeded(run_script_here(numpy_bert, "--model", trained[0], "--text", "A film"))
    lines = done.out.splitlines()
    assert "tokens: [CLS] a f ##i ##l ##m [SEP]" in lines
    (scores,) = (line for line in lines if line.startswith("scores "))
    assert "(1, 4, 7, 7)" in scores
    assert sum(float(line.split()[-1]) for line in lines[-2:]) == pytest.approx(1, abs=1e-3)
    done = succeeded(run_script_here(numpy_bert, "--model", tiny_model_folder, "--text", "film"))
    assert done.out.endswith("no classifier in this folder: the encoder ends here\n")


def test_predictions_without_torch_are_those_of_classifier_py(trained, tmp_path):
    """Of texts as IMDB has them: long ones, line feeds of Unicode, quotes, ids of two parts."""
    folder, model, head = trained
    texts = ["a warm film", "Dull!", 'two\x85lines, and "quotes"', "film " * 40, "the end"]
    ids = ["test/POS/1", "Q1a", "Q1A", "04", "5"]
    frame = pd.DataFrame({"id": ids, "label": [0, 1, 1, 0, 1], "rating": 5, "text": texts})
    frame.to_csv(tmp_path / "reviews.csv", index=False)
    program = "import runpy, sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:]\n"
    program += "runpy.run_module('lessons.numpy_bert', run_name='__main__')\nimport torch"
    out = tmp_path / "deep" / "p.csv"
    flags = ["--model", folder, "--file", tmp_path / "reviews.csv", "--out", out]
    done = as_process("-c", program, "numpy_bert.py", *flags, folder=ROOT)
    assert "import of torch halted" in done.err.splitlines()[-1]  # only at the program's end
    assert "data: 1 of 5 texts were cut at 64 tokens" in done.out

    dataset = SentenceClassificationTestDataset([], SimpleNamespace(model=str(folder)))
    inputs = dataset.pad([text.lower().strip() for text in texts])
    with torch.no_grad():
        wanted = head(model(*inputs)["pooler_output"]).argmax(-1).tolist()
    mine = pd.read_csv(out, dtype={"id": str})
    assert list(mine.columns) == ["id", "Predicted_Sentiment"]
    assert list(mine["id"]) == ids
    assert list(mine["Predicted_Sentiment"]) == wanted
    assert f"accuracy {accuracy_score(frame['label'], wanted):.5f}" in done.out


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_old_names_and_other_precisions_are_read(trained, tmp_path, dtype):
    config = shutil.copytree(trained[0], tmp_path / "old") / "config.json"
    more = {"architectures": None, "problem_type": "single_label_classification"}
    config.write_text(json.dumps(json.loads(config.read_text()) | more))
    tensors = load_file(tmp_path / "old/model.safetensors")
    for name in list(tensors):
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        old = old.replace("LayerNorm.bias", "LayerNorm.beta")
        tensors[old] = tensors.pop(name).to(dtype)
    tensors["bert.embeddings.position_ids"] = torch.arange(64)[None]
    save_file(tensors, tmp_path / "old/model.safetensors")
    ids, mask, _ = batch()
    pair = [load(str(trained[0])), load(str(tmp_path / "old"))]
    assert "embeddings.position_ids" not in pair[1].weights
    logits = [forward(model.weights, model.config, ids, mask)["logits"] for model in pair]
    assert logits[1].dtype == np.float32
    assert np.abs(logits[0] - logits[1]).max() <= (0.05 if dtype == torch.bfloat16 else 0.0)
