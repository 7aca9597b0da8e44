"""The recipe of lessons/token_classifier.py written with transformers, to compare F1 with.

    python -P /PATH/TO/benchmarks/token_recipe.py --data DIR --model FOLDER --seed 0 --out ner.json

DIR holds train, dev and test of WikiANN. Start it outside the repository's root: our datasets.py
would shadow a library that transformers looks for. Of ours it imports nothing; entities are counted
by the conditions of seqeval's two predicates. Texts are batched by length, as ours are; words that
the tokenizer gives no piece, or that --length cuts off, count as tagged O, as in ours.
Prints dev scores of every epoch, and those of the best epoch on test.
Needs: pip install -r requirements-dev.txt
"""

import argparse
import copy
import json
import random
import re
import time
from pathlib import Path

import torch
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    get_linear_schedule_with_warmup,
)


def read(path: Path, limit: int | None) -> list[tuple[list[str], list[str]]]:
    """Sentences as (words, tags), WikiANN's prefix taken off."""
    sentences = []
    for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
        lines = [line.split("\t") for line in block.split("\n") if line.strip()]
        if lines:
            sentences.append(([w.removeprefix("en:") for w, _ in lines], [t for _, t in lines]))
    return sentences[:limit]


def chunks(tags: list[str]) -> set[tuple[str, int, int]]:
    """Entities as seqeval's default mode finds them."""
    found, begin, before, kind_before = set(), 0, "O", ""
    for i, tag in enumerate([*tags, "O"]):
        now, _, kind = tag.partition("-")
        if before != "O" and (now in "BO" or kind != kind_before):
            found.add((kind_before, begin, i - 1))
        if now == "B" or (now == "I" and (before == "O" or kind != kind_before)):
            begin = i
        before, kind_before = now, kind
    return found


def scores(gold: list[list[str]], predicted: list[list[str]]) -> dict[str, float]:
    """Micro-averaged precision, recall and F1 of entities."""
    pairs = [(chunks(a), chunks(b)) for a, b in zip(gold, predicted, strict=True)]
    right = sum(len(a & b) for a, b in pairs)
    true, claimed = (max(1, sum(len(pair[i]) for pair in pairs)) for i in (0, 1))
    values = right / claimed, right / true, 2 * right / (true + claimed)
    return dict(zip(("precision", "recall", "f1"), values, strict=True))


def main() -> None:
    """Fine-tune and print scores."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, type=Path, help="folder of train, dev and test")
    parser.add_argument("--model", required=True, help="folder or name of the pretrained BERT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--warmup", type=float, default=0.0, help="share of the steps")
    parser.add_argument("--decay", action="store_true", help="linearly to 0 after the warm-up")
    parser.add_argument("--limit", type=int, help="first sentences of every file")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="where the scores go, as JSON")
    a = parser.parse_args()

    random.seed(a.seed)
    torch.manual_seed(a.seed)
    data = {name: read(a.data / name, a.limit) for name in ("train", "dev", "test")}
    types = sorted({tag[2:] for _, tags in data["train"] for tag in tags if tag != "O"})
    labels = ["O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI")]
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    model = AutoModelForTokenClassification.from_pretrained(a.model, num_labels=len(labels))
    model.to(a.device)
    autocast = torch.autocast(torch.device(a.device).type, torch.bfloat16, enabled=a.bf16)

    def encode(sentences):
        """A padded batch, and the labels: −100 but for first pieces."""
        batch = tokenizer([words for words, _ in sentences], is_split_into_words=True, padding=True,
                          truncation=True, max_length=a.length, return_tensors="pt")  # fmt: skip
        target = torch.full_like(batch["input_ids"], -100)
        places = []
        for row, (words, tags) in enumerate(sentences):
            place = [None] * len(words)
            for position, word in reversed(list(enumerate(batch.word_ids(row)))):
                if word is not None:
                    place[word] = position
            places.append(place)
            for word, position in enumerate(place):
                if position is not None and tags[word] in labels:
                    target[row, position] = labels.index(tags[word])
        return batch.to(a.device), target.to(a.device), places

    @torch.no_grad()
    def evaluate(sentences):
        model.eval()
        order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i][0]))
        predicted = [[]] * len(sentences)
        for start in range(0, len(order), 64):
            rows = order[start : start + 64]
            batch, _, places = encode([sentences[i] for i in rows])
            with autocast:
                best = model(**batch).logits.argmax(-1).tolist()
            for i, numbers, place in zip(rows, best, places, strict=True):
                predicted[i] = ["O" if p is None else labels[numbers[p]] for p in place]
        return scores([tags for _, tags in sentences], predicted)

    optimizer = torch.optim.AdamW(model.parameters(), lr=a.lr, weight_decay=0.0, eps=1e-6)
    steps = a.epochs * -(-len(data["train"]) // a.batch_size)
    schedule = None
    if a.warmup or a.decay:
        schedule = get_linear_schedule_with_warmup(
            optimizer, round(a.warmup * steps), steps if a.decay else 10**12
        )
    history, best, began = [], None, time.monotonic()
    for epoch in range(1, a.epochs + 1):
        model.train()
        rows = random.sample(data["train"], len(data["train"]))
        size = 50 * a.batch_size
        pools = [rows[i : i + size] for i in range(0, len(rows), size)]
        pools = [sorted(pool, key=lambda one: sum(map(len, one[0]))) for pool in pools]
        batches = [p[i : i + a.batch_size] for p in pools for i in range(0, len(p), a.batch_size)]
        for part in random.sample(batches, len(batches)):
            batch, target, _ = encode(part)
            with autocast:
                loss = model(**batch, labels=target).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if schedule:
                schedule.step()
        history.append({"epoch": epoch} | evaluate(data["dev"]))
        print(f"seed {a.seed}  {history[-1]}  {time.monotonic() - began:.0f} s", flush=True)
        if history[-1]["f1"] == max(row["f1"] for row in history):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    found = evaluate(data["test"])
    print(f"seed {a.seed}  test of the best epoch {found}")
    if a.out:
        a.out.write_text(json.dumps({"dev": history, "test": found, "args": vars(a)}, default=str))


if __name__ == "__main__":
    main()
