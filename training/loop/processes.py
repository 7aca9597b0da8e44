"""Several processes, started by torchrun: each computes its share of every batch.

``torch.nn.parallel.DistributedDataParallel`` is not used: it averages the gradients of the
processes where a batch's rows want their sum, it waits forever for a process that a small batch
leaves without rows, and it does not see heads that are called beside ``forward``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from training.files.errors import InputError

# ---------------------------------------------------------------------------------------------
# Which process this is


def world_size() -> int:
    """How many processes train together: 1, unless torchrun started more and they have joined."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this one is: 0, 1 …"""
    return dist.get_rank() if world_size() > 1 else 0


def is_main_process() -> bool:
    """Whether this is the process that prints and writes: the only one, or number 0."""
    return rank() == 0


def on_main_process(work: Callable[[], Any]) -> Any:
    """What ``work`` gives in the first process, in all of them; an InputError is all's, too."""
    result, fault = None, None
    if is_main_process():
        try:
            result = work()
        except InputError as error:
            fault = str(error)
    result, fault = broadcast_from_main((result, fault))
    if fault is not None:
        raise InputError(fault)
    return result


def join_processes(use_gpu: bool) -> None:
    """Let the processes that torchrun started find each other; nothing to do without torchrun.

    Tensors on CUDA go through NCCL, each process has a device of its own; all else through gloo.
    From here on only the first one prints.
    """
    if not (dist.is_available() and dist.is_torchelastic_launched()) or dist.is_initialized():
        return
    on_gpu = use_gpu and torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # the first one may tokenize a large corpus while the others wait
    # plain values go through gloo in any case: through NCCL they would wait for the device
    backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
    dist.init_process_group(backend, timeout=timedelta(hours=12))
    if is_main_process():
        print(f"processes: {world_size()} train together")
    else:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")


def leave_processes(error: str = "") -> None:
    """End a process that has joined others, without Python's own end; nothing to do for any other.

    Gloo's threads may still run while Python takes itself down, even where the group was left
    before, and C++ then ends the process with "terminate called", after all the work was done.

    Args:
        error: what the first process says; the exit status of all is then 1.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    if error and is_main_process():
        print(error, file=sys.stderr)
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if error else 0)


# ---------------------------------------------------------------------------------------------
# What they tell each other


def broadcast_parameters(model: nn.Module) -> None:
    """In several processes: the first one's parameters in all, dropout of its own in each."""
    if world_size() > 1:
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)
        if not is_main_process():
            torch.manual_seed(torch.initial_seed() + rank())


def all_reduce_gradients(model: nn.Module) -> None:
    """After the backward passes of a step: the sum of all processes' gradients, in each of them.

    A parameter that had a gradient in no process is left without one, as it would be in one.
    """
    if world_size() == 1:
        return
    learning = [p for p in model.parameters() if p.requires_grad]
    has_gradient = zip(*gather([p.grad is not None for p in learning]), strict=True)
    learning = [p for p, flags in zip(learning, has_gradient, strict=True) if any(flags)]
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
    together = torch.cat([grad.flatten() for grad in grads])  # one message, not hundreds
    dist.all_reduce(together)
    for p, grad in zip(learning, together.split([p.numel() for p in learning]), strict=True):
        p.grad = grad.view_as(p)


def gather(value: Any) -> list[Any]:
    """The plain values of all processes, in the order of their ranks, in each of them."""
    values = [value] * world_size()
    if world_size() > 1:
        dist.all_gather_object(values, value)
    return values


def any_process(flag: bool) -> bool:
    """Whether the flag is set in any process; all have to ask."""
    return any(gather(flag))


def broadcast_from_main(value: Any) -> Any:
    """A plain value as the first process has it, so that all decide alike."""
    return gather(value)[0]
