"""What a plain run never enters: --compile, fp16's loss scaling, --tensorboard."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from training.files.errors import InputError, first_line
from training.loop.processes import rank, world_size

LENGTHS = (32, 64, 96, 128, 192, 256, 384, 512)  # code is made for each shape: so few of them
FEWEST_STEPS = 500  # of a run that is compiled: the start takes as long as hundreds of steps


def compile_encoder(model: nn.Module, args: Any, steps: int, graphs: bool = True) -> None:
    """Compile the encoder for training, or say why not; ``graphs``: CUDA graphs, where possible."""
    bert, device = model.bert, next(model.parameters()).device
    if steps < FEWEST_STEPS:
        print(f"--compile: left out, since it pays from about {FEWEST_STEPS} steps on")
        return
    try:
        torch.compile(lambda x: x.exp() + 1)(torch.ones(8, device=device))
    except Exception as error:  # whatever a compiler may miss
        print(f"--compile: left out, since torch cannot compile here ({first_line(error)})")
        return
    print(f"--compile: the first step at each of {len(LENGTHS)} padded lengths takes long")
    torch._dynamo.config.suppress_errors = True  # what cannot be compiled runs as it is
    torch._dynamo.config.recompile_limit = 4 * len(LENGTHS)
    has_graphs = device.type == "cuda" and graphs and args.accumulate == 1
    plain, mode = bert.encode, "reduce-overhead" if has_graphs else None
    compiled = torch.compile(plain, dynamic=False, mode=mode)
    rows = math.ceil(len(range(rank(), args.batch_size, world_size())) / args.accumulate)

    def encode(hidden_states: Tensor, attention_mask: Tensor) -> Tensor:  # (B, L, D), (B, L)
        if not torch.is_grad_enabled() or len(hidden_states) % max(1, rows):
            return plain(hidden_states, attention_mask)  # evaluation; an epoch's last batch
        length = hidden_states.shape[1]
        padded = min([n for n in LENGTHS if length <= n] + [bert.config.max_position_embeddings])
        hidden_states = F.pad(hidden_states, (0, 0, 0, padded - length))
        return compiled(hidden_states, F.pad(attention_mask, (0, padded - length)))[:, :length]

    bert.encode = encode


def unscale(scaler: torch.amp.GradScaler, optimizer: Optimizer) -> None:
    """Take the factor of the loss off the gradients; drop them all if one is infinite.

    Without gradients the optimizer's step changes nothing. The factor is then halved, and after
    2,000 steps without such a case doubled (Micikevicius et al. 2018, section 3.2).
    """
    factor = scaler.get_scale()
    scaler.unscale_(optimizer)
    scaler.update()
    if scaler.get_scale() < factor:
        optimizer.zero_grad()


def new_board(folder: str, steps_file: Path, step: int) -> Any:
    """TensorBoard's writer; later steps than ``step``, of a run that was resumed, are dropped."""
    try:
        from torch.utils.tensorboard import SummaryWriter  # not everybody has the package
    except ImportError:
        raise InputError("--tensorboard needs a package: pip install tensorboard") from None
    name = steps_file.stem.removesuffix("steps").rstrip("-") or steps_file.parent.name
    return SummaryWriter(str(Path(folder) / name), purge_step=step + 1)
