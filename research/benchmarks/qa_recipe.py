"""The recipe of lessons/question_answering.py written with transformers, to compare EM and F1 with.

    python -P /PATH/TO/benchmarks/qa_recipe.py --train FILE --dev FILE --model FOLDER --seed 0

Files are SQuAD's JSON (version 1.1). Start it outside the repository's root: our datasets.py would
shadow a library that transformers looks for. Of ours it imports nothing. Windows are those of the
fast tokenizer, spans the best of 20 first and 20 last pieces as in transformers' own example,
scores those of SQuAD's official script. Windows are batched by length, as ours are.
Prints the scores of every epoch.
Needs: pip install -r requirements-dev.txt
"""

import argparse
import json
import random
import re
import string
import time
from collections import Counter
from pathlib import Path

import torch
from transformers import (
    AutoModelForQuestionAnswering,
    AutoTokenizer,
    get_linear_schedule_with_warmup,
)


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


def exact(said: str, gold: str) -> float:
    """Exact match."""
    return float(words(said) == words(gold))


def f1(said: str, gold: str) -> float:
    """F1 of the words in common."""
    ours, theirs = words(said), words(gold)
    same = sum((Counter(ours) & Counter(theirs)).values())
    if not same:
        return 0.0
    precision, recall = same / len(ours), same / len(theirs)
    return 2 * precision * recall / (precision + recall)


def main() -> None:
    """Fine-tune and print scores."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True, type=Path)
    parser.add_argument("--dev", required=True, type=Path)
    parser.add_argument("--model", required=True, help="folder or name of the pretrained BERT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--length", type=int, default=384)
    parser.add_argument("--stride", type=int, default=128, help="pieces that two windows share")
    parser.add_argument("--longest_answer", type=int, default=30)
    parser.add_argument("--warmup", type=float, default=0.0, help="share of the steps")
    parser.add_argument("--decay", action="store_true", help="linearly to 0 after the warm-up")
    parser.add_argument("--limit", type=int, help="first questions of every file")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="where the scores go, as JSON")
    a = parser.parse_args()

    random.seed(a.seed)
    torch.manual_seed(a.seed)
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    model = AutoModelForQuestionAnswering.from_pretrained(a.model).to(a.device)
    autocast = torch.autocast(torch.device(a.device).type, torch.bfloat16, enabled=a.bf16)

    def windows(questions: list[dict]) -> list[dict]:
        """Tokenized windows; of the context, offsets of its pieces, and where the answer is."""
        found = []
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
                found.append({"question": number, "input_ids": ids, "span": span,
                              "token_type_ids": encoded["token_type_ids"][i],
                              "offsets": offsets, "inside": set(inside)})  # fmt: skip
        return found

    def padded(rows: list[dict]):
        batch = {key: [row[key] for row in rows] for key in ("input_ids", "token_type_ids")}
        return tokenizer.pad(batch, return_tensors="pt").to(a.device)

    @torch.no_grad()
    def evaluate(questions: list[dict], rows: list[dict]) -> dict[str, float]:
        model.eval()
        best = [(float("-inf"), "")] * len(questions)
        rows = sorted(rows, key=lambda row: -len(row["input_ids"]))
        for start in range(0, len(rows), 32):
            part = rows[start : start + 32]
            with autocast:
                out = model(**padded(part))
            ends = [one.float().cpu() for one in (out.start_logits, out.end_logits)]
            for row, first, last in zip(part, *ends, strict=True):
                context = questions[row["question"]]["context"]
                for i in first.argsort(descending=True)[:20].tolist():
                    for j in last.argsort(descending=True)[:20].tolist():
                        if {i, j} <= row["inside"] and i <= j < i + a.longest_answer:
                            text = context[row["offsets"][i][0] : row["offsets"][j][1]]
                            value = float(first[i] + last[j])
                            best[row["question"]] = max(best[row["question"]], (value, text))
        return {
            name: 100 / len(questions) * sum(
                max(metric(said, gold["text"]) for gold in one["answers"])
                for one, (_, said) in zip(questions, best, strict=True)
            )
            for name, metric in (("exact", exact), ("f1", f1))
        }  # fmt: skip

    questions = {name: read(getattr(a, name), a.limit) for name in ("train", "dev")}
    rows = {name: windows(some) for name, some in questions.items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=a.lr, weight_decay=0.0, eps=1e-6)
    steps = a.epochs * -(-len(rows["train"]) // a.batch_size)
    schedule = None
    if a.warmup or a.decay:
        schedule = get_linear_schedule_with_warmup(
            optimizer, round(a.warmup * steps), steps if a.decay else 10**12
        )
    history, began = [], time.monotonic()
    for epoch in range(1, a.epochs + 1):
        model.train()
        shuffled = random.sample(rows["train"], len(rows["train"]))
        size = 50 * a.batch_size
        pools = [shuffled[i : i + size] for i in range(0, len(shuffled), size)]
        pools = [sorted(pool, key=lambda row: len(row["input_ids"])) for pool in pools]
        batches = [p[i : i + a.batch_size] for p in pools for i in range(0, len(p), a.batch_size)]
        for part in random.sample(batches, len(batches)):
            first, last = torch.tensor([row["span"] for row in part], device=a.device).T
            with autocast:
                loss = model(**padded(part), start_positions=first, end_positions=last).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if schedule:
                schedule.step()
        history.append({"epoch": epoch} | evaluate(questions["dev"], rows["dev"]))
        print(f"seed {a.seed}  {history[-1]}  {time.monotonic() - began:.0f} s", flush=True)
    if a.out:
        a.out.write_text(json.dumps({"dev": history, "args": vars(a)}, default=str))


if __name__ == "__main__":
    main()
