"""Exceptions about names, attributes, keys and imports: what they mean here.

Functions of the table checks/exceptions.toml. It does not know how any task is solved.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import re
import sys
import types
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from checks.call_errors import nearest
from checks.findings import ROOT
from checks.traces import UNKNOWN, Place, in_words, path_in, quoted

IMPORTS = {  # a name that a file may lack → where it comes from
    "math": "import math",
    "copy": "import copy",
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "from torch.nn import functional as F",
    "np": "import numpy as np",
    "Tensor": "from torch import Tensor",
}
LIBRARIES = (nn.functional, torch, nn)  # whose functions may lack F., torch. or nn.
OF_TENSORS = ("grad", "shape", "dtype", "device")


# ---------------------------------------------------------------------------------------------
# Dictionaries: what BERT returns, a parameter group, a parameter's state


def keys(dictionary: dict) -> str:
    """The keys of a dictionary in words."""
    return ", ".join(map(repr, [*dictionary][:12])) or "no keys"


def missing_key(place: Place, match: re.Match) -> str:
    """A key that a dictionary does not have, or a slice of one, which older Pythons refuse."""
    if not isinstance(place.node, ast.Subscript):
        return ""
    source, wanted = place.node.value, place.error.args[0]
    holder, what = place.value(source), quoted(source)
    if not isinstance(holder, dict | nn.ModuleDict):
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


def key_as_attribute(place: Place, match: re.Match) -> str:
    """A key behind a dot."""
    source, name = getattr(place.node, "value", None), match[1]
    holder, what = place.value(source), quoted(source)
    if holder is UNKNOWN and name not in ("last_hidden_state", "pooler_output"):
        return ""
    if isinstance(holder, dict) and holder and name not in holder:
        return f"{what} is a dictionary, read by its keys: {keys(holder)}"
    return f"{what} is a dictionary: what is in it is read by {what[:-1]}['{name}']`"


# ---------------------------------------------------------------------------------------------
# Names and attributes


def missing_attribute(place: Place, match: re.Match) -> str:
    """An attribute that an object does not have, with the nearest that it has."""
    owner, name = place.error.obj, place.error.name
    node = place.called or place.node
    if not isinstance(node, ast.Attribute) or node.attr != name:  # in what the line calls
        operand = next((part for part in place.operands() if place.value(part) is owner), None)
        known = f"{quoted(operand)} is {in_words(owner)}"
        return f"a tensor is wanted, and {known}" if operand else ""
    what = quoted(node.value)
    if name in place.names and isinstance(owner, Tensor | nn.Module):
        known = f"{what} has no {name}, but {name} is a variable of this function"
        return f"{known}: is it meant alone, or a comma in the place of the dot?"
    if isinstance(owner, Tensor):
        return f"tensors have no {name}: {nearest(name, dir(Tensor)) or 'see torch.Tensor'}"
    if isinstance(owner, types.ModuleType) and (name in dir(nn.functional) or name in dir(nn)):
        return f"{what} has no {name}: layers are in torch.nn, functions in torch.nn.functional"
    if isinstance(owner, types.ModuleType | type | super):
        return f"{what} has no {name}: {nearest(name, dir(owner))}".rstrip(": ")
    if isinstance(owner, int | float):
        return f"{what} is a plain number, which has no {name}: is a function of math meant?"
    if isinstance(owner, list | tuple):
        return f"{what} is {in_words(owner)}"
    if isinstance(owner, Optimizer) and name in owner.defaults:
        return f"each parameter group has its own {name}: group['{name}']"
    return of_object(what, owner, name)


def of_object(what: str, owner: Any, name: str) -> str:
    """A layer, the model, an optimizer, or the configuration, without such an attribute."""
    near = nearest(name, names_in(owner))
    inherited = difflib.get_close_matches(name, dir(type(owner)), n=1)
    if inherited and not near.startswith("do you"):
        near = f"do you mean {inherited[0]}?"
    if isinstance(owner, types.SimpleNamespace) or "config" in type(owner).__name__.lower():
        near = near if near.startswith("do you") else "is it named otherwise?"
        option = f"An option of your own is read by getattr({what[1:-1]}, '{name}', default)"
        return f"the configuration has no {name}: {near} {option}"
    if name == "config":
        return f"{what} keeps no configuration; what functions need of it, __init__ keeps: {near}"
    inside = next((k for k, v in getattr(owner, "_modules", {}).items() if hasattr(v, name)), "")
    if inside and not near.startswith("do you"):
        near = f"it is in {what[1:-1]}.{inside}"
    return f"{what} ({type(owner).__name__}) has no {name}: {near}".rstrip(": ")


def names_in(owner: Any) -> list[str]:
    """The names of what an object holds itself, settings, modules, parameters; of its functions."""
    own = [name for name in vars(owner) if name != "training"]
    inside = [vars(owner).get(kind, ()) for kind in ("_parameters", "_modules", "_buffers")]
    functions = [name for name, part in vars(type(owner)).items() if callable(part)]
    return list(dict.fromkeys([*own, *(n for part in inside for n in part), *functions]))


def unknown_name(place: Place, match: re.Match) -> str:
    """A name that nothing has: an import, self. or config. forgotten, or a slip."""
    name = match[1]
    if name == "sqrt":
        return "it is math.sqrt of a number, torch.sqrt of a tensor"
    if name in IMPORTS:
        return f"at the top of the file is missing: {IMPORTS[name]}"
    for holder, value in place.names.items():
        if isinstance(value, dict) and name in value:
            return f"{name} has no value; {holder}['{name}'] has one"
    for owner in ("self", "config"):
        known = path_in(place.names.get(owner), name)
        if known is not None and path_in(known, "__code__") is not place.frame.f_code:
            return f"do you mean {owner}.{name}?"
    if name in ("self", "config"):
        return f"{name} is not an argument of this function" + (
            "; what it needs of the configuration is kept in self by __init__" * (name == "config")
        )
    known = {**place.frame.f_globals, **place.names}
    tensors = [owner for owner, value in known.items() if isinstance(value, Tensor)]
    libraries = [owner for library in LIBRARIES for owner, x in known.items() if x is library]
    near = nearest(name, place.names)
    if name not in OF_TENSORS and near.startswith("do you"):
        return near
    for owner in tensors if name in OF_TENSORS else libraries:
        if path_in(known[owner], name) is not None:
            return f"do you mean {owner}.{name}?"
    elsewhere = [*place.frame.f_globals, *vars(builtins)]
    if near := difflib.get_close_matches(name, elsewhere, 1, 0.8):
        return f"do you mean {near[0]}?"
    return "it is given no value before this line"


def no_value_yet(place: Place, match: re.Match) -> str:
    """A name that gets its value only under a condition, or later."""
    name = match[1]
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
# Imports


def missing_module(place: Place, match: re.Match) -> str:
    """A package that is not installed, or a file that is not there."""
    name, _, part = match[1].rpartition(".")
    if name:
        near = nearest(part, dir(sys.modules.get(name)))
        return f"{name} has no part {part}: {near}".rstrip(": ")
    files = [path.stem for path in ROOT.glob("*.py")]
    near = difflib.get_close_matches(part, [*files, *sys.stdlib_module_names], 1, 0.8)
    if near:
        return f"do you mean {near[0]}?"
    return (
        f"is it a file of yours, {part}.py? Then it is not in the repository's folder. A package "
        f"has to be installed (pip install {part}); where you are graded, only those are that "
        "setup.sh installs and README.md names"
    )


def missing_import(place: Place, match: re.Match) -> str:
    """A name that a module does not have."""
    name, module = match.groups()
    if "circular" in str(place.error):
        return f"this file and {module} import each other: one of the two has to do without"
    return f"{module} has no {name}: {nearest(name, dir(sys.modules.get(module)))}".rstrip(": ")
