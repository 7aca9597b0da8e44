"""The course's files and batches, held to the contract (datasets.py)."""

from types import SimpleNamespace

import pytest
import torch
import transformers
from factories import tiny_config, write_table
from running import one_line_error
from torch.utils.data import DataLoader

from bert import BertModel
from config import BertConfig
from datasets import (
    SentenceClassificationDataset,
    SentenceClassificationTestDataset,
    SentencePairDataset,
    SentencePairTestDataset,
    load_data,
    load_multitask_data,
    load_multitask_test_data,
    load_pairs,
    preprocess_string,
)
from lessons import numpy_bert
from tokenizer import SPECIAL_TOKENS, BertTokenizer, WordPieces, read_vocabulary
from training.files import course_files
from training.files.course_files import data_folder


@pytest.fixture
def args(tiny_model_folder) -> SimpleNamespace:
    return SimpleNamespace(model=str(tiny_model_folder))


# ---------------------------------------------------------------------------------------------
# Rows


@pytest.mark.parametrize("column", ["sentiment", "label"])
def test_rows_of_single_sentences(tmp_path, column):
    """Words that pandas reads as missing values stay text; capitals are the tokenizer's matter."""
    cells = [(" AB1 ", "  A Film 's END . ", "4"), ("aB1", "NA", "0.0"), ("ab3", "null", "1.0")]
    path = write_table(tmp_path / "x.csv", f"id sentence {column}", cells)
    rows = [("A Film 's END .", 4, "AB1"), ("NA", 0, "aB1"), ("null", 1, "ab3")]
    assert load_data(path) == load_data(path, "train") == (rows, 5)
    assert load_data(path, "train", 7) == (rows, 7)
    assert load_data(path, "dev") == load_data(path, "anything else") == rows
    assert load_data(path, "test") == [(text, key) for text, _, key in rows]
    assert all(type(label) is int for _, label, _ in rows)


def test_quoted_cells_byte_order_mark_and_crlf(tmp_path):
    path = tmp_path / "x.csv"
    rows = ["\tid\tsentence\tsentiment", '0\ta\t"she said ""no"", twice"\t1', '1\tb\tan "x"\t0']
    path.write_bytes(("\ufeff" + "\r\n".join(rows) + "\r\n").encode("utf-8"))
    assert load_data(path, "dev") == [('she said "no", twice', 1, "a"), ('an "x"', 0, "b")]


def test_preprocess_string():
    assert preprocess_string("What's  THIS,\tthen?\nOk.") == "What 's THIS , then ? Ok ."
    assert preprocess_string("no marks!") == "no marks!"
    assert preprocess_string("  ") == ""


PAIR = "id sentence1 sentence2"


def test_rows_of_pairs(tmp_path):
    path = tmp_path / "x.csv"
    cells = [("A", "Why?", "Why not,  Bob?", "0.0"), ("B", "Yes.", "yes", "1.0")]
    write_table(path, f"{PAIR} is_duplicate", cells)
    rows = load_pairs(path, "train", "is_duplicate")
    assert rows == [("Why ?", "Why not , Bob ?", 0, "A"), ("Yes .", "yes", 1, "B")]
    assert type(rows[0][2]) is int
    write_table(path, f"{PAIR} similarity", [("A", "x.", "y", "3.8")])
    rows = load_pairs(path, "dev", "similarity")
    assert rows == [("x .", "y", 3.8, "A")]
    assert type(rows[0][2]) is float
    write_table(path, PAIR, [("A", "x.", "y")])
    assert load_pairs(path, "test", "similarity") == [("x .", "y", "A")]


def test_broken_pairs_are_left_out_aloud(tmp_path, capsys):
    cells = [("a", "x", "y", "1.0"), ("b", "x", "y", ""), ("c", "x", "", ""), ("d", "y", "z", "0")]
    path = write_table(tmp_path / "quora.csv", f"{PAIR} is_duplicate", cells)
    rows = load_pairs(path, "train", "is_duplicate")
    assert [row[-1] for row in rows] == ["a", "d"]
    printed = [line for line in capsys.readouterr().out.splitlines() if "left out" in line]
    assert [line.split(" left")[0] for line in printed] == [
        "data: quora.csv, row 2 (id b)",
        "data: quora.csv, row 3 (id c)",
    ]


FAULTS = {  # columns, rows and split
    "a quote that swallows a row": (
        "id sentence sentiment",
        [("a", '"Half a quote', 1), ("b", 'ends here" again', 0), ("c", "fine", 1)],
        "dev",
    ),
    "a comma in an id": ("id sentence", [("a", "x"), ('"a,1"', "y")], "test"),
    "an empty test pair": (PAIR, [("a", "x", "")], "test"),  # its prediction would be missing
    "no pair left": (f"{PAIR} similarity", [("a", "", "", "")], "train"),
}
FAULTS |= {  # the first row is left out, and counted
    f"{label} {value}": (f"{PAIR} {label}", [("a", "", "y", "1"), ("b", "x", "y", value)], "dev")
    for label, values in (
        ("similarity", ("5.1", "-0.1", "nan", "inf", "much")),
        ("is_duplicate", ("2.0", "0.5")),
    )
    for value in values
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_row_is_refused(tmp_path, fault):
    """The faults of whole files are in test_bad_input.py."""
    columns, rows, split = FAULTS[fault]
    path = write_table(tmp_path / "x.csv", columns, rows)
    with one_line_error(str(path)):
        if "sentence1" in columns:
            load_pairs(path, split, columns.split()[-1])
        else:
            load_data(path, split)


def three_files(folder, split):
    return [str(folder / f"{name}-{split}.csv") for name in ("ids-sst", "quora", "sts")]


def test_load_multitask_data(tiny_data, monkeypatch):
    sst, num_labels, para, sts = load_multitask_data(*three_files(tiny_data, "train"))
    assert num_labels == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4}
    assert [type(cell) for cell in sst[0]] == [str, int, str]
    assert [type(cell) for cell in para[0]] == [str, str, int, str]
    assert [type(cell) for cell in sts[0]] == [str, str, float, str]
    sst, num_labels, para, sts = load_multitask_data(*three_files(tiny_data, "dev"), split="dev")
    assert (len(sst), len(num_labels), len(para), len(sts)) == (11, 5, 11, 11)
    files = three_files(tiny_data, "test-student")
    sst, num_labels, para, sts = load_multitask_data(*files, split="test")
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


# ---------------------------------------------------------------------------------------------
# Batches


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
    for key in ("token_ids", "attention_mask", "labels"):
        assert batch[key].dtype == torch.int64
    assert batch["labels"].tolist() == [3, 0]
    assert (batch["sents"], batch["sent_ids"]) == (["ab c", "a"], ["id1", "id2"])
    assert str(data.pad_data(rows)) == str(batch)


PAIR_KEYS = {
    *("token_ids_1", "token_type_ids_1", "attention_mask_1"),
    *("token_ids_2", "token_type_ids_2", "attention_mask_2"),
    "sent_ids",
}


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
    assert set(batch) == PAIR_KEYS | {"labels"}
    assert batch["labels"].dtype == dtype
    assert torch.equal(batch["labels"], torch.tensor(labels))
    assert batch["token_ids_1"].shape == batch["token_type_ids_1"].shape == (2, 4)
    assert batch["token_ids_2"].tolist() == [[2, 7, 3, 0, 0], [2, 6, 7, 8, 3]]
    assert batch["attention_mask_2"].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert not batch["token_type_ids_1"].any()
    for key in PAIR_KEYS - {"sent_ids"}:
        assert batch[key].dtype == torch.int64
    assert batch["sent_ids"] == ["id1", "id2"]


def test_batches_of_test_rows(args):
    data = SentenceClassificationTestDataset([("ab", "id1"), ("c", "id2")], args)
    batch = next(iter(DataLoader(data, batch_size=2, collate_fn=data.collate_fn)))
    assert list(batch) == ["token_ids", "attention_mask", "sents", "sent_ids"]
    assert batch["sent_ids"] == ["id1", "id2"]
    data = SentencePairTestDataset([("ab", "c", "id1")], args)
    batch = data.collate_fn([data[0]])
    assert set(batch) == PAIR_KEYS
    assert batch["sent_ids"] == ["id1"]


def test_args_of_older_callers(tiny_model_folder, monkeypatch):
    """Their flags know no --model."""
    monkeypatch.setenv("MINBERT_MODEL", str(tiny_model_folder))
    data = SentenceClassificationDataset([("a", 0, "x")], SimpleNamespace(batch_size=8))
    assert data.collate_fn([data[0]])["token_ids"].tolist() == [[2, 5, 3]]


def test_long_texts_are_cut_and_counted(args, capsys):
    """A word is as many tokens as it has letters, and two more are around the text."""
    rows = [("a" * 60 + " " + "b " * 449, 0, "x"), ("b " * 450 + "a" * 61, 0, "y"), ("c", 0, "z")]
    SentenceClassificationDataset(rows[:1], args)
    assert "cut" not in capsys.readouterr().out
    data = SentenceClassificationDataset(rows, args)
    assert "data: 1 of 3 texts were cut at 512 tokens" in capsys.readouterr().out
    assert data.lengths() == [511, 512, 3]
    ids = data.collate_fn(rows)["token_ids"]
    assert ids.shape == (3, 512)
    assert ids[1, -1] == data.tokenizer.sep_token_id


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_only_the_tokenizer_lower_cases(tmp_path, lower_case):
    """The ids of a file's text are transformers', also where str.lower() knows a final sigma."""
    pieces = [*SPECIAL_TOKENS, *"GREATgreat", *"οδςσΟΔΣ", *(f"##{c}" for c in "REATreatοδςσΔΟΣ.")]
    pieces = list(dict.fromkeys(pieces))
    BertModel(tiny_config(vocab_size=len(pieces))).save_pretrained(tmp_path)
    BertTokenizer(pieces, lower_case).save_pretrained(tmp_path)
    texts = ["GREAT", "great", "ΟΔΟΣ", "οδος ΟΔΟΣ"]
    rows = [(f"i{i}", text, text) for i, text in enumerate(texts)]
    file = write_table(tmp_path / "x.csv", "id sentence1 sentence2", rows)
    pairs = load_pairs(file, "test", "similarity")
    file = write_table(tmp_path / "x.csv", "id sentence", [row[:2] for row in rows])
    data = SentenceClassificationTestDataset(
        load_data(file, "test"), SimpleNamespace(model=str(tmp_path))
    )
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    wanted = [theirs(text)["input_ids"] for text in texts]
    assert [data.encode(text) for text, _ in data] == wanted
    assert [data.encode(text) for text, _, _ in pairs] == wanted
    assert (wanted[0] == wanted[1]) == lower_case
    words, config = WordPieces(*read_vocabulary(tmp_path)), BertConfig.from_pretrained(tmp_path)
    assert numpy_bert.encode(texts, words, config) == wanted
