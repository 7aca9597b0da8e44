"""Predictions, metrics, and the one writer of prediction files."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # scipy.stats loads when it is first used
import torch
from torch import Tensor, nn

from datasets import TextDataset, read_set
from training.files.course_files import SETS, trained_names
from training.files.errors import InputError
from training.files.writing import atomic_write
from training.loop.batches import evaluation_loader, input_keys, to_device
from training.loop.progress import progress_bar

TASKS = ("sst", "para", "sts")  # of part 2; extensions/ have inference (nli), too
# In the header of each task's predictions; and the function of a model that makes them
FILE_COLUMNS = {task: SETS[task].column for task in TASKS} | {"nli": "Predicted_Relation"}
HEADS = {"sst": "predict_sentiment", "para": "predict_paraphrase", "sts": "predict_similarity"}
HEADS |= {"nli": "predict_relation"}
HeldOut = Mapping[tuple[str, str], TextDataset]  # by task and split: ("sst", "dev")

# ---------------------------------------------------------------------------------------------
# Predictions


@torch.no_grad()
def outputs_of(
    function: Callable[..., Tensor], batches: Iterable[dict], device
) -> tuple[Tensor, dict[str, list]]:
    """What a function returns for the ids and masks of all batches.

    Also lists in the order of the batches: y_true (empty without labels), sents, sent_ids.
    """
    outputs: list[Tensor] = []  # read at the end: reading waits for a GPU
    rows: dict[str, list] = {"y_true": [], "sents": [], "sent_ids": []}
    for batch in progress_bar(batches, "eval"):
        inputs = (to_device(batch[key], device) for key in input_keys(batch))
        outputs.append(function(*inputs).float())
        rows["y_true"] += batch["labels"].tolist() if "labels" in batch else []
        rows["sents"] += batch.get("sents", [])
        rows["sent_ids"] += batch["sent_ids"]
    if (every := torch.cat(outputs).cpu()).isnan().any():
        remedy = "lower --lr, and run python sanity_check.py and python optimizer_test.py"
        raise InputError(f"the model returns nan; {remedy}")
    return every, rows


def classify(
    batches: Iterable[dict], logits_of: Callable[..., Tensor], device: torch.device
) -> dict[str, list]:
    """Predict the classes of all single sentences, or pairs.

    Args:
        logits_of: ids and mask, (B, L) each, of a pair four of them → (B, number of classes).

    Returns:
        Lists in the order of the batches: y_pred, y_true (empty without labels), probabilities
        (one list per sentence), sents, sent_ids.
    """
    logits, rows = outputs_of(logits_of, batches, device)  # (N, number of classes)
    probabilities = logits.softmax(dim=-1).tolist()
    return rows | {"y_pred": logits.argmax(dim=-1).tolist(), "probabilities": probabilities}


def predict_rows(model: nn.Module, task: str, loader: Iterable[dict], device) -> dict[str, list]:
    """A task's predictions of a model with the functions in HEADS, in the order of the batches.

    Lists y_pred, y_true and sent_ids, of classes also probabilities, of paraphrases those of "yes".
    """
    head = getattr(model, HEADS[task])
    if task in ("sst", "nli"):
        return classify(loader, head, device)
    outputs, rows = outputs_of(head, loader, device)  # (N,) or (N, 1)
    if task == "sts":
        return rows | {"y_pred": outputs.flatten().tolist()}
    probabilities = outputs.flatten().double().sigmoid().tolist()
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


def score(task: str, predictions: Mapping[str, list]) -> float:
    """Accuracy, or for STS Pearson's correlation."""
    metric = pearson if task == "sts" else accuracy
    return metric(predictions["y_true"], predictions["y_pred"])


def overall(scores: Mapping[str, float]) -> float:
    """The leaderboard's mean of accuracies and, for the correlation r of STS, (r + 1) / 2.

    A further task than the course's three does not count next to these.
    """
    counted = [task for task in TASKS if task in scores] or list(scores)
    terms = [(scores[task] + 1) / 2 if task == "sts" else scores[task] for task in counted]
    return sum(terms) / len(terms)


# ---------------------------------------------------------------------------------------------
# Files


def write_in_order(
    path: str | Path, dataset: Iterable[tuple], predictions: Mapping[str, list], column: str
) -> None:
    """Write ``id,<column>`` and a row for each of the data set's, in its order; say where.

    training/files/predictions.py reads it.
    """
    predicted = dict(zip(predictions["sent_ids"], predictions["y_pred"], strict=True))
    with atomic_write(path) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("id", column))
        table.writerows((key, predicted[key]) for *_, key in dataset)
    print(f"wrote {path}")


def read_held_out(
    args: Any, tasks: Iterable[str] = TASKS, read_set: Callable[..., TextDataset] = read_set
) -> HeldOut:
    """The dev sets, and the test sets of those tasks that have a file of them."""
    keys = itertools.product(tasks, ("dev", "test"))
    return {(t, s): read_set(t, args, s) for t, s in keys if getattr(args, f"{t}_{s}")}


def predict_held_out(
    args: Any,
    model: nn.Module,
    device: torch.device,
    held_out: HeldOut,
    trained: Iterable[str] = TASKS,
) -> None:
    """Write a file of predictions for each set, args.sst_dev_out …, and print the scores on dev.

    Tasks that are not ``trained`` do not count for the overall score.
    """
    model.eval()
    scores = {}
    for (task, split), rows in held_out.items():
        loader = evaluation_loader(rows, args.batch_size)
        predictions = predict_rows(model, task, loader, device)
        write_in_order(getattr(args, f"{task}_{split}_out"), rows, predictions, FILE_COLUMNS[task])
        if split == "dev":
            scores[task] = score(task, predictions)
    shown = "".join(f"  {task} {value:.3f}" for task, value in scores.items())
    counted = {task: scores[task] for task in trained if task in scores}
    print(f"dev{shown}  overall {overall(counted):.3f}")


def test_model_multitask(args: Any, model: nn.Module, device: torch.device) -> None:
    """Write the six prediction files of any model that has the three predict functions.

    Args:
        args: batch_size, the data files sst_dev, sst_test, para_dev, … sts_test, and where to
            write: sst_dev_out, … sts_test_out.
    """
    predict_held_out(args, model, device, read_held_out(args))


test_multitask = test_model_multitask  # an older name

# ---------------------------------------------------------------------------------------------
# The three tasks as older scripts call them


def model_eval_sst(dataloader, model: nn.Module, device: torch.device) -> tuple:
    """→ (accuracy, macro F1, y_pred, y_true, sents, sent_ids) of model.predict_sentiment."""
    model.eval()
    return metrics_of(classify(dataloader, model.predict_sentiment, device))


def predict_three(sst_loader, para_loader, sts_loader, model: nn.Module, device) -> dict[str, dict]:
    """The predictions of the three tasks, in the order of the results below."""
    model.eval()
    loaders = {"para": para_loader, "sst": sst_loader, "sts": sts_loader}
    return {task: predict_rows(model, task, rows, device) for task, rows in loaders.items()}


def model_eval_multitask(sst_loader, para_loader, sts_loader, model: nn.Module, device) -> tuple:
    """→ (paraphrase accuracy, predictions, ids, the same of sentiment, Pearson's r, …)."""
    tasks = predict_three(sst_loader, para_loader, sts_loader, model, device)
    scores = {task: score(task, predictions) for task, predictions in tasks.items()}
    shown = "accuracy {para:.3f} of paraphrases, {sst:.3f} of sentiment; correlation {sts:.3f}"
    print(shown.format(**scores))
    return tuple(x for t, p in tasks.items() for x in (scores[t], p["y_pred"], p["sent_ids"]))


def model_eval_test_multitask(
    sst_loader, para_loader, sts_loader, model: nn.Module, device
) -> tuple:
    """→ (paraphrase predictions, ids, sentiment predictions, ids, similarities, ids)."""
    tasks = predict_three(sst_loader, para_loader, sts_loader, model, device)
    return tuple(x for p in tasks.values() for x in (p["y_pred"], p["sent_ids"]))
