"""What the hardware does: the device, the precision of matrix products, memory."""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from training.files.errors import InputError

try:
    import resource
except ImportError:  # Windows
    resource = None

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's numbers, malloc.h


def pick_device(use_gpu: bool) -> torch.device:
    """CUDA, else Apple's MPS, if asked for; the CPU otherwise. Says which."""
    keep_freed_memory()
    accelerator = None
    if torch.cuda.is_available():
        accelerator = torch.device("cuda")
    elif torch.backends.mps.is_available():
        accelerator = torch.device("mps")
    if use_gpu and accelerator is None:
        print("device: cpu (--use_gpu was given, but torch sees neither CUDA nor MPS here)")
    elif use_gpu:
        print(f"device: {accelerator.type}")
    elif accelerator is not None:
        print(f"device: cpu (a {accelerator.type} device is here: --use_gpu would use it)")
    if use_gpu and accelerator is not None:
        return accelerator
    return torch.device("cpu")


def keep_freed_memory() -> None:
    """On Linux: keep freed blocks of up to 64 MB for the next step, rather than return them.

    By default glibc maps each block above 32 MB again, and the word embedding's gradient is one:
    the system would hand out, and zero, its pages in every step, an eighth of a small step's time.
    """
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # another libc may not have it
        if set_option:
            set_option(M_MMAP_THRESHOLD, 64 << 20)
            set_option(M_TRIM_THRESHOLD, 512 << 20)


def peak_memory(device: torch.device) -> float | None:
    """The most memory held so far, in MB: on CUDA that of tensors, else that of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def computes_bf16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16 matrices natively, not by emulation."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return False


def autocast_for(device: torch.device, precision: str) -> Callable[[], AbstractContextManager]:
    """The context of forward passes: ``with autocast(): logits = model(ids, mask)``.

    Args:
        precision: 'fp32'; 'bf16' for matrix products in bfloat16, with parameters, softmax,
            LayerNorm and optimizer in float32; 'auto' for bf16 where the hardware has it.
    """
    bf16 = precision == "bf16" or (precision == "auto" and computes_bf16(device))
    return lambda: torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16)


def compile_encoder(model: nn.Module, args: Any, steps: int, graphs: bool = True) -> None:
    """What --compile does; see training/loop/compiling.py, which is imported only then."""
    compiling = importlib.import_module("training.loop.compiling")
    compiling.compile_encoder(model, args, steps, graphs)


def speed_up(model: nn.Module, optimizer: Optimizer | None = None) -> None:
    """What --fast does: PyTorch's kernels in place of the code that one reads; says which.

    The package training/fast is imported here, and only here: without --fast, what is read runs.

    Raises:
        InputError: this copy of the repository has no training/fast, as the students' have none.
    """
    try:
        fast = importlib.import_module("training.fast")
    except ModuleNotFoundError:
        raise InputError(
            "--fast: training/fast is not in this copy, since it solves tasks; leave --fast out"
        ) from None
    replaced = fast.replace_by_kernels(model, optimizer)
    print(f"--fast: {'; '.join(replaced)}")
