"""Where a student's code failed: the line, the expression that failed, and the shapes there.

Names and attributes are looked up in the frame that failed. Of calls, only those of torch that
change nothing are made again, so that nothing of the student's runs twice.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import linecache
import operator
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from checks.findings import is_students

UNKNOWN = object()  # the value of what cannot be looked up
READ_ONLY = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List),
    *(ast.UnaryOp, ast.USub, ast.BinOp, ast.operator, ast.keyword, ast.expr_context),
)
# Methods of a tensor and functions of torch, which may be called again
PURE = """size dim transpose permute unsqueeze squeeze flatten reshape view clone float softmax sqrt
    square abs mean sum matmul""".split()
LONGEST = 60  # characters of an expression that are shown
SIZES = {  # where self may keep a size → its letter
    "num_attention_heads": "H",
    "attention_head_size": "W",
    "all_head_size": "D",
    "bert.config.hidden_size": "D",
}
AXES = {  # of what functions are given
    "attention_mask": ("B", "", "", "L"),
    "hidden_states": ("B", "L", "D"),
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
    line, last_line, column, last_column = [*frame.f_code.co_positions()][innermost.tb_lasti // 2]
    smallest: dict[bool, ast.AST] = {}  # the expression, the statement
    with contextlib.suppress(SyntaxError, ValueError, TypeError):  # the file has changed; no column
        for node in ast.walk(ast.parse(source)):  # outer ones first
            if (
                isinstance(node, ast.expr | ast.stmt)
                and (node.lineno, node.col_offset) <= (line, column)
                and (last_line, last_column) <= (node.end_lineno, node.end_col_offset)
            ):
                smallest[isinstance(node, ast.expr)] = node
    return Place(frame, innermost.tb_lineno, smallest.get(False), smallest.get(True))


def only_a_stub(error: NotImplementedError) -> bool:
    """Whether a function raises it that is not begun: no code of the student's is around the raise.

    torch raises the same type, with a text of its own, for operations it does not have.
    """
    if str(error) and not str(error).startswith("Task "):
        return False
    if (place := place_of(error)) is None:
        return True
    lines = linecache.getlines(str(place.path))
    above = [line.strip() for line in lines[place.frame.f_code.co_firstlineno : place.line - 1]]
    after_todo = above[above.index("### TODO") + 1 :] if "### TODO" in above else []
    indent = lines[place.line - 1].partition("raise")[0]
    in_block = itertools.takewhile(lambda x: x.startswith((indent, "\n")), lines[place.line :])
    return all(line.strip()[:1] in ("", "#") for line in (*after_todo, *in_block))


@dataclass(frozen=True)
class Place:
    """Where a student's code failed."""

    frame: types.FrameType
    line: int
    statement: ast.stmt | None  # the smallest one around what failed
    node: ast.expr | None  # the expression that failed

    @property
    def path(self) -> Path:
        """The student's file."""
        return Path(self.frame.f_code.co_filename)

    def operands(self) -> list[ast.expr]:
        """What the failing operation or call was given, or what is unpacked there."""
        match self.node, self.statement:
            case ast.BinOp(left, _, right), _:
                return [left, right]
            case ((ast.Attribute(value) | ast.Subscript(value)), _):
                return [value]
            case ast.Call(func, args), _:
                receiver = [func] if not callable(self.value(func)) else []
                if isinstance(func, ast.Attribute) and isinstance(self.value(func.value), Tensor):
                    receiver = [func.value]
                listed = [part.elts if isinstance(part, ast.List) else [part] for part in args]
                return receiver + [part for parts in listed for part in parts]
            case None, ast.AugAssign(target, _, value):
                return [target, value]
            case _, (ast.Assign(value=value) | ast.For(iter=value)):
                return [value]
        return []

    def value(self, node: ast.AST | None) -> Any:
        """The value of an expression; UNKNOWN where code of the student's would run again."""
        with contextlib.suppress(Exception, SystemExit), torch.no_grad():
            if node and all(map(self.is_pure, ast.walk(node))):
                return eval(ast.unparse(node), self.frame.f_globals, self.frame.f_locals)
        return UNKNOWN

    def is_pure(self, node: ast.AST) -> bool:
        """Whether to evaluate this node, of which the parts are known, changes nothing."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            return node.func.attr in PURE and (isinstance(owner, Tensor) or owner is torch)
        return isinstance(node, READ_ONLY)

    def here(self) -> str:
        """What the failing expression was given, as far as it can be looked up; or ""."""
        parts = {quoted(part): self.brief(part) for part in self.operands()}
        return ", ".join(f"{name} is {brief}" for name, brief in parts.items() if brief)

    def brief(self, node: ast.expr) -> str:
        """What an expression is, in a few words; "" of a constant and of what is unknown."""
        value = self.value(node)
        if isinstance(node, ast.Call) and path_in(self.value(node.func), "pooler_dense"):
            return "a dictionary with the keys 'last_hidden_state', 'pooler_output'"
        if value is UNKNOWN or isinstance(node, ast.Constant | ast.UnaryOp):
            return ""
        if not isinstance(value, Tensor):
            return in_words(value)
        dtype = str(value.dtype).removeprefix("torch.")
        ends = f" from {value.min()} to {value.max()}" if dtype == "int64" and len(value) else ""
        return f"a tensor {self.shape(tuple(value.shape))}, {dtype}{ends}"

    def shape(self, shape: tuple[int, ...]) -> str:
        """A shape, and the course's letters for sizes: (3, 4, 7, 8) = (B, H, L, W)."""
        letters = self.letters()
        axes = [letters.get(size, str(size)) for size in shape]
        axes[1:] = [str(n) if a == "B" else a for n, a in zip(shape[1:], axes[1:], strict=True)]
        known = axes != list(map(str, shape))
        return f"{shape} = ({', '.join(axes)}{',' * (len(axes) == 1)})" if known else str(shape)

    def letters(self) -> dict[int, str]:
        """Which axis a size is likely to be of; nothing of sizes that two axes share."""
        names = self.frame.f_locals
        owner = names.get("self")
        sizes = {x: n for path, x in SIZES.items() if (n := path_in(owner, path))}
        # The student may have assigned to an argument; the first that has its axes tells.
        for name, axes in AXES.items():
            argument = names.get(name)
            if isinstance(argument, Tensor) and argument.dim() == len(axes):
                sizes |= dict(zip(axes, argument.shape, strict=True))
                break
        counts = list(sizes.values())
        return {n: name for name, n in sizes.items() if name and n and counts.count(n) == 1 < n}


def in_words(value: Any) -> str:
    """What a value other than a tensor is, and how one gets at what is in it."""
    kind = type(value).__name__
    match value:
        case None | bool() | int() | float() | str():
            return repr(value)
        case dict():
            return f"a dictionary with the keys {', '.join(map(repr, value))}" if value else "{}"
        case torch.Size():
            return f"the shape {tuple(value)}"
        case list() | tuple():
            return f"a {kind} of {len(value)}"
        case nn.Module():
            return f"a layer ({kind}), not what it makes of a tensor: layer(x)"
        case object(hidden_size=_):
            return f"a configuration with {', '.join(vars(value))}"
    return f"of type {kind}"


def quoted(node: ast.AST) -> str:
    """An expression in backquotes, cut where it is long."""
    text = ast.unparse(node)
    return f"`{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}`"


def path_in(owner: Any, path: str) -> Any:
    """What is at ``bert.config``, for example; None without."""
    with contextlib.suppress(Exception, SystemExit):
        return operator.attrgetter(path)(owner)
    return None
