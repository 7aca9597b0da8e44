"""The recipe of lessons/token_classifier.py written with transformers, to compare F1 with.

    python -P /PATH/TO/research/benchmarks/token_recipe.py --data DIR --model MODEL --seed 0

recipe.py says how to start it. DIR holds WikiANN's train, dev and test. Entities are counted by
seqeval's conditions. Words that the tokenizer gives no token, or that --length
cuts off, count as tagged O, as in ours. Prints dev scores of every epoch, and those of the best
epoch on test.
"""

import random
import re
import sys
from pathlib import Path

import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

sys.path.append(str(Path(__file__).resolve().parent))

from recipe import fine_tune, new_parser, write_scores

Sentence = tuple[list[str], list[str]]  # words, tags


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
    entities, begin, before, kind_before = set(), 0, "O", ""
    for i, tag in enumerate([*tags, "O"]):
        now, _, kind = tag.partition("-")
        if before != "O" and (now in "BO" or kind != kind_before):
            entities.add((kind_before, begin, i - 1))
        if now == "B" or (now == "I" and (before == "O" or kind != kind_before)):
            begin = i
        before, kind_before = now, kind
    return entities


def scores(gold: list[list[str]], predicted: list[list[str]]) -> dict[str, float]:
    """Micro-averaged precision, recall and F1 of entities."""
    pairs = [(chunks(a), chunks(b)) for a, b in zip(gold, predicted, strict=True)]
    right = sum(len(a & b) for a, b in pairs)
    true, claimed = (max(1, sum(len(pair[i]) for pair in pairs)) for i in (0, 1))
    values = right / claimed, right / true, 2 * right / (true + claimed)
    return dict(zip(("precision", "recall", "f1"), values, strict=True))


class Encoder:
    """Sentences as padded batches, with a label at the first token of each word."""

    def __init__(self, tokenizer, labels: list[str], length: int, device: str):
        self.tokenizer, self.labels = tokenizer, labels
        self.length, self.device = length, device

    def __call__(self, sentences: list[Sentence]):
        """A batch, its labels (−100 elsewhere), and the place of each word's first token."""
        batch = self.tokenizer([words for words, _ in sentences], is_split_into_words=True,
                               padding=True, truncation=True, max_length=self.length,
                               return_tensors="pt")  # fmt: skip
        target = torch.full_like(batch["input_ids"], -100)
        places = []
        for row, (words, tags) in enumerate(sentences):
            place = [None] * len(words)
            for position, word in reversed(list(enumerate(batch.word_ids(row)))):
                if word is not None:
                    place[word] = position
            places.append(place)
            for word, position in enumerate(place):
                if position is not None and tags[word] in self.labels:
                    target[row, position] = self.labels.index(tags[word])
        return batch.to(self.device), target.to(self.device), places


def main() -> None:
    """Fine-tune and print scores."""
    parser = new_parser(batch_size=32, epochs=3)
    parser.add_argument("--data", required=True, type=Path, help="folder of train, dev and test")
    parser.add_argument("--length", type=int, default=128)
    a = parser.parse_args()
    random.seed(a.seed)
    torch.manual_seed(a.seed)
    data = {name: read(a.data / name, a.limit) for name in ("train", "dev", "test")}
    types = sorted({tag[2:] for _, tags in data["train"] for tag in tags if tag != "O"})
    labels = ["O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI")]
    model = AutoModelForTokenClassification.from_pretrained(a.model, num_labels=len(labels))
    model.to(a.device)
    encode = Encoder(AutoTokenizer.from_pretrained(a.model), labels, a.length, a.device)

    def loss_of(sentences: list[Sentence]) -> torch.Tensor:
        batch, target, _ = encode(sentences)
        return model(**batch, labels=target).loss

    def evaluate(split: str) -> dict[str, float]:
        sentences = data[split]
        order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i][0]))
        predicted: list[list[str]] = [[]] * len(sentences)
        for start in range(0, len(order), 64):
            rows = order[start : start + 64]
            batch, _, places = encode([sentences[i] for i in rows])
            best = model(**batch).logits.argmax(-1).tolist()
            for i, numbers, place in zip(rows, best, places, strict=True):
                predicted[i] = ["O" if p is None else labels[numbers[p]] for p in place]
        return scores([tags for _, tags in sentences], predicted)

    def words(sentence: Sentence) -> int:
        return len(sentence[0])

    history = fine_tune(a, model, data["train"], words, loss_of, lambda: evaluate("dev"), best="f1")
    with torch.no_grad():
        test = evaluate("test")
    print(f"seed {a.seed}  test of the best epoch {test}")
    write_scores(a, dev=history, test=test)


if __name__ == "__main__":
    main()
