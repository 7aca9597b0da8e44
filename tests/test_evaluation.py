"""Metrics and prediction files (evaluation.py)."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from running import one_line_error
from scipy.stats import pearsonr
from torch import nn
from torch.nn import functional as F

import evaluation
from evaluation import (
    COLUMNS,
    detect_pairs,
    pearson,
    write_predictions,
)
from training.files.predictions import read_predictions
from training.reports.error_analysis import (
    mistakes_in,
    report_on_scores,
)

SENTIMENT = COLUMNS[0]
CPU = torch.device("cpu")

# ---------------------------------------------------------------------------------------------
# Metrics


def test_detect_pairs_and_a_tie():
    """A logit of exactly 0 is no more yes than no: it counts as no."""
    ids = [0, 1, 2, 3]
    logits = torch.tensor([0.0, 1e-3, -2.0, 2.0])
    batches = [batch(ids, ids, labels=[1, 1, 1, 0], name="x")]
    predictions = detect_pairs(batches, lambda ids_1, *_: logits[ids_1[:, 1]], CPU)
    assert predictions["y_pred"] == [0, 1, 0, 1]
    assert predictions["y_true"] == [1, 1, 1, 0]
    shares = [1 / (1 + math.exp(-logit)) for logit in logits]
    assert predictions["probabilities"] == pytest.approx(shares, abs=1e-7)
    assert predictions["confidence"] == pytest.approx([max(p, 1 - p) for p in shares], abs=1e-7)


# ---------------------------------------------------------------------------------------------
# Metrics of the three tasks


@settings(deadline=None, max_examples=30)  # on a busy machine any example may take long
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(-99, 99)), min_size=3, max_size=20).filter(
        lambda rows: all(len(set(side)) > 1 for side in zip(*rows, strict=True))
    )
)
def test_pearson_against_scipy(rows):
    y_true, y_pred = ([value / 10 for value in side] for side in zip(*rows, strict=True))
    assert pearson(y_true, y_pred) == pytest.approx(pearsonr(y_true, y_pred)[0], abs=1e-12)


@pytest.mark.parametrize(
    ("y_true", "y_pred"),
    [([1.0, 2.0, 3.0], [2.5, 2.5, 2.5]), ([2.0, 2.0], [1.0, 3.0]), ([2.0], [1.0])],
    ids=["predicted", "true", "one row"],
)
def test_pearson_without_variation_is_0_with_a_warning(y_true, y_pred, capsys, recwarn, message):
    assert pearson(y_true, y_pred) == 0.0
    message(capsys.readouterr().out)
    assert not recwarn


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
    scores = [0.1 + 0.2, -1e-17, 5e300]  # read again to the last bit
    write_predictions(path, ["a", "b", "c"], scores, COLUMNS[2])
    assert list(read_predictions(path, COLUMNS[2]).values()) == scores


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("id \t Predicted_Sentiment \nab , 4 \ncd , 0 \n", COLUMNS[0]),
        ("id, Predicted_Sentiment\r\nab, 4.0\r\ncd, 0.0\r\n", COLUMNS[0]),
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
FAULTY_LINES = ("ab", "ab,", ",1", "ab,x", "ab,1,2", "ab,nan", "00,2")
FAULTY_HEADERS = ("", "sentence,Predicted_Sentiment", "id,Predicted_Is_Paraphrase")
FAULTY_FILES = {
    **{f"line {line}": f"{HEADER}\n00,1\n{line}\n" for line in FAULTY_LINES},
    **{f"header {header}": f"{header}\n00,1\n" for header in FAULTY_HEADERS},
    "more than five": f"{HEADER}\n" + "x\n" * 9,
    "not UTF-8": b"id,Predicted_Sentiment\n\xe9,1\n",
}


@pytest.mark.parametrize("fault", FAULTY_FILES)
def test_a_faulty_file(tmp_path, fault):
    content = FAULTY_FILES[fault]
    path = tmp_path / "out.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with one_line_error(str(path)):
        read_predictions(path, SENTIMENT)


# ---------------------------------------------------------------------------------------------
# Reports and pictures


SCORED = ([0.0, 5.0, 4.0, 2.5], [1.0, 4.5, 2.0, 2.5])  # true and predicted similarities
CLASSED = {
    "sent_ids": ["a", "b", "c", "d", "e"],
    "y_true": [0, 1, 2, 1, 0],
    "y_pred": [0, 2, 1, 1, 1],
    "confidence": [0.9, 0.5, 0.8, 0.7, 0.5],
}


def test_report_of_scores():
    lines = [line.rsplit(maxsplit=1) for line in report_on_scores(*SCORED).splitlines()]
    assert {name.strip(): value for name, value in lines} == {
        "Pearson correlation": f"{pearsonr(*SCORED)[0]:.3f}",
        "Spearman correlation": "0.800",  # ranks 1 4 3 2 and 1 4 2 3
        "root mean squared error": f"{math.sqrt((1 + 0.25 + 4 + 0) / 4):.3f}",
        "mean error": "-0.375",
        "examples": "4",
    }
    assert "Spearman correlation       0.000\n" in report_on_scores([1.0, 2.0], [3.0, 3.0])


def test_mistakes_the_most_confident_first():
    """Right answers do not stand there; of equals the first of the data comes first."""
    rows = [(f"text {key}", 0, key) for key in "edcba"]  # the order of the file is another
    assert mistakes_in(CLASSED, rows).to_dict("split")["data"] == [
        ["c", 2, 1, 0.8, "text c"],
        ["b", 1, 2, 0.5, "text b"],
        ["e", 0, 1, 0.5, "text e"],
    ]
    assert len(mistakes_in(CLASSED, rows, count=1)) == 1


def test_mistakes_of_scores_are_the_largest_errors():
    rows = [(f"one {key}", "two", 0.0, key) for key in "abcd"]
    scores = {"sent_ids": list("abcd"), "y_true": SCORED[0], "y_pred": SCORED[1]}
    table = mistakes_in(scores, rows, count=2)
    assert table[["id", "error", "text_1"]].values.tolist() == [
        ["c", 2.0, "one c"],
        ["a", 1.0, "one a"],
    ]
