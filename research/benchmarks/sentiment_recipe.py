"""Our sentiment recipe written with transformers, to compare accuracies with.

    python -P /PATH/TO/research/benchmarks/sentiment_recipe.py --data DIR --model MODEL --seed 0

recipe.py says how to start it. Prints the dev accuracy of every epoch.
"""

import random
import sys
from pathlib import Path

import pandas as pd
import torch
from transformers import AutoTokenizer, BertForSequenceClassification

sys.path.append(str(Path(__file__).resolve().parent))

from recipe import fine_tune, new_parser, write_scores


def main() -> None:
    """Fine-tune (or, with --frozen, train the head alone) and print accuracies."""
    parser = new_parser(batch_size=32, epochs=3)
    parser.add_argument("--data", required=True, help="folder of ids-sst-train.csv and -dev.csv")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--frozen", action="store_true")
    a = parser.parse_args()
    random.seed(a.seed)
    torch.manual_seed(a.seed)
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    model = BertForSequenceClassification.from_pretrained(
        a.model, num_labels=5, classifier_dropout=a.dropout
    ).to(a.device)
    model.bert.requires_grad_(not a.frozen)
    train, dev = (
        list(pd.read_csv(f"{a.data}/ids-sst-{split}.csv", sep="\t")[["sentence", "sentiment"]]
             .itertuples(index=False, name=None))[: a.limit]
        for split in ("train", "dev")
    )  # fmt: skip

    def outputs(rows: list[tuple[str, int]]):
        texts, labels = zip(*rows, strict=True)
        batch = tokenizer(list(texts), padding=True, truncation=True, max_length=512,
                          return_tensors="pt")  # fmt: skip
        return model(**batch.to(a.device), labels=torch.tensor(labels, device=a.device))

    def evaluate() -> dict[str, float]:
        parts = [dev[start : start + 64] for start in range(0, len(dev), 64)]
        predicted = [label for part in parts for label in outputs(part).logits.argmax(-1).tolist()]
        right = sum(one == label for one, (_, label) in zip(predicted, dev, strict=True))
        return {"accuracy": right / len(dev)}

    def characters(row: tuple[str, int]) -> int:
        return len(row[0])

    history = fine_tune(
        a, model, train, characters, lambda rows: outputs(rows).loss, evaluate, best="accuracy"
    )
    write_scores(a, dev=history)


if __name__ == "__main__":
    main()
