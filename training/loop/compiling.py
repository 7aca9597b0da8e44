"""--compile: BERT's encoder by torch.compile, at a few padded lengths, on CUDA as one graph.

torch.compile makes code for one shape of its inputs, and for another again. Batches have many
lengths; so they are padded further, to one of LENGTHS. On CUDA all kernels of a pass are then
launched at once (CUDA graphs), where a CPU would take longer to launch them than a GPU to compute.
This file does not know about heads and losses, which stay as they are read.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.files.errors import first_line
from training.loop.processes import rank, world_size
from training.loop.progress import minutes

LENGTHS = (32, 64, 96, 128, 192, 256, 384, 512)
FEWEST_STEPS = 500  # of a run that is compiled: the start takes as long as hundreds of steps


def compile_encoder(model: nn.Module, args: Any, steps: int, graphs: bool = True) -> None:
    """Compile the encoder of ``model`` for training, or say why it stays as it is.

    Evaluation computes as it would without: every shape would have to be compiled again for it.

    Args:
        model: one with ``bert``, on its device.
        args: batch_size and accumulate, from which follows how many rows a micro-batch has.
        steps: how long the run is.
        graphs: False where gradients of several backward passes are kept: CUDA graphs would
            overwrite them.
    """
    device = next(model.parameters()).device
    reason, seconds = None, 0.0
    if steps < FEWEST_STEPS:
        reason = f"it does not pay in a run of {steps:,} steps, only from about {FEWEST_STEPS} on"
    elif not any(parameter.requires_grad for parameter in model.bert.parameters()):
        reason = "it would speed up BERT, which is frozen"
    else:
        reason, seconds = trial(device)
    if reason:
        print(f"--compile: left out, since {reason}")
        return
    longest = model.bert.config.max_position_embeddings
    shapes = len({padded_length(length, longest) for length in range(1, longest + 1)})
    start = seconds * (1 + len(model.bert.bert_layers))  # two layers took three times a trial
    print(
        f"--compile: the first step at each of up to {shapes} padded lengths takes about "
        f"{minutes(start)} (a trial took {minutes(seconds)})"
    )
    torch._dynamo.config.suppress_errors = True  # what cannot be compiled runs as it is
    torch._dynamo.config.recompile_limit = 4 * len(LENGTHS)
    has_graphs = device.type == "cuda" and graphs and args.accumulate == 1
    mode = "reduce-overhead" if has_graphs else None
    rows = math.ceil(len(range(rank(), args.batch_size, world_size())) / args.accumulate)
    plain = model.bert.encode
    compiled = torch.compile(plain, dynamic=False, mode=mode)
    model.bert.encode = padded(plain, compiled, max(1, rows), longest)


def trial(device: torch.device) -> tuple[str | None, float]:
    """Compile a small function: → why that is impossible here, or None; the seconds it took."""
    began = time.monotonic()
    try:
        torch.compile(lambda x: x.exp() + 1)(torch.ones(8, device=device))
    except Exception as error:  # whatever a compiler may miss
        return f"torch cannot compile here ({first_line(error)})", 0.0
    return None, time.monotonic() - began


def padded_length(length: int, longest: int) -> int:
    """The length that a batch is padded to: the next of LENGTHS, or all positions."""
    i = bisect_left(LENGTHS, length)
    return min(LENGTHS[i], longest) if i < len(LENGTHS) else longest


def padded(
    plain: Callable[[Tensor, Tensor], Tensor],
    compiled: Callable[[Tensor, Tensor], Tensor],
    rows: int,
    longest: int,
) -> Callable[[Tensor, Tensor], Tensor]:
    """A BERT's ``encode`` that pads training batches and gives them to the compiled one.

    A batch that is no multiple of ``rows``, as an epoch's last one, takes the plain one: which of
    the two computes follows from the batch alone, so that a resumed run takes the same.
    """

    def encode(hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
        """All layers in turn: (B, L, D) and a mask (B, L) of 1 and 0 → (B, L, D)."""
        if not torch.is_grad_enabled() or len(hidden_states) % rows:
            return plain(hidden_states, attention_mask)
        length = hidden_states.shape[1]
        missing = padded_length(length, longest) - length
        if missing:
            hidden_states = F.pad(hidden_states, (0, 0, 0, missing))
            attention_mask = F.pad(attention_mask, (0, missing))
        return compiled(hidden_states, attention_mask)[:, :length]

    return encode
