"""Metrics and prediction files (evaluation.py)."""

import math
from types import SimpleNamespace

import pytest
import torch
from running import one_line_error
from scipy.stats import pearsonr
from torch import nn
from torch.nn import functional as F

import classifier
import evaluation
from evaluation import FILE_COLUMNS, pearson, predict_rows, write_in_order
from training.files.predictions import read_predictions

COLUMNS = [*FILE_COLUMNS.values()]
SENTIMENT = COLUMNS[0]
CPU = torch.device("cpu")


def test_paraphrases_and_a_tie():
    """A logit of exactly 0 is no more yes than no: it counts as no."""
    ids = [0, 1, 2, 3]
    logits = torch.tensor([0.0, 1e-3, -2.0, 2.0])
    batches = [batch(ids, ids, labels=[1, 1, 1, 0], name="x")]
    model = SimpleNamespace(predict_paraphrase=lambda ids_1, *_: logits[ids_1[:, 1]])
    predictions = predict_rows(model, "para", batches, CPU)
    assert predictions["y_pred"] == [0, 1, 0, 1]
    assert predictions["y_true"] == [1, 1, 1, 0]
    probabilities = [1 / (1 + math.exp(-logit)) for logit in logits]
    assert predictions["probabilities"] == pytest.approx(probabilities, abs=1e-7)


@pytest.mark.parametrize(
    ("y_true", "y_pred"),
    [([1.0, 2.0, 3.0], [2.5, 2.5, 2.5]), ([2.0, 2.0], [1.0, 3.0]), ([2.0], [1.0])],
    ids=["predicted", "true", "one row"],
)
def test_pearson_without_variation_is_0_with_a_warning(y_true, y_pred, capsys, recwarn):
    assert pearson(y_true, y_pred) == 0.0
    assert "similarities do not vary" in capsys.readouterr().out
    assert not recwarn


def test_a_similarity_that_is_not_finite_is_refused():
    with one_line_error("nan or infinite"):
        pearson([1.0, 2.0], [1.0, math.inf])
    assert pearson([1.0, 2.0], [5.0, 3.0]) == -1.0  # two rows are enough


class Parrot(nn.Module):
    """A model of somebody else: the id in the second place decides its answers."""

    def forward(self, ids, mask):
        return F.one_hot(ids[:, 1] % 5, 5).float()

    predict_sentiment = forward

    def predict_paraphrase(self, ids_1, mask_1, ids_2, mask_2):
        return (ids_1[:, 1] - ids_2[:, 1]).float()[:, None]  # (B, 1), as some wrote it

    def predict_similarity(self, ids_1, mask_1, ids_2, mask_2):
        return ids_1[:, 1] / ids_2[:, 1]


def batch(*columns: list[int], labels: list, name: str) -> dict:
    """One batch whose texts are [CLS] number [SEP]; ids are the task's name and the row."""
    made = {"sent_ids": [f"{name}{i}" for i in range(len(columns[0]))]}
    for i, column in enumerate(columns, start=1):
        ids = torch.tensor([[2, number, 3] for number in column])
        suffix = f"_{i}" if len(columns) == 2 else ""
        made |= {f"token_ids{suffix}": ids, f"attention_mask{suffix}": torch.ones_like(ids)}
    if len(columns) == 1:
        made["sents"] = [f"text {number}" for number in columns[0]]
    return made | {"labels": torch.tensor(labels)}


def test_the_order_of_the_results(capsys):
    """The paraphrases come first, as in the course's release of 2023."""
    loaders = (
        [batch([4, 6], labels=[4, 0], name="s"), batch([2], labels=[2], name="t")],
        [batch([9], [5], labels=[1], name="p"), batch([5], [9], labels=[1], name="q")],
        [batch([10, 20, 30, 40], [10, 10, 10, 10], labels=[1.0, 2.0, 3.0, 4.5], name="x")],
    )
    para, sst = ([1, 0], ["p0", "q0"]), ([4, 1, 2], ["s0", "s1", "t0"])
    sts = ([1.0, 2.0, 3.0, 4.0], ["x0", "x1", "x2", "x3"])
    model = Parrot().train()
    accuracy_of_sst = pytest.approx(2 / 3)
    f1 = pytest.approx((1 + 0 + 1 + 0) / 4)  # of the classes 4, 0, 2 and 1
    texts = ["text 4", "text 6", "text 2"]
    for evaluate in (evaluation.model_eval_sst, classifier.model_eval):
        results = (accuracy_of_sst, f1, sst[0], [4, 0, 2], texts, sst[1])
        assert evaluate(loaders[0], model.train(), CPU) == results
        assert not model.training
    correlation = pytest.approx(pearsonr([1, 2, 3, 4.5], [1, 2, 3, 4])[0])
    assert evaluation.model_eval_multitask(*loaders, model.train(), CPU) == (
        *(0.5, *para),
        *(accuracy_of_sst, *sst),
        *(correlation, *sts),
    )
    assert "accuracy 0.500 of paraphrases" in capsys.readouterr().out
    assert not model.training
    for rows in (rows for loader in loaders for rows in loader):
        rows.pop("labels")
    assert classifier.model_test_eval(loaders[0], model.train(), CPU) == (sst[0], texts, sst[1])
    found = evaluation.model_eval_test_multitask(*loaders, model.train(), CPU)
    assert found == (*para, *sst, *sts)
    assert not model.training


def test_the_file_that_is_written(tmp_path):
    path = tmp_path / "new" / "folder" / "out.csv"
    predictions = {"sent_ids": ["c\u2028d", "ab"], "y_pred": [0, 4]}
    write_in_order(path, [("text", 1, "ab"), ("text", 1, "c\u2028d")], predictions, SENTIMENT)
    assert path.read_text(encoding="utf-8") == "id,Predicted_Sentiment\nab,4\nc\u2028d,0\n"
    assert read_predictions(path, SENTIMENT) == {"ab": 4, "c\u2028d": 0}
    assert [file.name for file in path.parent.iterdir()] == ["out.csv"]
    scores = [0.1 + 0.2, -1e-17, 5e300]  # read again to the last bit
    write_in_order(path, ["a", "b", "c"], {"sent_ids": "abc", "y_pred": scores}, COLUMNS[2])
    assert list(read_predictions(path, COLUMNS[2]).values()) == scores


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("id \t Predicted_Sentiment \nab , 4 \ncd , 0 \n", COLUMNS[0]),
        ("\ufeffid,Predicted_Sentiment\nAB,4\nCD,0\n\n", COLUMNS[0]),
        ("id \t Predicted_Similiary \nab , 4.0 \ncd , 0.0 \n", COLUMNS[2]),
        ("id\tPredicted_Is_Paraphrase\t\nab\t4\t\ncd,0,\n", COLUMNS[1]),
    ],
)
def test_spellings_of_older_code(tmp_path, text, column):
    path = tmp_path / "out.csv"
    path.write_bytes(text.encode("utf-8"))
    assert read_predictions(path, column) == {"ab": 4, "cd": 0}


HEADER = "id,Predicted_Sentiment"
FAULTS = [(f"{HEADER}\n00,1\n{x}\n", "row 2") for x in ("ab", ",1", "ab,x", "ab,1,2", "ab,nan")]
FAULTS += [(f"{x}\n00,1\n", "header is") for x in ("", f"x{HEADER}", "id,Predicted_Is_Paraphrase")]
FAULTS += [(f"{HEADER}\n00,1\n00,2\n", "row 2 (id 00) repeats an earlier id")]


@pytest.mark.parametrize(("text", "fact"), FAULTS)
def test_a_faulty_file(tmp_path, text, fact):
    (tmp_path / "out.csv").write_text(text)
    with one_line_error(str(tmp_path / "out.csv"), fact):
        read_predictions(tmp_path / "out.csv", SENTIMENT)
