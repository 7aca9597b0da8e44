"""Metrics and prediction files (evaluation.py)."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import pearsonr
from support import one_line_error
from torch import nn
from torch.nn import functional as F

import evaluation
from evaluation import (
    COLUMNS,
    accuracy,
    accuracy_and_f1,
    classify,
    detect_pairs,
    pearson,
    score_pairs,
    write_in_order,
    write_predictions,
)
from training.files.errors import InputError
from training.files.predictions import read_predictions
from training.reports import error_analysis
from training.reports.error_analysis import (
    calibration,
    describe,
    mistakes_in,
    plot_calibration,
    plot_confusion,
    write_mistakes,
    write_report,
    write_score_report,
)
from training.reports.figures import plot_curves

SENTIMENT = COLUMNS[0]
CPU = torch.device("cpu")

# ---------------------------------------------------------------------------------------------
# Metrics


@pytest.mark.parametrize(
    ("y_true", "y_pred", "acc", "f1"),
    [
        ([0, 1, 2], [0, 1, 2], 1.0, 1.0),
        ([0, 0, 1, 1], [0, 1, 0, 1], 0.5, 0.5),
        # F1 of class 0: 2·2/(3+2) = 4/5, of class 1: 0; averaged over classes, not over rows
        ([0, 0, 1], [0, 0, 0], 2 / 3, 0.4),
        # class 4 is predicted but never true: it counts, with F1 0
        ([0, 1], [0, 4], 0.5, 1 / 3),
    ],
)
def test_accuracy_and_macro_f1_by_hand(y_true, y_pred, acc, f1):
    assert accuracy_and_f1(y_true, y_pred) == pytest.approx((acc, f1), abs=1e-12)
    assert accuracy(y_true, y_pred) == pytest.approx(acc, abs=1e-12)


def batches_of(logits: list[list[float]], labels: list[int] | None):
    """Batches of two whose token ids are the row numbers."""
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
    assert found["confidence"] == [max(shares) for shares in found["probabilities"]]


def pairs_of(scores: list[float], labels: list[float] | None):
    """Batches of two pairs; the first text's id is the row's number, the second's 100 more."""
    for start in range(0, len(scores), 2):
        rows = torch.arange(start, min(start + 2, len(scores)))
        batch = {
            "token_ids_1": rows[:, None],
            "attention_mask_1": torch.ones(len(rows), 1, dtype=torch.int64),
            "token_ids_2": rows[:, None] + 100,
            "attention_mask_2": torch.full((len(rows), 1), 7),
            "sent_ids": [f"id{i}" for i in rows.tolist()],
        }
        if labels is not None:
            batch["labels"] = torch.tensor([labels[i] for i in rows.tolist()])
        yield batch
    assert not torch.is_grad_enabled()


def looking_up(scores: list[float], column: bool = False):
    """A head of pairs that looks a row's score up, and checks the order of its arguments."""

    def head(ids_1, mask_1, ids_2, mask_2):
        assert torch.equal(ids_2, ids_1 + 100)
        assert (int(mask_1.max()), int(mask_2.max())) == (1, 7)
        found = torch.tensor(scores)[ids_1[:, 0]]
        return found[:, None] if column else found

    return head


@pytest.mark.parametrize("labels", [[0.0, 2.6, 5.0], None])
@pytest.mark.parametrize("column", [True, False])
def test_score_pairs(labels, column):
    scores = [0.5, -1.25, 7.0]
    found = score_pairs(pairs_of(scores, labels), looking_up(scores, column), CPU)
    assert found["y_pred"] == scores
    assert found["y_true"] == pytest.approx(labels or [])
    assert found["sent_ids"] == ["id0", "id1", "id2"]


def test_detect_pairs_and_a_tie():
    """A logit of exactly 0 is no more yes than no: it counts as no."""
    logits = [0.0, 1e-3, -2.0, 2.0]
    found = detect_pairs(pairs_of(logits, [1, 1, 1, 0]), looking_up(logits), CPU)
    assert found["y_pred"] == [0, 1, 0, 1]
    assert found["y_true"] == [1, 1, 1, 0]
    shares = [1 / (1 + math.exp(-logit)) for logit in logits]
    assert found["probabilities"] == pytest.approx(shares, abs=1e-7)
    assert found["confidence"] == pytest.approx([max(p, 1 - p) for p in shares], abs=1e-7)
    assert found["sent_ids"] == ["id0", "id1", "id2", "id3"]


# ---------------------------------------------------------------------------------------------
# Metrics of the three tasks


@settings(deadline=None, max_examples=30)  # on a busy machine any example may take long
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(-99, 99)), min_size=3, max_size=20).filter(
        lambda rows: all(len(set(side)) > 1 for side in zip(*rows, strict=True))
    )
)
def test_pearson_against_scipy_and_numpy(rows):
    y_true, y_pred = ([value / 10 for value in side] for side in zip(*rows, strict=True))
    assert pearson(y_true, y_pred) == pytest.approx(pearsonr(y_true, y_pred)[0], abs=1e-12)
    assert pearson(y_true, y_pred) == pytest.approx(np.corrcoef(y_true, y_pred)[0, 1], abs=1e-9)
    scaled = [3 * value - 7 for value in y_pred]
    assert pearson(y_true, scaled) == pytest.approx(pearson(y_true, y_pred), abs=1e-9)


@pytest.mark.parametrize(
    ("y_true", "y_pred"),
    [([1.0, 2.0, 3.0], [2.5, 2.5, 2.5]), ([2.0, 2.0], [1.0, 3.0]), ([2.0], [1.0])],
    ids=["predicted", "true", "one row"],
)
def test_pearson_without_variation_is_0_with_a_warning(y_true, y_pred, capsys, recwarn, message):
    assert pearson(y_true, y_pred) == 0.0
    message(capsys.readouterr().out)
    assert not recwarn


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_pearson_of_a_prediction_that_is_not_finite(bad):
    with pytest.raises(InputError):
        pearson([1.0, 2.0], [1.0, bad])


def test_calibration_by_hand():
    """Three bins of ten: [.1, .2) with two rows, [.5, .6) with one, [.9, 1] with three."""
    expected = [0.1, 0.16, 0.5, 0.9, 0.95, 1.0]
    observed = [0, 1, 1, 1, 0, 1]
    error, bins = calibration(expected, observed)
    assert bins["count"].tolist() == [2, 1, 3]
    assert bins["expected"].tolist() == pytest.approx([0.13, 0.5, 0.95])
    assert bins["observed"].tolist() == pytest.approx([0.5, 1.0, 2 / 3])
    gaps = 2 * abs(0.5 - 0.13) + 1 * abs(1 - 0.5) + 3 * abs(2 / 3 - 0.95)
    assert error == pytest.approx(gaps / 6)
    assert calibration([0.3, 0.7], [0.3, 0.7])[0] == 0.0


# ---------------------------------------------------------------------------------------------
# The three tasks, as older scripts call them


class Parrot(nn.Module):
    """A model of somebody else: the id in the second place decides its answers."""

    def predict_sentiment(self, ids, mask):
        return F.one_hot(ids[:, 1] % 5, 5).float()

    def predict_paraphrase(self, ids_1, mask_1, ids_2, mask_2):
        return (ids_1[:, 1] - ids_2[:, 1]).float()[:, None]  # (B, 1), as some wrote it

    def predict_similarity(self, ids_1, mask_1, ids_2, mask_2):
        return ids_1[:, 1] / ids_2[:, 1]


def batch(*columns: list[int], labels: list | None = None, name: str) -> dict:
    """One batch whose texts are [CLS] number [SEP]; ids are the task's name and the row."""
    made = {"sent_ids": [f"{name}{i}" for i in range(len(columns[0]))]}
    for i, column in enumerate(columns, start=1):
        ids = torch.tensor([[2, number, 3] for number in column])
        suffix = f"_{i}" if len(columns) == 2 else ""
        made |= {f"token_ids{suffix}": ids, f"attention_mask{suffix}": torch.ones_like(ids)}
    if len(columns) == 1:
        made["sents"] = [f"text {number}" for number in columns[0]]
    return made if labels is None else made | {"labels": torch.tensor(labels)}


def three_loaders(labelled: bool) -> tuple[list, list, list]:
    """(sentiment, paraphrase, similarity), of 3, 2 and 4 rows in two batches each."""
    sst = [(([4, 6],), [4, 0]), (([2],), [2])]
    para = [(([9], [5]), [1]), (([5], [9]), [1])]
    sts = [(([10, 20], [10, 10]), [1.0, 2.0]), (([30, 40], [10, 10]), [3.0, 4.5])]
    return tuple(
        [
            batch(*columns, labels=labels if labelled else None, name=f"{name}-{i}-")
            for i, (columns, labels) in enumerate(rows)
        ]
        for name, rows in (("sst", sst), ("para", para), ("sts", sts))
    )


IDS = {
    "sst": ["sst-0-0", "sst-0-1", "sst-1-0"],
    "para": ["para-0-0", "para-1-0"],
    "sts": ["sts-0-0", "sts-0-1", "sts-1-0", "sts-1-1"],
}


def test_the_order_of_the_results(capsys):
    """The paraphrases come first, as in the course's release of 2023."""
    model = Parrot().train()
    loaders = three_loaders(labelled=True)
    accuracy_of_sst = pytest.approx(2 / 3)
    f1 = pytest.approx((1 + 0 + 1 + 0) / 4)  # of the classes 4, 0, 2 and 1
    assert evaluation.model_eval_sst(loaders[0], model, CPU) == (
        *(accuracy_of_sst, f1, [4, 1, 2], [4, 0, 2]),
        *(["text 4", "text 6", "text 2"], IDS["sst"]),
    )
    correlation = pytest.approx(pearsonr([1, 2, 3, 4.5], [1, 2, 3, 4])[0])
    assert evaluation.model_eval_multitask(*loaders, model.train(), CPU) == (
        *(0.5, [1, 0], IDS["para"]),
        *(accuracy_of_sst, [4, 1, 2], IDS["sst"]),
        *(correlation, [1.0, 2.0, 3.0, 4.0], IDS["sts"]),
    )
    assert "Paraphrase detection accuracy: 0.500" in capsys.readouterr().out
    loaders = three_loaders(labelled=False)
    assert not model.training
    assert evaluation.model_eval_test_multitask(*loaders, model.train(), CPU) == (
        *([1, 0], IDS["para"]),
        *([4, 1, 2], IDS["sst"]),
        *([1.0, 2.0, 3.0, 4.0], IDS["sts"]),
    )
    assert not model.training


# ---------------------------------------------------------------------------------------------
# Prediction files


def test_the_file_that_is_written(tmp_path):
    path = tmp_path / "new" / "folder" / "out.csv"
    write_predictions(path, ["ab", "cd"], [4, 0], SENTIMENT)
    assert path.read_bytes() == b"id,Predicted_Sentiment\nab,4\ncd,0\n"
    assert read_predictions(path, SENTIMENT) == {"ab": 4, "cd": 0}
    assert [file.name for file in path.parent.iterdir()] == ["out.csv"]


def test_predictions_in_the_order_of_the_data(tmp_path):
    rows = [("text", 0, "c"), ("text", 1, "a"), ("text", 2, "b")]
    found = {"sent_ids": ["a", "b", "c"], "y_pred": [1, 2, 0]}
    write_in_order(tmp_path / "out.csv", rows, found, SENTIMENT)
    assert (tmp_path / "out.csv").read_text() == "id,Predicted_Sentiment\nc,0\na,1\nb,2\n"


hex_ids = st.text("0123456789abcdef", min_size=1, max_size=25)


@pytest.fixture(scope="session")
def shared_file(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("predictions") / "out.csv"


@settings(deadline=None, max_examples=30)  # on a busy machine any example may take long
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


HEADER = "id,Predicted_Sentiment"
FAULTY_LINES = ("ab", "ab,", ",1", "ab,x", "ab,1,2", "ab,nan", "ab,-inf", "ab,1_0", "00,2")
FAULTY_HEADERS = ("", "sentence,Predicted_Sentiment", "id,Predicted_Is_Paraphrase", "0,4")
FAULTY_FILES = {
    **{f"line {line}": f"{HEADER}\n00,1\n{line}\n" for line in FAULTY_LINES},
    **{f"header {header}": f"{header}\n00,1\n" for header in FAULTY_HEADERS},
    "all at once": "id,x\nab,1\nab,2\ncd\n",
    "more than five": f"{HEADER}\n" + "x\n" * 9,
    "empty": "",
    "not UTF-8": b"id,Predicted_Sentiment\n\xe9,1\n",
}


@pytest.mark.parametrize("fault", FAULTY_FILES)
def test_a_faulty_file(tmp_path, message, fault):
    content = FAULTY_FILES[fault]
    path = tmp_path / "out.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with one_line_error(str(path)) as caught:
        read_predictions(path, SENTIMENT)
    message(str(caught.value))


def test_no_file_and_a_folder(tmp_path, message):
    for path in (tmp_path / "none.csv", tmp_path):
        with one_line_error(str(path)) as caught:
            read_predictions(path, SENTIMENT)
        message(str(caught.value))


# ---------------------------------------------------------------------------------------------
# Reports and pictures


def test_report(tmp_path):
    path = tmp_path / "report.txt"
    write_report(path, [0, 1, 1], [0, 1, 0], 3)
    lines = {
        words[0]: words[1:] for words in map(str.split, path.read_text().splitlines()) if words
    }
    assert lines["0"] == ["0.500", "1.000", "0.667", "1"]
    assert lines["1"] == ["1.000", "0.500", "0.667", "2"]
    assert lines["2"] == ["0.000", "0.000", "0.000", "0"]  # does not occur
    assert lines["accuracy"] == ["0.667", "3"]


SCORED = {
    "sent_ids": ["a", "b", "c", "d"],
    "y_true": [0.0, 5.0, 4.0, 2.5],
    "y_pred": [1.0, 4.5, 2.0, 2.5],
}
CLASSED = {
    "sent_ids": ["a", "b", "c", "d", "e"],
    "y_true": [0, 1, 2, 1, 0],
    "y_pred": [0, 2, 1, 1, 1],
    "confidence": [0.9, 0.5, 0.8, 0.7, 0.5],
}


def test_report_of_scores(tmp_path):
    path = tmp_path / "report.txt"
    write_score_report(path, SCORED["y_true"], SCORED["y_pred"])
    lines = [line.rsplit(maxsplit=1) for line in path.read_text().splitlines()]
    figures = {name.strip(): value for name, value in lines}
    assert (
        figures["Pearson correlation"] == f"{pearsonr(SCORED['y_true'], SCORED['y_pred'])[0]:.3f}"
    )
    assert figures["Spearman correlation"] == "0.800"  # ranks 1 4 3 2 and 1 4 2 3
    assert figures["root mean squared error"] == f"{math.sqrt((1 + 0.25 + 4 + 0) / 4):.3f}"
    assert figures["mean error"] == "-0.375"
    assert figures["examples"] == "4"
    write_score_report(path, [1.0, 2.0], [3.0, 3.0])
    assert "Spearman correlation       0.000\n" in path.read_text()


def test_mistakes_the_most_confident_first(tmp_path):
    """Right answers do not stand there; of equals the first of the data comes first."""
    path = tmp_path / "mistakes.tsv"
    rows = [(f"text {key}", 0, key) for key in "edcba"]  # the order of the file is another
    write_mistakes(path, mistakes_in(CLASSED, rows))
    assert path.read_text().splitlines() == [
        "id\tgold\tpredicted\tconfidence\ttext",
        "c\t2\t1\t0.800\ttext c",
        "b\t1\t2\t0.500\ttext b",
        "e\t0\t1\t0.500\ttext e",
    ]
    write_mistakes(path, mistakes_in(CLASSED, rows, count=1))
    assert path.read_text().count("\n") == 2


def test_mistakes_of_scores_are_the_largest_errors(tmp_path):
    path = tmp_path / "mistakes.tsv"
    rows = [(f"one {key}", f'two "{key}"', 0.0, key) for key in "abcd"]
    write_mistakes(path, mistakes_in(SCORED, rows, count=2))
    assert path.read_text().splitlines() == [
        "id\tgold\tpredicted\terror\ttext_1\ttext_2",
        'c\t4.000\t2.000\t2.000\tone c\t"two ""c"""',
        'a\t0.000\t1.000\t1.000\tone a\t"two ""a"""',
    ]


def test_describe_compares_confidence_with_truth(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(error_analysis, "plot_calibration", lambda *given: calls.append(given))
    rows = [("text", 0, key) for key in "abcde"]
    named = describe(str(tmp_path / "x"), CLASSED, rows, "abc")
    describe(str(tmp_path / "x"), SCORED | {"y_pred": [-1.0, 6.0, 4.0, 2.5]}, rows, ())
    (_, shares, right, _), (_, expected, observed, _) = calls
    assert list(shares) == CLASSED["confidence"]
    assert list(right) == [True, False, False, True, False]
    assert {*named.mistakes["gold"]} | {*named.mistakes["predicted"]} <= {*"abc"}
    assert list(expected) == [0.0, 1.0, 0.8, 0.5]
    assert list(observed) == [0.0, 1.0, 0.8, 0.5]


def test_a_class_that_does_not_occur_has_its_row_in_the_picture(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(error_analysis, "save_figure", lambda figure, path: drawn.append(figure))
    plot_confusion(tmp_path / "x.png", [0, 2, 0, 2], [0, 2, 2, 2], 3, "title")
    (axes,) = drawn[0].axes
    assert [text.get_text() for text in axes.texts] == [*"101", *"000", *"002"]
    assert len(axes.get_xticks()) == len(axes.get_yticks()) == 3


HISTORY = [{"epoch": i, "loss": 1 / i, "train_acc": 0.5, "dev_acc": 0.4} for i in (1, 2)]
LINES = {"train_acc": "train", "dev_acc": "dev"}


@pytest.mark.parametrize(
    "draw",
    [
        lambda path: plot_confusion(path, [0, 1, 1, 2], [0, 1, 0, 0], 3, "title"),
        lambda path: plot_curves(path, HISTORY, "title", LINES),
        lambda path: plot_curves(path, HISTORY[:1], "title", LINES),
        lambda path: plot_calibration(path, [0.1, 0.5, 1.0], [0, 1, 1], "title"),
    ],
    ids=["confusion", "curves", "one epoch", "calibration"],
)
def test_pictures_are_png(tmp_path, draw, capsys):
    path = tmp_path / "picture.png"
    draw(path)
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        picture.load()  # decodes all of it
        assert min(picture.size) > 300
        assert len(picture.convert("L").getcolors()) > 10
    draw(path / "x.png")  # which cannot be written, and does not stop a run
    assert capsys.readouterr().out.startswith(f"plot: cannot write {path}")
