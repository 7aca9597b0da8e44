"""Whether a function would run on a GPU, where tensors that it makes itself may be on the CPU.

It runs on tensors that have shapes, types and a device, but no numbers: no GPU is needed. What such
a run cannot do, as a condition on a number, ends it, and nothing is said.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode, fake_tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from checks.errors import attempt
from checks.part1 import runs
from checks.references import load_references
from checks.traces import Place, place_of, quoted

OTHER = "meta"  # stands for the GPU
MESSAGE = "be on the same device"  # of errors


class PretendedGPU(TorchFunctionMode):
    """While active, "cuda" is the other device, and nn.Embedding wants its ids on its own."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        args, kwargs = tree_map(here, (args, kwargs or {}))
        if func.__name__ == "embedding" and len({x.device for x in args[:2]}) > 1:
            raise RuntimeError(f"all tensors should {MESSAGE}")
        return args[0].to(OTHER) if func is Tensor.cuda else func(*args, **kwargs)


def here(value: Any) -> Any:
    """A value of a call, or the other device in the place of a GPU."""
    is_gpu = isinstance(value, str | torch.device) and str(value).startswith("cuda")
    return torch.device(OTHER) if is_gpu else value


def two_devices(task_id: str) -> str:
    """Where a function of part 1 meets tensors of two devices, in words; "" if it does not."""
    references = load_references(torch.float32)
    there = {name: on_other(vars(runs)[name]) for name in ("student_model", "student_classifier")}
    copies = {name: tensor.to(OTHER) for name, tensor in references.items()}
    with mock.patch.multiple(runs, **there):
        return device_clash(lambda: RUNS[task_id](copies))


def device_clash(run: Callable[[], Any]) -> str:
    """Where a run, of which nothing is computed, meets tensors of two devices, in words; or ""."""
    with (
        torch.random.fork_rng(devices=[]),
        FakeTensorMode(allow_non_fake_inputs=True),  # there are those of a model made before
        mock.patch.object(fake_tensor.log, "disabled", True),
        contextlib.redirect_stdout(io.StringIO()),  # it was printed by the run before
        warnings.catch_warnings(action="ignore"),
        mock.patch.object(torch.cuda, "is_available", return_value=True),
        PretendedGPU(),
    ):
        error = attempt(run)
        place = place_of(error) if isinstance(error, BaseException) else None
        return sentence(place) if place and MESSAGE in str(error) else ""


def on_other(make: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes a model, on the other device; it cannot be converted there."""

    def made(*args: Any) -> Any:
        to = mock.patch.object(nn.Module, "to", lambda module, *_, **__: module)
        with torch.device(OTHER), to:
            return make(*args)

    return made


def run_step(_: dict[str, Tensor]) -> None:
    """Task 1.5 on one parameter."""
    parameter = nn.Parameter(torch.empty(3, 2, device=OTHER))
    parameter.grad = torch.empty(3, 2, device=OTHER)
    importlib.import_module("optimizer").AdamW([parameter], weight_decay=0.01).step()


RUNS = {task_id: task.run for task_id, task in runs.TASKS.items()} | {"optimizer.step": run_step}


def sentence(place: Place) -> str:
    """What is said of the line that failed."""
    values = {quoted(part): place.value(part) for part in place.operands()}
    on_cpu = [name for name, x in values.items() if isinstance(x, Tensor) and x.is_cpu]
    which = f": there {', '.join(on_cpu)} would still be on the CPU" if on_cpu else ""
    return (
        f"on a GPU {quoted(place.node)} ({Path(place.frame.f_code.co_filename).name}:{place.line}) "
        f"would fail{which}. A new tensor is made on the CPU unless you say where: "
        "device=x.device, or zeros_like(x)"
    )
