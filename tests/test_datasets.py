"""The course's files and batches, held to the contract (datasets.py)."""

import csv
from types import SimpleNamespace

import pytest
import torch
from factories import write_table
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from datasets import (
    SentenceClassificationDataset,
    SentenceClassificationTestDataset,
    SentencePairDataset,
    SentencePairTestDataset,
    load_data,
    load_multitask_data,
    load_multitask_test_data,
    load_pairs,
)
from training.files import course_files
from training.files.course_files import data_folder
from training.files.errors import InputError


@pytest.fixture
def args(tiny_model_folder) -> SimpleNamespace:
    return SimpleNamespace(model=str(tiny_model_folder))


@pytest.mark.parametrize("column", ["sentiment", "label"])
def test_rows_of_single_sentences(tmp_path, column):
    """Words that pandas reads as missing values stay text; capitals are the tokenizer's matter."""
    cells = [(" AB1 ", "  A Film 's END . ", "4"), ("aB1", "NA", "0.0"), ("ab3", "null", "1.0")]
    cells += [("q", '"she said ""no"", twice"', "1"), ("r", 'an "x"', "0")]
    path = write_table(tmp_path / "x.csv", f"id sentence {column}", cells)
    rows = [("A Film 's END .", 4, "AB1"), ("NA", 0, "aB1"), ("null", 1, "ab3")]
    rows += [('she said "no", twice', 1, "q"), ('an "x"', 0, "r")]
    assert load_data(path) == load_data(path, "train") == (rows, 5)
    assert load_data(path, "train", 7) == (rows, 7)
    assert load_data(path, "dev") == rows
    assert load_data(path, "test") == [(text, key) for text, _, key in rows]
    assert all(type(label) is int for _, label, _ in rows)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("\ufeffid\tsentence\tlabel\na\tgood\t1\t \t\r\nb\tbad\t0\r\t\t\n", "ab"),
        ("ID\t Sentence\tLabel \na\tgood\t1\nb\tbad\t0\n", "ab"),
        ("label\tid\tsentence\t\n1.0\ta\tgood\n 0\tb\tbad\n", "ab"),
        ("id,\ufeffText,label\na,good,1\nb,bad,0\n", "ab"),
        ("text,label\ngood,1\nbad,0\n", "01"),  # without ids they are numbered
    ],
    ids=["bytes of other systems", "header", "order", "commas", "numbered"],
)
def test_rows_that_are_clear(tmp_path, capsys, text, ids):
    (tmp_path / "t.csv").write_bytes(text.encode())
    assert load_data(tmp_path / "t.csv", "dev") == [("good", 1, ids[0]), ("bad", 0, ids[1])]
    assert ("no column id" in capsys.readouterr().out) == (ids == "01")


@pytest.mark.parametrize(
    ("cells", "texts"),
    [
        ('"good, it is,\n bad, is it",a,1', ["good, it is,\n bad, is it"]),
        (r'"He said \"hi\" to me",a,1', ['He said "hi" to me']),
        ('"good" film,a,1\n"bad,b,0\nso "so",c,1', ['"good" film', '"bad', 'so "so"']),
        ('"good,a,1\nbad" film,b,0\n"""x""",c,1', ['"good', 'bad" film', '"x"']),
    ],
    ids=["a line break", "backslashes", "marks inside", "two rows"],
)
def test_quotation_marks(tmp_path, cells, texts):
    (tmp_path / "t.csv").write_text(f"text,id,label\n{cells}\n")
    assert [row[0] for row in load_data(tmp_path / "t.csv", "dev")] == texts


@given(st.data(), st.lists(st.text('a "\\\t\n,', min_size=1), min_size=1, max_size=4))
def test_no_row_is_lost_and_none_refused_without_a_reason(tmp_path_factory, data, texts):
    """What csv writes is read as it was, unless it could also be several rows."""
    texts = [f"x{text}x" for text in texts]
    order = data.draw(st.permutations(["id", "sentence", "label"]))
    rows = [{"id": f"i{n}", "sentence": text, "label": "1"} for n, text in enumerate(texts)]
    path = tmp_path_factory.mktemp("table") / "t.csv"
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, order, delimiter=data.draw(st.sampled_from("\t,")))
        table.writeheader()
        table.writerows(rows)
    try:
        found = load_data(path, "dev")
    except InputError as error:
        found = str(error)
    is_doubtful = any("\n" in text for text in texts) and "rows if they do not" in found
    assert is_doubtful or found == [(text, 1, f"i{n}") for n, text in enumerate(texts)]


PAIR = "id sentence1 sentence2"


def test_rows_of_pairs(tmp_path, capsys):
    path = tmp_path / "x.csv"
    cells = [("A", "Why?", "What's not,\u00a0 Bob?", "0.0"), ("B", "Yes.", "yes", "1.0")]
    write_table(path, f"{PAIR} is_duplicate", cells)
    rows = load_pairs(path, "train", "is_duplicate")
    assert rows == [("Why ?", "What 's not , Bob ?", 0, "A"), ("Yes .", "yes", 1, "B")]
    write_table(path, f"{PAIR} similarity", [("A", "x.", "y", "3.8")])
    rows = load_pairs(path, "dev", "similarity")
    assert rows == [("x .", "y", 3.8, "A")]
    write_table(path, f"{PAIR} similarity", [(n, "x", "y", n / 10) for n in range(11)])
    load_pairs(path, "dev", "similarity")
    assert "are at most 1" in capsys.readouterr().out
    write_table(path, PAIR, [("A", "x.", "y")])
    assert load_pairs(path, "test", "similarity") == [("x .", "y", "A")]


def test_broken_pairs_are_left_out_aloud(tmp_path, capsys):
    cells = [("a", "x", "y", "1.0"), ("b", "x", "y", ""), ("c", "x", "", ""), ("d", "y", "z", "0")]
    path = write_table(tmp_path / "quora.csv", f"{PAIR} is_duplicate", cells)
    rows = load_pairs(path, "train", "is_duplicate")
    assert [row[-1] for row in rows] == ["a", "d"]
    first, second = capsys.readouterr().out.splitlines()
    assert "quora.csv, row 2 (id b)" in first
    assert "quora.csv, row 3 (id c)" in second


def test_load_multitask_data(tiny_data, monkeypatch):
    def load(split: str, ending: str) -> tuple:
        files = [tiny_data / f"{name}-{ending}.csv" for name in ("ids-sst", "quora", "sts")]
        return load_multitask_data(*map(str, files), split=split)

    sst, num_labels, para, sts = load("dev", "dev")
    assert (len(sst), len(num_labels), len(para), len(sts)) == (11, 5, 11, 11)
    assert load("train", "train")[1] == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4}
    sst, num_labels, para, sts = load("test", "test-student")
    assert num_labels == {}
    assert [len(row) for row in (sst[0], para[0], sts[0])] == [2, 3, 3]
    monkeypatch.setenv("MINBERT_DATA", str(tiny_data))
    assert load_multitask_test_data() == (sst, para, sts)


def test_data_folder(tmp_path, tiny_data, monkeypatch, capsys):
    monkeypatch.delenv("MINBERT_DATA", raising=False)
    monkeypatch.setattr(course_files, "COURSE_DATA", tmp_path)
    assert data_folder() == course_files.PRACTICE_DATA
    assert "PRACTICE SET" in capsys.readouterr().out
    (tmp_path / "ids-sst-train.csv").write_text("")
    assert data_folder() == tmp_path  # files in data/ go before the practice set
    monkeypatch.setenv("MINBERT_DATA", str(tiny_data))
    assert data_folder() == tiny_data  # the variable before data/
    (tmp_path / "course").mkdir()
    (tmp_path / "ids-sst-train.csv").rename(tmp_path / "course" / "ids-sst-train.csv")
    assert data_folder(str(tmp_path)) == tmp_path / "course"  # the flag before the variable
    assert capsys.readouterr().out == ""


def test_batch_of_sentences(args):
    rows = [("ab c", 3, "id1"), ("a", 0, "id2")]
    data = SentenceClassificationDataset(rows, args)
    assert data.dataset is rows
    assert data.p is args
    assert (len(data), data[1]) == (2, rows[1])
    batch = data.collate_fn([data[0], data[1]])
    assert list(batch) == ["token_ids", "attention_mask", "labels", "sents", "sent_ids"]
    expected = data.tokenizer(["ab c", "a"], padding=True, return_tensors="pt")
    assert torch.equal(batch["token_ids"], expected.input_ids)
    assert torch.equal(batch["attention_mask"], expected.attention_mask)
    assert batch["labels"].tolist() == [3, 0]
    assert (batch["sents"], batch["sent_ids"]) == (["ab c", "a"], ["id1", "id2"])
    assert {batch[name].dtype for name in list(batch)[:3]} == {torch.int64}
    assert str(data.pad_data(rows)) == str(batch)
    data = SentenceClassificationTestDataset([("ab c", "id1"), ("a", "id2")], args)
    batch.pop("labels")
    assert str(next(iter(DataLoader(data, 2, collate_fn=data.collate_fn)))) == str(batch)


@pytest.mark.parametrize(
    ("regression", "labels", "dtype"),
    [(False, [1, 0], torch.int64), (True, [3.8, 0.25], torch.float32)],
)
def test_batch_of_pairs(args, regression, labels, dtype):
    rows = [("ab", "c", labels[0], "id1"), ("a", "b c d", labels[1], "id2")]
    data = SentencePairDataset(rows, args, isRegression=regression)
    assert data.isRegression is regression
    assert SentencePairDataset(rows, args).isRegression is False  # unless told
    batch = data.collate_fn(rows)
    found = batch.pop("labels")
    assert (found.dtype, found.tolist()) == (dtype, pytest.approx(labels))
    assert batch["sent_ids"] == ["id1", "id2"]
    for i, texts in ((1, ["ab", "a"]), (2, ["c", "b c d"])):
        expected = data.tokenizer(texts, padding=True, return_tensors="pt")
        assert torch.equal(batch[f"token_ids_{i}"], expected.input_ids)
        assert torch.equal(batch[f"attention_mask_{i}"], expected.attention_mask)
        assert torch.equal(batch[f"token_type_ids_{i}"], expected.token_type_ids)
    data = SentencePairTestDataset([("ab", "c", "id1"), ("a", "b c d", "id2")], args)
    assert str(data.collate_fn([data[0], data[1]])) == str(batch)


def test_args_of_older_callers(tiny_model_folder, monkeypatch):
    """Their flags know no --model."""
    monkeypatch.setenv("MINBERT_MODEL", str(tiny_model_folder))
    data = SentenceClassificationDataset([("a", 0, "x")], SimpleNamespace(batch_size=8))
    assert data.collate_fn([data[0]])["token_ids"].tolist() == [[2, 5, 3]]


def test_long_texts_are_cut_and_counted(args, capsys):
    """A word is as many tokens as it has letters, and two more are around the text."""
    rows = [("a" * 60 + " " + "b " * 450, 0, "x"), ("b " * 450 + "a" * 61, 0, "y"), ("c", 0, "z")]
    SentenceClassificationDataset(rows[:1], args)
    assert "cut" not in capsys.readouterr().out
    data = SentenceClassificationDataset(rows, args)
    assert "data: 1 of 3 texts were cut at 512 tokens" in capsys.readouterr().out
    assert data.lengths() == [512, 512, 3]
    ids = data.collate_fn(rows)["token_ids"]
    assert ids.shape == (3, 512)
    assert ids[1, -1] == data.tokenizer.sep_token_id
