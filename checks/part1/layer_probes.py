"""What a wrong add_norm or layer, Tasks 1.2 and 1.3, does, as measured."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from checks.fixed_dropout import FixedDropout
from checks.part1.data_flow import Trace, formula_facts
from checks.part1.measuring import Cause, matters
from checks.part1.references import add_norm_modules
from checks.part1.stand_ins import STAND_INS

WEIGHTED = ("dense_layer", "ln_layer")
ADD_NORM = ("input", "output", "dense_layer", "dropout", "ln_layer")  # its parameters
COMPARED = ("input", "output", *WEIGHTED)  # those of which the right arguments are stored


def frame(model: nn.Module, stored: SimpleNamespace) -> tuple[Callable[..., Tensor], dict]:
    """The student's add_norm as a function of nothing, and the stored arguments that it gets.

    They are those after the feed-forward network, or, if it fails with them, after attention; what
    has weights is a copy, so that it is seen whether the layer's own are used instead.
    """
    layer = model.bert_layers[0]

    def call() -> Tensor:
        values = (v.clone() if isinstance(v, Tensor) else v for v in inputs.values())
        result = layer.add_norm(*values)
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


def frame_modules(model, stored, correct) -> Iterator[str]:
    """Which of the layer's own modules have an effect, though they are not passed in."""
    call, _ = frame(model, stored)
    for name, module in model.bert_layers[0].named_children():
        if matters(module, call):
            yield Cause(f"self.{name} has an effect on the result, though it was not passed in")


def frame_formula(model, stored, correct) -> Iterator[str]:
    """When dropout acts, and what add_norm makes of the modules that are passed in."""
    call, inputs = frame(model, stored)
    place = "attention" if inputs["output"] is stored.attended else "feed-forward"
    known = {name: inputs[name] for name in ADD_NORM[:2]}
    modules = {name: inputs[name] for name in ADD_NORM[2:]}
    right = f"bert.add_norm/dropout/result (after {place})"
    return formula_facts(model, call, known, modules, right, "the docstring's formula")


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
    yield from trace.deviations[:1]
    yield from trace.report(result, correct["result"], "what the second add & norm gives")
    yield f"what was called: {'; '.join(trace.steps)}; returned: {trace.origin(result)}"
