"""What strangers' files hold: the right rows, or one line that names file, row and remedy."""

import json
import shutil

import pytest
from running import one_line_error

from datasets import load_data
from tokenizer import BertTokenizer
from training.files.predictions import read_predictions
from training.files.tables import parse_table
from training.files.texts import read_json, read_text

# ---------------------------------------------------------------------------------------------
# Text and JSON


def test_byte_order_mark_and_crlf(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf\xc3\xa9\r\nb\rc")
    assert read_text(tmp_path / "a.csv") == "é\nb\nc"


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        ("a\n".encode("utf-16"), "line 1 is not UTF-8"),
        (b"a\nb\0\n", "line 2 is not UTF-8 text"),
    ],
    ids=["UTF-16", "NUL"],
)
def test_what_is_not_text(tmp_path, content, fact):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with one_line_error(str(path), fact):
        read_text(path)


def test_predictions_are_as_the_grader_reads_them(tmp_path):
    (tmp_path / "p.csv").write_text("id,P,\na\u2028b,1,\nc\t2\t\n", encoding="utf-8")
    assert read_predictions(tmp_path / "p.csv", "P") == {"a\u2028b": 1, "c": 2}


@pytest.mark.parametrize(
    ("text", "fact"),
    [("[" * 99_999, "is not valid JSON (maximum"), ("[1]", "is not a JSON object {…}")],
    ids=["deep", "list"],
)
def test_json_that_says_nothing_clear(tmp_path, text, fact):
    (tmp_path / "a.json").write_text(text)
    with one_line_error(f"a.json {fact}"):
        read_json(tmp_path / "a.json")


# ---------------------------------------------------------------------------------------------
# Tables


@pytest.mark.parametrize(
    "text",
    [
        "id\tsentence\tlabel\na\tgood\t1\t\t\nb\tbad\t0\n\t\t\n",
        "ID\t Sentence\tLabel \na\tgood\t1\nb\tbad\t0\n",
        "label\tid\tsentence\t\n1.0\ta\tgood\n 0\tb\tbad\n",
    ],
    ids=["trailing tabs", "header", "order"],
)
def test_rows_that_are_clear(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    assert load_data(tmp_path / "t.csv", "dev") == [("good", 1, "a"), ("bad", 0, "b")]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("id\tsentence\tlabel\tLabel\na\tx\t1\t0\n", "has two columns 'label'"),
        ("id\tsentence\tlabel\na\tx\t١\n", "row 1 (id a) has the label '١', not an integer"),
    ],
)
def test_rows_that_are_not(tmp_path, text, fact):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with one_line_error("t.csv", fact):
        load_data(tmp_path / "t.csv", "dev")


@pytest.mark.parametrize(
    "text",
    [
        'id,text,label\na,"good film,1\nb,bad film",0\nc,fine,1\n',
        'id,text\na,"' + 9999 * "bad film and very long\n",
    ],
    ids=["swallowed rows", "long"],
)
def test_a_line_break_in_a_text(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    with one_line_error("t.csv", "opening quote"):
        parse_table(tmp_path / "t.csv", ",")


# ---------------------------------------------------------------------------------------------
# A model's files

VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}


@pytest.mark.parametrize(
    ("file", "values", "fact"),
    [
        ("tokenizer.json", {"model": {"vocab": VOCABULARY | {"a": 9}}}, "do not count from 0"),
        ("tokenizer.json", {"model": {}}, "are damaged ('vocab' is missing)"),
        ("tokenizer_config.json", None, "is not a JSON object"),
        ("config.json", {"vocab_size": 9}, "has 89 tokens, the model 9"),
    ],
)
def test_a_tokenizer_that_would_be_misread(tmp_path, tiny_model_folder, file, values, fact):
    folder = shutil.copytree(tiny_model_folder, tmp_path / "m")
    if file == "tokenizer.json":
        (folder / "vocab.txt").unlink()
    (folder / file).write_text(json.dumps(values or []))
    with one_line_error(str(folder), fact):
        BertTokenizer.from_pretrained(folder)
