"""A student's whole model while it runs, and its functions alone on correct inputs.

Shapes: B sentences, L tokens, D hidden size.
"""

from __future__ import annotations

import importlib
import inspect
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from checks import jobs
from checks.compare import TOLERANCES, is_close, is_dense
from checks.errors import attempt, describe, line_of
from checks.findings import faulty
from checks.graded_tasks import GRADED_TASKS
from checks.references import TINY, inputs_of, load_references, student_model
from utils import get_extended_attention_mask

PLACES = {  # in a layer → what returns the state there
    "attention": "self_attention",
    "first add & norm": "add_norm with attention_dense",
    "feed-forward": "interm_af",
    "second add & norm": "the layer",
}
LAYERS = [f"layer {number}, " for number in range(1, TINY["num_hidden_layers"] + 1)]
IN_LAYERS = {layer + place: what for layer in LAYERS for place, what in PLACES.items()}
STATES = {"embeddings": "embed", **IN_LAYERS, "last hidden state": "encode", "pooler": "forward"}
MAKES = {  # function, inner ones before those that call them → parts of the names of states
    "BertModel.embed": ("embed",),
    "BertSelfAttention.transform": ("attention",),
    "BertSelfAttention.attention": ("attention",),
    "BertSelfAttention.forward": ("attention",),
    "BertLayer.add_norm": ("norm",),
    "BertLayer.forward": ("layer",),
    "BertModel.encode": ("layer", "last"),
    "BertModel.forward": ("",),
}
TASKS = {task.function: task for task in GRADED_TASKS if task.file == "bert.py"}
SHOWN_BY = {"values": ("values", "error"), "gradients": ("gradients", "inputs", "error")}


class Watch:
    """Runs the student's model on the inputs of task 1.4, and notes what its functions return.

    A layer may be written in another way: what no function returns is not seen. If a function ends
    in an exception, as a stub does, its caller gets the correct state.

    Args:
        right: the reference's states, by name.

    Attributes:
        noted: of each state what was returned, or the exception, call by call.
        replaced: the correct states that took the place of exceptions.
    """

    def __init__(self, right: dict[str, Tensor]) -> None:
        references, self.right = load_references(), right
        self.inputs, self.model = inputs_of("bert.embed", references), student_model(references)
        self.noted: dict[str, list[Any]] = {state: [] for state in STATES}
        self.replaced: dict[str, Tensor] = {}
        self.note("embeddings", self.model, "embed")
        for name, layer in zip(LAYERS, self.model.bert_layers, strict=False):
            self.note(f"{name}attention", layer.self_attention)
            self.note(f"{name}first add & norm", layer, "add_norm", layer.attention_dense)
            self.note(f"{name}feed-forward", getattr(layer, "interm_af", None))
            self.note(f"{name}second add & norm", layer)
        self.note("last hidden state", self.model, "encode")

        def run() -> None:
            results = self.model(self.inputs.ids.clone(), self.inputs.real.long())
            if "last hidden state" not in self.replaced:
                self.noted["last hidden state"] = [results["last_hidden_state"]]
            self.noted["pooler"] = [results["pooler_output"]]

        if isinstance(error := attempt(run), BaseException):
            self.noted["pooler"] = [error]

    def note(
        self, state: str, owner: Any, method: str = "forward", only: nn.Module | None = None
    ) -> None:
        """Note what a method returns; its caller gets a copy, so that what is noted stays as it is.

        Args:
            only: of calls that do not get this module, nothing is noted.
        """
        function = getattr(owner, method, None)

        def noting(*args: Any, **options: Any) -> Any:
            if only and not any(x is only for x in (*args, *options.values())):
                return function(*args, **options)
            result = attempt(function, *args, **options)
            is_error = isinstance(result, BaseException)
            if is_error and not line_of(result):  # the call itself is wrong
                raise result
            self.noted[state].append(result)
            if is_error:
                result = self.replaced[state] = self.right[state].clone().requires_grad_()
            return result.clone() if is_dense(result) else result

        if function:
            setattr(owner, method, noting)

    def culprit(self, kind: str, states: Collection[str]) -> str:
        """The innermost function that makes one of some states and goes wrong alone, and its line.

        Args:
            kind: what goes wrong, "values" or "gradients".
        """
        makers = [f for f, parts in MAKES.items() if any(p in s for p in parts for s in states)]
        function = next(maker for maker in makers if self.goes_wrong(kind, maker))
        found = operator.attrgetter(function)(importlib.import_module("bert"))
        return f"{function} (bert.py:{inspect.unwrap(found).__code__.co_firstlineno})"

    def goes_wrong(self, kind: str, function: str) -> bool:
        """Whether a function does: one of a task if its check says so, others on the right states.

        The outermost, which has called all others, does if no other does.
        """
        if function in TASKS:
            findings = faulty(jobs.examine(TASKS[function]))
            return any(finding.kind in SHOWN_BY[kind] for finding in findings)
        model, real = student_model(load_references()), self.inputs.real
        hidden = self.right["embeddings"].clone().requires_grad_()  # (B, L, D)
        mask = get_extended_attention_mask(real.long(), hidden.dtype)  # (B, 1, 1, L)
        part = model.bert_layers[0].self_attention
        attended, last = self.right[f"{LAYERS[0]}attention"], self.right["last hidden state"]

        def transform(x: Tensor) -> Tensor:  # the heads side by side again, (B, L, D)
            return part.transform(x, part.query).transpose(1, 2).flatten(2)

        calls = {  # function → how it is called, and the correct result
            "BertSelfAttention.transform": (transform, part.query(hidden)),
            "BertSelfAttention.forward": (lambda x: part(x, mask)[real], attended[real]),
            "BertModel.encode": (lambda x: model.encode(x, real.long())[real], last[real]),
        }
        if function not in calls:
            return True
        call, right = calls[function]
        result = attempt(call, hidden.clone())
        if isinstance(result, BaseException):  # of the call itself: it is written in another way
            return bool(line_of(result)) and describe(result).kind == "error"
        if kind == "values":
            return not is_close(result, right, TOLERANCES[torch.float64])
        return not follows_slope(lambda: call(hidden).sin().sum(), [hidden, *model.parameters()])


def follows_slope(run: Callable[[], Tensor], sources: Sequence[Tensor]) -> bool:
    """Whether a number's gradients are those of a finite difference, in all sources at once."""
    steps = [1e-6 * torch.arange(x.numel()).cos().view_as(x) for x in sources]
    grads = attempt(lambda: torch.autograd.grad(run(), sources, allow_unused=True))
    if isinstance(grads, BaseException):
        return False
    slopes = [(x * step).sum() for x, step in zip(grads, steps, strict=True) if x is not None]
    with torch.no_grad():
        before = run()
        for x, step in zip(sources, steps, strict=True):
            x += step
        change = run() - before
    return bool((change - sum(slopes)).abs() <= 1e-3 * change.abs())
