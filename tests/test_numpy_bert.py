"""lessons/numpy_bert.py: the same numbers as torch, without torch."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from factories import ROOT, padded_batch, save_classifier_folder
from running import as_process, assert_refused, succeeded
from safetensors.torch import load_file, save_file
from sklearn.metrics import accuracy_score

from datasets import SentenceClassificationTestDataset
from lessons import numpy_bert
from lessons.numpy_bert import forward, load

ATOL = 1e-5
TEXTS = ("a warm film", "Dull!", "it never quite finds its feet, but sings.", "x" * 101, "", "é İ")


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


def test_a_folder_without_classifier_ends_with_the_encoder(
    run_script_here, tiny_model_folder, table
):
    done = succeeded(run_script_here(numpy_bert, "--model", tiny_model_folder, "--text", "film"))
    assert done.out.endswith("no classifier in this folder: the encoder ends here\n")
    done = run_script_here(numpy_bert, "--model", tiny_model_folder, "--file", table)
    assert_refused(done, "has no classifier")


@pytest.fixture
def table(tmp_path) -> Path:
    """Texts as IMDB has them: long ones, line feeds of Unicode, quotes, an id of two parts."""
    texts = [*TEXTS[:3], 'two\x85lines, and "quotes"', "film " * 40, "the end"]
    ids = [f"test/POS/{i}" for i in range(len(texts))]
    file = tmp_path / "reviews.csv"
    labels = [0, 1, 1, 0, 1, 1]
    pd.DataFrame({"id": ids, "label": labels, "rating": 5, "text": texts}).to_csv(file, index=False)
    return file


def classes_of(trained, texts) -> list[int]:
    """By torch, in a batch as classifier.py makes it."""
    folder, model, head = trained
    dataset = SentenceClassificationTestDataset([], SimpleNamespace(model=str(folder)))
    ids, mask = dataset.pad([text.lower().strip() for text in texts])
    assert ids.shape[1] == model.config.max_position_embeddings  # one text was cut
    with torch.no_grad():
        return head(model(ids, mask)["pooler_output"]).argmax(-1).tolist()


def test_predictions_without_torch_are_those_of_classifier_py(trained, table, tmp_path):
    program = "import runpy, sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:]\n"
    program += "runpy.run_module('lessons.numpy_bert', run_name='__main__')\nimport torch"
    out = tmp_path / "deep" / "p.csv"
    flags = ["--model", trained[0], "--file", table, "--out", out]
    done = as_process("-c", program, "numpy_bert.py", *flags, folder=ROOT)
    assert "import of torch halted" in done.err.splitlines()[-1]  # only at the program's end
    frame, mine = pd.read_csv(table), pd.read_csv(out)
    y, p = frame["label"], mine["Predicted_Sentiment"]
    assert list(mine.columns) == ["id", "Predicted_Sentiment"]
    assert list(mine["id"]) == list(frame["id"])
    assert list(p) == classes_of(trained, frame["text"])
    assert f"accuracy {accuracy_score(y, p):.5f}" in done.out


def test_ids_stay_as_they_are_and_cut_texts_are_counted(run_script_here, trained, tmp_path):
    table, out = tmp_path / "own.csv", tmp_path / "p.csv"
    table.write_text("\ufeffid,text\nQ1a,good\nQ1A," + "film " * 90 + "\n", encoding="utf-8")
    line = ("--model", trained[0], "--file", table, "--out", out)
    done = succeeded(run_script_here(numpy_bert, *line))
    assert "data: 1 of 2 texts were cut at 64 tokens" in done.out
    assert [line.split(",")[0] for line in out.read_text().splitlines()] == ["id", "Q1a", "Q1A"]


def damaged(folder: Path, to: Path, change=lambda tensors: None) -> Path:
    shutil.copytree(folder, to)
    tensors = load_file(to / "model.safetensors")
    change(tensors)
    save_file(tensors, to / "model.safetensors")
    return to


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_old_names_and_other_precisions_are_read(trained, tmp_path, dtype):
    def change(tensors):
        for name in list(tensors):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            old = old.replace("LayerNorm.bias", "LayerNorm.beta")
            tensors[old] = tensors.pop(name).to(dtype)
        tensors["bert.embeddings.position_ids"] = torch.arange(64)[None]

    ids, mask, _ = batch()
    pair = [load(str(trained[0])), load(str(damaged(trained[0], tmp_path / "old", change)))]
    assert "embeddings.position_ids" not in pair[1].weights
    logits = [forward(model.weights, model.config, ids, mask)["logits"] for model in pair]
    assert logits[1].dtype == np.float32
    assert np.abs(logits[0] - logits[1]).max() <= (0.05 if dtype == torch.bfloat16 else 0.0)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--model MODEL", "one of the arguments --text --file is required"),
        ("--model weightless --text a", "holds no model.safetensors"),
        ("--model other --text a", "holds no BERT of the shape in config.json"),
        ("--model MODEL --file words.csv", "has no column text or sentence (it has: id, words)"),
        ("--model MODEL --file label.csv", "row 2 (id 2) has the label 'good', not an integer"),
        ("--model short --text a", "cannot be read"),
    ],
)
def test_bad_folders_tables_and_flags(run_script_here, trained, tmp_path, flags, message):
    (damaged(trained[0], tmp_path / "weightless") / "model.safetensors").unlink()
    (damaged(trained[0], tmp_path / "short") / "model.safetensors").write_bytes(b"short")
    name = "bert.encoder.layer.1.output.dense.weight"
    damaged(trained[0], tmp_path / "other", lambda tensors: tensors.pop(name))
    (tmp_path / "words.csv").write_text("id,words\n1,a\n")
    (tmp_path / "label.csv").write_text("id,text,label\n1,a,1\n2,b,good\n")
    done = run_script_here(numpy_bert, *flags.replace("MODEL", str(trained[0])).split())
    assert_refused(done, message)
