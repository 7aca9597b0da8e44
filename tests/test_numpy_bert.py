"""lessons/numpy_bert.py: the same numbers as torch, without torch."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from conftest import ROOT, tiny_config, tiny_vocabulary
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from bert import BertModel
from config import BertConfig
from datasets import SentenceClassificationTestDataset
from lessons import numpy_bert
from lessons.numpy_bert import forward, read_weights
from tokenizer import BertTokenizer

ATOL = 1e-5
TEXTS = ("a warm film", "Dull!", "it never quite finds its feet, but sings.", "x" * 101, "", "é İ")


def classifier_folder(folder: Path, labels: int = 2, **values) -> tuple[BertModel, nn.Linear]:
    """A BERT with a head, large enough weights to make a difference, saved into a folder."""
    torch.manual_seed(11)
    model = BertModel(tiny_config(vocab_size=len(tiny_vocabulary()), **values)).eval()
    head = nn.Linear(model.config.hidden_size, labels)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder, head)
    BertTokenizer(tiny_vocabulary()).save_pretrained(folder)
    return model, head


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    return folder, *classifier_folder(folder)


def batch(vocabulary: int = 80) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chance = np.random.default_rng(0)
    ids = chance.integers(1, vocabulary, (4, 11))
    mask = np.ones_like(ids)
    mask[1, 7:], mask[2, 1:] = 0, 0
    segments = np.zeros_like(ids)
    segments[:, 5:] = 1
    return ids * mask, mask, segments


# ---------------------------------------------------------------------------------------------
# Values


@pytest.mark.parametrize("with_segments", [False, True])
def test_everything_equals_torch(trained, with_segments):
    folder, model, head = trained
    config = BertConfig.from_json(folder / "config.json")
    ids, mask, segments = batch()
    segments = segments if with_segments else None
    mine = forward(read_weights(folder, config), config, ids, mask, segments)
    with torch.no_grad():
        given = [None if x is None else torch.from_numpy(x) for x in (ids, mask, segments)]
        theirs = model(*given)
        theirs["logits"] = head(theirs["pooler_output"])
    assert set(mine) == set(theirs)
    real = mask.astype(bool)
    for name, array in mine.items():
        assert array.dtype == np.float32, name
        wanted = theirs[name].numpy()
        rows = real if name == "last_hidden_state" else ...
        assert np.abs(array[rows] - wanted[rows]).max() < ATOL, name
    assert np.ptp(mine["logits"], axis=0).min() > 0.01  # the rows do differ


def test_logits_are_those_of_transformers(trained):
    folder = trained[0]
    theirs = transformers.BertForSequenceClassification.from_pretrained(folder).eval()
    config = BertConfig.from_json(folder / "config.json")
    ids, mask, segments = batch()
    with torch.no_grad():
        wanted = theirs(*map(torch.from_numpy, (ids, mask, segments))).logits.numpy()
    mine = forward(read_weights(folder, config), config, ids, mask, segments)["logits"]
    assert np.abs(mine - wanted).max() < ATOL


def test_the_pretrained_model_s_vectors(offline_model):
    config = BertConfig.from_json(offline_model / "config.json")
    tokenizer = numpy_bert.read_words(offline_model)
    ids = np.array([numpy_bert.encode("A film to see twice.", tokenizer, config)])
    mine = forward(read_weights(offline_model, config), config, ids, np.ones_like(ids))
    with torch.no_grad():
        wanted = BertModel.from_pretrained(offline_model)(
            torch.from_numpy(ids), torch.ones(ids.shape, dtype=torch.int64)
        )
    for name, array in mine.items():
        assert np.abs(array - wanted[name].numpy()).max() < ATOL


def test_activations_and_softmax_are_torch_s():
    x = np.linspace(-9, 9, 2001, dtype=np.float32)
    for mine, kind in ((numpy_bert.gelu, "none"), (numpy_bert.gelu_tanh, "tanh")):
        wanted = F.gelu(torch.from_numpy(x), approximate=kind).numpy()
        assert mine(x).dtype == np.float32
        np.testing.assert_allclose(mine(x), wanted, atol=1e-6)
    far = np.abs(numpy_bert.gelu(x) - numpy_bert.gelu_tanh(x)).max()
    assert 1e-4 < far < 5e-4  # what the docstring says
    scores = np.array([[1000.0, 999.0, -1e38]], np.float32)  # no overflow
    wanted = [[1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0.0]]
    np.testing.assert_allclose(numpy_bert.softmax(scores), wanted, atol=1e-6)


def test_the_tanh_formula_is_used_when_asked(trained):
    folder = trained[0]
    config = BertConfig.from_json(folder / "config.json")
    ids, mask, _ = batch()
    weights = read_weights(folder, config)
    exact = forward(weights, config, ids, mask)["logits"]
    other = forward(weights, config, ids, mask, activation=numpy_bert.gelu_tanh)["logits"]
    assert 1e-6 < np.abs(exact - other).max() < 1e-2


# ---------------------------------------------------------------------------------------------
# Without torch

BLOCKED = "import sys; sys.modules['torch'] = None; sys.path.insert(0, {root!r})\n"


def without_torch(program: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", BLOCKED.format(root=str(ROOT)) + program, *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, cwd=ROOT)


def test_forward_needs_no_torch(trained, tmp_path):
    ids, mask, _ = batch()
    np.savez(tmp_path / "in.npz", ids=ids, mask=mask)
    program = """
from pathlib import Path
import numpy as np
from config import BertConfig
from lessons.numpy_bert import forward, read_weights
folder, work = map(Path, sys.argv[1:])
config = BertConfig.from_json(folder / "config.json")
given = np.load(work / "in.npz")
result = forward(read_weights(folder, config), config, given["ids"], given["mask"])
np.save(work / "out.npy", result["logits"])
try:
    import torch
except ImportError:
    print("no torch here")
"""
    done = without_torch(program, str(trained[0]), str(tmp_path))
    assert done.stdout == "no torch here\n", done.stderr
    with torch.no_grad():
        pooled = trained[1](torch.from_numpy(ids), torch.from_numpy(mask))["pooler_output"]
        wanted = trained[2](pooled).numpy()
    assert np.abs(np.load(tmp_path / "out.npy") - wanted).max() < ATOL


def test_the_whole_command_needs_no_torch(trained):
    program = "import runpy; sys.argv[0] = 'numpy_bert.py'\n"
    program += "runpy.run_path('lessons/numpy_bert.py', run_name='__main__')"
    done = without_torch(program, "--model", str(trained[0]), "--text", "a warm film")
    assert done.returncode == 0, done.stderr
    assert "class 1: 0." in done.stdout


# ---------------------------------------------------------------------------------------------
# The command


def test_text_shows_every_step_and_the_classes(run_script_here, trained):
    folder, model, head = trained
    done = run_script_here(numpy_bert, "--model", folder, "--text", "A warm film")
    assert done.code == 0, done.err
    pieces = BertTokenizer(tiny_vocabulary())("a warm film")["input_ids"]
    length = len(pieces)
    assert f"ids:    {' '.join(map(str, pieces))}\n" in done.out
    for step, shape in (
        ("word embeddings", (1, length, 32)),
        ("query", (1, 4, length, 8)),
        ("probabilities", (1, 4, length, length)),
        ("expand, GELU", (1, length, 64)),
        ("layer 2", (1, length, 32)),
        ("pooler", (1, 32)),
        ("logits", (1, 2)),
    ):
        assert re.search(rf"^{re.escape(step)} +{re.escape(str(shape))} ", done.out, re.MULTILINE)
    with torch.no_grad():
        ids = torch.tensor([pieces])
        wanted = head(model(ids, torch.ones_like(ids))["pooler_output"]).softmax(-1)[0, 1].item()
    assert float(re.search(r"class 1: (\S+)", done.out)[1]) == pytest.approx(wanted, abs=6e-5)


def test_a_folder_without_classifier_ends_with_the_encoder(run_script_here, tiny_model_folder):
    done = run_script_here(numpy_bert, "--model", tiny_model_folder, "--text", "film")
    assert done.code == 0
    assert done.out.endswith("no classifier in this folder: here the encoder ends\n")
    table = tiny_model_folder.parent / "some.csv"
    table.write_text("text\nfilm\n")
    done = run_script_here(numpy_bert, "--model", tiny_model_folder, "--file", table)
    assert "has no classifier" in done.err


@pytest.fixture
def table(tmp_path) -> Path:
    """Texts as IMDB has them: long ones, line feeds of Unicode, quotes, an id of two parts."""
    texts = [*TEXTS[:3], 'two\x85lines, and "quotes"', "film " * 40, "the end"]
    ids = [f"test/POS/{i}" for i in range(len(texts))]
    file = tmp_path / "reviews.csv"
    labels = [0, 1, 1, 0, 1, 1]
    pd.DataFrame({"id": ids, "label": labels, "rating": 5, "text": texts}).to_csv(file, index=False)
    return file


def test_predictions_of_a_table_are_classifier_py_s(run_script_here, trained, table, tmp_path):
    folder, model, head = trained
    out = tmp_path / "deep" / "p.csv"
    done = run_script_here(
        numpy_bert, "--model", folder, "--file", table, "--out", out, "--batch_size", 2
    )
    assert done.code == 0, done.err
    frame = pd.read_csv(table)
    dataset = SentenceClassificationTestDataset([], SimpleNamespace(model=str(folder)))
    ids, mask = dataset.pad([text.lower().strip() for text in frame["text"]])
    assert ids.shape[1] == model.config.max_position_embeddings  # one text was cut
    with torch.no_grad():
        logits = head(model(ids, mask)["pooler_output"])
    mine = pd.read_csv(out)
    assert list(mine.columns) == ["id", "Predicted_Sentiment"]
    assert list(mine["id"]) == list(frame["id"])
    assert list(mine["Predicted_Sentiment"]) == logits.argmax(-1).tolist()

    from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

    y, p = frame["label"], mine["Predicted_Sentiment"]
    precision, recall, f1, _ = precision_recall_fscore_support(
        y, p, average="binary", zero_division=0
    )
    figures = f"precision {precision:.4f}  recall {recall:.4f}  F1 {f1:.4f}"
    assert f"accuracy {accuracy_score(y, p):.5f}" in done.out
    assert figures in done.out
    assert f"confusion (rows: true class): {confusion_matrix(y, p).tolist()}" in done.out


def test_precision_is_not_recall(capsys):
    labels, predicted = np.array([1, 1, 1, 1, 0, 0]), np.array([1, 0, 0, 0, 1, 0])
    assert numpy_bert.report(labels, predicted) == pytest.approx(1 / 3)
    said = capsys.readouterr().out
    assert "precision 0.5000  recall 0.2500  F1 0.3333\n" in said
    assert "[[1, 1], [3, 1]]" in said
    numpy_bert.report(np.array([0, 2]), np.array([0, 1]))
    assert "precision" not in capsys.readouterr().out


def test_batches_do_not_matter(trained):
    folder = trained[0]
    config = BertConfig.from_json(folder / "config.json")
    weights, tokenizer = read_weights(folder, config), numpy_bert.read_words(folder)
    rows = [numpy_bert.encode(text, tokenizer, config) for text in TEXTS]
    assert max(map(len, rows)) <= config.max_position_embeddings

    def logits_of(ids, mask):
        return forward(weights, config, ids, mask)["logits"]

    one, many = (numpy_bert.predict(rows, logits_of, size) for size in (1, 4))
    np.testing.assert_allclose(one, many, atol=1e-6)
    assert len({round(float(x), 4) for x in one[:, 0]}) > 3  # rows stand at their own places


def test_rows_are_cut_at_what_the_model_can_place(trained, tmp_path):
    config, tokenizer = trained[1].config, BertTokenizer(tiny_vocabulary())
    row = numpy_bert.encode("a " * 1000, tokenizer, config)
    assert len(row) == 64
    assert (row[0], row[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    assert (
        len(numpy_bert.encode("a " * 1000, tokenizer, tiny_config(max_position_embeddings=999)))
        == 512
    )


def test_compare_counts_the_same_classes(run_script_here, trained, table, tmp_path):
    flags = ("--model", trained[0], "--file", table)
    out, other = tmp_path / "p.csv", tmp_path / "q.csv"
    run_script_here(numpy_bert, *flags, "--out", out)
    lines = out.read_text().splitlines()
    turned = [
        f"{id_.lower()} , {1 - int(label)}.0" for id_, label in (x.split(",") for x in lines[1:3])
    ]
    other.write_text("\n".join(["id \t Predicted_Sentiment, x", *turned, *lines[3:]]))
    done = run_script_here(numpy_bert, *flags, "--compare", out)
    assert f"same class as {out}: 6 of 6\n" in done.out
    done = run_script_here(numpy_bert, *flags, "--compare", other)
    assert f"same class as {other}: 4 of 6 test/POS/0 test/POS/1\n" in done.out
    other.write_text("\n".join(lines[:-1]))
    done = run_script_here(numpy_bert, *flags, "--compare", other)
    assert "no prediction for 1 of the 6 ids: test/POS/5" in done.err


def test_course_files_are_read_too(run_script_here, trained, tiny_data):
    file = tiny_data / "ids-cfimdb-dev.csv"
    done = run_script_here(numpy_bert, "--model", trained[0], "--file", file)
    assert done.code == 0, done.err
    assert "of 11)" in done.out
    file = tiny_data / "ids-sst-test-student.csv"
    done = run_script_here(numpy_bert, "--model", trained[0], "--file", file)
    assert done.code == 0, done.err
    assert "accuracy" not in done.out


# ---------------------------------------------------------------------------------------------
# What is wrong is said in one line


def damaged(folder: Path, to: Path, change) -> Path:
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    tensors = load_file(to / "model.safetensors")
    change(tensors)
    save_file(tensors, to / "model.safetensors")
    return to


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("bert.encoder.layer.1.output.dense.bias"), "lacks encoder.layer.1.output"),
        (
            lambda t: t.update({"bert.embeddings.LayerNorm.bias": torch.zeros(3)}),
            "embeddings.LayerNorm.bias is (3,), config.json says (32,)",
        ),
        (lambda t: t.update({k: v.bfloat16() for k, v in t.items()}), "cannot be read in NumPy"),
    ],
    ids=["missing", "shape", "bfloat16"],
)
def test_damaged_weights(run_script_here, trained, tmp_path, change, message):
    folder = damaged(trained[0], tmp_path / "damaged", change)
    done = run_script_here(numpy_bert, "--model", folder, "--text", "film")
    assert done.code == 1
    assert done.err.startswith("error: ")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_old_names_and_half_precision_are_read(trained, tmp_path):
    def change(tensors):
        for name in list(tensors):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            tensors[old.replace("LayerNorm.bias", "LayerNorm.beta")] = tensors.pop(name).half()
        tensors["bert.embeddings.position_ids"] = torch.arange(64)[None]

    folder = damaged(trained[0], tmp_path / "old", change)
    config = BertConfig.from_json(folder / "config.json")
    ids, mask, _ = batch()
    weights = read_weights(folder, config)
    assert "embeddings.position_ids" not in weights
    mine = forward(weights, config, ids, mask)["logits"]
    wanted = forward(read_weights(trained[0], config), config, ids, mask)["logits"]
    assert mine.dtype == np.float32
    assert 0 < np.abs(mine - wanted).max() < 0.01


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (b"", [], "cannot be read as a table"),
        (b"id,text\n", [], "has no rows"),
        (b"id,words\n1,a\n", [], "has no column of texts (columns: id, words)"),
        (b"id,text\n1,a\n", ["--column", "body"], "has no column 'body'"),
        (b"id,text\n1,a\n", ["--label", "y"], "has no column 'y'"),
        (b"id,text,label\n1,a,1\n2,b,good\n", [], "row 2: the label 'good' is no class"),
        (b"id,text\n1,\xff\n", [], "cannot be read as a table"),
        (b"id,text\n1,a,b,c\n2,b\n3\n4,a,b,c,d,e\n", [], "cannot be read as a table"),
    ],
)
def test_bad_tables(run_script_here, trained, tmp_path, content, flags, message):
    file = tmp_path / "bad.csv"
    file.write_bytes(content)
    done = run_script_here(numpy_bert, "--model", trained[0], "--file", file, *flags)
    assert done.code == 1
    assert message in done.err
    assert done.err.count("\n") == 1


def test_bad_folders_and_flags(run_script_here, trained, tmp_path):
    (tmp_path / "empty").mkdir()
    for flags, message in (
        (("--model", "empty", "--text", "a"), "config.json is not the configuration"),
        (("--model", trained[0]), "give one of --text and --file"),
        (("--model", trained[0], "--text", "a", "--file", "b"), "give one of"),
        (("--model", trained[0], "--text", "a", "--batch_size", "0"), "at least 1"),
        (("--model", trained[0], "--file", "nowhere.csv"), "cannot be read as a table"),
    ):
        done = run_script_here(numpy_bert, *flags)
        assert done.code != 0
        assert message in done.err
    for missing, message in (
        ("model.safetensors", "holds no model.safetensors"),
        ("vocab.txt", "holds no vocabulary"),
    ):
        folder = damaged(trained[0], tmp_path / missing.split(".")[0], lambda tensors: None)
        (folder / missing).unlink()
        done = run_script_here(numpy_bert, "--model", folder, "--text", "a")
        assert message in done.err
    (folder / "vocab.txt").write_text("a\nb\n")
    done = run_script_here(numpy_bert, "--model", folder, "--text", "a")
    assert "lacks [PAD]" in done.err
    assert done.err.count("\n") == 1


def test_config_of_the_folder_is_what_transformers_wrote(trained):
    values = json.loads((trained[0] / "config.json").read_text())
    assert values["architectures"] == ["BertForSequenceClassification"]
    assert set(numpy_bert.shapes(trained[1].config)) <= {
        name.removeprefix("bert.") for name in load_file(trained[0] / "model.safetensors")
    }


def test_a_folder_that_is_not_there_is_one_line():
    """As a shell sees it: started as a script, without torch's own helpers around it."""
    command = [sys.executable, str(ROOT / "lessons" / "numpy_bert.py"), "--model", "./nowhere"]
    done = subprocess.run([*command, "--text", "a"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
