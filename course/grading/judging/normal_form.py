"""A source's syntax tree as a row of symbols, without what changes nothing.

Two sources have the same symbols if they differ in names, texts, comments, docstrings, annotations,
imports and layout only, or by statements and operations without effect: ``0``, ``pass``, ``x = x``,
``if True:``, ``[x][0]``, ``x * 1``. A source is parsed, never run.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

NAME, TEXT = "n", "s"
ACTING = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)  # may have an effect
WORD = re.compile(r"\w+|[^\w\s]")
# Operators and the number on their right, or on both sides, that leave the other side as it is
RIGHT = {ast.Add: 0, ast.Sub: 0, ast.Mult: 1, ast.Div: 1, ast.Pow: 1}
BOTH = (ast.Add, ast.Mult)
# Not told: Expr and others say nothing, a name's context follows from its place
SILENT = (ast.Module, ast.Expr, ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)


@dataclass(frozen=True)
class Symbols:
    """A file in symbols, each with its line."""

    symbols: tuple[str, ...]
    lines: tuple[int, ...]


def symbols_of(source: str) -> Symbols:
    """The symbols of a source; of one that is no Python its words."""
    try:
        tree = Simpler().visit(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return words_of(source)
    symbols: list[tuple[str, int]] = []
    waiting, line = [tree], 1
    while waiting:  # without recursion, however deep the tree is
        node = waiting.pop()
        line = getattr(node, "lineno", line)
        if not isinstance(node, SILENT):
            symbols.append((symbol(node), line))
        if not isinstance(node, ast.JoinedStr):
            waiting += reversed([*ast.iter_child_nodes(node)])
    return Symbols(*zip(*symbols, strict=True)) if symbols else Symbols((), ())


def words_of(source: str) -> Symbols:
    """Words and signs of a text that cannot be parsed."""
    words = [
        (NAME if word.isidentifier() else word, number)
        for number, line in enumerate(source.split("\n"), 1)
        for word in WORD.findall(line)
    ]
    return Symbols(*zip(*words, strict=True)) if words else Symbols((), ())


def symbol(node: ast.AST) -> str:
    """What stands for a node: its kind, its operator, a number's value."""
    match node:
        case ast.Name() | ast.arg() | ast.keyword() | ast.alias():
            return NAME
        case ast.Constant(value=str() | bytes()) | ast.JoinedStr():
            return TEXT
        case ast.Constant():
            return repr(node.value)
        case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.AugAssign():
            return f"{type(node).__name__} {type(node.op).__name__}"
        case ast.Compare():
            return " ".join(type(op).__name__ for op in node.ops)
    return type(node).__name__


class Simpler(ast.NodeTransformer):
    """Takes away what has no effect."""

    def visit(self, node: ast.AST) -> ast.AST | list | None:
        """A node, after all inside it."""
        return simpler(super().generic_visit(node))


def simpler(node: ast.AST) -> ast.AST | list | None:
    """What takes a node's place: itself, a part of it, or nothing."""
    match node:
        case ast.Pass() | ast.Import() | ast.ImportFrom() | ast.AnnAssign(value=None):
            return None
        case ast.Expr() if not any(isinstance(part, ACTING) for part in ast.walk(node)):
            return None  # a docstring, a lone number or name
        case ast.Assign() if is_to_itself(node):
            return None
        case ast.Assert(test=ast.Constant(value=value)) if value:
            return None
        case ast.While(test=ast.Constant(value=value)) if not value:
            return node.orelse
        case ast.If(test=ast.Constant(value=value)) | ast.IfExp(test=ast.Constant(value=value)):
            return node.body if value else node.orelse
        case ast.AnnAssign():
            return ast.copy_location(ast.Assign([node.target], node.value), node)
        case ast.arg():
            node.annotation = None
        case ast.FunctionDef():
            node.returns = None
        case ast.Subscript(
            value=ast.List(elts=[ast.expr() as only]) | ast.Tuple(elts=[ast.expr() as only]),
            slice=ast.Constant(value=0) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(1)),
        ):
            return only
        case ast.Call(
            func=ast.Lambda(args=ast.arguments(args=[]), body=body), args=[], keywords=[]
        ):
            return body
        case ast.UnaryOp(op=ast.UAdd()):
            return node.operand
        case ast.BinOp():
            return without_neutral_number(node)
    return node


def is_to_itself(node: ast.Assign) -> bool:
    """Whether it is ``x = x``."""
    targets = [ast.dump(target).replace("Store()", "Load()") for target in node.targets]
    return targets == [ast.dump(node.value)]


def without_neutral_number(node: ast.BinOp) -> ast.AST:
    """``x + 0``, ``1 * x`` and their like are x."""
    neutral = RIGHT.get(type(node.op))
    if neutral is not None and is_number(node.right, neutral):
        return node.left
    if isinstance(node.op, BOTH) and is_number(node.left, neutral):
        return node.right
    return node


def is_number(node: ast.expr, value: int) -> bool:
    """Whether an expression is that very number."""
    if not isinstance(node, ast.Constant) or type(node.value) not in (int, float):
        return False  # True is 1, too
    return node.value == value
