"""Exceptions about calls, operators and types: what they mean here.

Entries of the table in checks/exceptions.py. It does not know how any task is solved.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import math
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from checks.findings import is_students
from checks.traces import UNKNOWN, Case, Place, attribute, entry, quoted

METHODS = "builtin_function_or_method|method|function|method_descriptor|builtin_method"
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
    if near:
        return f"do you mean {near[0]}?"
    verb = "is" if len(candidates) == 1 else "are"
    return f"there {verb} {', '.join(candidates)}" if 0 < len(candidates) <= FEW else ""


def parts_of(place: Place) -> list[ast.expr]:
    """All expressions in what failed, outer ones first."""
    node = place.node or place.statement
    return [part for part in ast.walk(node) if isinstance(part, ast.expr)] if node else []


# ---------------------------------------------------------------------------------------------
# What is made or called in another way


@entry("", TypeError, RuntimeError, ValueError)
def layer_made_of_tensor(case: Case) -> str:
    """``nn.Softmax(scores)``: the class is called with what the layer should get."""
    call = case.place.node
    made = case.place.value(call.func) if isinstance(call, ast.Call) else None
    if not isinstance(made, type) or not issubclass(made, nn.Module):
        return ""
    if issubclass(made, nn.Sequential | nn.ModuleList | nn.ModuleDict):
        return ""
    given = next((a for a in call.args if isinstance(case.place.value(a), Tensor)), None)
    if given is None:
        return ""
    return (
        f"{quoted(call.func)} is a class, and calling it makes a new layer from settings; "
        f"{quoted(given)} is for a layer that has been made, as __init__ makes them: self.…(x)"
    )


@entry(f"'(?:{METHODS})'|not (?:{METHODS})$", TypeError, AttributeError)
def method_not_called(case: Case) -> str:
    """``x.size[0]``, ``x.sqrt + 1``: the parentheses are missing."""
    called = [part.func for part in parts_of(case.place) if isinstance(part, ast.Call)]
    for part in [*parts_of(case.place), case.place.unpacked()]:
        value = case.place.value(case.place.origin(part))
        method = callable(value) and not isinstance(value, nn.Module | type | Tensor)
        if method and part not in called and not isinstance(part, ast.Call):
            return f"{quoted(part)} is the method itself; {quoted(part)[:-1]}(…)` calls it"
    return ""


@entry(r"'(\S+)' object is not callable", TypeError)
def not_callable(case: Case) -> str:
    """Round brackets behind something that is no function."""
    what = quoted(case.place.node.func) if isinstance(case.place.node, ast.Call) else "this"
    kinds = {
        "dict": "a dictionary, read with square brackets",
        "tuple": "a tuple, read with square brackets",
        "list": "a list, which takes no round brackets",
        "Tensor": "a tensor, not a function: is an operator missing before the bracket, or is it "
        "an attribute (x.T, x.shape) that needs none?",
        "int": "a number: is an operator missing before the bracket?",
        "float": "a number: is an operator missing before the bracket, or is it the setting of a "
        "layer (nn.Dropout(p)) that was not made?",
        "str": "a text",
        "NoneType": "None: where nothing was given there is nothing to call",
        "module": "a module, a file: the function or class is in it",
        "torch.Size": "a tuple, not a method: x.shape[0], or x.size(0)",
    }
    other = f"no function, but a {case.match[1]}: do the brackets belong there?"
    return f"{what} is {kinds.get(case.match[1], other)}"


@entry(
    r"takes (?:from )?\d+ (?:to \d+ )?positional argument|takes no (?:keyword )?argument"
    r"|missing \d+ required (?:positional|keyword-only) arguments?: (.*)"
    r"|multiple values for argument|takes exactly|expected at least"
    r"|unexpected keyword argument '(\w+)'",
    TypeError,
)
def other_arguments(case: Case) -> str:
    """A call that does not fit what is called."""
    call, place = case.place.node, case.place
    lacking, unknown = case.match.groups()
    if unknown in WRONG_WORDS:
        return WRONG_WORDS[unknown]
    if place.function is None:
        return "it is called with other arguments: is its first line as it was, with self in it?"
    if not isinstance(call, ast.Call):
        return ""
    called, owner = place.value(call.func), place.value(getattr(call.func, "value", None))
    names, what = parameters(called, isinstance(owner, type)), quoted(call.func)
    if what == "`super().__init__`":
        return "the class that this one is made from takes nothing: super().__init__()"
    if names is None and "multiple" in case.match[0]:
        return f"{what} gets an argument twice: by its place, and by its name"
    if names is None:
        has = f"has no argument {unknown}" if unknown else "takes more, or fewer, arguments"
        return f"{what} {f'still needs {lacking}' if lacking else has}"
    if unknown and (near := nearest(unknown, names)).startswith("do you"):
        return f"{what} has no argument {unknown}: {near}"
    given = len(call.args) + len(call.keywords)
    more = any(isinstance(part, ast.Starred) for part in call.args)
    more |= any(part.arg is None for part in call.keywords)  # f(*args, **kwargs)
    sentence = f"{what} takes {', '.join(names)}" + ("" if more else f"; you gave {given}")
    if isinstance(called, nn.Module) and type(called).__module__.startswith("torch.nn"):
        return f"{sentence}. Its settings were given when the layer was made"
    if isinstance(owner, type):
        cls = quoted(call.func.value)
        return f"{sentence}. {cls} is the class; the layer that was made is in self"
    if any(isinstance(argument, ast.Name) and argument.id == "self" for argument in call.args):
        return f"{sentence}, where self comes by itself"
    return sentence


def parameters(called: Any, of_class: bool = False) -> list[str] | None:
    """The names of what may be given, without self; None where they are not known."""
    if isinstance(called, nn.Module):
        called = attribute(called, "forward")
    elif isinstance(called, type):
        called = attribute(called, "__init__") if "__init__" in vars(called) else called.__init__
    if not isinstance(called, types.FunctionType | types.MethodType):
        return None
    names = [
        name
        for name, parameter in inspect.signature(called).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    return names[1:] if names[:1] == ["self"] and not of_class else names


@entry(
    r"(\w+)\(\) received an invalid combination of arguments - got \((.*?)\), but expected "
    r"(?:one of: \* )?\((.*?)\)",
    TypeError,
)
def other_combination(case: Case) -> str:
    """A function of torch that knows no such arguments."""
    name, got, wanted = case.match.groups()
    return f"{name} is given ({got}); it takes ({wanted}), for example: what is too much?"


@entry("^Task ", NotImplementedError)
def raise_left(case: Case) -> str:
    """The stub's raise in a function that is begun; see only_a_stub in checks/traces.py."""
    return "the stub's raise is still there, with code of yours around it: delete that line"


@entry("maximum recursion depth", RecursionError)
def endless(case: Case) -> str:
    """A function that calls itself."""
    name = case.place.frame.f_code.co_name
    return (
        f"{name} calls itself again and again: self(…) and self.{name}(…) are the very function "
        "that is running; is one of its parts meant?"
    )


@entry("Boolean value of Tensor with more than one", RuntimeError)
def truth_of_tensor(case: Case) -> str:
    """A tensor under if, and, or, not, in; or as a setting of a function of torch."""
    node = case.place.node
    owner = case.place.value(getattr(getattr(node, "func", None), "value", None))
    if isinstance(owner, types.ModuleType):
        return f"{quoted(node.func)} is given a tensor for a setting: what does it take, in order?"
    return (
        "if, and, or, not, in and max() need one true or false, and a tensor of many numbers is "
        "neither: ask what you mean (x is None, x.any()), or compute with all of them"
    )


# ---------------------------------------------------------------------------------------------
# Nothing, and things of another type


@entry("NoneType", TypeError, AttributeError)
def nothing_there(case: Case) -> str:
    """None where a value is expected: which call gave it?"""
    place = case.place
    candidates = [*parts_of(place), *place.operands(), place.unpacked()]
    for part in candidates:
        empty = place.value(part) is None and not isinstance(part, ast.Constant)
        if not empty or part is None:
            continue
        if isinstance(part, ast.Attribute) and part.attr == "grad":
            return f"{quoted(part)} is None: no gradient was computed for it, so it is skipped"
        source = place.origin(part)
        if calls_own(place, source):
            return f"{quoted(part)} is None, as {quoted(source)} gave it: {RETURN}"
        if isinstance(source, ast.Call):
            return f"{quoted(part)} is None, as {quoted(source)} gave it"
        return f"{quoted(part)} is None here"
    if own := next((part for part in candidates if calls_own(place, part)), None):
        return f"{quoted(own)} gives None: {RETURN}"
    called = place.node.func if isinstance(place.node, ast.Call) else place.node
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Call):
        return f"{quoted(called.value)} gives None"
    return ""


RETURN = "is a `return` missing there?"


def calls_own(place: Place, node: ast.expr | None) -> bool:
    """Whether an expression calls a function that the student has written."""
    called = place.value(node.func) if isinstance(node, ast.Call) else None
    called = attribute(called, "forward") if isinstance(called, nn.Module) else called
    code = getattr(called, "__code__", None)
    return isinstance(code, types.CodeType) and is_students(Path(code.co_filename))


@entry(
    "must be Tensor, not str|'str' object|string indices",
    TypeError,
    AttributeError,
)
def key_for_value(case: Case) -> str:
    """A dictionary that was unpacked, or gone through, gives its keys."""
    for part in parts_of(case.place):
        value = case.place.value(part)
        if isinstance(value, str) and not isinstance(part, ast.Constant):
            text = f"{quoted(part)} is the text {value!r}"
            if value not in KEYS or not isinstance(part, ast.Name):
                return text
            return (
                f"{text}: a dictionary that is unpacked, or gone through in a loop, gives its "
                "keys; read what is in it by d[key]"
            )
    return ""


KEYS = ("last_hidden_state", "pooler_output", "params", "lr", "betas", "eps", "weight_decay")


@entry(r"(\w+)\(\): argument '(?!tensors)\w+'.* must be (.*), not (\S+)$", TypeError)
def other_type(case: Case) -> str:
    """A function of torch, or a layer, that is given something of another type."""
    place, (name, wanted, kind) = case.place, case.match.groups()
    given, value = None, UNKNOWN
    for part in place.operands():
        operand = place.value(part)
        operand = place.value(place.origin(part)) if operand is UNKNOWN else operand
        if type(operand).__name__ == kind.rpartition(".")[2]:
            given, value = part, operand
    what = quoted(given) if given else "what it is given"
    if wanted != "Tensor":
        return f"{name} wants {wanted} there, and {of_type(what, kind, value)}"
    if name == "embedding" and kind in ("int", "range", "list"):
        return f"{what} is no tensor: an nn.Embedding looks up a tensor of ids, (B, L) for example"
    if kind in ("int", "float"):
        other = f": math.{name} is for numbers" if hasattr(math, name) else ""
        return f"{name} takes a tensor, and {what} is a plain number{other}"
    return f"{name} takes a tensor, and {of_type(what, kind, value)}"


def of_type(what: str, kind: str, value: Any) -> str:
    """What something is that is no tensor, and how one comes of it."""
    kinds = {
        "dict": "a dictionary: read it by name, d['…']",
        "tuple": "a tuple of several values: take one of them",
        "list": "a list: take one after the other, or make one tensor by torch.stack or torch.cat",
        "NoneType": "None",
        "int": "a plain number",
        "float": "a plain number, a float",
        "bool": "True or False",
        "Tensor": "a tensor (its shape is x.shape)",
        "Size": "a shape, not the tensor that has it",
        "torch.Size": "a shape, not the tensor that has it",
        "type": "a class",
        "module": "a module of Python, not something in it",
        "str": "a text",
    }
    if isinstance(value, nn.Module) or kind in vars(nn):
        return f"{what} is a layer ({kind}), not what it makes of a tensor: layer(x)"
    return f"{what} is {kinds.get(kind, f'of type {kind}')}"


@entry(
    r"unsupported operand type\(s\) for (@)?|bad operand type for unary"
    r"|not supported between instances|can't multiply sequence"
    r"|only integer tensors of a single element|can only concatenate (?:list|str)",
    TypeError,
)
def other_operands(case: Case) -> str:
    """An operator between things that do not go together."""
    place, sentences = case.place, []
    sides = place.operands()
    number = complex if case.match[1] else complex | int | float  # of which @ takes none
    if isinstance(place.node, ast.UnaryOp):
        sides = [place.node.operand]
    if isinstance(place.node, ast.Compare):
        sides = [place.node.left, *place.node.comparators]
    for part in sides:
        value = place.value(part)
        value = place.value(place.origin(part)) if value is UNKNOWN else value
        if isinstance(value, tuple) and quoted(part) == "`group['betas']`":
            sentences.append(f"{quoted(part)} is a pair: beta1, beta2 = group['betas']")
        elif not isinstance(value, number | Tensor | None) and value is not UNKNOWN:
            sentences.append(of_type(quoted(part), type(value).__name__, value))
    return "; ".join(sentences[:2])


@entry("object is not (?:subscriptable|iterable)", TypeError)
def not_a_container(case: Case) -> str:
    """Square brackets, or a loop, on something that holds no items."""
    gone_through = None if "subscr" in case.match[0] else case.place.unpacked()
    what = gone_through or next(iter(case.place.operands()), None)
    value, name = case.place.value(what), quoted(what)
    if isinstance(value, nn.Module):
        return f"{name} is a layer: it is called, with round brackets, {name[:-1]}(x)`"
    if hasattr(value, "__dict__"):
        return f"{name} has attributes: {name[:-1]}.name`, not ['name']"
    return ""
