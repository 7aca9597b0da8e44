"""Several processes, started by torchrun: each computes its rows of every batch.

Gradients are summed by hand: ``DistributedDataParallel`` averages them, waits forever for a process
without rows of a small batch, and sees no method of a model but ``forward``.
"""

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from training.files.errors import InputError


def world_size() -> int:
    """How many processes train together: 1, unless torchrun started more and they have joined."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """The number of this process: 0, 1 …"""
    return dist.get_rank() if world_size() > 1 else 0


def is_main_process() -> bool:
    """Whether this is the process that prints and writes: the only one, or number 0."""
    return rank() == 0


def join_processes(use_gpu: bool) -> None:
    """Let the processes that torchrun started find each other; from then on only 0 prints."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    on_gpu = use_gpu and torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"  # plain values need not wait for a GPU
    dist.init_process_group(backend, timeout=timedelta(hours=12))  # tokenizing may take long
    if not is_main_process():
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    print(f"processes: {world_size()} train together")


def leave_processes(code: int) -> None:
    """End one of several processes, without Python's own end: gloo's threads may outlive that."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def gather(value: Any) -> list[Any]:
    """The plain values of all processes, in the order of their ranks, in each of them."""
    values = [value] * world_size()
    if world_size() > 1:
        dist.all_gather_object(values, value)
    return values


def on_main_process(work: Callable[[], Any]) -> Any:
    """What ``work`` returns in the first process, in all of them; so is an InputError of it."""
    try:
        result = work() if is_main_process() else None
    except InputError as error:
        result = error
    result = gather(result)[0]
    if isinstance(result, InputError):
        raise result
    return result


def sum_gradients(model: nn.Module) -> None:
    """Sum the gradients of all processes, in each.

    A parameter that had a gradient in no process is left without one, as it would be in one.
    """
    if world_size() == 1:
        return
    learning = [p for p in model.parameters() if p.requires_grad]
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
    counts = grads[0].new_tensor([p.grad is not None for p in learning])
    together = torch.cat([counts, *map(torch.flatten, grads)])  # one message, not hundreds
    dist.all_reduce(together)
    sums = together[len(counts) :].split([p.numel() for p in learning])
    for p, total, count in zip(learning, sums, together[: len(counts)].tolist(), strict=True):
        p.grad = total.view_as(p) if count else None
