"""Several processes, started by torchrun: each computes its share of every batch.

``torch.nn.parallel.DistributedDataParallel`` is not used: it averages the gradients of the
processes where a batch's rows want their sum, it waits forever for a process that a small batch
leaves without rows, and it does not see heads that are called beside ``forward``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from utils import first_process, process_count, process_number


def broadcast_parameters(model: nn.Module) -> None:
    """In several processes: the first one's parameters in all, dropout of its own in each."""
    if process_count() > 1:
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)
        if not first_process():
            torch.manual_seed(torch.initial_seed() + process_number())


def all_reduce_gradients(model: nn.Module) -> None:
    """After the backward passes of a step: the sum of all processes' gradients, in each of them.

    A parameter that had a gradient in no process is left without one, as it would be in one.
    """
    if process_count() == 1:
        return
    learning = [p for p in model.parameters() if p.requires_grad]
    used = _all_reduce(torch.tensor([float(p.grad is not None) for p in learning]))
    learning = [p for p, times in zip(learning, used.tolist(), strict=True) if times]
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
    together = torch.cat([grad.flatten() for grad in grads])  # one message, not hundreds
    dist.all_reduce(together)
    for p, grad in zip(learning, together.split([p.numel() for p in learning]), strict=True):
        p.grad = grad.view_as(p)


def all_reduce_numbers(numbers: Sequence[float]) -> list[float]:
    """The sum of all processes' numbers, in double precision."""
    if process_count() == 1:
        return list(numbers)
    return _all_reduce(torch.tensor(numbers, dtype=torch.float64)).tolist()


def any_process(flag: bool) -> bool:
    """Whether the flag is set in any process; all have to ask."""
    return flag if process_count() == 1 else bool(_all_reduce(torch.tensor([float(flag)])).item())


def from_first(value: Any) -> Any:
    """A plain value as the first process has it, so that all decide alike."""
    if process_count() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def _all_reduce(numbers: Tensor) -> Tensor:
    """The sum over all processes of a small tensor on the CPU."""
    numbers = numbers.to("cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.all_reduce(numbers)
    return numbers.cpu()
