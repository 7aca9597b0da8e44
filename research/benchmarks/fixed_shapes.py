"""Training in a few fixed shapes, so that a GPU can record the step of each and replay it.

A GPU computes a step of a small model faster than Python asks for its hundreds of kernels. A CUDA
graph asks for all at once (https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs). Each
replay reads and writes the same memory, so inputs have a fixed shape, and nothing in a step may
wait for a number. Hence AdamW is PyTorch's, with ε inside the bias correction, and ``capturable``.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pretraining.masking import IGNORED, MASKED
from pretraining.model import ROWS
from training.loop.batches import to_device

MULTIPLE = 16  # of tokens: lengths are rounded up


def padded(rows: int, ids: Tensor, mask: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A batch (B, L), (B, L), (B,) with that many rows, and columns up to a multiple.

    The rows that are added have no label, which cross_entropy leaves out.
    """
    missing = rows - len(ids)
    more = (0, -ids.size(1) % MULTIPLE, 0, missing)  # columns, rows
    mask = F.pad(mask, more)
    mask[len(ids) :, 0] = 1  # attention needs a token
    return F.pad(ids, more), mask, F.pad(labels, (0, missing), value=IGNORED)


def most_masked(tokens: int) -> int:
    """How many masked ones of so many tokens to compute: 5 standard deviations above the mean."""
    mean = MASKED * tokens
    return math.ceil((mean + 5 * math.sqrt(mean * (1 - MASKED))) / ROWS) * ROWS


def positions_of(labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """That many positions of masked tokens in the flattened (B · L), and their labels: (count,).

    If there are fewer, the rest have no label; if there are more, the last ones are left out.
    """
    flat = labels.flatten()  # (B · L)
    positions = (flat != IGNORED).nonzero()[:count, 0]  # (M,)
    missing = (0, count - len(positions))
    return F.pad(positions, missing), F.pad(flat[positions], missing, value=IGNORED)


def recorded(step: Callable[[], None], pool: object) -> Callable[[], None]:
    """A function that replays a step on the GPU. Recording computes nothing."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, stream=torch.cuda.current_stream()):
        step()
    return graph.replay


def fixed_steps(
    model: nn.Module, loss_of: Callable, lr: float, record: Callable = recorded
) -> Callable[..., Tensor]:
    """A function that takes a batch, updates the model and returns the loss.

    The first batch of a shape is computed as usual, which sets up what a graph must find, such as
    AdamW's state. Then the step is recorded. All calls are on one stream, not CUDA's default one.

    Args:
        loss_of: tensors of a batch → their loss.
        record: makes of a step on fixed inputs a function that repeats it.
    """
    device = next(model.parameters()).device
    on_gpu = device.type == "cuda"
    pool = torch.cuda.graph_pool_handle() if on_gpu else None  # memory of all graphs
    options = {"fused": True, "capturable": on_gpu, "weight_decay": 0.0}
    optimizer = torch.optim.AdamW(model.parameters(), lr, eps=1e-6, **options)
    result = torch.zeros((), device=device)
    replays = {}  # shapes of a batch → tensors that have them, and what repeats the step on these

    def compute(inputs: list[Tensor]) -> None:
        """Forward, backward and update. No gradient is left, so all graphs can share memory."""
        # autocast would keep casts of weights, for longer than the memory of a graph is theirs
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            loss = loss_of(*inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        result.copy_(loss.detach())

    def step(*batch: Tensor) -> Tensor:
        moved = [to_device(tensor, device) for tensor in batch]
        shapes = tuple(tensor.shape for tensor in batch)
        if shapes in replays:
            fixed, replay = replays[shapes]
            for own, tensor in zip(fixed, moved, strict=True):
                own.copy_(tensor)
            replay()
        else:
            fixed = [tensor.clone() for tensor in moved]
            compute(fixed)
            replays[shapes] = fixed, record(partial(compute, fixed), pool)
        return result  # on the device, where the next step overwrites it

    return step
