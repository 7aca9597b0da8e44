"""What a wrong add_norm or layer, Tasks 1.2 and 1.3, does, as measured."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from checks.fixed_dropout import FixedDropout
from checks.part1.data_flow import Call, Flow, Trace
from checks.part1.measuring import (
    Cause,
    dropout_facts,
    matters,
    multiple,
    norm_facts,
    scale_facts,
)
from checks.part1.references import add_norm_modules
from checks.part1.stand_ins import STAND_INS

WEIGHTED = ("dense_layer", "ln_layer")


def frame(model: nn.Module, stored: SimpleNamespace) -> tuple[Callable[..., Tensor], dict]:
    """The student's add_norm as a function, whose arguments by name have stored defaults.

    They are those after the feed-forward network, or, if it fails with them, after attention; what
    has weights is a copy, so that it is seen whether the layer's own are used instead.
    """
    layer = model.bert_layers[0]

    def call(**changed: Any) -> Tensor:
        values = [changed.get(name, default) for name, default in inputs.items()]
        result = layer.add_norm(*(v.clone() if isinstance(v, Tensor) else v for v in values))
        if result.shape != stored.input.shape:
            raise ValueError("the check itself reports shapes and types")
        return result

    for place, output in (("feed-forward", stored.expanded), ("attention", stored.attended)):
        inputs = {"input": stored.input, "output": output} | add_norm_modules(layer, place)
        inputs |= {name: copy.deepcopy(inputs[name]) for name in WEIGHTED}
        try:
            call()
            break
        except Exception:
            if place == "attention":
                raise
    return call, inputs


def silent(dense: nn.Linear) -> nn.Linear:
    """A linear layer of the same shape that gives 0."""
    quiet = copy.deepcopy(dense)
    nn.init.zeros_(quiet.weight)
    nn.init.zeros_(quiet.bias)
    return quiet


def frame_modules(model, stored, correct) -> Iterator[str]:
    """Which modules have an effect, of those that are passed in and of the layer's own."""
    call, inputs = frame(model, stored)
    for name in WEIGHTED:
        if not matters(inputs[name], call):
            yield Cause(
                f"the {name} that is passed in has no effect on the result: its weight and bias "
                "are not used, or what it gives is not"
            )
    for name, module in model.bert_layers[0].named_children():
        if matters(module, call):
            yield Cause(f"self.{name} has an effect on the result, though it was not passed in")


def frame_sum(model, stored, correct) -> Iterator[str]:
    """Whether both tensors arrive in the sum, once, and the sum is normalised."""
    call, inputs = frame(model, stored)
    if not all(matters(inputs[name], call) for name in WEIGHTED):
        return
    dense, nothing = inputs["dense_layer"], nn.Identity()
    factor = multiple(call(dense_layer=silent(dense), ln_layer=nothing), stored.input)
    if factor != "1 times that":
        yield (
            "with a dense_layer that gives 0 and an ln_layer that changes nothing the result "
            f"should be `input`, but it is {factor}"
        )
    zero, made = torch.zeros_like(stored.input), dense(inputs["output"])
    factor = multiple(call(input=zero, ln_layer=nothing), made)
    if factor != "1 times that":
        yield (
            "with an `input` of 0 and an ln_layer that changes nothing the result should be what "
            f"dense_layer makes of `output`, but it is {factor}"
        )


def frame_norm(model, stored, correct) -> Iterator[str]:
    """Whether what comes out is normalised."""
    call, inputs = frame(model, stored)
    if matters(inputs["ln_layer"], call):
        yield from norm_facts(call(ln_layer=nn.LayerNorm(stored.input.size(-1))))


def frame_dropout(model, stored, correct) -> Iterator[str]:
    """When dropout acts, and on which part of the sum."""
    call, inputs = frame(model, stored)
    if not all(matters(inputs[name], call) for name in WEIGHTED):
        return
    wrong_mode = list(dropout_facts(model, call))
    yield from wrong_mode
    zero, nothing = torch.zeros_like(stored.input), nn.Identity()
    with FixedDropout():
        of_input = call(dense_layer=silent(inputs["dense_layer"]), ln_layer=nothing)
        of_output = call(input=zero, ln_layer=nothing)
    if ((of_input == 0) & (stored.input != 0)).any() and of_input.any():
        yield "in training mode dropout sets numbers of `input` to 0"
    if wrong_mode:
        return
    model.eval()
    evaluated, kept = call(input=zero, ln_layer=nothing), of_output != 0
    if not of_output.isfinite().all():
        return
    if kept.all():
        yield "in training mode no number of what dense_layer gives is set to 0"
    else:
        yield from scale_facts(of_output, evaluated * kept, inputs["dropout"].p)


# What each part of a layer is given, in the words of data_flow.Trace (the docstrings' formulas).
ADD_NORM = ("input", "output", "dense_layer", "dropout", "ln_layer")
ADD_NORM_FLOW = Flow(
    (
        Call("dense_layer", {"0": "output"}),
        Call("dropout", {"0": "what dense_layer gave"}),
        Call("ln_layer", {"0": "input + what dropout gave"}),
    ),
    "what ln_layer gave",
)
LAYER_FLOW = Flow(
    (
        Call("self_attention", {"hidden_states": "hidden_states"}),
        Call(
            "add_norm",
            {
                "input": "hidden_states",
                "output": "what self_attention gave",
                "dense_layer": "attention_dense",
                "ln_layer": "attention_layer_norm",
            },
        ),
        Call("interm_dense", {"0": "what add_norm gave"}),
        Call("interm_af", {"0": "what interm_dense gave"}),
        Call(
            "add_norm",
            {
                "input": "what add_norm gave",
                "output": "what interm_af gave",
                "dense_layer": "out_dense",
                "ln_layer": "out_layer_norm",
            },
        ),
    ),
    "what add_norm (call 2) gave",
)


def frame_trace(model, stored, correct) -> Iterator[str]:
    """All that add_norm calls, with the modules that are passed in."""
    call, inputs = frame(model.train(), stored)
    trace = Trace({"input": stored.input, "output": inputs["output"]})
    trace.note({name: inputs[name] for name in ("dense_layer", "dropout", "ln_layer")})
    with FixedDropout(), torch.no_grad():
        yield from trace.report(call(), ADD_NORM_FLOW)


def layer_trace(model, stored, correct) -> Iterator[str]:
    """All that was called, with stored results in place of attention's and add_norm's."""
    layer = model.train().bert_layers[0]
    modules = dict(layer.named_children())
    parameters = {"self_attention": ("hidden_states", "attention_mask"), "add_norm": ADD_NORM}
    known = {"hidden_states": stored.hidden, "attention_mask": stored.mask, **modules}
    trace = Trace(known, parameters)
    names = iter(STAND_INS[1:])
    layer.self_attention.attention = lambda *_, **__: correct["attended"].clone()
    layer.add_norm = trace.noting(
        "add_norm", lambda *_, **__: correct[next(names, "result")].clone()
    )
    trace.note(modules)
    with FixedDropout(), torch.no_grad():
        result = layer(stored.hidden.clone(), stored.mask.clone())
    yield from trace.report(result, LAYER_FLOW, always=True)
