"""Exceptions about calls, operators and types: what they mean here.

Functions of the table checks/exceptions.toml. It does not know how any task is solved.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import math
import re
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from checks.findings import is_students
from checks.traces import UNKNOWN, Place, path_in, quoted

FEW = 24  # names that can be listed
KEYS = ("last_hidden_state", "pooler_output", "params", "lr", "betas", "eps", "weight_decay")
WRONG_WORDS = {  # keyword → what is right, and where
    "value": "the factor of add_ and sub_ is called alpha; value is that of addcmul_ and addcdiv_",
    "alpha": "the factor of addcmul_ and addcdiv_ is called value; alpha is that of add_ and sub_",
    "axis": "torch calls an axis dim here",
    "keepdims": "torch calls it keepdim",
}
KINDS = {  # type → what it is, and how one gets at what is in it
    "dict": "a dictionary: read it by name, d['…']",
    "tuple": "a tuple of several values: take one of them, x[0]",
    "list": "a list: take one after the other, or make one tensor by torch.stack or torch.cat",
    "NoneType": "None",
    "int": "a plain number",
    "float": "a plain number, a float",
    "bool": "True or False",
    "Tensor": "a tensor (its shape is x.shape)",
    "Size": "a shape, a tuple, not the tensor that has it: x.shape[0] or x.size(0) is one size",
    "type": "a class",
    "module": "a module of Python, not something in it",
    "str": "a text",
    "SimpleNamespace": "an object whose settings are read by a dot: config.hidden_size",
    "BertConfig": "an object whose settings are read by a dot: config.hidden_size",
}


def nearest(name: str, names: Iterable[Any]) -> str:
    """The most similar name as a question; all of them where none is similar and they are few."""
    candidates = [
        candidate
        for candidate in names
        if isinstance(candidate, str) and not candidate.startswith("_")
    ]
    words = {*name.split("_")} - {"num", "layer", "size"}
    near = difflib.get_close_matches(name, candidates, n=1)
    near = near or [candidate for candidate in candidates if words & {*candidate.split("_")}][:1]
    if near and name in near[0]:  # which of them cannot be told
        near += [other for other in candidates if name in other and other != near[0]]
    if near:
        return f"do you mean {' or '.join(near[:3])}?"
    verb = "is" if len(candidates) == 1 else "are"
    return f"there {verb} {', '.join(candidates)}" if 0 < len(candidates) <= FEW else ""


def of_type(what: str, value: Any) -> str:
    """What something is, and how a tensor, or a number, comes of it."""
    kind = type(value).__name__
    if isinstance(value, nn.Module):
        return f"{what} is a layer ({kind}), not what it makes of a tensor: layer(x)"
    if isinstance(value, tuple) and what == "`group['betas']`":
        return f"{what} is a pair: beta1, beta2 = group['betas']"
    return f"{what} is {KINDS.get(kind, f'of type {kind}')}"


# ---------------------------------------------------------------------------------------------
# What is made or called in another way


def configuration_as_argument(place: Place, match: re.Match) -> str:
    """An ``__init__`` whose only argument has another name than config, and is taken for a size."""
    if getattr(place.function, "name", "") != "__init__" or "config" in place.names:
        return ""
    own = {part.arg for part in place.function.args.args}
    for part in place.parts():
        if isinstance(part, ast.Name) and part.id in own:
            if path_in(place.names.get(part.id), "hidden_dropout_prob") is not None:
                return (
                    f"{quoted(part)} is the whole configuration here: __init__ is called with it "
                    "alone, so its first line has to stay (self, config)"
                )
    return ""


def layer_made_of_tensor(place: Place, match: re.Match) -> str:
    """``nn.Softmax(scores)``: the class is called with what the layer should get."""
    made = place.value(place.called)
    if not isinstance(made, type) or not issubclass(made, nn.Module):
        return ""
    if issubclass(made, nn.Sequential | nn.ModuleList | nn.ModuleDict):
        return ""
    tensors = [part for part in place.node.args if isinstance(place.value(part), Tensor)]
    if not tensors:
        return ""
    return (
        f"{quoted(place.called)} is a class, and calling it makes a new layer from settings; "
        f"{quoted(tensors[0])} is for a layer that has been made, as __init__ makes them: self.…(x)"
    )


def method_not_called(place: Place, match: re.Match) -> str:
    """``x.size[0]``, ``x.sqrt + 1``: the parentheses are missing."""
    called = [part.func for part in place.parts() if isinstance(part, ast.Call)]
    for part in place.parts():
        value = place.value(place.origin(part))
        method = callable(value) and not isinstance(value, nn.Module | type | Tensor)
        if value is not UNKNOWN and method and part not in called:
            return f"{quoted(part)} is the method itself; {quoted(part)[:-1]}(…)` calls it"
    return ""


def not_callable(place: Place, match: re.Match) -> str:
    """Round brackets behind something that is not a function."""
    return (
        f"{of_type(quoted(place.called), place.value(place.called))}. It cannot be called: is an "
        "operator missing before the bracket, or are square brackets meant, or none?"
    )


def other_arguments(place: Place, match: re.Match) -> str:
    """A call that does not fit what is called."""
    lacking, unknown = match.groups()
    if unknown in WRONG_WORDS:
        return WRONG_WORDS[unknown]
    if place.function is None:
        return "it is called with other arguments: is its first line as it was, with self in it?"
    if place.called is None:
        return ""
    what, names = quoted(place.called), parameters(place.value(place.called))
    callee = place.value(place.called)
    given = [part.arg for part in place.node.keywords if part.arg]
    unknown = unknown or next((name for name in given if name not in (names or given)), None)
    if not is_blamed(callee, str(place.error)):
        if not isinstance(callee, nn.Sequential):
            return ""
        return (
            f"{what} is an nn.Sequential, which gives each of its layers one value, what the layer "
            "before it returns: a layer that takes more has to be called by itself"
        )
    if what == "`super().__init__`":
        return "the class that this one is made from takes nothing: super().__init__()"
    if names is None:
        has = f"has no argument {unknown}" if unknown else "takes other arguments"
        return f"{what} {f'still needs {lacking}' if lacking else has}"
    if unknown and (near := nearest(unknown, names)):
        return f"{what} has no argument {unknown}: {near}"
    arguments = [*place.node.args, *(part.value for part in place.node.keywords)]
    count = "" if "*" in ast.unparse(place.node) else f"; you gave {len(arguments)}"
    with_self = any(isinstance(part, ast.Name) and part.id == "self" for part in arguments)
    return f"{what} takes {', '.join(names)}{count}" + (
        ", where self comes by itself" if with_self and "self" not in names else ""
    )


def is_blamed(called: Any, message: str) -> bool:
    """Whether a complaint about arguments is about what is called, not about a call inside it."""
    blamed = re.match(r"([\w.<>]+)\(\) ", message)
    function = called.forward if isinstance(called, nn.Module) else called
    function = function.__init__ if isinstance(function, type) else function
    name = path_in(function, "__qualname__")
    is_python = isinstance(function, types.FunctionType | types.MethodType)
    return not is_python or blamed is None or blamed[1] == name


def parameters(called: Any) -> list[str] | None:
    """The names of what may be given; None where they are not known."""
    called = called.forward if isinstance(called, nn.Module) else called
    if not isinstance(called, types.FunctionType | types.MethodType | type):
        return None
    return [
        name
        for name, parameter in inspect.signature(called).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


# ---------------------------------------------------------------------------------------------
# Nothing, and things of another type


def nothing_there(place: Place, match: re.Match) -> str:
    """None where a value is expected: which call gave it?"""
    candidates = [*place.parts(), *place.operands()]
    for part in candidates:
        if place.value(part) is not None or isinstance(part, ast.Constant):
            continue
        if isinstance(part, ast.Attribute) and part.attr == "grad":
            return f"{quoted(part)} is None: no gradient was computed for it, so it is skipped"
        source = place.origin(part)
        gave = f", as {quoted(source)} gave it" if isinstance(source, ast.Call) else " here"
        return f"{quoted(part)} is None{gave}{is_return_missing(place, source)}"
    source = next((part for part in candidates if is_return_missing(place, part)), None)
    source = source or getattr(place.called or place.node, "value", None)
    is_call = isinstance(source, ast.Call)
    return f"{quoted(source)} gives None{is_return_missing(place, source)}" if is_call else ""


def is_return_missing(place: Place, node: ast.expr | None) -> str:
    """The question, if an expression calls a function that the student has written."""
    called = place.value(node.func) if isinstance(node, ast.Call) else None
    called = called.forward if isinstance(called, nn.Module) else called
    file = path_in(called, "__code__.co_filename")
    return ": is a `return` missing there?" if file and is_students(Path(file)) else ""


def key_for_value(place: Place, match: re.Match) -> str:
    """A dictionary that was unpacked, or gone through, gives its keys."""
    for part in place.parts():
        value = place.value(part)
        if isinstance(value, str) and not isinstance(part, ast.Constant):
            text = f"{quoted(part)} is the text {value!r}"
            if value not in KEYS or not isinstance(part, ast.Name):
                return text
            return (
                f"{text}: a dictionary that is unpacked, or gone through in a loop, gives its "
                "keys; read what is in it by d[key]"
            )
    return ""


def other_type(place: Place, match: re.Match) -> str:
    """A function of torch, or a layer, that is given something of another type."""
    name, wanted, kind = match.groups()
    wanted = "a tensor" if wanted == "Tensor" else f"{wanted} there"
    is_number = kind in ("int", "float") and hasattr(math, name)
    other = f": math.{name} is for numbers" if is_number else ""
    for part in place.operands():
        value = place.value(part)
        value = place.value(place.origin(part)) if value is UNKNOWN else value
        if type(value).__name__ == kind.rpartition(".")[2]:
            return f"{name} wants {wanted}, and {of_type(quoted(part), value)}{other}"
    return f"{name} wants {wanted}, and gets something of type {kind}{other}"


def no_size(place: Place, match: re.Match) -> str:
    """Something else where a size belongs."""
    kind = match[1].rpartition(".")[2]
    for part in place.parts():
        if type(place.value(part)).__name__ == kind and part is not place.called:
            return f"sizes are whole numbers, and {of_type(quoted(part), place.value(part))}"
    return f"sizes are whole numbers, and one of them here is of type {kind}"


def other_operands(place: Place, match: re.Match) -> str:
    """An operator between things that do not go together."""
    numbers = complex if match[1] else complex | int | float  # @ takes none
    sentences = []
    for part in place.operands():
        value = place.value(part)
        value = place.value(place.origin(part)) if value is UNKNOWN else value
        if not isinstance(value, numbers | Tensor | None) and value is not UNKNOWN:
            sentences.append(of_type(quoted(part), value))
    return "; ".join(sentences[:2])


def not_a_container(place: Place, match: re.Match) -> str:
    """Square brackets, or a loop, on something that holds no items."""
    what = next(iter(place.operands()), None) or place.unpacked()
    value, name = place.value(what), quoted(what)
    if isinstance(value, nn.Module):
        return f"{name} is a layer: it is called, with round brackets, {name[:-1]}(x)`"
    if hasattr(value, "__dict__"):
        return f"{name} has attributes: {name[:-1]}.name`, not ['name']"
    return ""
