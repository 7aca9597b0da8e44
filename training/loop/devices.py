"""What the hardware does: the device, the number of threads, the precision of matrix products."""

import ctypes
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

LOAD = Path("/proc/loadavg")
REFERENCE = "cpu"  # the kind of device that others are compared with


def pick_device(use_gpu: bool) -> torch.device:
    """CUDA, else Apple's MPS, if asked for; the CPU otherwise. Says which."""
    keep_freed_memory()
    take_idle_cores()
    has_mps = torch.backends.mps.is_available()
    kind = "cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu"
    if use_gpu and kind == "cpu":
        print("device: cpu (--use_gpu was given, but torch sees neither CUDA nor MPS here)")
    elif use_gpu:
        print(f"device: {kind}")
    elif kind != "cpu":
        print(f"device: cpu (a {kind} device is here: --use_gpu would use it)")
    return torch.device(kind if use_gpu else "cpu")


def keep_freed_memory() -> None:
    """On Linux: keep freed blocks of up to 256 MB for the next step, rather than return them.

    Otherwise the system zeroes those above 32 MB, such as the word embedding's gradient, in every
    step: an eighth of a small step's time.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option:
        set_option(-3, 256 << 20)  # M_MMAP_THRESHOLD
        set_option(-1, 512 << 20)  # M_TRIM_THRESHOLD


@cache  # once a process: training and testing compute alike
def take_idle_cores() -> None:
    """Compute with as many threads as there are idle cores: all cores less the load average.

    Next to a busy program one thread too many is slower than one thread: in every matrix product
    all others wait for it. If fewer threads run right now than the average says, that counts.
    """
    before = torch.get_num_threads()
    if LOAD.is_file():
        average, *_, running, _ = LOAD.read_text().split()
        busy = min(float(average), int(running.split("/")[0]) - 1)  # without this thread
        set_threads(max(1, min(before, (os.cpu_count() or 1) - round(busy))))
    if torch.get_num_threads() < before:
        print(f"threads: {torch.get_num_threads()} of {before}, since other programs compute, too")


def set_threads(count: int) -> None:
    """Compute with that many threads, unless the user has chosen another number."""
    if "OMP_NUM_THREADS" not in os.environ and "MKL_NUM_THREADS" not in os.environ:
        torch.set_num_threads(count)


def has_bf16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16 matrices itself, not by emulation."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    is_fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return device.type == "cpu" and is_fast


def half_type(device: torch.device, precision: str) -> torch.dtype | None:
    """The type of matrix products of 16 bits; None for float32. See autocast_for."""
    if precision == "auto":
        other = "fp16" if device.type == "cuda" else "fp32"
        precision = "bf16" if has_bf16(device) else other
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def autocast_for(device: torch.device, precision: str) -> Callable[[], AbstractContextManager]:
    """The context of forward passes: ``with autocast(): logits = model(ids, mask)``.

    Args:
        precision: 'fp32'; 'bf16' or 'fp16' for matrix products in that type, with parameters,
            softmax, LayerNorm and optimizer in float32; 'auto' for bf16 where the hardware has it,
            for fp16 on other GPUs with CUDA.
    """
    dtype = half_type(device, precision)
    return lambda: torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)


def unscale(scaler: torch.amp.GradScaler, optimizer: Optimizer) -> None:
    """Divide gradients by the factor of the loss, if fp16 has one (Micikevicius et al. 2018, 3.2).

    An infinite one drops them all, so that the optimizer's step changes nothing, and halves the
    factor, which 2,000 steps without such a case double.
    """
    if scaler.is_enabled():
        factor = scaler.get_scale()
        scaler.unscale_(optimizer)
        scaler.update()
        if scaler.get_scale() < factor:
            optimizer.zero_grad()


# What only some runs use is in files that others do not import
def check_device(args: Any, model: nn.Module, datasets: Mapping[str, Any]) -> None:
    """On a GPU: compare a pass of the model with the CPU's; see training/loop/device_check.py."""
    if next(model.parameters()).device.type != REFERENCE and not args.trust_device:
        importlib.import_module("training.loop.device_check").check_device(args, model, datasets)


def speed_up(model: nn.Module, optimizer: Optimizer | None = None) -> None:
    """What --fast does: PyTorch's kernels in place of the code that one reads; says which."""
    fast = importlib.import_module("training.fast")
    print(f"--fast: {'; '.join(fast.replace_by_kernels(model, optimizer))}")
