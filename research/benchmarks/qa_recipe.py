"""The recipe of lessons/question_answering.py written with transformers, to compare scores with.

    python -P /PATH/TO/research/benchmarks/qa_recipe.py --train FILE --dev FILE --model MODEL

recipe.py says how to start it. Files are SQuAD's JSON (version 1.1). Windows are those of the fast
tokenizer, spans the best of 20 first and 20 last tokens as in transformers' own example, scores
those of SQuAD's official script. Prints exact match and F1 of every epoch.
"""

import argparse
import json
import random
import re
import string
import sys
from collections import Counter
from pathlib import Path

import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

sys.path.append(str(Path(__file__).resolve().parent))

from recipe import fine_tune, new_parser, write_scores


def read(path: Path, limit: int | None) -> list[dict]:
    """Questions with their contexts."""
    return [
        one | {"context": paragraph["context"]}
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for one in paragraph["qas"]
    ][:limit]


def words(text: str) -> list[str]:
    """An answer as the official script compares it."""
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def exact(predicted: str, gold: str) -> float:
    """Exact match."""
    return float(words(predicted) == words(gold))


def f1(predicted: str, gold: str) -> float:
    """F1 of the words in common."""
    ours, theirs = words(predicted), words(gold)
    same = sum((Counter(ours) & Counter(theirs)).values())
    if not same:
        return 0.0
    precision, recall = same / len(ours), same / len(theirs)
    return 2 * precision * recall / (precision + recall)


def windows(questions: list[dict], tokenizer, a: argparse.Namespace) -> list[dict]:
    """Tokenized windows: offsets of their tokens, which are context, where the answer is."""
    rows = []
    for number, one in enumerate(questions):
        encoded = tokenizer(
            one["question"], one["context"], truncation="only_second", max_length=a.length,
            stride=a.stride, return_overflowing_tokens=True, return_offsets_mapping=True,
        )  # fmt: skip
        start = one["answers"][0]["answer_start"]
        end = start + len(one["answers"][0]["text"])
        for i, ids in enumerate(encoded["input_ids"]):
            inside = [k for k, s in enumerate(encoded.sequence_ids(i)) if s == 1]
            offsets = encoded["offset_mapping"][i]
            span = (0, 0)
            if inside and offsets[inside[0]][0] <= start and offsets[inside[-1]][1] >= end:
                first = max(k for k in inside if offsets[k][0] <= start)
                last = min(k for k in inside if offsets[k][1] >= end)
                span = (first, last)
            rows.append({"question": number, "input_ids": ids, "span": span,
                         "token_type_ids": encoded["token_type_ids"][i],
                         "offsets": offsets, "inside": set(inside)})  # fmt: skip
    return rows


def best_span(row: dict, first, last, context: str, longest: int) -> tuple[float, str]:
    """(score, answer) of the best span of a window."""
    best = (float("-inf"), "")
    for i in first.argsort(descending=True)[:20].tolist():
        for j in last.argsort(descending=True)[:20].tolist():
            if {i, j} <= row["inside"] and i <= j < i + longest:
                text = context[row["offsets"][i][0] : row["offsets"][j][1]]
                best = max(best, (float(first[i] + last[j]), text))
    return best


def length(row: dict) -> int:
    """How many tokens a window has."""
    return len(row["input_ids"])


def main() -> None:
    """Fine-tune and print scores."""
    parser = new_parser(batch_size=16, epochs=2)
    parser.add_argument("--train", required=True, type=Path)
    parser.add_argument("--dev", required=True, type=Path)
    parser.add_argument("--length", type=int, default=384)
    parser.add_argument("--stride", type=int, default=128, help="tokens that two windows share")
    parser.add_argument("--longest_answer", type=int, default=30)
    a = parser.parse_args()
    random.seed(a.seed)
    torch.manual_seed(a.seed)
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    model = AutoModelForQuestionAnswering.from_pretrained(a.model).to(a.device)
    train, dev = (read(path, a.limit) for path in (a.train, a.dev))
    dev_rows = sorted(windows(dev, tokenizer, a), key=length, reverse=True)

    def padded(rows: list[dict]):
        batch = {key: [row[key] for row in rows] for key in ("input_ids", "token_type_ids")}
        return tokenizer.pad(batch, return_tensors="pt").to(a.device)

    def loss_of(rows: list[dict]) -> torch.Tensor:
        first, last = torch.tensor([row["span"] for row in rows], device=a.device).T
        return model(**padded(rows), start_positions=first, end_positions=last).loss

    def evaluate() -> dict[str, float]:
        best = [(float("-inf"), "")] * len(dev)
        for start in range(0, len(dev_rows), 32):
            rows = dev_rows[start : start + 32]
            out = model(**padded(rows))
            ends = (out.start_logits.float().cpu(), out.end_logits.float().cpu())
            for row, first, last in zip(rows, *ends, strict=True):
                number = row["question"]
                span = best_span(row, first, last, dev[number]["context"], a.longest_answer)
                best[number] = max(best[number], span)
        return {
            name: 100 / len(dev) * sum(
                max(metric(predicted, gold["text"]) for gold in one["answers"])
                for one, (_, predicted) in zip(dev, best, strict=True)
            )
            for name, metric in (("exact", exact), ("f1", f1))
        }  # fmt: skip

    rows = windows(train, tokenizer, a)
    write_scores(a, dev=fine_tune(a, model, rows, length, loss_of, evaluate, best="f1"))


if __name__ == "__main__":
    main()
