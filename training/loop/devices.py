"""What the hardware does: the device, the precision of matrix products, memory."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from training.files.errors import InputError, first_line

try:
    import resource
except ImportError:  # Windows
    resource = None

CORE_TIMES = Path("/proc/stat")
CORE_LIMIT = Path("/sys/fs/cgroup/cpu.max")  # microseconds of CPU in each period
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's numbers, malloc.h


def pick_device(use_gpu: bool) -> torch.device:
    """CUDA, else Apple's MPS, if asked for; the CPU otherwise. Says which."""
    keep_freed_memory()
    take_idle_cores()
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


# ---------------------------------------------------------------------------------------------
# Threads


def set_threads(count: int) -> None:
    """Compute with that many threads, unless it is 0 or the user has chosen another number."""
    is_chosen = "OMP_NUM_THREADS" in os.environ or "MKL_NUM_THREADS" in os.environ
    if count and not is_chosen and hasattr(os, "sched_getaffinity"):
        torch.set_num_threads(min(count, len(os.sched_getaffinity(0))))


@cache  # once a process: training and testing compute alike
def take_idle_cores() -> None:
    """Compute with as many threads as there are idle cores, at least one; say so if it is fewer.

    Next to a busy program one thread too many is slower than one thread: in every matrix product
    all others wait for it. Where /proc/stat is missing, the number stays as it is.
    """
    before = torch.get_num_threads()
    if before == 1 or not CORE_TIMES.is_file():
        return
    idle = idle_cores()
    set_threads(min(before, max(1, idle)))
    if torch.get_num_threads() < before:
        print(
            f"threads: {torch.get_num_threads()} of {before}; idle cores: {idle} "
            f"(OMP_NUM_THREADS={before} uses all)"
        )


def idle_cores() -> int:
    """How many of this process's cores are idle, at most as many as its container may use.

    The best of three looks of a tenth of a second: what another program does for a moment is not
    load. A core whose times do not go on, as where a sandbox hides them, counts as idle.
    """
    cores, best = os.sched_getaffinity(0), 0
    for _ in range(3):
        before = core_times()
        time.sleep(0.1)
        after, idle = core_times(), 0.0
        for core in cores & before.keys() & after.keys():
            idle_ticks = after[core][0] - before[core][0]
            ticks = after[core][1] - before[core][1]
            idle += idle_ticks / ticks if ticks else 1.0
        best = max(best, round(idle))
        if best >= len(cores):
            break
    limit = CORE_LIMIT.read_text() if CORE_LIMIT.is_file() else "max"
    if not limit.startswith("max"):
        quota, period = map(int, limit.split())
        best = min(best, max(1, quota // period))
    return best


def core_times() -> dict[int, tuple[int, int]]:
    """Of every core how long it was idle, and all its time, since the system's start."""
    times = {}
    for line in CORE_TIMES.read_text().splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name != "cpu":  # which is their sum
            idle, waiting_for_disk = int(ticks[3]), int(ticks[4])
            times[int(name[3:])] = idle + waiting_for_disk, sum(map(int, ticks[:8]))
    return times


# ---------------------------------------------------------------------------------------------
# Memory and faults


def device_fault(error: RuntimeError) -> str | None:
    """What to do about memory that is full, or a GPU that was lost, in a line; None for others."""
    text, reason = str(error), first_line(error)
    full = ("out of memory", "can't allocate memory", "ALLOC_FAILED")
    kept = "--resume goes on from the last resume point, if the run has written one"
    if isinstance(error, torch.OutOfMemoryError) or any(words in text for words in full):
        return (
            f"the memory is full ({reason}); give a smaller --batch_size, or the same in more "
            f"parts with --accumulate; {kept}"
        )
    # an assertion in a kernel is a fault of the program, such as a label beyond the last class
    is_lost = "CUDA error" in text and "device-side assert" not in text
    return f"the GPU was lost ({reason}); {kept}" if is_lost else None


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


def computes_fp16(device: torch.device) -> bool:
    """Whether the hardware multiplies float16 matrices fast; CUDA does from Volta (7.0) on."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (7, 0)
    return device.type == "mps" or torch.ops.mkldnn._is_mkldnn_fp16_supported()


def widest(device: torch.device) -> torch.dtype:
    """The type for sums: float64, which MPS does not have."""
    return torch.float32 if device.type == "mps" else torch.float64


def half_type(device: torch.device, precision: str) -> torch.dtype | None:
    """The type of matrix products of 16 bits; None for float32. See autocast_for.

    Raises:
        InputError: fp16 on hardware that does not multiply it.
    """
    if precision == "auto":
        precision = "bf16" if computes_bf16(device) else "fp32"
        if precision == "fp32" and device.type == "cuda" and computes_fp16(device):
            precision = "fp16"
    elif precision == "fp16" and not computes_fp16(device):
        raise InputError(
            f"--precision fp16: this {device.type} does not multiply in float16; take auto instead"
        )
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def autocast_for(device: torch.device, precision: str) -> Callable[[], AbstractContextManager]:
    """The context of forward passes: ``with autocast(): logits = model(ids, mask)``.

    Args:
        precision: 'fp32'; 'bf16' or 'fp16' for matrix products in that type, with parameters,
            softmax, LayerNorm and optimizer in float32; 'auto' for bf16 where the hardware has it,
            for fp16 on a GPU that has only that.
    """
    dtype = half_type(device, precision)
    return lambda: torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)


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
