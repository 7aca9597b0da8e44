"""Where a student's code failed: the line, the expression that failed, and what is in it.

Names and attributes are looked up in the frame that failed. Of calls only those of torch that
change nothing are made again, so that nothing of the student's runs twice. It does not know how any
task is solved.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import linecache
import operator
import types
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from checks.findings import is_students

UNKNOWN = object()  # the value of what cannot be looked up
READ_ONLY = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List),
    *(ast.Dict, ast.UnaryOp, ast.USub, ast.BinOp, ast.keyword, ast.expr_context),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.MatMult),
)
# What may be called again: methods of a tensor, or functions of torch and torch.nn.functional
PURE = """
    size dim numel transpose permute unsqueeze squeeze flatten reshape view contiguous clone detach
    float double softmax sqrt square abs mean sum matmul bmm cat stack
""".split()
LAYERS = (nn.Linear, nn.Embedding, nn.Dropout, nn.LayerNorm, nn.GELU, nn.ReLU, nn.Tanh, nn.Softmax)
LONGEST = 60  # characters of an expression that are shown
KINDS = {  # type → what it is, and how one gets at what is in it
    "dict": ("a dictionary", ": read it by name, d['…']"),
    "tuple": ("a tuple", ": take one value, x[0], or all: a, b = x"),
    "list": ("a list", ": take one after the other, or make one tensor of all: torch.stack(x)"),
    "Size": ("a shape", ", not a tensor: x.shape[0] or x.size(0) is one size"),
    "type": ("a class", ""),
    "module": ("a module of Python", ", not something in it"),
    "SimpleNamespace": ("an object", " whose settings are read by a dot: config.hidden_size"),
    "BertConfig": ("an object", " whose settings are read by a dot: config.hidden_size"),
}
AXES = {  # of what functions are given
    "attention_mask": ("B", "", "", "L"),
    "hidden_states": ("B", "L", "D"),
    "input": ("B", "L", "D"),
    "input_ids": ("B", "L"),
    "input_ids_1": ("B", "L"),
}


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
    around: list[ast.AST] = []  # outer ones first, as ast.walk gives them
    with contextlib.suppress(SyntaxError, ValueError, TypeError):  # the file has changed; no span
        line, last_line, column, last_column = span
        around = [
            node
            for node in ast.walk(tree_of(source))
            if isinstance(node, ast.expr | ast.stmt)
            and (node.lineno, node.col_offset) <= (line, column)
            and (last_line, last_column) <= (node.end_lineno, node.end_col_offset)
        ]
    function, statement, node = (
        next((part for part in reversed(around) if isinstance(part, kind)), None)
        for kind in (ast.FunctionDef, ast.stmt, ast.expr)
    )
    return Place(error, frame, innermost.tb_lineno, function, statement, node)


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


@dataclass(frozen=True)
class Place:
    """Where a student's code failed."""

    error: BaseException
    frame: types.FrameType
    line: int = 0
    function: ast.FunctionDef | None = None
    statement: ast.stmt | None = None  # the smallest one around what failed
    node: ast.expr | None = None  # the expression that failed

    @property
    def names(self) -> Mapping[str, Any]:
        """The local variables."""
        return self.frame.f_locals

    @property
    def called(self) -> ast.expr | None:
        """What the failing expression calls; None where it is not a call."""
        return self.node.func if isinstance(self.node, ast.Call) else None

    def operands(self) -> list[ast.expr]:
        """What the failing operation or call was given: both sides, or receiver and arguments."""
        node = self.node
        if isinstance(node, ast.BinOp):
            return [node.left, node.right]
        if isinstance(node, ast.UnaryOp):
            return [node.operand]
        if isinstance(node, ast.Compare):
            return [node.left, *node.comparators]
        if isinstance(self.statement, ast.AugAssign) and node is None:
            return [self.statement.target, self.statement.value]
        if isinstance(node, ast.Attribute | ast.Subscript):
            return [node.value]
        if not isinstance(node, ast.Call):
            return [*filter(None, [self.unpacked()])]
        if not callable(self.value(node.func)) and self.value(node.func) is not UNKNOWN:
            return [node.func]
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        if receiver and not isinstance(self.value(receiver[0]), Tensor):
            receiver = []  # a module, as in torch.matmul(a, b)
        listed = [part.elts if isinstance(part, ast.List) else [part] for part in node.args]
        return receiver + [part for parts in listed for part in parts]

    def parts(self) -> list[ast.expr]:
        """All expressions in what failed, outer ones first; then what is unpacked there."""
        node = self.node or self.statement
        inside = [part for part in ast.walk(node) if isinstance(part, ast.expr)] if node else []
        return [*inside, *filter(None, [self.unpacked()])]

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
            if any(isinstance(name, ast.Name) and name.id == node.id for name in part.targets)
        ]
        return max(made, key=lambda part: part.lineno).value if made else node

    def has_code_around(self) -> bool:
        """Whether more is in the block of this statement than what a stub has, above its TODO.

        Where that comment is gone, what is given in a block inside, or in __init__, is not known.
        """
        if self.function is None:  # outside of any function
            return True
        lines = linecache.getlines(self.frame.f_code.co_filename, self.frame.f_globals)
        above = range(self.function.lineno, self.line)
        marks = [number for number in above if lines[number - 1].strip() == "### TODO"]
        blocks = [
            block
            for node in ast.walk(self.function)
            for block in (getattr(node, "body", None), getattr(node, "orelse", None))
            if isinstance(block, list) and self.statement in block
        ]
        all_own = self.statement in self.function.body and self.function.name != "__init__"
        first = marks[-1] if marks else self.function.lineno if all_own else self.line
        return any(
            part.lineno > first and part is not self.statement and not is_docstring(part)
            for block in blocks
            for part in block
        )

    # What an expression is, as far as it can be looked up

    def value(self, node: ast.AST | None) -> Any:
        """The value of an expression; UNKNOWN where code of the student's would run again."""
        with contextlib.suppress(Exception, SystemExit):
            if node and all(map(self.is_pure, ast.walk(node))):
                with (
                    torch.no_grad(),
                    torch.random.fork_rng(devices=[]),
                    warnings.catch_warnings(action="ignore"),
                ):
                    return eval(ast.unparse(node), self.frame.f_globals, self.names)
        return UNKNOWN

    def is_pure(self, node: ast.AST) -> bool:
        """Whether to evaluate this node, of which the parts are known, changes nothing."""
        if not isinstance(node, ast.Call):
            return isinstance(node, READ_ONLY)
        if isinstance(node.func, ast.Attribute) and node.func.attr in PURE:
            owner = self.value(node.func.value)
            return isinstance(owner, Tensor) or owner is torch or owner is nn.functional
        return type(self.value(node.func)) in LAYERS

    # In words

    def here(self) -> str:
        """What the failing expression was given, as far as it can be looked up; or ""."""
        parts = {quoted(part): self.brief(part) for part in self.operands()}
        known = [f"{name} is {brief}" for name, brief in parts.items() if brief]
        return ", ".join(known)

    def brief(self, node: ast.expr) -> str:
        """What an expression is, in a few words; "" of a constant and of what is unknown."""
        value = self.value(node)
        if isinstance(node, ast.Call) and is_bert(self.value(node.func)):
            return "a dictionary, to be read by name: ['last_hidden_state'] or ['pooler_output']"
        if value is UNKNOWN or isinstance(node, ast.Constant | ast.UnaryOp):
            return ""
        if isinstance(value, Tensor):
            return f"a tensor {self.shape(value.shape)}, {str(value.dtype).removeprefix('torch.')}"
        return in_words(value)

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


def is_bert(called: Any) -> bool:
    """Whether it is a BertModel, whose result is a dictionary."""
    return isinstance(called, nn.Module) and path_in(called, "pooler_dense") is not None


def in_words(value: Any) -> str:
    """What a value other than a tensor is, and how one gets at what is in it."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    kind = type(value).__name__
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, nn.Module):
        return f"a layer ({kind}), not what it makes of a tensor: layer(x)"
    what, how = KINDS.get(kind, (f"of type {kind}", ""))
    size = f" of {len(value)}" if isinstance(value, list | tuple | dict) else ""
    return f"{what}{size}{how}"


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


def path_in(owner: Any, path: str) -> Any:
    """What is at ``bert.config``, for example; None without."""
    with contextlib.suppress(Exception, SystemExit):
        return operator.attrgetter(path)(owner)
    return None
