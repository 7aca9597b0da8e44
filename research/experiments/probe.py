"""A linear probe: BERT stays as it is, and a logistic regression reads the mean of its vectors.

    python research/experiments/probe.py --model books --train train.csv --dev dev.csv --out one

What such a classifier can tell was in the vectors already (Alain & Bengio 2016). Nothing is random,
and nothing is chosen on dev.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import training  # noqa: F401, before torch

# isort: split
import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bert import BertModel
from datasets import SentenceClassificationDataset, load_data
from extensions.features.pooling import pool
from training.cli.flags import OneLineParser, add_fields, flag, positive_int, seed
from training.cli.scripts import run_script
from training.files.hub import default_model
from training.files.writing import check_writable, write_json
from training.loop.batches import evaluation_loader
from training.loop.devices import autocast_for, pick_device, speed_up


@dataclass
class ProbeFlags:
    """The command line's options."""

    train: str = flag("", required=True, help="tab-separated id, sentence, label")
    dev: str = flag("", required=True, help="its dev file")
    out: str = flag("", required=True, metavar="DIR", help="metrics.json goes there")
    model: str | None = flag(None, help="name or folder of the pretrained BERT")
    seed: int = flag(11711, type=seed, help="changes nothing; run.py passes one")
    batch_size: int = flag(32, type=positive_int)
    use_gpu: bool = flag(False, action="store_true", help="CUDA, or Apple's MPS")
    precision: str = flag("auto", choices=("auto", "fp32", "bf16"), help="of matrix products")


@torch.no_grad()
def encode(model: BertModel, rows: Sequence[tuple], args: ProbeFlags) -> np.ndarray:
    """The mean of each sentence's vectors, in the order of the rows: (N, D)."""
    device = next(model.parameters()).device
    autocast = autocast_for(device, args.precision)
    numbered = [(text, label, number) for number, (text, label, _) in enumerate(rows)]
    vectors = np.empty((len(rows), model.config.hidden_size), dtype=np.float32)
    for batch in evaluation_loader(SentenceClassificationDataset(numbered, args), args.batch_size):
        ids, mask = batch["token_ids"].to(device), batch["attention_mask"].to(device)  # (B, L)
        with autocast():
            output = model(ids, mask)
        vectors[batch["sent_ids"]] = pool(output, mask, "mean").float().cpu()  # (B, D)
    return vectors


def measure(args: ProbeFlags) -> dict[str, float]:
    """The accuracy on dev."""
    train, dev = (load_data(path, "dev") for path in (args.train, args.dev))
    model = BertModel.from_pretrained(args.model).to(pick_device(args.use_gpu))
    speed_up(model)
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    probe.fit(encode(model, train, args), [label for _, label, _ in train])
    return {"dev_acc": float(probe.score(encode(model, dev, args), [row[1] for row in dev]))}


def main() -> None:
    """Probe one model."""
    parser = OneLineParser(prog="research/experiments/probe.py", description="A linear probe.")
    add_fields(parser, ProbeFlags)
    args = parser.parse_args(namespace=ProbeFlags())
    args.model = args.model or default_model()
    check_writable(args.out)
    start = time.perf_counter()
    best = measure(args)
    print(f"dev accuracy {best['dev_acc']:.3f}")
    write_json(
        Path(args.out) / "metrics.json", {"best": best, "seconds": time.perf_counter() - start}
    )


if __name__ == "__main__":
    run_script(main)
