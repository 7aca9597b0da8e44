"""Metrics and prediction files (evaluation.py)."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.metrics import accuracy_score, f1_score

import evaluation
from evaluation import (
    COLUMNS,
    accuracy_and_f1,
    classify,
    plot_confusion,
    plot_curves,
    read_predictions,
    write_predictions,
    write_report,
)
from utils import InputError

SENTIMENT = COLUMNS[0]
CPU = torch.device("cpu")

# ---------------------------------------------------------------------------------------------
# Metrics


@pytest.mark.parametrize(
    ("y_true", "y_pred", "accuracy", "f1"),
    [
        ([0, 1, 2], [0, 1, 2], 1.0, 1.0),
        ([0, 0, 1, 1], [0, 1, 0, 1], 0.5, 0.5),
        # F1 of class 0: 2·2/(3+2) = 4/5, of class 1: 0; averaged over classes, not over rows
        ([0, 0, 1], [0, 0, 0], 2 / 3, 0.4),
        # class 4 is predicted but never true: it counts, with F1 0
        ([0, 1], [0, 4], 0.5, 1 / 3),
    ],
)
def test_accuracy_and_macro_f1_by_hand(y_true, y_pred, accuracy, f1):
    assert accuracy_and_f1(y_true, y_pred) == pytest.approx((accuracy, f1), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_accuracy_and_macro_f1_against_scikit_learn(pairs):
    y_true, y_pred = (list(side) for side in zip(*pairs, strict=True))
    accuracy, f1 = accuracy_and_f1(y_true, y_pred)
    assert type(accuracy) is float
    assert accuracy == pytest.approx(accuracy_score(y_true, y_pred))
    assert f1 == pytest.approx(f1_score(y_true, y_pred, average="macro", zero_division=0))


def batches_of(logits: list[list[float]], labels: list[int] | None):
    """Batches of two whose token ids are the row numbers, and a model that looks logits up."""
    table = torch.tensor(logits)
    for start in range(0, len(logits), 2):
        rows = list(range(start, min(start + 2, len(logits))))
        batch = {
            "token_ids": torch.tensor(rows)[:, None],
            "attention_mask": torch.ones(len(rows), 1, dtype=torch.int64),
            "sents": [f"text {i}" for i in rows],
            "sent_ids": [f"id{i}" for i in rows],
        }
        if labels is not None:
            batch["labels"] = torch.tensor([labels[i] for i in rows])
        yield batch
    assert not torch.is_grad_enabled()  # the whole pass went without gradients
    assert table.shape[0] == len(logits)


@pytest.mark.parametrize("labels", [[1, 0, 1], None])
def test_classify(labels):
    logits = [[0.0, 1.0], [3.0, -1.0], [0.5, 0.0]]
    table = torch.tensor(logits)
    found = classify(batches_of(logits, labels), lambda ids, mask: table[ids[:, 0]], CPU)
    assert found["y_pred"] == [1, 0, 0]
    assert found["y_true"] == (labels or [])
    assert found["sents"] == ["text 0", "text 1", "text 2"]
    assert found["sent_ids"] == ["id0", "id1", "id2"]
    assert found["probabilities"][0] == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)])


# ---------------------------------------------------------------------------------------------
# Prediction files


def test_the_file_that_is_written(tmp_path):
    path = tmp_path / "new" / "folder" / "out.csv"
    write_predictions(path, ["ab", "cd"], [4, 0], SENTIMENT)
    assert path.read_bytes() == b"id,Predicted_Sentiment\nab,4\ncd,0\n"
    assert read_predictions(path, SENTIMENT) == {"ab": 4, "cd": 0}
    assert [file.name for file in path.parent.iterdir()] == ["out.csv"]


hex_ids = st.text("0123456789abcdef", min_size=1, max_size=25)


@pytest.fixture(scope="session")
def shared_file(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("predictions") / "out.csv"


@given(
    st.dictionaries(hex_ids, st.floats(allow_nan=False, allow_infinity=False)),
    st.sampled_from(COLUMNS),
)
def test_what_is_written_is_read_again(shared_file, values, column):
    """To the last bit."""
    write_predictions(shared_file, list(values), list(values.values()), column)
    assert read_predictions(shared_file, column) == values


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("id \t Predicted_Sentiment \nab , 4 \ncd , 0 \n", COLUMNS[0]),
        ("id,Predicted_Sentiment\nab,4.0\ncd,0.0", COLUMNS[0]),
        ("id, Predicted_Sentiment\r\nab, 4\r\ncd, 0\r\n", COLUMNS[0]),
        ("\ufeffid,Predicted_Sentiment\nAB,4\nCD,0\n\n", COLUMNS[0]),
        ("id \t Predicted_Similiary \nab , 4.0 \ncd , 0.0 \n", COLUMNS[2]),
        ("id\tPredicted_Is_Paraphrase\nab\t4\ncd\t0\n", COLUMNS[1]),
    ],
)
def test_spellings_of_older_code(tmp_path, text, column):
    path = tmp_path / "out.csv"
    path.write_bytes(text.encode("utf-8"))
    assert read_predictions(path, column) == {"ab": 4, "cd": 0}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("ab", "line 3: 'ab' is not 'id,number'"),
        ("ab,", "line 3: 'ab,' is not 'id,number'"),
        (",1", "line 3: ',1' is not 'id,number'"),
        ("ab,x", "line 3: 'ab,x' is not 'id,number'"),
        ("ab,1,2", "line 3: 'ab,1,2' is not 'id,number'"),
        ("ab,nan", "line 3: 'ab,nan' is not 'id,number'"),
        ("ab,-inf", "line 3: 'ab,-inf' is not 'id,number'"),
        ("ab,1_0", "line 3: 'ab,1_0' is not 'id,number'"),
        ("00,2", "line 3: id 00 is there twice"),
    ],
)
def test_a_faulty_line(tmp_path, line, fault):
    path = tmp_path / "out.csv"
    path.write_text(f"id,Predicted_Sentiment\n00,1\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_predictions(path, SENTIMENT)
    assert str(caught.value) == f"{path}: {fault}"


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("", ""),
        ("sentence,Predicted_Sentiment", "sentence,Predicted_Sentiment"),
        ("id,Predicted_Is_Paraphrase", "id,Predicted_Is_Paraphrase"),
        ("00,4", "00,4"),
    ],
)
def test_a_wrong_header(tmp_path, header, shown):
    path = tmp_path / "out.csv"
    path.write_text(f"{header}\nab,1\n")
    with pytest.raises(InputError) as caught:
        read_predictions(path, SENTIMENT)
    assert str(caught.value) == f"{path}: header is {shown!r}, not 'id,Predicted_Sentiment'"


def test_all_faults_at_once(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("id,x\nab,1\nab,2\ncd\n")
    with pytest.raises(InputError) as caught:
        read_predictions(path, SENTIMENT)
    for fault in ("header is 'id,x'", "line 3: id ab is there twice", "line 4: 'cd' is not"):
        assert fault in str(caught.value)
    path.write_text("id,Predicted_Sentiment\n" + "x\n" * 9)
    with pytest.raises(InputError, match=r"line 6: 'x' is not 'id,number'; … and 4 more"):
        read_predictions(path, SENTIMENT)


def test_no_file_a_folder_and_not_utf8(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv is missing$"):
        read_predictions(tmp_path / "none.csv", SENTIMENT)
    with pytest.raises(InputError, match="cannot be read"):
        read_predictions(tmp_path, SENTIMENT)
    path = tmp_path / "latin.csv"
    path.write_bytes("id,Predicted_Sentiment\n\xe9,1\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.csv cannot be read: 'utf-8' codec"):
        read_predictions(path, SENTIMENT)
    path.write_text("")
    with pytest.raises(InputError, match="header is ''"):
        read_predictions(path, SENTIMENT)


# ---------------------------------------------------------------------------------------------
# Reports and pictures


def test_report(tmp_path):
    path = tmp_path / "report.txt"
    write_report(path, [0, 1, 1], [0, 1, 0])
    lines = {
        words[0]: words[1:] for words in map(str.split, path.read_text().splitlines()) if words
    }
    assert lines["0"] == ["0.500", "1.000", "0.667", "1"]
    assert lines["1"] == ["1.000", "0.500", "0.667", "2"]
    assert lines["accuracy"] == ["0.667", "3"]


HISTORY = [{"epoch": i, "loss": 1 / i, "train_acc": 0.5, "dev_acc": 0.4} for i in (1, 2)]


@pytest.mark.parametrize(
    "draw",
    [
        lambda path: plot_confusion(path, [0, 1, 1, 2], [0, 1, 0, 0], "title"),
        lambda path: plot_curves(path, HISTORY, "title"),
        lambda path: plot_curves(path, HISTORY[:1], "title"),
    ],
)
def test_pictures_are_png(tmp_path, draw):
    path = tmp_path / "picture.png"
    draw(path)
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        picture.load()  # decodes all of it
        assert min(picture.size) > 300
        assert len(picture.convert("L").getcolors()) > 10


def test_a_picture_that_cannot_be_saved_does_not_stop_a_run(tmp_path, capsys):
    (tmp_path / "folder").write_text("a file")
    plot_curves(tmp_path / "folder" / "x.png", HISTORY, "title")
    assert capsys.readouterr().out.startswith(f"plot: cannot write {tmp_path}")


def test_the_three_headers():
    assert evaluation.COLUMNS == (
        "Predicted_Sentiment",
        "Predicted_Is_Paraphrase",
        "Predicted_Similarity",
    )
