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
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode

from checks.errors import attempt
from checks.graded_tasks import GradedTask
from checks.part1.references import add_norm_modules, inputs_of, load_references, student_model
from checks.part1.runners import student_classifier
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
        # tensors without numbers cannot be moved into a module
        with torch.device(OTHER), mock.patch.object(nn.Module, "to", lambda self, *_: self):
            copies = {
                name: torch.empty(tensor.shape, dtype=tensor.dtype)
                for name, tensor in references.items()
            }
            run = attempt(CALLS[entry.id], copies) if entry.id in CALLS else None
        with SameDevice():
            error = attempt(run) if callable(run) else None
        place = place_of(error) if isinstance(error, BaseException) else None
        if place is None or MESSAGE not in str(error):
            return ""
        return sentence(place)


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


def of_attention(references: dict[str, Tensor]) -> Callable[[], Any]:
    """Task 1.1, ready to be called."""
    module = student_model(references).bert_layers[0].self_attention.train()
    stored = inputs_of("bert.attention", references)
    return lambda: module.attention(stored.key, stored.query, stored.value, stored.mask)


def of_add_norm(references: dict[str, Tensor]) -> Callable[[], Any]:
    """Task 1.2, ready to be called."""
    layer = student_model(references).bert_layers[0].train()
    stored = inputs_of("bert.add_norm", references)
    modules = add_norm_modules(layer, "attention").values()
    return lambda: layer.add_norm(stored.input, stored.attended, *modules)


def of_layer(references: dict[str, Tensor]) -> Callable[[], Any]:
    """Task 1.3, ready to be called, without attention and add_norm."""
    layer = student_model(references).bert_layers[0].train()
    stored = inputs_of("bert.layer", references)
    layer.self_attention.attention = lambda *_, **__: stored.hidden
    layer.add_norm = lambda *_, **__: stored.hidden
    return lambda: layer(stored.hidden, stored.mask)


def of_embed(references: dict[str, Tensor]) -> Callable[[], Any]:
    """Task 1.4, ready to be called."""
    model = student_model(references).train()
    return lambda: model.embed(inputs_of("bert.embed", references).ids)


def of_step(references: dict[str, Tensor]) -> Callable[[], Any]:
    """Task 1.5, ready to be called."""
    parameter = nn.Parameter(torch.empty(3, 2))
    parameter.grad = torch.empty(3, 2)
    return importlib.import_module("optimizer").AdamW([parameter], weight_decay=0.01).step


def of_classifier(references: dict[str, Tensor]) -> Callable[[], Any]:
    """Task 1.7, ready to be called, without BERT."""
    model, encoder, _ = student_classifier(references, "finetune")
    stored = inputs_of("classifier.forward", references)
    names = ("last_hidden_state", "pooler_output")
    encoder.forward = lambda *_, **__: {name: getattr(stored, name) for name in names}
    return lambda: model.train()(stored.input_ids, stored.attention_mask)


CALLS: dict[str, Callable[[dict[str, Tensor]], Callable[[], Any]]] = {
    "bert.attention": of_attention,
    "bert.add_norm": of_add_norm,
    "bert.layer": of_layer,
    "bert.embed": of_embed,
    "optimizer.step": of_step,
    "classifier.forward": of_classifier,
}
