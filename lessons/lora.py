r"""LoRA: from the full update of fine-tuning to one of low rank, in numbers (Hu et al. 2022).

    python -m lessons.lora                                   what learns, and memory, at bert-base
    python -m lessons.lora --rank 4 --batch_size 32 --length 128
    python -m lessons.lora --checkpoint sst-classifier.pt    what rank has a full update?

The first lays out BERT with each way of fine-tuning a part of it, counts the numbers that learn and
adds up what a training step keeps in memory; it computes nothing, and needs no weights. The last
takes a classifier that classifier.py --option finetune trained, cuts what fine-tuning did to each
matrix down to rank r, and measures the accuracy on dev that is left. docs/lora.md explains it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from bert import BertModel
from classifier import load_model, model_eval
from config import BertConfig
from datasets import SentenceClassificationDataset, load_data
from extensions.parameters.lora import add_lora, linears
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.course_files import data_folder
from training.files.errors import InputError
from training.loop.batches import evaluation_loader
from training.loop.progress import progress_bar

NUMBER = 4  # bytes of a float32
MEGABYTE = 2**20
LINEAR = ("query", "key", "value", "attention_dense", "interm_dense", "out_dense")
RANKS = (0, 1, 2, 4, 8, 16, 32, 64)


def ways(rank: int) -> dict[str, Callable[[BertModel], object]]:
    """Each way of fine-tuning by its name: a function that prepares a BERT."""
    return {
        "all of it": lambda bert: None,
        "LoRA, r = 1, query and value": partial(add_lora, rank=1),
        f"LoRA, r = {rank}, query and value": partial(add_lora, rank=rank),
        f"LoRA, r = {rank}, all matrices": partial(add_lora, rank=rank, targets=LINEAR),
        "nothing: a head alone": lambda bert: bert.requires_grad_(False),
    }


def learning(model: nn.Module) -> int:
    """The number of parameters that learn."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def kept_for_backward(bert: BertModel, batch_size: int, length: int) -> int:
    """Bytes that a forward pass keeps for the backward pass, the model's own tensors left out."""
    own = {tensor.untyped_storage()._cdata for tensor in (*bert.parameters(), *bert.buffers())}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()._cdata
        if storage not in own:
            kept[storage] = tensor  # kept alive, so that its storage stays its own
        return tensor

    ids = bert.position_ids.new_zeros(batch_size, length)  # (B, L)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = bert(ids, torch.ones_like(ids))["pooler_output"]
    del output
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def print_table(config: BertConfig, rank: int, batch_size: int, length: int) -> None:
    """For each way, print the numbers that learn and the megabytes of a training step."""
    print(f"MB of memory in a step on {batch_size} texts of {length} tokens, in float32\n")
    print(
        f"{'what learns':31} {'numbers':>11} {'of all':>8}  weights  grad+avg  activations    sum"
    )
    for name, prepare in ways(rank).items():
        with torch.device("meta"):  # shapes without numbers: nothing is computed
            bert = BertModel(config).train()
            whole = learning(bert)
            prepare(bert)
        weights = NUMBER * sum(p.numel() for p in bert.parameters()) / MEGABYTE
        step = 3 * NUMBER * learning(bert) / MEGABYTE  # gradient, and AdamW's two averages
        kept = kept_for_backward(bert, batch_size, length) / MEGABYTE
        print(
            f"{name:31} {learning(bert):11,} {learning(bert) / whole:8.3%}  {weights:7.0f}"
            f"  {step:8.1f}  {kept:11.0f}  {weights + step + kept:5.0f}"
        )


class Update:
    """What fine-tuning did to a matrix: ΔW = W_after − W_before = U S V.

    Args:
        before, after: (D_out, D_in).
    """

    def __init__(self, before: Tensor, after: Tensor):
        self.before = before
        u, self.sizes, self.v = torch.linalg.svd(after - before, full_matrices=False)
        self.us = u * self.sizes  # (D_out, K), (K,), (K, D_in), K = min(D_out, D_in)

    def at_rank(self, rank: int) -> Tensor:
        """W_before and the nearest matrix of that rank to ΔW (Eckart & Young 1936)."""
        return self.before + self.us[:, :rank] @ self.v[:rank]

    def fraction(self, rank: int) -> float:
        """The fraction of ‖ΔW‖² that this matrix keeps; 1 for an update of 0."""
        squares = self.sizes.square()
        return float(squares[:rank].sum() / squares.sum()) if squares.any() else 1.0


def updates_of(before: BertModel, after: BertModel) -> dict[str, Update]:
    """The update of every matrix of the encoder."""
    first = dict(linears(before.bert_layers))
    return {
        name: Update(first[name].weight.detach(), linear.weight.detach())
        for name, linear in progress_bar(linears(after.bert_layers), "singular values")
    }


@torch.no_grad()
def cut(bert: BertModel, updates: dict[str, Update], rank: int) -> None:
    """Give the encoder's matrices their updates at that rank; the rest stays fine-tuned."""
    for name, linear in linears(bert.bert_layers):
        linear.weight.copy_(updates[name].at_rank(rank))


def study(checkpoint: str, dev: str) -> None:
    """Print the fraction of the updates and the dev accuracy by rank, for a classifier."""
    device = torch.device("cpu")
    model, config = load_model(checkpoint, device)
    if config.option != "finetune":
        raise InputError(f"{checkpoint} was trained with --option pretrain: BERT never moved")
    before = BertModel.from_pretrained(config.model)
    rows = SentenceClassificationDataset(load_data(dev, "dev", config.num_labels), config)
    loader = evaluation_loader(rows, 32)
    full = model_eval(loader, model, device)[0]
    updates = updates_of(before, model.bert)
    kinds = sorted({name.rpartition(".")[2] for name in updates}, key=LINEAR.index)
    print("fraction of ‖ΔW‖² at rank r, mean over the layers, and dev accuracy at that rank")
    print("   r  " + "".join(f"{kind:>16}" for kind in kinds) + "   accuracy")
    for rank in RANKS:
        cut(model.bert, updates, rank)
        accuracy = model_eval(loader, model, device)[0]
        print(f"{rank:4d}  ", end="")
        for kind in kinds:
            fractions = [u.fraction(rank) for name, u in updates.items() if name.endswith(kind)]
            print(f"{sum(fractions) / len(fractions):16.3f}", end="")
        print(f"  {accuracy:9.3f}", flush=True)
    print(f"full  {'':{16 * len(kinds)}}  {full:9.3f}")


def main() -> None:
    """Print one of the two tables."""
    parser = OneLineParser(description="From full to low-rank updates.")
    add = parser.add_argument
    add("--rank", type=positive_int, default=8)
    add("--batch_size", type=positive_int, default=16)
    add("--length", type=positive_int, default=64, help="tokens of a text, at most 512")
    add("--checkpoint", metavar="FILE", help="of classifier.py --option finetune")
    add("--data_dir", help="folder of the course files ($MINBERT_DATA does the same)")
    args = parser.parse_args()
    if args.checkpoint:
        study(args.checkpoint, str(data_folder(args.data_dir) / "ids-sst-dev.csv"))
        return
    if args.length > 512:
        parser.error("--length must be at most 512, BERT's positions")
    print_table(BertConfig(), args.rank, args.batch_size, args.length)


if __name__ == "__main__":
    run_script(main)
