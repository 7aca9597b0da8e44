"""Exceptions about names, attributes, dictionaries and calls: what they mean here.

Entries of the table in checks/exceptions.py. It does not know how any task is solved.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import math
import sys
import types
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from checks.shape_errors import DICTIONARY
from checks.traces import (
    ROOT,
    UNKNOWN,
    Case,
    Place,
    attribute,
    attributes,
    entry,
    holds_embeddings,
    keys,
    quoted,
)

IMPORTS = {  # a name that a file may lack → where it comes from
    "math": "import math",
    "copy": "import copy",
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "from torch.nn import functional as F",
    "np": "import numpy as np",
    "Tensor": "from torch import Tensor",
    "sqrt": "math.sqrt of a number, torch.sqrt of a tensor",
}
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
    given = [one for one in names if isinstance(one, str) and not one.startswith("_")]
    words = {*name.split("_")} - {"num", "layer", "size"}
    near = difflib.get_close_matches(name, given, n=1)
    near = near or [one for one in given if words & {*one.split("_")}][:1]
    if near:
        return f"do you mean {near[0]}?"
    verb = "is" if len(given) == 1 else "are"
    return f"there {verb} {', '.join(given)}" if 0 < len(given) <= FEW else ""


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
        "list": "a list, read with square brackets",
        "Tensor": "a tensor, not a function: is an operator missing before the bracket, or is it "
        "an attribute (x.T, x.shape) that needs none?",
        "int": "a number: is an operator missing before the bracket?",
        "float": "a number: is an operator missing before the bracket, or is it the setting of a "
        "layer (nn.Dropout(p)) that was not made?",
        "str": "a text",
        "NoneType": "None: where nothing was given there is nothing to call",
        "module": "a module, a file: the function or class is in it",
    }
    return f"{what} is {kinds[case.found[1]]}" if case.found[1] in kinds else ""


@entry(
    r"takes (?:from )?\d+ (?:to \d+ )?positional argument|takes no (?:keyword )?argument"
    r"|missing \d+ required (?:positional|keyword-only) arguments?: (.*)"
    r"|multiple values for argument|unexpected keyword argument '(\w+)'",
    TypeError,
)
def other_arguments(case: Case) -> str:
    """A call that does not fit what is called."""
    call, place = case.place.node, case.place
    lacking, unknown = case.found.groups()
    if unknown in WRONG_WORDS:
        return WRONG_WORDS[unknown]
    if place.function is None:
        return "it is called with other arguments: is its first line as it was, with self in it?"
    if not isinstance(call, ast.Call):
        return ""
    called, owner = place.value(call.func), place.value(getattr(call.func, "value", None))
    names, what = parameters(called, isinstance(owner, type)), quoted(call.func)
    if names is None and what != "`super().__init__`":
        has = f"has no argument {unknown}" if unknown else "takes fewer arguments"
        return f"{what} {f'still needs {lacking}' if lacking else has}"
    if unknown and (near := nearest(unknown, names)).startswith("do you"):
        return f"{what} has no argument {unknown}: {near}"
    if what == "`super().__init__`":
        return "the class that this one is made from takes nothing: super().__init__()"
    said = f"{what} takes {', '.join(names)}; you gave {len(call.args) + len(call.keywords)}"
    if isinstance(called, nn.Module) and type(called).__module__.startswith("torch.nn"):
        return f"{said}. Its settings were given when the layer was made"
    if isinstance(owner, type):
        return f"{said}. {quoted(call.func.value)} is the class; the layer that was made is in self"
    if any(isinstance(one, ast.Name) and one.id == "self" for one in call.args):
        return f"{said}, where self comes by itself"
    return said


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
        for name, one in inspect.signature(called).parameters.items()
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    return names[1:] if names[:1] == ["self"] and not of_class else names


@entry(
    r"(\w+)\(\) received an invalid combination of arguments - got \((.*?)\), but expected one of: "
    r"\* \((.*?)\)",
    TypeError,
)
def other_combination(case: Case) -> str:
    """A function of torch that knows no such arguments."""
    name, got, wanted = case.found.groups()
    return f"{name} is given ({got}); torch's takes ({wanted}), for example: what is too much?"


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
    """A tensor under if, and, or, not, in."""
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
    found = [*parts_of(place), *place.operands(), place.unpacked()]
    for part in found:
        empty = place.value(part) is None and not isinstance(part, ast.Constant)
        if not empty or part is None:
            continue
        if isinstance(part, ast.Attribute) and part.attr == "grad":
            return f"{quoted(part)} is None: that parameter had no part in the loss, so skip it"
        source = place.origin(part)
        if isinstance(source, ast.Call):
            return f"{quoted(part)} is None, as {quoted(source)} gave it: {RETURN}"
        return f"{quoted(part)} is None here"
    for part in found:
        named = part.func if isinstance(part, ast.Call) else None
        if isinstance(place.value(named), types.FunctionType | types.MethodType):
            return f"{quoted(part)} gives None: {RETURN}"
    return ""


RETURN = "is a `return` missing there?"


@entry(
    r"must be Tensor, not str|'str' object|string indices|new\(\): invalid data type",
    TypeError,
    AttributeError,
)
def key_for_value(case: Case) -> str:
    """A dictionary that was unpacked, or gone through, gives its keys."""
    for part in parts_of(case.place):
        value = case.place.value(part)
        if isinstance(value, str) and not isinstance(part, ast.Constant):
            return (
                f"{quoted(part)} is the text {value!r}: a dictionary that is unpacked, or gone "
                "through in a loop, gives its keys; read what is in it by d[key]"
            )
    return ""


@entry(r"(\w+)\(\): argument '(?!tensors)\w+' \(position \d\) must be (.*), not (\S+)$", TypeError)
def other_type(case: Case) -> str:
    """A function of torch, or a layer, that is given something of another type."""
    place, (name, wanted, kind) = case.place, case.found.groups()
    given, value = None, UNKNOWN
    for part in place.operands():
        found = place.value(part)
        found = place.value(place.origin(part)) if found is UNKNOWN else found
        if type(found).__name__ == kind.rpartition(".")[2]:
            given, value = part, found
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
    said = {
        "dict": "a dictionary: read it by name, d['…']",
        "tuple": "a tuple of several values: take one of them",
        "list": "a list: take one after the other, or make one tensor by torch.stack or torch.cat",
        "NoneType": "None",
        "int": "a plain number",
        "float": "a plain number",
        "bool": "True or False",
        "Tensor": "a tensor (its shape is x.shape)",
        "Size": "a shape, not the tensor that has it",
        "torch.Size": "a shape, not the tensor that has it",
        "type": "a class",
        "str": "a text",
    }
    if isinstance(value, nn.Module) or kind in vars(nn):
        return f"{what} is a layer ({kind}), not what it makes of a tensor: layer(x)"
    return f"{what} is {said.get(kind, f'of type {kind}')}"


@entry(
    r"unsupported operand type\(s\) for|not supported between instances|can't multiply sequence"
    r"|only integer tensors of a single element|can only concatenate (?:list|str)",
    TypeError,
)
def other_operands(case: Case) -> str:
    """An operator between things that do not go together."""
    place, told = case.place, []
    sides = place.operands()
    if isinstance(place.node, ast.Compare):
        sides = [place.node.left, *place.node.comparators]
    for part in sides:
        value = place.value(part)
        value = place.value(place.origin(part)) if value is UNKNOWN else value
        if isinstance(value, tuple) and quoted(part) == "`group['betas']`":
            told.append(f"{quoted(part)} is a pair: beta1, beta2 = group['betas']")
        elif isinstance(value, nn.Module | dict | tuple | list | str | type):
            told.append(of_type(quoted(part), type(value).__name__, value))
    return "; ".join(told[:2])


@entry("object is not (?:subscriptable|iterable)", TypeError)
def not_a_container(case: Case) -> str:
    """Square brackets, or a loop, on something that holds no items."""
    what = case.place.unpacked() or next(iter(case.place.operands()), None)
    value, name = case.place.value(what), quoted(what)
    if isinstance(value, nn.Module):
        return f"{name} is a layer: it is called, with round brackets, {name[:-1]}(x)`"
    if hasattr(value, "__dict__"):
        return f"{name} has attributes: {name[:-1]}.name`, not ['name']"
    return ""


# ---------------------------------------------------------------------------------------------
# Dictionaries: what BERT returns, a parameter group, a parameter's state


@entry("^(?!unhashable type: '(?!slice))", KeyError, TypeError)
def missing_key(case: Case) -> str:
    """A key that a dictionary does not have, or a slice of one, which older Pythons refuse."""
    place, node = case.place, case.place.node
    if not isinstance(node, ast.Subscript):
        return ""
    given, wanted, what = place.value(node.value), case.error.args[0], quoted(node.value)
    encoded = holds_embeddings(place.value(getattr(node.value, "func", None)))
    if encoded or (isinstance(given, dict) and "pooler_output" in given):
        return f"{what} is {DICTIONARY}"
    if not isinstance(given, dict):
        return ""
    optimizer = place.names.get("self")
    states = optimizer.state.values() if isinstance(optimizer, Optimizer) else ()
    if any(given is state for state in states):
        return (
            f"a parameter's state is empty at its first step, and {what} has {keys(given)} now: "
            f"{wanted!r} needs a first value before it is read"
        )
    return f"{what} has the keys {keys(given)}: {nearest(str(wanted), given)}".rstrip(": ")


@entry(r"'(?:dict|defaultdict)' object has no attribute '(\w+)'", AttributeError)
def key_as_attribute(case: Case) -> str:
    """A key behind a dot."""
    node, name = case.place.node, case.found[1]
    what = quoted(getattr(node, "value", None))
    given = case.place.value(getattr(node, "value", None))
    if isinstance(given, dict) and given and name not in given:
        return f"{what} is a dictionary, read by its keys: {keys(given)}"
    return f"{what} is a dictionary: what is in it is read by {what[:-1]}['{name}']`"


@entry("tuple indices must be integers", TypeError)
def name_for_place(case: Case) -> str:
    """A tuple, read by name."""
    return f"{quoted(case.place.node.value)} is a tuple: it is read by place, or unpacked: a, b = …"


# ---------------------------------------------------------------------------------------------
# Names and attributes


@entry("has no attribute", AttributeError)
def missing_attribute(case: Case) -> str:
    """An attribute that an object does not have, with the nearest that it has."""
    owner, name, place = case.error.obj, case.error.name, case.place
    node = place.node if isinstance(place.node, ast.Attribute) else None
    own = node is not None and node.attr == name  # in the student's line, not inside of torch
    if not own and isinstance(place.node, ast.Call):
        own = getattr(place.node.func, "attr", "") == name
        node = place.node.func if own else None
    if not own:  # in what the line calls
        given = next((part for part in place.operands() if place.value(part) is owner), None)
        kind = type(owner).__name__
        return f"a tensor is wanted, and {of_type(quoted(given), kind, owner)}" if given else ""
    what = quoted(node.value)
    if isinstance(owner, Tensor):
        return f"tensors have no {name}: {nearest(name, dir(Tensor)) or 'see torch.Tensor'}"
    if isinstance(owner, types.ModuleType):
        if name in dir(nn.functional) or name in dir(nn):
            return f"{what} has no {name}: layers are in torch.nn, functions in torch.nn.functional"
        return f"{what} has no {name}: {nearest(name, dir(owner))}"
    if isinstance(owner, int | float):
        return f"{what} is a plain number, which has no {name}: is a function of math meant?"
    if isinstance(owner, list | tuple):
        return of_type(what, type(owner).__name__, owner)
    if isinstance(owner, Optimizer) and name in owner.defaults:
        return f"each parameter group has its own {name}: group['{name}']"
    return of_object(what, owner, name, place)


def of_object(what: str, owner: Any, name: str, place: Place) -> str:
    """A layer, the model, or its configuration, without such an attribute."""
    functions = [one for one, part in vars(type(owner)).items() if callable(part)]
    near = nearest(name, dict.fromkeys([*attributes(owner), *functions]))
    if not near.startswith("do you"):
        inherited = difflib.get_close_matches(name, dir(type(owner)), n=1)
        near = f"do you mean {inherited[0]}?" if inherited else near
    if isinstance(owner, types.SimpleNamespace) or "config" in type(owner).__name__.lower():
        near = near if near.startswith("do you") else "is it named otherwise"
        mine = f"An option of your own is read by getattr({what[1:-1]}, '{name}', default)"
        return f"the configuration has no {name}: {near.rstrip('?')}? {mine}"
    if isinstance(owner, Optimizer):
        return f"an optimizer has no {name}: {near}"
    if not isinstance(owner, nn.Module):
        return ""
    if name == "config":
        return f"{what} keeps no configuration; what functions need of it, __init__ keeps: {near}"
    inside = next((k for k, v in vars(owner)["_modules"].items() if hasattr(v, name)), "")
    if inside and not near.startswith("do you"):
        near = f"it is in {what[1:-1]}.{inside}"
    return f"{what} ({type(owner).__name__}) has no {name}: {near}".rstrip(": ")


@entry(r"name '(\w+)' is not defined", NameError)
def unknown_name(case: Case) -> str:
    """A name that nothing has: an import, self. or config. forgotten, or a slip."""
    name, place = case.found[1], case.place
    if isinstance(case.error, UnboundLocalError):
        return ""
    if name in IMPORTS:
        return f"at the top of the file is missing: {IMPORTS[name]}"
    for owner in ("self", "config"):
        given = place.names.get(owner, UNKNOWN)
        if given is not UNKNOWN and attribute(given, name) is not UNKNOWN:
            return f"do you mean {owner}.{name}?"
    if name in ("self", "config"):
        return f"{name} is no argument of this function" + (
            "; what it needs of the configuration is kept in self by __init__" * (name == "config")
        )
    near = nearest(name, [*place.names, *place.frame.f_globals, *dir(__builtins__)])
    return near if near.startswith("do you") else "it is given no value before this line"


@entry(r"local variable '(\w+)'", UnboundLocalError)
def no_value_yet(case: Case) -> str:
    """A name that gets its value only under a condition, or later."""
    name, place = case.found[1], case.place
    lines = sorted(
        part.lineno
        for part in ast.walk(place.function)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and part.id == name
    )
    before = [line for line in lines if line < place.line]
    if before:
        return f"{name} gets a value in line {before[-1]} only, under a condition that was not met"
    if name in place.frame.f_globals:
        return f"{name} is given a value in this function, which hides what {name} is outside of it"
    return f"{name} is used before it has a value (line {lines[0]})" if lines else ""


# ---------------------------------------------------------------------------------------------
# Numbers, imports


@entry("division by zero", ZeroDivisionError)
def divided_by_zero(case: Case) -> str:
    """In AdamW, a step count that is still 0."""
    if isinstance(case.place.names.get("self"), Optimizer):
        return "1 − β ** t is 0 as long as t is 0: steps count from 1, so count before you divide"
    return f"what {quoted(case.place.node)} divides by is 0"


@entry("No module named '(.*)'", ModuleNotFoundError)
def missing_module(case: Case) -> str:
    """A package that is not installed, or a file that is not there."""
    name, _, part = case.found[1].rpartition(".")
    if name:
        near = nearest(part, dir(sys.modules.get(name)))
        return f"{name} has no part {part}: {near}".rstrip(": ")
    files = [path.stem for path in ROOT.glob("*.py")]
    near = difflib.get_close_matches(part, [*files, *sys.stdlib_module_names, *IMPORTS], n=1)
    if near:
        return f"do you mean {near[0]}?"
    return (
        f"is it a file of yours, {part}.py? Then it is not in the repository's folder. A package "
        f"has to be installed (pip install {part}) and named in requirements.txt"
    )


@entry("cannot import name '(.*)' from (?:partially initialized module )?'(.*?)'", ImportError)
def missing_import(case: Case) -> str:
    """A name that a module does not have."""
    name, module = case.found.groups()
    if "circular" in str(case.error):
        return f"this file and {module} import each other: one of the two has to do without"
    return f"{module} has no {name}: {nearest(name, dir(sys.modules.get(module)))}".rstrip(": ")
