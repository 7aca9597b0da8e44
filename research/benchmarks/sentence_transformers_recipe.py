"""Sentence pairs with the modules of sentence-transformers, to compare our multitask model with.

    python -P research/benchmarks/sentence_transformers_recipe.py --data DIR --model FOLDER --task sts \
        --encoding cross --seeds 0 1 2 --out sts-cross.json

Tasks are STS (similarity 0 to 5, scored by Pearson's r) and Quora (paraphrases, by accuracy).
Encodings:
    cross   CrossEncoder with one output, on [CLS] a [SEP] b [SEP]
    bi      SentenceTransformer, both sentences alone; with --head linear a linear layer on
            [u; v; |u − v|] (Reimers & Gurevych 2019, figure 1), with --head cosine their cosine
The loss of STS is the mean squared error of sigmoid(output), or of the cosine, from label / 5, that
of Quora the binary cross-entropy. The training loop is ours, since the library's Trainer needs one
more package. Texts are batched by length. Prints the dev score of every epoch; --out keeps every
epoch's dev outputs (a similarity from 0 to 5, or a probability), for a paired bootstrap against
ours. -P keeps our datasets.py from shadowing a library of that name.
Needs: pip install -r requirements-dev.txt
"""

from __future__ import annotations

import random
import sys
from argparse import Namespace
from pathlib import Path

import torch
from scipy.stats import pearsonr
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from datasets import load_pairs
from training.cli.arguments import OneLineParser, positive_float, positive_int, probability
from training.cli.scripts import run_script
from training.files.course_files import data_folder
from training.files.hub import find_model
from training.files.writing import check_writable, write_json
from utils import seed_everything

# Ours is loaded; what the libraries look for later under this name is not ours.
sys.path.pop(0)
del sys.modules["datasets"]

TASKS = {  # label column, largest label, files
    "sts": ("similarity", 5.0, ("sts-train.csv", "sts-dev.csv")),
    "quora": ("is_duplicate", 1.0, ("quora-small-train.csv", "quora-small-dev.csv")),
}
MAX_LENGTH = 512
POOL_BATCHES = 50  # how many batches' worth of shuffled rows are sorted by length together


class Cross(nn.Module):
    """Both sentences through the encoder together."""

    def __init__(self, folder: str, a: Namespace):
        super().__init__()
        self.encoder = CrossEncoder(
            folder, num_labels=1, max_length=MAX_LENGTH, device="cpu",
            config_kwargs={"classifier_dropout": a.dropout},
        )  # fmt: skip

    def forward(self, first: list[str], second: list[str]) -> Tensor:
        """Logits (B,)."""
        features = self.encoder.preprocess(list(zip(first, second, strict=True)))
        return self.encoder(features)["scores"].squeeze(-1)


class Bi(nn.Module):
    """Both sentences through the encoder alone, then a linear layer on [u; v; |u − v|]."""

    def __init__(self, folder: str, a: Namespace):
        super().__init__()
        transformer = Transformer(folder, max_seq_length=MAX_LENGTH)
        size = transformer.get_embedding_dimension()
        modules = [transformer, Pooling(size, pooling_mode=a.pooling)]
        self.encoder = SentenceTransformer(modules=modules, device="cpu")
        self.head = nn.Sequential(nn.Dropout(a.dropout), nn.Linear(3 * size, 1))

    def vectors(self, texts: list[str]) -> Tensor:
        """(B, D)"""
        return self.encoder(self.encoder.preprocess(texts))["sentence_embedding"]

    def forward(self, first: list[str], second: list[str]) -> Tensor:
        """Logits (B,)."""
        u, v = self.vectors(first), self.vectors(second)  # (B, D) each
        return self.head(torch.cat([u, v, (u - v).abs()], dim=-1)).squeeze(-1)


class Cosine(Bi):
    """The same with the cosine of the two vectors instead of the linear layer."""

    def __init__(self, folder: str, a: Namespace):
        super().__init__(folder, a)
        del self.head

    def forward(self, first: list[str], second: list[str]) -> Tensor:
        """Cosines (B,)."""
        return F.cosine_similarity(self.vectors(first), self.vectors(second))


MODELS = {("cross", None): Cross, ("bi", "linear"): Bi, ("bi", "cosine"): Cosine}


def outputs_of(model: nn.Module, logits: Tensor) -> Tensor:
    """From 0 to 1 (a cosine: from −1 to 1), (B,) → (B,)."""
    return logits if isinstance(model, Cosine) else logits.sigmoid()


def batches_by_length(rows: list[tuple], batch_size: int) -> list[list[tuple]]:
    """Shuffled, sorted by length within pools, cut into batches, shuffled again."""
    rows = random.sample(rows, len(rows))
    size = POOL_BATCHES * batch_size
    pools = [sorted(rows[i : i + size], key=characters) for i in range(0, len(rows), size)]
    batches = [p[i : i + batch_size] for p in pools for i in range(0, len(p), batch_size)]
    return random.sample(batches, len(batches))


def characters(row: tuple) -> int:
    """Of both sentences."""
    return len(row[0]) + len(row[1])


def predict(model: nn.Module, rows: list[tuple], a: Namespace) -> list[float]:
    """Outputs in the order of the rows."""
    model.eval()
    order = sorted(range(len(rows)), key=lambda i: -characters(rows[i]))
    found = torch.empty(len(rows))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
        for start in range(0, len(order), a.batch_size):
            part = order[start : start + a.batch_size]
            first, second = zip(*(rows[i][:2] for i in part), strict=True)
            found[part] = outputs_of(model, model(list(first), list(second)).float())
    return found.tolist()


def score(a: Namespace, outputs: list[float], labels: list[float]) -> float:
    """Pearson's r of STS, accuracy of Quora."""
    if a.task == "sts":
        return float(pearsonr(outputs, labels).statistic)
    return sum((out > 0.5) == bool(y) for out, y in zip(outputs, labels, strict=True)) / len(labels)


def train(a: Namespace, seed: int, train_rows: list[tuple], dev_rows: list[tuple]) -> dict:
    """Train once → the scores and dev outputs of every epoch."""
    _, largest, _ = TASKS[a.task]
    seed_everything(seed)
    model = MODELS[a.encoding, a.head](str(find_model(a.model)), a)
    optimizer = torch.optim.AdamW(model.parameters(), lr=a.lr, weight_decay=0.0, eps=1e-6)
    run: dict = {"seed": seed, "scores": [], "outputs": []}
    for epoch in range(1, a.epochs + 1):
        model.train()
        for batch in batches_by_length(train_rows, a.batch_size):
            first, second, labels, _ = zip(*batch, strict=True)
            targets = torch.tensor(labels, dtype=torch.float32) / largest  # (B,)
            with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
                logits = model(list(first), list(second))  # (B,)
            if a.task == "sts":
                loss = F.mse_loss(outputs_of(model, logits.float()), targets)
            else:
                loss = F.binary_cross_entropy_with_logits(logits.float(), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        outputs = predict(model, dev_rows, a)
        run["scores"].append(score(a, outputs, [row[2] for row in dev_rows]))
        run["outputs"].append([largest * output for output in outputs])
        print(f"seed {seed}  epoch {epoch}  dev {run['scores'][-1]:.4f}", flush=True)
    print(f"seed {seed}  best dev {max(run['scores']):.4f}")
    return run


def get_args() -> Namespace:
    """Read and check the command line."""
    parser = OneLineParser(
        prog="sentence_transformers_recipe.py", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("--data", help="folder of the course files ($MINBERT_DATA does the same)")
    add("--model", help="name or folder of the pretrained BERT")
    add("--task", choices=tuple(TASKS), required=True)
    add("--encoding", choices=("cross", "bi"), required=True)
    add("--head", choices=("linear", "cosine"), help="of bi: linear unless given")
    add("--pooling", choices=("mean", "cls", "max"), help="of bi: mean unless given")
    add("--seeds", type=int, nargs="+", default=[0])
    add("--lr", type=positive_float, default=5e-5)
    add("--batch_size", type=positive_int, default=32)
    add("--epochs", type=positive_int, default=3)
    add("--dropout", type=probability, default=0.3, help="before the linear head")
    add("--rows", type=positive_int, help="train and score on the first rows only, to try it out")
    add("--bf16", action="store_true")
    add("--out", help="JSON file of scores and dev outputs")
    a = parser.parse_args()
    if a.encoding == "cross" and (a.head or a.pooling):
        parser.error("--head and --pooling belong to --encoding bi")
    if a.encoding == "bi":
        a.head, a.pooling = a.head or "linear", a.pooling or "mean"
    if a.head == "cosine" and a.task == "quora":
        parser.error("--head cosine has no probabilities; --task quora takes --head linear")
    return a


def main() -> None:
    """Train with every seed and write the outputs."""
    a = get_args()
    label, _, files = TASKS[a.task]
    folder = data_folder(a.data, probe=files[0])
    rows = [load_pairs(folder / file, "rows", label)[: a.rows] for file in files]
    if a.out:
        check_writable(Path(a.out).parent)
    runs = [train(a, seed, *rows) for seed in a.seeds]
    if a.out:
        dev = {"ids": [row[3] for row in rows[1]], "labels": [row[2] for row in rows[1]]}
        write_json(a.out, {"args": vars(a), **dev, "runs": runs})


if __name__ == "__main__":
    run_script(main)
