"""Our sentiment recipe written with Hugging Face's transformers, to compare accuracies with.

    python -P research/benchmarks/transformers_recipe.py --data DIR --model NAME_OR_FOLDER --seed 0

Prints the dev accuracy of every epoch and the best. Texts are batched by length, as ours are. -P
keeps our datasets.py from shadowing a library that transformers looks for.
Needs: pip install -r requirements-dev.txt
"""

import argparse
import random

import pandas as pd
import torch
from transformers import AutoTokenizer, BertForSequenceClassification


def main() -> None:
    """Fine-tune (or, with --frozen, train the head alone) and print accuracies."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="folder of ids-sst-train.csv and -dev.csv")
    parser.add_argument("--model", required=True, help="folder or name of the pretrained BERT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    a = parser.parse_args()

    # The recipe
    random.seed(a.seed)
    torch.manual_seed(a.seed)
    train, dev = (pd.read_csv(f"{a.data}/ids-sst-{s}.csv", sep="\t") for s in ("train", "dev"))
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    model = BertForSequenceClassification.from_pretrained(
        a.model, num_labels=5, classifier_dropout=a.dropout
    )
    model.bert.requires_grad_(not a.frozen)
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=a.lr, weight_decay=0.0, eps=1e-6
    )
    accuracies = []
    for _ in range(a.epochs):
        model.train()
        rows = train.sample(frac=1, random_state=random.randrange(2**32))
        pools = [rows[i : i + 50 * a.batch_size] for i in range(0, len(rows), 50 * a.batch_size)]
        pools = [pool.loc[pool.sentence.str.len().sort_values().index] for pool in pools]
        parts = [p[i : i + a.batch_size] for p in pools for i in range(0, len(p), a.batch_size)]
        for part in random.sample(parts, len(parts)):
            batch = tokenizer(list(part.sentence), padding=True, truncation=True, max_length=512,
                              return_tensors="pt")  # fmt: skip
            with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
                loss = model(**batch, labels=torch.tensor(part.sentiment.values)).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        right = 0
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
            for start in range(0, len(dev), 64):
                part = dev[start : start + 64]
                batch = tokenizer(list(part.sentence), padding=True, truncation=True,
                                  max_length=512, return_tensors="pt")  # fmt: skip
                predicted = model(**batch).logits.argmax(-1)
                right += (predicted == torch.tensor(part.sentiment.values)).sum().item()
        accuracies.append(right / len(dev))
        print(f"seed {a.seed}  epoch {len(accuracies)}  dev {accuracies[-1]:.4f}", flush=True)
    print(f"seed {a.seed}  best dev {max(accuracies):.4f}")


if __name__ == "__main__":
    main()
