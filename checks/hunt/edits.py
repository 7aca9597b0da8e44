"""Small edits of a student's function, as a slip of the hand makes them: for the hunt and the quiz.

An edit replaces lines of the file, so that people see their own code. Only the student's own lines
are edited: those below the handout's mark. Nothing is run here, and no torch is needed.
"""

from __future__ import annotations

import ast
import contextlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checks.graded_tasks import GradedTask
from training.files.errors import InputError

MARK = re.compile(r"^( *)### (?:TODO|BEGIN SOLUTION)")  # above a student's own lines
GIVEN = re.compile(r"\b(closure|loss|enable_grad|raise)\b|sparse|\.grad is None")  # in AdamW.step
SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@"}
OTHERS = {"+": "-", "-": "+", "*": "/", "/": "*"}  # what an operator is taken for
NEIGHBOURS = {  # what functions and keys are taken for
    "softmax": "sigmoid",
    "zeros_like": "ones_like",
    "pooler_output": "last_hidden_state",
    "last_hidden_state": "pooler_output",
}
ABOUT = {  # what code is about, by the words in it
    "dropout": r"drop",
    "mask": r"mask",
    "softmax": r"softmax",
    "scale": r"math\.sqrt\(\w+\.|head_size|\*\* ?-?0?\.5",
    "layer norm": r"norm|ln_",
    "weight decay": r"decay",
    "bias correction": r"correct|bias",
    "epsilon": r"eps",
    "dense layer": r"dense|linear|classifier",
    "activation": r"_af\b|gelu|relu",
    "embeddings": r"embed",
    "shape": r"transpose|flatten|reshape|view|permute",
    "moments": r"beta|avg|moment|\b[mv]\b|lerp",
    "step size": r"\blr\b|step_size|alpha|rate",
    "step count": r"step|count|\bt\b",
    "scores": r"@|score|matmul|einsum",
}
OPERATORS = ast.BinOp | ast.UnaryOp | ast.Attribute | ast.Subscript
Change = tuple[str, str]  # what takes a node's place, and what that is about if the code has it not


@dataclass(frozen=True)
class Edit:
    """Lines of a file, counted from 1, that become another text, or are left out."""

    first: int
    last: int
    text: str  # "": left out
    about: str  # "mask", "dropout", …

    def __str__(self) -> str:
        is_one = self.first == self.last
        lines = f"line {self.first} is" if is_one else f"lines {self.first} to {self.last} are"
        new = f"replaced by `{' '.join(self.text.split())}`" if self.text else "left out"
        return f"{lines} {new}"

    def of(self, lines: Sequence[str]) -> list[str]:
        """A file's lines with the edit; those below it keep their numbers."""
        rest = [""] * (self.last - self.first)
        return [*lines[: self.first - 1], self.text, *rest, *lines[self.last :]]


class Function:
    """A task's function in the text of its file.

    Raises:
        InputError: the file is not Python, or has no such class or method.
    """

    def __init__(self, task: GradedTask, source: str):
        self.task, self.lines = task, source.split("\n")
        try:
            node = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise InputError(f"{task.file} is not Python: {error}") from error
        for name in task.function.split("."):  # the class, then the method: the last one counts
            kinds = ast.ClassDef | ast.FunctionDef
            nodes = [part for part in node.body if isinstance(part, kinds) and part.name == name]
            if not nodes:
                raise InputError(f"{task.file} has no {task.function}")
            node = nodes[-1]
        self.node = node
        self.first = min(part.lineno for part in (node, *node.decorator_list))
        self.own = self.own_statements()
        nodes = [node for statement in self.own for node, _ in nodes_of(statement)]
        stored = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        self.names = list(dict.fromkeys([a.arg for a in node.args.args[1:]] + stored))
        self.attributes = list(dict.fromkeys(n.attr for n in nodes if is_of_self(n)))
        keys = [n.slice for n in nodes if isinstance(n, ast.Subscript)]
        self.keys = list(dict.fromkeys(k.value for k in keys if isinstance(k, ast.Constant)))

    def own_statements(self) -> list[ast.stmt]:
        """The student's own statements, nested ones, too."""
        body = self.node.body[ast.get_docstring(self.node) is not None :]
        nodes = (part for top in body for part in ast.walk(top))
        statements = [node for node in nodes if isinstance(node, ast.stmt)]
        for number in range(self.first, self.node.end_lineno + 1):
            if mark := MARK.match(self.lines[number - 1]):
                indent = len(mark[1])
                return [s for s in statements if s.lineno > number and s.col_offset >= indent]
        return [s for s in statements if not GIVEN.search(self.lines[s.lineno - 1])]

    def edits(self) -> list[Edit]:
        """All edits of the student's own lines after which the function is Python, each once."""
        edits: dict[str, Edit] = {}
        for node, around in (pair for statement in self.own for pair in nodes_of(statement)):
            for text, about in (change for kind in KINDS for change in kind(self, node, around)):
                edit = self.edit(node, text, about or about_of(node, *around) or "a value")
                edits.setdefault(self.syntax(edit), edit)
        return [edit for text, edit in edits.items() if text not in ("", self.syntax())]

    def edit(self, node: ast.AST, text: str, about: str = "") -> Edit:
        """Another text in a node's place; the comment behind it goes."""
        first, last = (self.lines[n - 1].encode() for n in (node.lineno, node.end_lineno))
        before, after = first[: node.col_offset].decode(), last[node.end_col_offset :].decode()
        line = f"{before}{text}{after}".partition("  #")[0].rstrip()
        return Edit(node.lineno, node.end_lineno, line, about)

    def syntax(self, edit: Edit | None = None) -> str:
        """The function's syntax with an edit, as a text; "" where it is not Python."""
        lines = (edit.of(self.lines) if edit else self.lines)[self.first - 1 : self.node.end_lineno]
        with contextlib.suppress(SyntaxError, ValueError):
            return ast.dump(ast.parse("\n".join(["class _:", *lines])))
        return ""


def code(node: ast.AST, around: Sequence[ast.AST] = ()) -> str:
    """A node's code on one line; an operand of another operator is in brackets."""
    text = ast.unparse(node).replace("'", '"')
    is_bare = isinstance(node, ast.BinOp | ast.UnaryOp | ast.IfExp)
    return f"({text})" if is_bare and around and isinstance(around[0], OPERATORS) else text


def about_of(*nodes: ast.AST) -> str:
    """What code is about, by the first node that tells; "" if none does."""
    codes = [code(node) for node in nodes if isinstance(node, ast.expr | ast.stmt)]
    abouts = (a for c in codes for a, words in ABOUT.items() if re.search(words, c, re.IGNORECASE))
    return next(abouts, "")


def nodes_of(statement: ast.stmt) -> Iterator[tuple[Any, list[ast.AST]]]:
    """A statement and its own expressions, each with the nodes around it, innermost first."""
    waiting: list[tuple[ast.AST, list[ast.AST]]] = [(statement, [])]
    for node, around in waiting:
        yield node, around
        children = (n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.stmt))
        waiting += [(child, [node, *around]) for child in children]


def is_of_self(node: ast.AST) -> bool:
    """Whether this is ``self.name``, and read."""
    is_read = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    return is_read and code(node.value) == "self"


def in_turns(edits: Iterable[Edit], rng: random.Random) -> list[Edit]:
    """Edits in random order, those about each subject in turns."""
    drawn, count = list(edits), Counter()
    rng.shuffle(drawn)
    turns = [(count.update([edit.about]) or count[edit.about], edit) for edit in drawn]
    return [edit for _, edit in sorted(turns, key=lambda turn: turn[0])]


# ---------------------------------------------------------------------------------------------
# The eight kinds: what may take a node's place


def in_calls(f: Function, node: ast.AST, around: Sequence[ast.AST]) -> Iterator[Change]:
    """``dropout(x)`` → ``x``; ``x.transpose(1, 2)`` → ``x``; ``f(x, y)`` → ``f(y, x)``"""
    if isinstance(node, ast.Call):
        is_method = re.split(r"\W", code(node.func).lstrip("("))[0] in f.names
        is_method &= isinstance(node.func, ast.Attribute)
        kept = [node.func.value] if is_method else node.args[:1]
        yield from ((code(value, around), about_of(node.func)) for value in kept)
        parts = [code(part) for part in (*node.args, *node.keywords)]
        for n in range(len(node.args) - 1):
            swapped = [*parts[:n], parts[n + 1], parts[n], *parts[n + 2 :]]
            yield f"{code(node.func)}({', '.join(swapped)})", ""


def in_operations(f: Function, node: ast.AST, around: Sequence[ast.AST]) -> Iterator[Change]:
    """``a + b`` → ``a``, ``b``, ``a - b``; ``a / b`` → ``a``, ``b / a``; ``x`` → ``not x``"""
    symbol = SYMBOLS.get(type(getattr(node, "op", None)), "")
    if isinstance(node, ast.BinOp):
        left, right = code(node.left, [node]), code(node.right, [node])
        if not isinstance(node.op, ast.MatMult):
            yield code(node.left, around), about_of(node.right)
        if symbol in ("+", "*"):
            yield code(node.right, around), about_of(node.left)
        if symbol in ("-", "/", "@"):
            yield f"{right} {symbol} {left}", ""
        if symbol in OTHERS:
            yield f"{left} {OTHERS[symbol]} {right}", ""
    elif isinstance(node, ast.AugAssign) and symbol in OTHERS:
        yield f"{code(node.target)} {OTHERS[symbol]}= {code(node.value)}", ""
    elif around and node is getattr(around[0], "test", None):
        yield f"not ({code(node)})", ""


def in_numbers(f: Function, node: ast.AST, around: Sequence[ast.AST]) -> Iterator[Change]:
    """Another axis or number: ``dim=-1`` → ``dim=-2``, ``2`` → ``1``, ``0.5`` → ``1``"""
    is_negative = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
    value = node.operand.value if is_negative else getattr(node, "value", None)
    if is_negative:
        yield {1: "-2", 2: "-1"}.get(value, code(node.operand)), ""
    elif isinstance(node, ast.Constant) and not isinstance(around[0], ast.UnaryOp):
        if isinstance(value, bool):
            yield str(not value), ""
        elif isinstance(value, int):
            yield str(value - 1 if value > 1 else value + 1), ""
        elif isinstance(value, float):
            yield f"{2 * value:g}", ""


def in_names(f: Function, node: ast.AST, around: Sequence[ast.AST]) -> Iterator[Change]:
    """Another variable, attribute of ``self`` or key that the function uses, or a neighbour."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield from ((name, "") for name in after(f.names, node.id))
    elif is_of_self(node):
        yield from ((f"self.{name}", "") for name in after(f.attributes, node.attr))
    elif isinstance(node, ast.Attribute) and node.attr in NEIGHBOURS:
        yield f"{code(node.value)}.{NEIGHBOURS[node.attr]}", ""
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        keys = [*after(f.keys, node.value), NEIGHBOURS.get(node.value)]
        yield from ((f'"{key}"', "") for key in keys if isinstance(key, str))


def after(names: list[str], name: str) -> list[str]:
    """The next three names, in a circle."""
    place = names.index(name) + 1 if name in names else 2 * len(names)
    return [other for other in (names + names)[place : place + 3] if other != name]


def in_statements(f: Function, node: ast.AST, around: Sequence[ast.AST]) -> Iterator[Change]:
    """A line is left out, ``pass`` where that is not Python; ``x = f(y)`` → ``f(y).detach()``"""
    simple = isinstance(node, ast.Assign | ast.AugAssign | ast.Expr)
    if simple or (isinstance(node, ast.If) and not node.orelse):
        yield "" if f.syntax(f.edit(node, "")) else "pass", ""
    is_value = around and isinstance(around[0], ast.Assign | ast.Return)
    if is_value and isinstance(node, ast.Call | ast.BinOp):
        yield f"{code(node, [ast.UnaryOp()])}.detach()", "gradient"


KINDS = (in_calls, in_operations, in_numbers, in_names, in_statements)
