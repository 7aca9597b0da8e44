"""What a wrong add_norm or layer, Tasks 1.2 and 1.3, does, as measured."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from checks.fixed_dropout import FixedDropout
from checks.part1.data_flow import Trace
from checks.part1.measuring import Cause, dropout_facts, matters, scale_facts
from checks.part1.references import add_norm_modules, load_references
from checks.part1.stand_ins import STAND_INS

WEIGHTED = ("dense_layer", "ln_layer")
ADD_NORM = ("input", "output", "dense_layer", "dropout", "ln_layer")  # its parameters
COMPARED = ("input", "output", *WEIGHTED)  # those of which the right arguments are stored


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


def frame_trace(model, stored, correct) -> Iterator[str]:
    """What add_norm computes, with the modules that are passed in."""
    call, inputs = frame(model.train(), stored)
    place = "attention" if inputs["output"] is stored.attended else "feed-forward"
    trace = Trace({"input": stored.input, "output": inputs["output"]})
    trace.note({name: inputs[name] for name in ADD_NORM[2:]})
    with FixedDropout(), torch.no_grad():
        result = call()
    right = load_references()[f"bert.add_norm/dropout/result (after {place})"]
    yield from trace.report(result, right, "the docstring's formula")


def layer_trace(model, stored, correct) -> Iterator[str]:
    """All that was called, with stored results in place of attention's and add_norm's."""
    layer = model.train().bert_layers[0]
    modules = dict(layer.named_children())
    inputs = {"hidden_states": stored.hidden, "attention_mask": stored.mask}
    trace = Trace(inputs | modules)
    results = iter(STAND_INS[1:])
    layer.self_attention.attention = lambda *_, **__: correct["attended"].clone()
    layer.add_norm = trace.noting(
        "add_norm",
        lambda *_, **__: correct[next(results, "result")].clone(),
        ADD_NORM,
        [
            {name: correct[f"{name} of add_norm's call {number}"] for name in COMPARED}
            for number in (1, 2)
        ],
    )
    attend = modules.pop("self_attention")
    attend.forward = trace.noting("self_attention", attend.forward, tuple(inputs), [inputs])
    trace.note(modules)
    with FixedDropout(), torch.no_grad():
        result = layer(stored.hidden.clone(), stored.mask.clone())
    yield from trace.deviations
    yield from trace.report(result, correct["result"], "what the second add & norm gives")
    yield f"what was called: {'; '.join(trace.steps)}; returned: {trace.origin(result)}"
