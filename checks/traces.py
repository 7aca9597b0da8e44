"""Where a student's code failed: the line, the expression that failed, and what is in it.

Nothing of the student's is run again. Names are looked up in the frame that failed, attributes in
the objects' own dictionaries, and what torch would make of them is computed on shapes alone. It
does not know how any task is solved.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import operator
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from checks.findings import is_students

UNKNOWN = object()  # the value of what cannot be looked up
# What may be computed on shapes: methods of a tensor, or functions of torch and torch.nn.functional
PURE = """
    size dim numel transpose permute unsqueeze squeeze flatten reshape view contiguous clone detach
    float double softmax sqrt square abs mean sum matmul bmm cat stack
""".split()
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.MatMult: operator.matmul,
}
ALIKE = (nn.Dropout, nn.LayerNorm, nn.GELU, nn.ReLU, nn.Tanh, nn.Softmax)  # keep a shape
LONGEST = 60  # characters of an expression that are shown


def place_of(error: BaseException) -> Place | None:
    """The innermost line of the student's that an exception went through."""
    innermost, trace = None, error.__traceback__
    while trace is not None:
        if is_students(Path(trace.tb_frame.f_code.co_filename)):
            innermost = trace
        trace = trace.tb_next
    if innermost is None:
        return None
    frame = innermost.tb_frame
    linecache.checkcache(frame.f_code.co_filename)
    source = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    span = [*frame.f_code.co_positions()][innermost.tb_lasti // 2]  # lines and columns, two of each
    function = function_at(source, frame.f_code)
    node = statement = None
    if function and None not in span:
        line, last_line, column, last_column = span
        around = [
            node
            for node in ast.walk(function)
            if isinstance(node, ast.expr | ast.stmt)
            and (node.lineno, node.col_offset) <= (line, column)
            and (last_line, last_column) <= (node.end_lineno, node.end_col_offset)
        ]  # ast.walk gives outer ones first
        node = next((node for node in reversed(around) if isinstance(node, ast.expr)), None)
        statement = next((node for node in reversed(around) if isinstance(node, ast.stmt)), None)
    return Place(frame, innermost.tb_lineno, function, statement, node)


def only_a_stub(error: NotImplementedError) -> bool:
    """Whether a function raises it that is not begun: no code of the student's is around the raise.

    torch raises the same type, with a text of its own, for operations it does not have.
    """
    message, place = str(error), place_of(error)
    if message and not message.startswith("Task "):
        return False
    if not message or place is None or not isinstance(place.statement, ast.Raise):
        return True
    return not place.has_code_around()


tree_of = functools.lru_cache(maxsize=8)(ast.parse)


def function_at(source: str, code: types.CodeType) -> ast.AST | None:
    """The function of a code object, or the whole file; None if the file has changed since."""
    try:
        tree = tree_of(source)
    except (SyntaxError, ValueError):
        return None
    if code.co_name == "<module>":
        return tree
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
            inside = first <= code.co_firstlineno <= node.end_lineno
            if inside and (node.name == code.co_name or code.co_name.startswith("<")):
                return node
    return None


@dataclass(frozen=True)
class Place:
    """Where a student's code failed."""

    frame: types.FrameType
    line: int
    function: ast.AST | None
    statement: ast.stmt | None  # the smallest one around what failed
    node: ast.expr | None  # the expression that failed

    @property
    def names(self) -> Mapping[str, Any]:
        """The local variables."""
        return self.frame.f_locals

    def operands(self) -> list[ast.expr]:
        """What the failing operation or call was given: both sides, or receiver and arguments."""
        node = self.node
        if isinstance(node, ast.BinOp):
            return [node.left, node.right]
        if isinstance(self.statement, ast.AugAssign) and node is None:
            return [self.statement.target, self.statement.value]
        if not isinstance(node, ast.Call):
            return [node.value] if isinstance(node, ast.Attribute | ast.Subscript) else []
        function = node.func
        receiver = [function.value] if isinstance(function, ast.Attribute) else []
        if receiver and not isinstance(self.value(receiver[0]), Tensor):
            receiver = []  # a module, as in torch.matmul(a, b)
        listed = [part.elts if isinstance(part, ast.List) else [part] for part in node.args]
        return receiver + [part for parts in listed for part in parts]

    def unpacked(self) -> ast.expr | None:
        """What is unpacked, or gone through in a loop, where that fails; None elsewhere."""
        statement = self.statement
        if isinstance(statement, ast.Assign) and isinstance(
            statement.targets[0], ast.Tuple | ast.List
        ):
            return statement.value
        return statement.iter if isinstance(statement, ast.For) else None

    def origin(self, node: ast.expr | None) -> ast.expr | None:
        """An expression; of a name what it was last assigned above the line that failed."""
        if not isinstance(node, ast.Name) or self.function is None:
            return node
        made = [
            part
            for part in ast.walk(self.function)
            if isinstance(part, ast.Assign) and part.lineno < self.line
            if any(isinstance(one, ast.Name) and one.id == node.id for one in part.targets)
        ]
        return max(made, key=lambda part: part.lineno).value if made else node

    def has_code_around(self) -> bool:
        """Whether more is in the block of this statement than what a stub has, above its TODO.

        Where that comment is gone, what is given in a block inside, or in __init__, is not known.
        """
        for node in ast.walk(self.function):
            for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
                if not isinstance(block, list) or self.statement not in block:
                    continue
                lines = linecache.getlines(self.frame.f_code.co_filename, self.frame.f_globals)
                above = range(self.function.lineno, self.line)
                marks = [number for number in above if lines[number - 1].strip() == "### TODO"]
                all_own = block is self.function.body and self.function.name != "__init__"
                first = marks[-1] if marks else self.function.lineno if all_own else self.line
                return any(
                    part.lineno > first
                    for part in block
                    if part is not self.statement and not is_docstring(part)
                )
        return False

    # What an expression is, as far as it can be looked up

    def value(self, node: ast.AST | None) -> Any:
        """The value of an expression, of which tensors may be only shapes; or UNKNOWN."""
        try:
            return self._value(node)
        except Exception:  # whatever torch, or a student's object, has against it
            return UNKNOWN

    def _value(self, node: Any) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self.names.get(node.id, self.frame.f_globals.get(node.id, UNKNOWN))
            case ast.Attribute():
                return attribute(self._value(node.value), node.attr)
            case ast.Tuple() | ast.List():
                parts = tuple(map(self._value, node.elts))
                return known(parts) if isinstance(node, ast.Tuple) else list(known(parts))
            case ast.UnaryOp(op=ast.USub()):
                return -self._value(node.operand)
            case ast.Slice():
                parts = (node.lower, node.upper, node.step)
                return slice(*(None if part is None else self._value(part) for part in parts))
            case ast.Subscript():
                return item(self._value(node.value), self._value(node.slice))
            case ast.BinOp() if type(node.op) in OPERATORS:
                sides = shapes_only([self._value(node.left), self._value(node.right)])
                return OPERATORS[type(node.op)](*sides)
            case ast.Call():
                return self._result(node)
        return UNKNOWN

    def _result(self, node: ast.Call) -> Any:
        arguments = shapes_only(map(self._value, node.args))
        options = {part.arg: self._value(part.value) for part in node.keywords}
        called = self._value(node.func)
        if isinstance(called, (nn.Linear, nn.Embedding, *ALIKE)):
            return result_of(called, *arguments) if isinstance(arguments[0], Tensor) else UNKNOWN
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in PURE:
            return UNKNOWN
        owner = self._value(node.func.value)
        if isinstance(owner, Tensor):
            return getattr(*shapes_only([owner]), node.func.attr)(*arguments, **options)
        if owner is torch or owner is nn.functional:
            return getattr(torch, node.func.attr)(*arguments, **options)
        return UNKNOWN

    # In words

    def show(self, node: ast.AST | None) -> str:
        """An expression in backquotes, and the shape of a tensor behind it."""
        value = self.value(node)
        return quoted(node) + (f" {self.shape(value.shape)}" if isinstance(value, Tensor) else "")

    def brief(self, node: ast.expr) -> str:
        """What an expression is, in a few words; "" of a constant and of what is unknown."""
        value = self.value(node)
        if value is UNKNOWN or isinstance(node, ast.Constant):
            return ""
        if isinstance(value, Tensor):
            return f"a tensor {self.shape(value.shape)}, {str(value.dtype).removeprefix('torch.')}"
        if value is None or isinstance(value, bool | int | float):
            return repr(value)
        size = f" of {len(value)}" if isinstance(value, list | tuple | dict | str) else ""
        return f"of type {type(value).__name__}{size}"

    def shape(self, shape: Iterable[int]) -> str:
        """A shape, and the course's letters for sizes: (3, 4, 7, 8) = (B, H, L, W)."""
        sizes, letters = tuple(shape), self.letters()
        width = next((size for size, letter in letters.items() if letter == "D"), 0)
        axes = []
        for axis, size in enumerate(sizes):
            letter = letters.get(size, "")
            if width and size > width and size % width == 0:
                letter = f"{size // width}·D"
            axes.append(str(size) if not letter or (letter == "B" and axis) else letter)
        if axes == list(map(str, sizes)):
            return str(sizes)
        return f"{sizes} = ({', '.join(axes)}{',' * (len(axes) == 1)})"

    def size(self, size: int) -> str:
        """One size, and its letter: 32 (D)."""
        letter = self.letters().get(size)
        return f"{size} ({letter})" if letter else str(size)

    def letters(self) -> dict[int, str]:
        """Which axis a size is likely to be of; nothing of sizes that two axes share."""
        own = self.names.get("self")
        config = self.names.get("config") or path_in(own, "config") or path_in(own, "bert.config")
        letters = {
            "H": path_in(own, "num_attention_heads"),
            "W": path_in(own, "attention_head_size"),
            "D": path_in(own, "all_head_size")
            or path_in(own, "attention_dense.in_features")
            or path_in(config, "hidden_size"),
        }
        # The student may have assigned to one of them; the first that has its axes tells.
        for name, axes in AXES.items():
            argument = self.names.get(name)
            if isinstance(argument, Tensor) and argument.dim() == len(axes):
                letters |= dict(zip(axes, argument.shape, strict=True))
                break
        sizes = [(size, name) for name, size in letters.items() if name and isinstance(size, int)]
        counts = [size for size, _ in sizes]
        return {size: name for size, name in sizes if size > 1 and counts.count(size) == 1}


AXES = {  # of what functions are given
    "attention_mask": ("B", "", "", "L"),
    "hidden_states": ("B", "L", "D"),
    "input": ("B", "L", "D"),
    "input_ids": ("B", "L"),
    "input_ids_1": ("B", "L"),
}


@dataclass(frozen=True)
class Case:
    """An exception that fits an entry of the table in checks/exceptions.py."""

    error: BaseException
    match: re.Match  # of the entry's pattern in the message
    place: Place

    def first(self, otherwise: str) -> str:
        """What the failing operation was done to, with its shape."""
        operands = self.place.operands()
        return self.place.show(operands[0]) if operands else otherwise


@dataclass(frozen=True)
class Entry:
    """One kind of exception: how it is recognised, and what is said, "" where nothing is known."""

    name: str
    types: tuple[type[BaseException], ...]
    pattern: str
    says: Callable[[Case], str]


def entry(pattern: str, *types: type[BaseException]) -> Callable[[Callable[[Case], str]], Entry]:
    """Make an entry of the table of a function that says what an exception means."""
    return lambda says: Entry(says.__name__, types, pattern, says)


def is_docstring(node: ast.stmt) -> bool:
    """Whether a statement is only a text."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def marked(code: str, column: int) -> list[str]:
    """A line of code without its indent, and a caret below one of its columns, from 0 on."""
    indent = len(code) - len(code.lstrip())
    return [code.strip(), " " * max(column - indent, 0) + "^"]


def quoted(node: ast.AST | None) -> str:
    """An expression in backquotes, cut where it is long."""
    text = ast.unparse(node) if node else "this"
    return f"`{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}`" if node else text


def attribute(owner: Any, name: str) -> Any:
    """An attribute, without running what a class may do to make it."""
    if isinstance(owner, Tensor):
        own = {"shape": owner.shape, "data": owner}
        if owner.is_leaf:  # torch warns of another's .grad
            own["grad"] = owner.grad
        return own[name] if name in own else getattr(*shapes_only([owner]), name, UNKNOWN)
    places = [getattr(owner, "__dict__", {})]
    if isinstance(owner, nn.Module):
        places += [owner.__dict__[kind] for kind in ("_parameters", "_modules", "_buffers")]
    for place in places:
        if name in place:
            return place[name]
    return inspect.getattr_static(type(owner), name, UNKNOWN)


def path_in(owner: Any, path: str) -> Any:
    """What is at ``bert.config``, for example; None without."""
    for name in path.split("."):
        owner = attribute(owner, name)
    return None if owner is UNKNOWN else owner


def attributes(owner: Any) -> list[str]:
    """The names of what an object holds itself: settings, modules, parameters."""
    own = getattr(owner, "__dict__", {})
    inside = [own.get(kind) or {} for kind in ("_parameters", "_modules", "_buffers")]
    names = [name for name in own if not name.startswith("_") and name != "training"]
    return list(dict.fromkeys([*names, *(name for part in inside for name in part)]))


def item(owner: Any, index: Any) -> Any:
    """An item of a dictionary, a tuple, a list of modules or, as a shape, a tensor."""
    if isinstance(owner, nn.ModuleDict | nn.ModuleList):
        return vars(owner)["_modules"].get(str(index), UNKNOWN)
    if isinstance(owner, dict):
        return dict.get(owner, index, UNKNOWN)  # a defaultdict would make what it lacks
    if isinstance(owner, tuple | list):
        return owner[index]
    return shapes_only([owner])[0][index] if isinstance(owner, Tensor) else UNKNOWN


def result_of(module: nn.Module, shape: Tensor) -> Tensor:
    """What a module of torch makes of a shape."""
    if isinstance(module, nn.Linear):
        return shape.new_empty(*shape.shape[:-1], module.out_features)
    if isinstance(module, nn.Embedding):
        return shape.new_empty(*shape.shape, module.embedding_dim)
    return shape


def shapes_only(values: Any) -> list[Any]:
    """Tensors without numbers in place of tensors."""
    return [
        torch.empty(value.shape, dtype=value.dtype, device="meta")
        if isinstance(value, Tensor)
        else known(value)
        for value in values
    ]


def known(value: Any) -> Any:
    """The same; LookupError if it, or one in a tuple, is UNKNOWN."""
    inside = value if isinstance(value, tuple) else ()
    if value is UNKNOWN or any(part is UNKNOWN for part in inside):
        raise LookupError
    return value


def keys(dictionary: dict) -> str:
    """The keys of a dictionary in words."""
    return ", ".join(map(repr, [*dictionary][:12])) or "no keys"


def holds_embeddings(called: Any) -> bool:
    """Whether it is a BertModel, whose result is a dictionary."""
    return isinstance(called, nn.Module) and "pooler_dense" in attributes(called)
