"""What strangers' files hold: the right rows, or one line that names file, row and remedy."""

import json
import shutil

import pytest
import torch
from factories import (
    make_rows,
    save_classifier_folder,
    save_sentiment_checkpoint,
    tiny_config,
    write_table,
)
from running import assert_refused, one_line_error
from safetensors.torch import load_file, save_file

import classifier
from bert import BertModel
from datasets import load_data
from lessons import numpy_bert
from tokenizer import BertTokenizer
from training.files.predictions import read_predictions
from training.files.tables import parse_table
from training.files.texts import read_json, read_text

# ---------------------------------------------------------------------------------------------
# Text and JSON


def test_byte_order_mark_and_crlf(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf\xc3\xa9\r\nb")
    assert read_text(tmp_path / "a.csv") == "é\nb"


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"a\nb\ncaf\xe9\n", "line 3 is not UTF-8"),
        ("a\n".encode("utf-16"), "line 1 is not UTF-8"),
        (b"a\nb\0\n", "line 2 is not UTF-8 text"),
        (b"PK\3\4\0", "is not UTF-8 text; save or export it"),
        (None, "cannot be read (Is a directory)"),
    ],
    ids=["latin-1", "UTF-16", "NUL", "zip", "folder"],
)
def test_what_is_not_text(tmp_path, content, fact):
    path = tmp_path / "a.csv"
    path.mkdir() if content is None else path.write_bytes(content)
    with one_line_error(str(path), fact):
        read_text(path)


def test_predictions_are_as_the_grader_reads_them(tmp_path):
    (tmp_path / "p.csv").write_bytes("id,P\na,1\n".encode("utf-16"))
    with one_line_error("is not UTF-8"):
        read_predictions(tmp_path / "p.csv", "P")
    (tmp_path / "p.csv").write_text("id,P,\na\u2028b,1,\nc\t2\t\n", encoding="utf-8")
    assert read_predictions(tmp_path / "p.csv", "P") == {"a\u2028b": 1, "c": 2}


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("[" * 99_999, "is not valid JSON (maximum recursion"),
        ("[1]", "is not a JSON object {…}"),
    ],
    ids=["deep", "list"],
)
def test_json_that_says_nothing_clear(tmp_path, text, fact):
    (tmp_path / "a.json").write_text(text)
    with one_line_error(f"a.json {fact}"):
        read_json(tmp_path / "a.json")


# ---------------------------------------------------------------------------------------------
# Tables

ROWS = [("good", 1, "a"), ("bad", 0, "b")]


@pytest.mark.parametrize(
    "text",
    [
        "id\tsentence\tlabel\na\tgood\t1\t\nb\tbad\t0\t\n",
        "id\tsentence\tlabel\na\tgood\t1\t\t\nb\tbad\t0\n\t\t\n",
        "ID\t Sentence\tLabel \na\tgood\t1\nb\tbad\t0\n",
        "label\tid\tsentence\t\n1.0\ta\tgood\n 0\tb\tbad\n",
    ],
    ids=["trailing tabs", "some trailing tabs", "header", "order"],
)
def test_rows_that_are_clear(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    assert load_data(tmp_path / "t.csv", "dev") == ROWS


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("id\tsentence\tlabel\tLabel\na\tx\t1\t0\n", ["two columns 'label'"]),
        ('id\tsentence\tlabel\n"a\nb"\tx\t1\n', ["row 1", "line break"]),
        ("id\tsentence\tlabel\n0\ta\tx\t1\n", ["row 1 has 4 cells, the header 3"]),
        ("id\tsentence\tlabel\na\tx\t١\n", ["row 1 (id a)", "not an integer"]),
        ("\n\n", ["is empty"]),
        ("id\tsentence\tlabel\na\tx\t1\nb\ty\tz\t0\n", ["row 2 has 4 cells", "in quotes"]),
    ],
)
def test_rows_that_are_not(tmp_path, text, facts):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with one_line_error("t.csv", *facts):
        load_data(tmp_path / "t.csv", "dev")


@pytest.mark.parametrize(
    "text",
    [
        'id,text,label\na,"good film,1\nb,bad film",0\nc,fine,1\n',
        'id,text,label\na,"good,1\nb,bad,0\nc,fine,1\n',
        'id,text\na,"yes,\nno"\nb,bad\n',
        'id,text\na,"' + 9999 * "bad film and very long\n",
    ],
    ids=["swallowed rows", "open", "two lines", "long"],
)
def test_a_line_break_in_a_text(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    with one_line_error("t.csv", "opening quote"):
        parse_table(tmp_path / "t.csv", ",")


# ---------------------------------------------------------------------------------------------
# Models


@pytest.mark.parametrize(
    ("part", "change", "fact"),
    [
        ("config", {"option": None}, "is not a checkpoint of classifier.py"),
        (
            "config",
            {"model": None},
            "does not hold the tensors of a BertSentimentClassifier on the",
        ),
        ("model", {"classifier.weight": torch.full((2, 32), float("nan"))}, "holds nan"),
        ("model", {"classifier.weight": torch.ones(2, 32, dtype=torch.int8)}, "is int8"),
    ],
)
def test_checkpoints_that_would_be_misread(
    run_script_here, tmp_path, tiny_model_folder, monkeypatch, part, change, fact
):
    BertModel(tiny_config(intermediate_size=48)).save_pretrained(tmp_path / "other")
    monkeypatch.setenv("MINBERT_MODEL", str(tmp_path / "other"))
    path = save_sentiment_checkpoint(tmp_path / "x.pt", tiny_model_folder, 2, 0.1)
    saved = torch.load(path, weights_only=True)
    for name, value in change.items():  # None: the key is missing
        saved[part].pop(name, None)
        saved[part] |= {} if value is None else {name: value}
    torch.save(saved, path)
    assert_refused(run_script_here(classifier, "--predict", "a", "--checkpoint", path), fact)


VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}


@pytest.mark.parametrize(
    ("file", "values", "fact"),
    [
        ("tokenizer.json", {"model": {"vocab": VOCABULARY | {"a": 9}}}, "do not count from 0"),
        ("tokenizer.json", {"model": {"vocab": [1]}}, "are damaged ("),
        ("tokenizer.json", {"model": {}}, "are damaged ('vocab' is missing)"),
        ("config.json", {"is_decoder": True}, "its is_decoder is True"),
    ],
)
def test_settings_that_would_be_misread(tmp_path, tiny_model_folder, file, values, fact):
    folder = shutil.copytree(tiny_model_folder, tmp_path / "m")
    if file == "tokenizer.json":
        (folder / "vocab.txt").unlink()
    old = json.loads((folder / file).read_text()) if (folder / file).is_file() else {}
    (folder / file).write_text(json.dumps(old | values))
    with one_line_error(str(folder), fact):
        (BertModel if file == "config.json" else BertTokenizer).from_pretrained(folder)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("bert.embeddings.LayerNorm.bias", torch.zeros(3)),
        ("bert.encoder.layer.1.output.dense.bias", None),
    ],
)
def test_weights_of_the_numpy_model(run_script_here, tmp_path, name, tensor):
    save_classifier_folder(tmp_path / "m")
    tensors = load_file(tmp_path / "m" / "model.safetensors")
    tensors.pop(name) if tensor is None else tensors.update({name: tensor})
    save_file(tensors, tmp_path / "m" / "model.safetensors")
    result = run_script_here(numpy_bert, "--model", "m", "--text", "a")
    assert_refused(result, "holds no BERT of the shape in config.json")


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "vocab.txt"])
def test_a_byte_order_mark_in_a_model(tmp_path, tiny_model_folder, file):
    folder = shutil.copytree(tiny_model_folder, tmp_path / "m")
    text = (folder / file).read_text(encoding="utf-8") if (folder / file).is_file() else "{}"
    (folder / file).write_text(text, encoding="utf-8-sig")
    assert BertModel.from_pretrained(folder).config.hidden_size == 32
    assert BertTokenizer.from_pretrained(folder).convert_ids_to_tokens([0]) == ["[PAD]"]


# ---------------------------------------------------------------------------------------------
# Flags


@pytest.fixture
def line(tmp_path, tiny_model_folder) -> list:
    for name, first in (("t", 0), ("d", 50)):
        rows = make_rows(4, labels="01", first_id=first)
        write_table(tmp_path / f"{name}.csv", "id sentence label", rows)
    return ["--train", "t.csv", "--dev", "d.csv", "--model", tiny_model_folder, "--epochs", "1"]


@pytest.mark.parametrize(
    ("flags", "fact"),
    [
        (["--dev_out", "d.csv"], "--dev_out d.csv is the file of --dev"),
        (["--dev_out", "t.csv"], "--dev_out t.csv is the file of --train"),
        (["--dev_out", "."], "--dev_out . is a folder"),
        (["--labels", "a,a"], "does not name each of"),
        (["--model", ""], "the text is empty"),
        (["--model", "x" * 300], "is neither a folder nor a model"),
        (["--seed", "1.0"], "'1.0' is not an integer from 0"),
    ],
)
def test_flags_that_would_cost_a_file(run_script_here, tmp_path, line, flags, fact):
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert_refused(run_script_here(classifier, *line, *flags), fact)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
