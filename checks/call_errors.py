"""Exceptions about calls, and about None: what they mean here.

Functions of the table checks/exceptions.toml. It does not know how any task is solved.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from checks.findings import is_students
from checks.traces import UNKNOWN, Place, path_in, quoted

FEW = 24  # names that can be listed
WRONG_WORDS = {  # keyword → what is right, and where
    "value": "the factor of add_ and sub_ is called alpha; value is that of addcmul_ and addcdiv_",
    "alpha": "the factor of addcmul_ and addcdiv_ is called value; alpha is that of add_ and sub_",
    "axis": "torch calls an axis dim here",
    "keepdims": "torch calls it keepdim",
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


# ---------------------------------------------------------------------------------------------
# What is made or called in another way


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


def other_arguments(place: Place, match: re.Match) -> str:
    """A call that does not fit what is called."""
    lacking, unknown = match.groups()
    if unknown in WRONG_WORDS:
        return WRONG_WORDS[unknown]
    if place.function is None:
        return "it is called with other arguments: is its first line as it was, with self in it?"
    if place.called is None:
        return ""
    what, callee = quoted(place.called), place.value(place.called)
    names = parameters(callee)
    given = [part.arg for part in place.node.keywords if part.arg]
    unknown = unknown or next((name for name in given if name not in (names or given)), None)
    if not is_blamed(callee, str(place.error)):
        return ""
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
# Nothing where something is expected


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
