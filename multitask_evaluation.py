"""Part 2: predictions for pairs, the overall score, and the three tasks as older scripts call them.

Those import from evaluation.py, which finds the names here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
from evaluation import (
    COLUMNS,
    accuracy,
    classify,
    metrics_of,
    outputs_of,
    pearson,
    write_predictions,
)
from training.loop.batches import PAIR


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


def overall(scores: Mapping[str, float]) -> float:
    """The leaderboard's mean of accuracies and, for the correlation r of STS, (r + 1) / 2.

    A further task than the course's three does not count next to these.
    """
    counted = [task for task in ("sst", "para", "sts") if task in scores] or list(scores)
    terms = [(scores[task] + 1) / 2 if task == "sts" else scores[task] for task in counted]
    return sum(terms) / len(terms)


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
