"""Predictions, metrics, and the one writer and reader of prediction files.

    python evaluation.py --compare predictions/pretrain-sst predictions/finetune-sst

puts runs beside each other, in the console and on a page. This file does not know how a model was
trained.
"""

from __future__ import annotations

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
from training.cli.arguments import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import atomic_write
from training.loop.progress import progress_bar
from training.reports.compare import compare

# ---------------------------------------------------------------------------------------------
# One pass over the data


@torch.no_grad()
def classify(
    batches: Iterable[dict], logits_of: Callable[[Tensor, Tensor], Tensor], device: torch.device
) -> dict[str, list]:
    """Predict the classes of all single sentences.

    Args:
        batches: of token_ids and attention_mask (B, L), sents, sent_ids and, if known, labels.
        logits_of: (ids, mask) → (B, number of classes).

    Returns:
        Lists in the order of the batches: y_pred, y_true (empty without labels), probabilities
        (one list a sentence), confidence (the largest of them), sents, sent_ids.
    """
    found: dict[str, list] = {key: [] for key in ("y_pred", "y_true", "probabilities", "sents")}
    found["sent_ids"] = []
    for batch in progress_bar(batches, "eval"):
        ids, mask = batch["token_ids"].to(device), batch["attention_mask"].to(device)
        logits = logits_of(ids, mask).float()  # (B, number of classes)
        found["y_pred"] += logits.argmax(dim=-1).tolist()
        found["probabilities"] += logits.softmax(dim=-1).tolist()
        found["sents"] += batch["sents"]
        found["sent_ids"] += batch["sent_ids"]
        if "labels" in batch:
            found["y_true"] += batch["labels"].tolist()
    found["confidence"] = [max(shares) for shares in found["probabilities"]]
    return found


@torch.no_grad()
def score_pairs(
    batches: Iterable[dict], score_of: Callable[..., Tensor], device: torch.device
) -> dict[str, list]:
    """Predict one number for each sentence pair.

    Args:
        batches: of token_ids_1, attention_mask_1 (B, L1), token_ids_2, attention_mask_2 (B, L2),
            sent_ids and, if known, labels.
        score_of: (ids_1, mask_1, ids_2, mask_2) → (B,) or (B, 1).

    Returns:
        Lists in the order of the batches: y_pred, y_true (empty without labels), sent_ids.
    """
    found: dict[str, list] = {"y_pred": [], "y_true": [], "sent_ids": []}
    keys = ("token_ids_1", "attention_mask_1", "token_ids_2", "attention_mask_2")
    for batch in progress_bar(batches, "eval"):
        scores = score_of(*(batch[key].to(device) for key in keys)).float().flatten()  # (B,)
        found["y_pred"] += scores.tolist()
        found["sent_ids"] += batch["sent_ids"]
        if "labels" in batch:
            found["y_true"] += batch["labels"].tolist()
    return found


def detect_pairs(
    batches: Iterable[dict], logit_of: Callable[..., Tensor], device: torch.device
) -> dict[str, list]:
    """Predict 1 (yes) or 0 for each sentence pair, from the logit of "yes".

    The arguments are score_pairs'; the result also holds probabilities (of "yes", a float a pair)
    and confidence (of the prediction).
    """
    found = score_pairs(batches, logit_of, device)
    found["probabilities"] = torch.tensor(found["y_pred"], dtype=torch.float64).sigmoid().tolist()
    found["y_pred"] = [int(share > 0.5) for share in found["probabilities"]]
    found["confidence"] = [max(share, 1 - share) for share in found["probabilities"]]
    return found


def classify_pairs(
    batches: Iterable[dict], logits_of: Callable[..., Tensor], device: torch.device
) -> dict[str, list]:
    """Predict a class for each sentence pair, from logits (B, number of classes).

    The arguments are score_pairs'; the result also holds confidence (of the prediction).
    """
    confidence: list[float] = []

    def best(*pair: Tensor) -> Tensor:
        shares = logits_of(*pair).float().softmax(dim=-1)  # (B, C)
        confidence.extend(shares.amax(dim=-1).tolist())
        return shares.argmax(dim=-1)  # (B,)

    found = score_pairs(batches, best, device)
    found["y_pred"] = [int(choice) for choice in found["y_pred"]]
    return found | {"confidence": confidence}


def say_classes(logits: Tensor) -> str:
    """The class of one text and the probability of every class, for people; logits (1, C)."""
    shares = logits.float().softmax(dim=-1).squeeze(0).tolist()
    best = max(range(len(shares)), key=shares.__getitem__)
    listed = "  ".join(f"{i}: {share:.3f}" for i, share in enumerate(shares))
    return f"class {best}   [{listed}]"


# ---------------------------------------------------------------------------------------------
# Metrics


def sklearn_metrics() -> Any:
    """scikit-learn's metrics, loaded when they are first needed: that takes two seconds."""
    from sklearn import metrics

    return metrics


def accuracy_and_f1(y_true: Sequence[int], y_pred: Sequence[int]) -> tuple[float, float]:
    """Accuracy and macro-averaged F1 (a class that never occurs in either counts not at all)."""
    f1 = sklearn_metrics().f1_score(y_true, y_pred, average="macro", zero_division=0)
    return float(sklearn_metrics().accuracy_score(y_true, y_pred)), float(f1)


def scored(found: Mapping[str, list]) -> tuple:
    """What classify found → (accuracy, macro F1, y_pred, y_true, sents, sent_ids)."""
    acc, f1 = accuracy_and_f1(found["y_true"], found["y_pred"])
    return acc, f1, found["y_pred"], found["y_true"], found["sents"], found["sent_ids"]


def accuracy(y_true: Sequence[int], y_pred: Sequence[int]) -> float:
    """The share of predictions that are right."""
    return float(sklearn_metrics().accuracy_score(y_true, y_pred))


def pearson(y_true: Sequence[float], y_pred: Sequence[float]) -> float:
    """Pearson's correlation; 0, with a warning, where it is not defined: without any variation."""
    if not np.isfinite(y_pred).all():
        raise InputError("a predicted similarity is nan or infinite; train again with a lower --lr")
    for values, what in ((y_pred, "predicted"), (y_true, "true")):
        if len(values) < 2 or np.ptp(values) == 0:
            print(f"warning: all {what} similarities are the same: Pearson's correlation set to 0")
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
    return scored(classify(dataloader, model.predict_sentiment, device))


def model_eval_multitask(
    sentiment_dataloader,
    paraphrase_dataloader,
    sts_dataloader,
    model: nn.Module,
    device: torch.device,
) -> tuple:
    """Predict and score three labelled data sets.

    Returns:
        (paraphrase accuracy, predictions, ids, sentiment accuracy, predictions, ids, Pearson
        correlation of the similarities, predictions, ids).
    """
    model.eval()
    para = detect_pairs(paraphrase_dataloader, model.predict_paraphrase, device)
    sst = classify(sentiment_dataloader, model.predict_sentiment, device)
    sts = score_pairs(sts_dataloader, model.predict_similarity, device)
    results = []
    for found, metric in ((para, accuracy), (sst, accuracy), (sts, pearson)):
        score = metric(found["y_true"], found["y_pred"])
        results += [score, found["y_pred"], found["sent_ids"]]
    print(f"Paraphrase detection accuracy: {results[0]:.3f}")
    print(f"Sentiment classification accuracy: {results[3]:.3f}")
    print(f"Semantic Textual Similarity correlation: {results[6]:.3f}")
    return tuple(results)


def model_eval_test_multitask(
    sentiment_dataloader,
    paraphrase_dataloader,
    sts_dataloader,
    model: nn.Module,
    device: torch.device,
) -> tuple:
    """Predict three data sets without labels.

    Returns:
        (paraphrase predictions, ids, sentiment predictions, ids, similarities, ids).
    """
    model.eval()
    results = []
    for found in (
        detect_pairs(paraphrase_dataloader, model.predict_paraphrase, device),
        classify(sentiment_dataloader, model.predict_sentiment, device),
        score_pairs(sts_dataloader, model.predict_similarity, device),
    ):
        results += [found["y_pred"], found["sent_ids"]]
    return tuple(results)


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
        return [DataLoader(one, args.batch_size, collate_fn=one.collate_fn) for one in sets]

    dev = model_eval_multitask(*loaders("dev"), model, device)
    test = model_eval_test_multitask(*loaders("test"), model, device)
    names = ("para", "sst", "sts")  # the order of the results
    columns = (COLUMNS[1], COLUMNS[0], COLUMNS[2])
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        _, predicted, ids = dev[3 * i : 3 * i + 3]
        write_predictions(getattr(args, f"{name}_dev_out"), ids, predicted, column)
        predicted, ids = test[2 * i : 2 * i + 2]
        write_predictions(getattr(args, f"{name}_test_out"), ids, predicted, column)


test_multitask = test_model_multitask  # an older name


# ---------------------------------------------------------------------------------------------
# Prediction files

# The three headers of the course, and spellings that older code writes
COLUMNS = ("Predicted_Sentiment", "Predicted_Is_Paraphrase", "Predicted_Similarity")
OLD_SPELLINGS = {"Predicted_Similiary": "Predicted_Similarity"}


def write_predictions(
    path: str | Path, ids: Sequence[str], values: Sequence[float], column: str
) -> None:
    """Write ``id,<column>`` and one row an example, atomically."""
    import pandas as pd

    table = pd.DataFrame({"id": ids, column: values})
    with atomic_write(path) as file:
        table.to_csv(file, index=False, lineterminator="\n")


def write_in_order(
    path: str | Path, dataset: Iterable[tuple], found: Mapping[str, list], column: str
) -> None:
    """Write what a pass found in the order of the data set's rows, not of the batches."""
    predicted = dict(zip(found["sent_ids"], found["y_pred"], strict=True))
    ids = [row[-1] for row in dataset]
    write_predictions(path, ids, [predicted[key] for key in ids], column)


def read_predictions(path: str | Path, column: str) -> dict[str, float]:
    """Read a file of predictions: {id: value}; see parse_predictions.

    Raises:
        InputError: missing, not UTF-8, or listing every fault at once.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    return parse_predictions(text, column, str(path))


def parse_predictions(text: str, column: str, name: str) -> dict[str, float]:
    """The predictions that a file's text holds: {id: value}.

    Also understands what older code writes: a tab in the header, spaces around commas, ``4.0``
    for a class, ``Predicted_Similiary``.

    Args:
        name: what the faults call the file.

    Raises:
        InputError: listing every fault of the file (header, values, repeated ids) at once.
    """
    lines = text.splitlines()
    header = [cell.strip() for cell in lines[0].replace("\t", ",").split(",")] if lines else []
    header = [OLD_SPELLINGS.get(cell, cell) for cell in header if cell]
    faults = []
    if header != ["id", column]:
        faults.append(f"header is {','.join(header)!r}, not 'id,{column}'")
    values: dict[str, float] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.replace("\t", ",").split(",")]
        try:
            key, value = cells[0].lower(), float(cells[1])
            strange = "_" in cells[1]  # which float() takes for a separator of thousands
            if len(cells) > 2 or not key or strange or not np.isfinite(value):
                raise ValueError
        except (ValueError, IndexError):
            faults.append(f"line {number}: {line.strip()[:60]!r} is not 'id,number'")
            continue
        if key in values:
            faults.append(f"line {number}: id {key} is there twice")
        values[key] = value
    if faults:
        more = f"; … and {len(faults) - 5} more faults" if len(faults) > 5 else ""
        raise InputError(f"{name}: " + "; ".join(faults[:5]) + more)
    return values


# ---------------------------------------------------------------------------------------------
# The command line


def main() -> None:
    """Compare runs."""
    parser = OneLineParser(prog="evaluation.py", description="Runs beside each other.")
    parser.add_argument(
        "--compare", nargs="+", required=True, metavar="RUN", help="what its files begin with"
    )
    parser.add_argument("--out", default="predictions/compare.html", help="the page")
    args = parser.parse_args()
    compare(args.compare, args.out)


if __name__ == "__main__":
    run_script(main)
