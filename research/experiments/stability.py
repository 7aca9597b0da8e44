"""Fine-tune a classifier on few labels, with the choices that make such runs differ.

    python research/experiments/stability.py --train few.csv --dev dev.csv --out one
    python research/experiments/stability.py … --uncorrected --warmup 0.1
    python research/experiments/stability.py … --seed 3 --order_seed 1

Zhang et al. (2021) and Mosbach et al. (2021) found what makes fine-tuning fail: AdamW without its
bias correction (--uncorrected, as BERT's own code had it), few epochs, no warm-up. Dodge et al.
(2020) seed the head and the order of the data apart, as --seed and --order_seed do here. The rate
always decays to 0. DIR/metrics.json has the accuracy on dev after the last epoch, and every epoch's
norms of the gradients by layer. A run takes a minute: it is not resumed, its model is not kept.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import training.threads  # noqa: F401, before torch

# isort: split
import torch
from torch import nn
from torch.nn import functional as F

from classifier import Data, model_eval, new_model, read_data
from optimizer import AdamW
from training.acceleration import accelerate
from training.cli.arguments import (
    OneLineParser,
    check_seed,
    positive_float,
    positive_int,
    probability,
)
from training.cli.flags import add_fields, flag
from training.cli.scripts import run_script
from training.files.hub import default_model
from training.files.writing import check_writable, write_json
from training.loop.batches import TrainingLoader, evaluation_loader, micro_batches
from training.loop.devices import autocast_for, keep_freed_memory, pick_device
from training.loop.schedule import linear_factor, set_learning_rates
from utils import seed_everything


@dataclass
class StabilityFlags:
    """The command line's options, and what classifier.py asks of them."""

    train: str = flag("", required=True, help="tab-separated id, sentence, label")
    dev: str = flag("", required=True, help="its dev file")
    out: str = flag("", required=True, metavar="DIR", help="metrics.json goes there")
    model: str | None = flag(None, help="name or folder of the pretrained BERT")
    seed: int = flag(11711, type=int, help="of the head's first weights")
    order_seed: int | None = flag(
        None, type=int, help="of the batches' order and of dropout (as --seed)"
    )
    epochs: int = flag(3, type=positive_int)
    batch_size: int = flag(16, type=positive_int)
    lr: float = flag(5e-5, type=positive_float)
    warmup: float = flag(0.0, type=probability, help="share of the steps with rising lr")
    uncorrected: bool = flag(False, action="store_true", help="no bias correction in AdamW")
    hidden_dropout_prob: float = flag(0.1, type=probability, help="before the head")
    use_gpu: bool = flag(False, action="store_true", help="CUDA, or Apple's MPS")
    precision: str = flag("auto", choices=("auto", "fp32", "bf16"), help="of matrix products")
    option: str = "finetune"
    num_labels: int | None = None


def layer_of(name: str) -> str:
    """Where a parameter is: 'bert.bert_layers.0.out_dense.bias' → 'layer 1'."""
    parts = name.split(".")
    if parts[0] != "bert":
        return "head"
    if parts[1] == "bert_layers":
        return f"layer {int(parts[2]) + 1}"
    return "pooler" if parts[1] == "pooler_dense" else "embeddings"


def gradient_norms(model: nn.Module) -> Counter[str]:
    """The length of the gradient in each layer: the root of all its squares."""
    squares: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            squares[layer_of(name)] += torch.linalg.vector_norm(parameter.grad).item() ** 2
    return Counter({layer: square**0.5 for layer, square in squares.items()})


def train(args: StabilityFlags, data: Data) -> dict:
    """Fine-tune, and measure after every epoch; → what metrics.json keeps of the run."""
    device = pick_device(args.use_gpu)
    autocast = autocast_for(device, args.precision)
    seed_everything(args.seed)
    model, _ = new_model(args, data.num_labels)
    model.to(device)
    order_seed = args.seed if args.order_seed is None else args.order_seed
    seed_everything(order_seed)
    loader = TrainingLoader(data.train, args.batch_size, order_seed)
    dev_loader = evaluation_loader(data.dev, args.batch_size)
    optimizer = AdamW(model.parameters(), lr=args.lr, correct_bias=not args.uncorrected)
    accelerate(model, optimizer, [data.train])

    steps = args.epochs * len(loader)
    step, losses, norms = 0, [], {}
    model.train()
    for epoch in range(1, args.epochs + 1):
        loader.set_epoch(epoch)
        loss_sum, norm_sums = 0.0, Counter()
        for batch in loader:
            ((ids, mask, labels),) = micro_batches(batch, 1, device)
            with autocast():
                logits = model(ids, mask)  # (B, L), (B, L) → (B, num_labels)
            loss = F.cross_entropy(logits.float(), labels)
            loss.backward()
            loss_sum += loss.item()
            norm_sums.update(gradient_norms(model))
            set_learning_rates(optimizer, linear_factor(step, steps, args.warmup, decay=True))
            optimizer.step()
            optimizer.zero_grad()
            step += 1
        losses.append(loss_sum / len(loader))
        for layer, total in norm_sums.items():
            norms.setdefault(layer, []).append(float(f"{total / len(loader):.3g}"))
        print(f"epoch {epoch}: loss {losses[-1]:.3f}")
    with autocast():
        dev_acc = model_eval(dev_loader, model, device)[0]
    print(f"dev accuracy {dev_acc:.3f}")
    labels = Counter(label for _, label, _ in data.dev)
    return {
        "dev_acc": dev_acc,  # the last epoch's, which no look at dev has chosen
        "majority": labels.most_common(1)[0][1] / labels.total(),  # of dev, as an accuracy
        "losses": [round(loss, 4) for loss in losses],
        "norms": norms,  # by layer, each epoch's mean over steps
    }


def get_args(arguments: Sequence[str] | None = None) -> StabilityFlags:
    """Read and check the command line."""
    parser = OneLineParser(
        prog="research/experiments/stability.py", description="Fine-tune on few labels."
    )
    add_fields(parser, StabilityFlags)
    args = parser.parse_args(arguments, namespace=StabilityFlags())
    check_seed(parser, args.seed)
    check_seed(parser, args.order_seed or 0)
    return args


def main() -> None:
    """One run."""
    args = get_args()
    args.model = args.model or default_model()
    data = read_data(args, ("train", "dev"))
    check_writable(args.out)
    keep_freed_memory()
    start = time.perf_counter()
    best = train(args, data)
    seconds = time.perf_counter() - start
    write_json(Path(args.out) / "metrics.json", {"best": best, "seconds": seconds})


if __name__ == "__main__":
    run_script(main)
