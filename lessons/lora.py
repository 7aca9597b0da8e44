"""What LoRA saves, in numbers that learn and in memory, at bert-base's size (Hu et al. 2022).

    python -m lessons.lora
    python -m lessons.lora --rank 4

Lays out BERT with each way of fine-tuning a part of it, counts the numbers that learn and adds up
what a training step keeps in memory. It computes nothing, and needs no weights. docs/lora.md
explains it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from bert import BertModel
from config import BertConfig
from extensions.parameters.lora import add_lora
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script

BATCH_SIZE, LENGTH = 16, 64  # of the step: texts, and tokens of each
NUMBER = 4  # bytes of a float32
MEGABYTE = 2**20
LINEAR = ("query", "key", "value", "attention_dense", "interm_dense", "out_dense")


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


def kept_for_backward(bert: BertModel) -> int:
    """Bytes that a forward pass keeps for the backward pass, the model's own tensors left out."""
    own = {tensor.untyped_storage()._cdata for tensor in (*bert.parameters(), *bert.buffers())}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()._cdata
        if storage not in own:
            kept[storage] = tensor  # kept alive, so that its storage stays its own
        return tensor

    ids = bert.position_ids.new_zeros(BATCH_SIZE, LENGTH)  # (B, L)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = bert(ids, torch.ones_like(ids))["pooler_output"]
    del output
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def print_table(config: BertConfig, rank: int) -> None:
    """For each way, print the numbers that learn and the megabytes of a training step."""
    print(f"MB of memory in a step on {BATCH_SIZE} texts of {LENGTH} tokens, in float32\n")
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
        kept = kept_for_backward(bert) / MEGABYTE
        print(
            f"{name:31} {learning(bert):11,} {learning(bert) / whole:8.3%}  {weights:7.0f}"
            f"  {step:8.1f}  {kept:11.0f}  {weights + step + kept:5.0f}"
        )


def main() -> None:
    """Print the table."""
    parser = OneLineParser(description="What LoRA saves, at bert-base.")
    parser.add_argument("--rank", type=positive_int, default=8)
    print_table(BertConfig(), parser.parse_args().rank)


if __name__ == "__main__":
    run_script(main)
