"""Exceptions about names, attributes, keys and imports: what they mean here.

Entries of the table in checks/exceptions.py. It does not know how any task is solved.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import sys
import types
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from checks.call_errors import nearest, of_type
from checks.findings import ROOT
from checks.shape_errors import DICTIONARY
from checks.traces import (
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
}


# ---------------------------------------------------------------------------------------------
# Dictionaries: what BERT returns, a parameter group, a parameter's state


@entry("^(?!unhashable type: '(?!slice))", KeyError, TypeError)
def missing_key(case: Case) -> str:
    """A key that a dictionary does not have, or a slice of one, which older Pythons refuse."""
    place, node = case.place, case.place.node
    if not isinstance(node, ast.Subscript):
        return ""
    holder, wanted, what = place.value(node.value), case.error.args[0], quoted(node.value)
    encoded = holds_embeddings(place.value(getattr(node.value, "func", None)))
    if encoded or (isinstance(holder, dict) and "pooler_output" in holder):
        return f"{what} is {DICTIONARY}"
    holder = vars(holder)["_modules"] if isinstance(holder, nn.ModuleDict) else holder
    if not isinstance(holder, dict):
        return ""
    optimizer = place.names.get("self")
    states = optimizer.state.values() if isinstance(optimizer, Optimizer) else ()
    if any(holder is state for state in states):
        return (
            f"a parameter's state is empty at its first step, and {what} has {keys(holder)} now: "
            f"{wanted!r} needs a first value before it is read"
        )
    near = nearest(str(wanted), holder)
    sentence = f"{what} has the keys {keys(holder)}"
    return f"{sentence}: {near}" if near.startswith("do you") else sentence


@entry(r"'(?:dict|defaultdict)' object has no attribute '(\w+)'", AttributeError)
def key_as_attribute(case: Case) -> str:
    """A key behind a dot."""
    node, name = case.place.node, case.match[1]
    what = quoted(getattr(node, "value", None))
    holder = case.place.value(getattr(node, "value", None))
    inside = ("last_hidden_state", "pooler_output")
    called = case.place.value(getattr(getattr(node, "value", None), "func", None))
    if name not in inside and holds_embeddings(called):
        return f"{what} is {DICTIONARY}"
    if isinstance(holder, dict) and holder and name not in holder:
        return f"{what} is a dictionary, read by its keys: {keys(holder)}"
    return f"{what} is a dictionary: what is in it is read by {what[:-1]}['{name}']`"


@entry("(tuple|list) indices must be integers", TypeError)
def name_for_place(case: Case) -> str:
    """A tuple, read by name."""
    what = quoted(case.place.node.value)
    return f"{what} is a {case.match[1]}: it is read by place, or unpacked: a, b = …"


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
        operand = next((part for part in place.operands() if place.value(part) is owner), None)
        kind = type(owner).__name__
        return f"a tensor is wanted, and {of_type(quoted(operand), kind, owner)}" if operand else ""
    what = quoted(node.value)
    if isinstance(owner, Tensor):
        return f"tensors have no {name}: {nearest(name, dir(Tensor)) or 'see torch.Tensor'}"
    if isinstance(owner, types.ModuleType):
        if name in dir(nn.functional) or name in dir(nn):
            return f"{what} has no {name}: layers are in torch.nn, functions in torch.nn.functional"
        return f"{what} has no {name}: {nearest(name, dir(owner))}"
    if isinstance(owner, type | super):
        return f"{what} has no {name}: {nearest(name, dir(owner))}".rstrip(": ")
    if isinstance(owner, int | float):
        return f"{what} is a plain number, which has no {name}: is a function of math meant?"
    if isinstance(owner, list | tuple):
        return of_type(what, type(owner).__name__, owner)
    if isinstance(owner, Optimizer) and name in owner.defaults:
        return f"each parameter group has its own {name}: group['{name}']"
    return of_object(what, owner, name, place)


def of_object(what: str, owner: Any, name: str, place: Place) -> str:
    """A layer, the model, or its configuration, without such an attribute."""
    functions = [function for function, part in vars(type(owner)).items() if callable(part)]
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
    name, place = case.match[1], case.place
    if isinstance(case.error, UnboundLocalError):
        return ""
    if name == "sqrt":
        return "it is math.sqrt of a number, torch.sqrt of a tensor"
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
    own = [  # nobody means a class of errors by a slip of the pen
        key
        for key, value in vars(builtins).items()
        if not (isinstance(value, type) and issubclass(value, BaseException))
    ]
    near = nearest(name, [*place.names, *place.frame.f_globals, *own])
    return near if near.startswith("do you") else "it is given no value before this line"


@entry(r"local variable '(\w+)'", UnboundLocalError)
def no_value_yet(case: Case) -> str:
    """A name that gets its value only under a condition, or later."""
    name, place = case.match[1], case.place
    lines = sorted(
        part.lineno
        for part in ast.walk(place.function)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and part.id == name
    )
    before = [line for line in lines if line < place.line]
    if before:
        return (
            f"{name} gets its value in line {before[-1]}, which was not reached: is that under an "
            "if, or in a loop?"
        )
    if name in place.frame.f_globals:
        return f"{name} is given a value in this function, which hides what {name} is outside of it"
    return f"{name} is used before it has a value (line {lines[0]})" if lines else ""


# ---------------------------------------------------------------------------------------------
# Numbers, imports


@entry("division by zero", ZeroDivisionError)
def divided_by_zero(case: Case) -> str:
    """In AdamW, a step count that is still 0."""
    place, node = case.place, case.place.node
    divisor = place.origin(node.right if isinstance(node, ast.BinOp) else None)
    power = divisor is not None and any(isinstance(p, ast.Pow) for p in ast.walk(divisor))
    if power and isinstance(place.names.get("self"), Optimizer):
        return "1 − β ** t is 0 as long as t is 0: steps count from 1, so count before you divide"
    return f"what {quoted(case.place.node)} divides by is 0"


@entry("No module named '(.*)'", ModuleNotFoundError)
def missing_module(case: Case) -> str:
    """A package that is not installed, or a file that is not there."""
    name, _, part = case.match[1].rpartition(".")
    if name:
        near = nearest(part, dir(sys.modules.get(name)))
        return f"{name} has no part {part}: {near}".rstrip(": ")
    files = [path.stem for path in ROOT.glob("*.py")]
    near = difflib.get_close_matches(part, [*files, *sys.stdlib_module_names], 1, 0.8)
    if near:
        return f"do you mean {near[0]}?"
    return (
        f"is it a file of yours, {part}.py? Then it is not in the repository's folder. A package "
        f"has to be installed (pip install {part}) and named in requirements.txt"
    )


@entry("cannot import name '(.*)' from (?:partially initialized module )?'(.*?)'", ImportError)
def missing_import(case: Case) -> str:
    """A name that a module does not have."""
    name, module = case.match.groups()
    if "circular" in str(case.error):
        return f"this file and {module} import each other: one of the two has to do without"
    return f"{module} has no {name}: {nearest(name, dir(sys.modules.get(module)))}".rstrip(": ")
