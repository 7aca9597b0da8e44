"""Whether a function would run on a GPU, where tensors that it makes itself may be on the CPU.

It runs on tensors that have shapes, types and a device, but no numbers: no GPU is needed. What such
a run cannot do, as a condition on a number, ends it, and nothing is said.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode, fake_tensor
from torch.overrides import TorchFunctionMode

from checks.errors import attempt
from checks.graded_tasks import GradedTask
from checks.part1 import runners
from checks.part1.references import load_references
from checks.traces import Place, place_of, quoted

OTHER = "meta"  # stands for the GPU
MESSAGE = "be on the same device"  # of errors


class SameDevice(TorchFunctionMode):
    """While active, nn.Embedding wants its ids where its table is; without numbers it would not."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        tensors = [part for part in (*args, *(kwargs or {}).values()) if isinstance(part, Tensor)]
        if func.__name__ == "embedding" and len({tensor.device for tensor in tensors}) > 1:
            raise RuntimeError(f"all tensors should {MESSAGE}")
        return func(*args, **kwargs or {})


def two_devices(entry: GradedTask) -> str:
    """Where the function meets tensors of two devices, in words; "" if it does not."""
    references = load_references(torch.float32)
    with torch.random.fork_rng(devices=[]), FakeTensorMode():
        with torch.device(OTHER):
            copies = {k: torch.empty(x.shape, dtype=x.dtype) for k, x in references.items()}
        made = ("student_model", "student_classifier")
        there = {name: on_other(vars(runners)[name]) for name in made}
        there["change"] = unchanged  # how much padding changes cannot be computed
        # a module cannot be converted without numbers
        with (
            mock.patch.multiple(runners, **there),
            mock.patch.object(nn.Module, "to", unchanged),
            mock.patch.object(fake_tensor.log, "disabled", True),
            SameDevice(),
        ):
            error = attempt(RUNS[entry.id], copies) if entry.id in RUNS else None
        place = place_of(error) if isinstance(error, BaseException) else None
        return sentence(place) if place and MESSAGE in str(error) else ""


def on_other(make: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes a model, on the other device."""

    def made(*args: Any) -> Any:
        with torch.device(OTHER):
            return make(*args)

    return made


def unchanged(first: Any, *_: Any, **__: Any) -> Any:
    """In place of what would change its first argument."""
    return first


def run_step(_: dict[str, Tensor]) -> None:
    """Task 1.5 on one parameter."""
    with torch.device(OTHER):
        parameter = nn.Parameter(torch.empty(3, 2))
        parameter.grad = torch.empty(3, 2)
    importlib.import_module("optimizer").AdamW([parameter], weight_decay=0.01).step()


RUNS = runners.RUNS | {"optimizer.step": run_step}


def sentence(place: Place) -> str:
    """What is said of the line that failed."""
    file = place.frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    values = {quoted(part): place.value(part) for part in place.operands()}
    on_cpu = [
        name
        for name, value in values.items()
        if isinstance(value, Tensor) and value.device.type == "cpu"
    ]
    which = f": there {', '.join(on_cpu)} would still be on the CPU" if on_cpu else ""
    return (
        f"on a GPU {quoted(place.node)} ({file}:{place.line}) would fail{which}. A new tensor is "
        "made on the CPU unless you say where: device=x.device, or zeros_like(x)"
    )
