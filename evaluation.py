"""Predictions, metrics, and the one writer of prediction files."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # scipy.stats loads when it is first used
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from datasets import (
    SentenceClassificationDataset,
    SentenceClassificationTestDataset,
    SentencePairDataset,
    SentencePairTestDataset,
    load_multitask_data,
)
from training.files.course_files import trained_names
from training.files.errors import InputError
from training.files.writing import atomic_write
from training.loop.batches import PAIR, SINGLE, to_device
from training.loop.progress import progress_bar

# The three headers of prediction files
COLUMNS = ("Predicted_Sentiment", "Predicted_Is_Paraphrase", "Predicted_Similarity")

# ---------------------------------------------------------------------------------------------
# One pass over the data


@torch.no_grad()
def outputs_of(
    function: Callable[..., Tensor], batches: Iterable[dict], keys: Sequence[str], device
) -> tuple[Tensor, dict[str, list]]:
    """What a function returns for a batch's tensors with these keys, the labels aside; for all.

    Also lists in the order of the batches: y_true (empty without labels), sents, sent_ids.
    """
    outputs: list[Tensor] = []  # read at the end: reading waits for a GPU
    rows: dict[str, list] = {"y_true": [], "sents": [], "sent_ids": []}
    for batch in progress_bar(batches, "eval"):
        outputs.append(function(*(to_device(batch[key], device) for key in keys[:-1])).float())
        rows["y_true"] += batch["labels"].tolist() if "labels" in batch else []
        rows["sents"] += batch.get("sents", [])
        rows["sent_ids"] += batch["sent_ids"]
    return torch.cat(outputs).cpu(), rows


def classify(
    batches: Iterable[dict], logits_of: Callable[[Tensor, Tensor], Tensor], device: torch.device
) -> dict[str, list]:
    """Predict the classes of all single sentences.

    Args:
        logits_of: ids and mask, (B, L) each → (B, number of classes).

    Returns:
        Lists in the order of the batches: y_pred, y_true (empty without labels), probabilities
        (one list per sentence), sents, sent_ids.
    """
    logits, rows = outputs_of(logits_of, batches, SINGLE, device)  # (N, number of classes)
    probabilities = logits.softmax(dim=-1).tolist()
    return rows | {"y_pred": logits.argmax(dim=-1).tolist(), "probabilities": probabilities}


def score_pairs(
    batches: Iterable[dict], score_of: Callable[..., Tensor], device: torch.device
) -> dict[str, list]:
    """Predict one number for each sentence pair: lists y_pred, y_true and sent_ids.

    Args:
        score_of: ids_1, mask_1, ids_2, mask_2, (B, L1) or (B, L2) each → (B,) or (B, 1).
    """
    scores, rows = outputs_of(score_of, batches, PAIR, device)
    return rows | {"y_pred": scores.flatten().tolist()}


def detect_pairs(
    batches: Iterable[dict], logit_of: Callable[..., Tensor], device: torch.device
) -> dict[str, list]:
    """Predict 1 (yes) or 0 for each sentence pair, from the logit of "yes".

    The arguments are those of score_pairs; the result also holds the probabilities of "yes".
    """
    logits, rows = outputs_of(logit_of, batches, PAIR, device)
    probabilities = logits.flatten().double().sigmoid().tolist()
    return rows | {"y_pred": [int(p > 0.5) for p in probabilities], "probabilities": probabilities}


def say_classes(logits: Tensor, config: Any = None) -> str:
    """The class of one text and the probabilities of all, by the model's names; logits (1, C)."""
    probabilities = logits.float().softmax(dim=-1).squeeze(0).tolist()
    best, names = int(logits.argmax()), trained_names(config, len(probabilities))
    listed = "  ".join(f"{name}: {p:.3f}" for name, p in zip(names, probabilities, strict=True))
    return f"class {best}{'' if names[best] == str(best) else f', {names[best]}'}   [{listed}]"


# ---------------------------------------------------------------------------------------------
# Metrics


def metrics_of(predictions: Mapping[str, list]) -> tuple:
    """The result of classify → (accuracy, macro F1, y_pred, y_true, sents, sent_ids).

    A class that neither the labels nor the predictions have does not count for F1.
    """
    from sklearn.metrics import f1_score  # here, because importing it takes two seconds

    y_pred, y_true = predictions["y_pred"], predictions["y_true"]
    f1 = float(f1_score(y_true, y_pred, average="macro", zero_division=0))
    rest = (predictions["sents"], predictions["sent_ids"])
    return accuracy(y_true, y_pred), f1, y_pred, y_true, *rest


def accuracy(y_true: Sequence[int], y_pred: Sequence[int]) -> float:
    """The fraction of predictions that are correct."""
    return float(np.equal(y_true, y_pred).mean())


def pearson(y_true: Sequence[float], y_pred: Sequence[float]) -> float:
    """Pearson's correlation; 0, with a warning, where it is not defined: without any variation."""
    if not np.isfinite(y_pred).all():
        raise InputError("a predicted similarity is nan or infinite; train again with a lower --lr")
    for values, what in ((y_pred, "predicted"), (y_true, "true")):
        if len(values) < 2 or np.ptp(values) == 0:
            print(f"warning: the {what} similarities do not vary: Pearson's correlation set to 0")
            return 0.0
    return float(scipy.stats.pearsonr(y_true, y_pred).statistic)


def overall(scores: Mapping[str, float]) -> float:
    """The leaderboard's mean of accuracies and, for the correlation r of STS, (r + 1) / 2.

    A further task than the course's three does not count next to these.
    """
    counted = [task for task in ("sst", "para", "sts") if task in scores] or list(scores)
    terms = [(scores[task] + 1) / 2 if task == "sts" else scores[task] for task in counted]
    return sum(terms) / len(terms)


# ---------------------------------------------------------------------------------------------
# The three tasks, as older scripts call them


def model_eval_sst(dataloader, model: nn.Module, device: torch.device) -> tuple:
    """→ (accuracy, macro F1, y_pred, y_true, sents, sent_ids) of model.predict_sentiment."""
    model.eval()
    return metrics_of(classify(dataloader, model.predict_sentiment, device))


def predict_three(sst_loader, para_loader, sts_loader, model: nn.Module, device) -> list[dict]:
    """Predictions of the paraphrase, the sentiment and the similarity task."""
    model.eval()
    return [
        detect_pairs(para_loader, model.predict_paraphrase, device),
        classify(sst_loader, model.predict_sentiment, device),
        score_pairs(sts_loader, model.predict_similarity, device),
    ]


def model_eval_multitask(sst_loader, para_loader, sts_loader, model: nn.Module, device) -> tuple:
    """→ (paraphrase accuracy, predictions, ids, the same of sentiment, Pearson's r, …)."""
    tasks = predict_three(sst_loader, para_loader, sts_loader, model, device)
    metrics = zip((accuracy, accuracy, pearson), tasks, strict=True)
    scores = [metric(task["y_true"], task["y_pred"]) for metric, task in metrics]
    print("accuracy {:.3f} of paraphrases, {:.3f} of sentiment; correlation {:.3f}".format(*scores))
    results = zip(scores, tasks, strict=True)
    return tuple(x for score, task in results for x in (score, task["y_pred"], task["sent_ids"]))


def model_eval_test_multitask(
    sst_loader, para_loader, sts_loader, model: nn.Module, device
) -> tuple:
    """→ (paraphrase predictions, ids, sentiment predictions, ids, similarities, ids)."""
    tasks = predict_three(sst_loader, para_loader, sts_loader, model, device)
    return tuple(x for task in tasks for x in (task["y_pred"], task["sent_ids"]))


def test_model_multitask(args: Any, model: nn.Module, device: torch.device) -> None:
    """Write the six prediction files of any model that has the three predict functions.

    Args:
        args: batch_size, the data files sst_dev, sst_test, para_dev, … sts_test, and where to
            write: sst_dev_out, … sts_test_out.
    """

    def loaders(split: str) -> list[DataLoader]:
        files = (getattr(args, f"{name}_{split}") for name in ("sst", "para", "sts"))
        sst, _, para, sts = load_multitask_data(*files, split=split)
        if split == "test":
            sets = [SentenceClassificationTestDataset(sst, args)]
            sets += [SentencePairTestDataset(rows, args) for rows in (para, sts)]
        else:
            sets = [SentenceClassificationDataset(sst, args), SentencePairDataset(para, args)]
            sets.append(SentencePairDataset(sts, args, isRegression=True))
        return [DataLoader(rows, args.batch_size, collate_fn=rows.collate_fn) for rows in sets]

    dev = model_eval_multitask(*loaders("dev"), model, device)
    test = model_eval_test_multitask(*loaders("test"), model, device)
    columns = {"para": COLUMNS[1], "sst": COLUMNS[0], "sts": COLUMNS[2]}  # as in the results
    for i, (name, column) in enumerate(columns.items()):
        for split, (values, ids) in (("dev", dev[3 * i + 1 :][:2]), ("test", test[2 * i :][:2])):
            write_predictions(getattr(args, f"{name}_{split}_out"), ids, values, column)


test_multitask = test_model_multitask  # an older name


# ---------------------------------------------------------------------------------------------
# Prediction files; training/files/predictions.py reads them


def write_predictions(
    path: str | Path, ids: Sequence[str], values: Sequence[float], column: str
) -> None:
    """Write ``id,<column>`` and one row an example, atomically."""
    with atomic_write(path) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("id", column))
        table.writerows(zip(ids, values, strict=True))


def write_in_order(
    path: str | Path, dataset: Iterable[tuple], predictions: Mapping[str, list], column: str
) -> None:
    """Write predictions in the order of the data set's rows, not of the batches, and say where."""
    predicted = dict(zip(predictions["sent_ids"], predictions["y_pred"], strict=True))
    ids = [row[-1] for row in dataset]
    write_predictions(path, ids, [predicted[key] for key in ids], column)
    print(f"wrote {path}")
