"""What the functions of a student's whole model are given and return, as states in order.

A layer may be written in another way: a state that no watched function returns is not seen.
Shapes: B sentences, L tokens, H heads, W width of a head, D hidden size.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from checks.compare import is_dense
from checks.errors import attempt
from checks.references import (
    TINY,
    TRACE,
    inputs_of,
    load_references,
    read_data,
    student_model,
    under,
)
from checks.traces import only_a_stub
from utils import get_extended_attention_mask

ATTENTION, ADD_NORM = "BertSelfAttention.attention", "BertLayer.add_norm"
LAYER, EMBED, MODEL = "BertLayer.forward", "BertModel.embed", "BertModel.forward"
WATCHED = {  # of a layer: where, and the method
    "attention": ("self_attention", "attention"),
    "add_norm": ("", "add_norm"),
    "attention_layer_norm": ("attention_layer_norm", "forward"),
    "interm_af": ("interm_af", "forward"),
    "forward": ("", "forward"),
}


class Call(NamedTuple):
    """What a function was given, in the order of its parameters, and what it returned."""

    given: Sequence[Any]
    result: Any


class State(NamedTuple):
    """A state of the model, which was seen if it was returned exactly once.

    Attributes:
        calls: those of what returns it, named ``source``.
        around: the function in which that is called, or which it is.
        ahead: the functions through which its gradient comes back.
        inner: a function that makes it, its calls, and what it should be given.
        weights: what the names of weights contain whose gradients are known after its own.
    """

    name: str
    calls: Sequence[Call]
    source: str
    around: str
    ahead: Sequence[str] = ()
    inner: tuple[str, Sequence[Call], Sequence[Any]] = ("", (), ())
    weights: str = ""


class Watch:
    """Runs the student's model once on the inputs of task 1.4, and notes the calls.

    Attributes:
        right: the reference's states, by name.
        error: the exception with which the student's code ended.
        stub: that of BertModel.embed, in whose place the layers get the correct embeddings.
    """

    def __init__(self) -> None:
        references = load_references()
        self.right = under(f"{TRACE}values/", read_data(TRACE))
        self.inputs = inputs_of("bert.embed", references)
        self.noted: dict[str, list[Call]] = defaultdict(list)
        self.stub: NotImplementedError | None = None
        self.model = student_model(references)
        self.watch("embed", self.model, "embed")
        for number, layer in enumerate(self.model.bert_layers, start=1):
            for name, (owner, method) in WATCHED.items():
                self.watch(f"{number} {name}", layer.get_submodule(owner), method)
        results = attempt(self.run)
        self.error = results if isinstance(results, BaseException) else None
        self.results: dict[str, Tensor] = {} if self.error else results

    def run(self) -> dict[str, Tensor]:
        """The model's two results, by the names of the states that they are."""
        results = self.model(self.inputs.ids.clone(), self.inputs.real.long())
        last, pooled = results["last_hidden_state"], results["pooler_output"]
        return {"last hidden state": last, "pooler": pooled}

    def watch(self, name: str, owner: nn.Module, method: str) -> None:
        """Note the calls of a method, which passes on a copy: what is noted stays as it is."""
        function = getattr(owner, method)
        parameters = [*inspect.signature(function).parameters]

        def noted(*args: Any, **options: Any) -> Any:
            given = dict(zip(parameters, args, strict=False)) | options
            given = {k: v.detach().clone() if is_dense(v) else v for k, v in given.items()}
            try:
                result = function(*args, **options)
            except NotImplementedError as error:
                if method != "embed" or not only_a_stub(error):
                    raise
                self.stub, result = error, self.right["embeddings"].clone().requires_grad_()
            self.noted[name].append(Call([given.get(key) for key in parameters], result))
            return result.clone() if is_dense(result) else result

        setattr(owner, method, noted)

    def states(self) -> Iterator[State]:
        """All states in the order in which the model computes them."""
        through = (LAYER, ATTENTION, ADD_NORM)
        weights = "" if self.stub else "embed"
        yield State("embeddings", self.noted["embed"], "embed", EMBED, through, weights=weights)
        hidden, layers = self.right["embeddings"], self.model.bert_layers
        for number, layer in enumerate(layers, start=1):
            *states, last = self.states_of(number, layer, hidden)
            yield from (*states, last._replace(ahead=(MODEL,) if layer is layers[-1] else through))
            hidden = self.right[last.name]
        for name, result in self.results.items():
            weights = "pooler" if name == "pooler" else ""
            yield State(name, [Call((), result)], "forward", MODEL, weights=weights)

    def states_of(self, number: int, layer: nn.Module, hidden: Tensor) -> Iterator[State]:
        """The four states of a layer that should be given ``hidden``, (B, L, D)."""
        attention, add_norm, norm, gelu, whole = (self.noted[f"{number} {x}"] for x in WATCHED)
        are_two, norms = len(add_norm) == 2, [call.given[4:5] for call in add_norm]
        is_first = are_two or norms == [[layer.attention_layer_norm]]
        first, second = add_norm[:1] if is_first else [], add_norm[1:] if are_two else []
        places = ("attention", "first add & norm", "feed-forward", "second add & norm")
        names = [f"layer {number}, {place}" for place in places]
        attended, normed, expanded, _ = (self.right[name] for name in names)
        parts, heads = layer.self_attention, (TINY["num_attention_heads"], -1)
        given = [
            nn.functional.linear(hidden, x.weight, x.bias).unflatten(-1, heads).transpose(1, 2)
            for x in (parts.key, parts.query, parts.value)
        ]  # (B, H, L, W) each
        given.append(get_extended_attention_mask(self.inputs.real.long(), hidden.dtype))
        inside, weights = (ADD_NORM, LAYER), f"bert_layers.{number - 1}."
        inner = (ATTENTION, attention, given)
        yield State(names[0], attention, "attention", LAYER, inside, inner, weights)
        given = (hidden, attended, layer.attention_dense, ..., layer.attention_layer_norm)
        inner, calls = (ADD_NORM, first, given), first or norm
        yield State(names[1], calls, "attention_layer_norm", LAYER, inside, inner)
        yield State(names[2], gelu, "interm_af", LAYER, inside)
        given = (normed, expanded, layer.out_dense, ..., layer.out_layer_norm)
        yield State(names[3], whole, "the layer", LAYER, inside, (ADD_NORM, second, given))
