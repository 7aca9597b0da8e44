"""Small edits of a student's function, as a slip of the hand makes them: for the hunt and the quiz.

An edit replaces lines of the file, so that people see their own code. Only the student's own lines
are edited: those below the handout's mark. Making edits runs nothing, and needs no torch.
"""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import linecache
import random
import re
import sys
import tokenize
import tomllib
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

from checks.findings import ROOT
from checks.graded_tasks import GradedTask, module_of
from training.files.errors import InputError

MARK = re.compile(r"^( *)### (?:TODO|BEGIN SOLUTION)")  # above a student's own lines
GIVEN = re.compile(  # in AdamW.step
    r"\b(closure|loss|enable_grad|raise|param_groups)\b|\[.params.\]|sparse|\.grad is None"
)
OTHERS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
# What code may be about → the words in it that say so, and what decides what an edit of it changes
SUBJECTS = tomllib.loads(Path(__file__).with_name("subjects.toml").read_text(encoding="utf-8"))
BARE = ast.BinOp | ast.UnaryOp | ast.IfExp  # in brackets below one of the next
OPERATORS = ast.BinOp | ast.UnaryOp | ast.Attribute | ast.Subscript


@dataclass(frozen=True)
class Edit:
    """Lines of a file, counted from 1, that become another text."""

    first: int
    last: int
    text: str
    about: str  # "mask", "dropout", …

    def __str__(self) -> str:
        is_one = self.first == self.last
        lines = f"line {self.first} is" if is_one else f"lines {self.first} to {self.last} are"
        text = " ".join(self.text.split())
        is_out = text == "pass" or re.fullmatch(r"(.+) = \1", text)
        return f"{lines} left out" if is_out else f"{lines} replaced by `{text}`"

    def of(self, source: str) -> str:
        """A file's text with the edit; the lines below it keep their numbers."""
        lines, rest = source.split("\n"), [""] * (self.last - self.first)
        return "\n".join([*lines[: self.first - 1], self.text, *rest, *lines[self.last :]])


class Function:
    """A task's function in the text of its file; InputError where it is not there.

    Attributes:
        lines, bare: the lines of the file, and the same without comments.
        own: the nodes of the student's own lines.
        names: of the arguments, and of the variables that these lines set.
    """

    def __init__(self, task: GradedTask, source: str):
        self.task, self.source, self.lines = task, source, source.split("\n")
        try:
            node, self.bare = ast.parse(source, task.file), without_comments(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError, TokenError) as error:
            raise InputError(f"{task.file} is not Python: {error}") from error
        for name in task.function.split("."):  # the class, then the method: the last one counts
            kinds = ast.ClassDef | ast.FunctionDef
            nodes = [part for part in node.body if isinstance(part, kinds) and part.name == name]
            if not nodes:
                raise InputError(f"{task.file} has no {task.function}")
            node = nodes[-1]
        self.node = node
        self.first = min(part.lineno for part in (node, *node.decorator_list))
        self.parents = {child: p for p in ast.walk(node) for child in ast.iter_child_nodes(p)}
        lines = self.own_lines()
        self.own = [part for part in ast.walk(node) if getattr(part, "lineno", 0) in lines]
        stored = [
            n.id for n in self.own if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        ]
        self.names = [*dict.fromkeys([*(each.arg for each in node.args.args[1:]), *stored])]
        codes = dict.fromkeys(code(part) for part in self.own if isinstance(part, ast.Attribute))
        attributes = [text for text in codes if re.fullmatch(r"self\.(?!training)\w+", text)]
        self.families = self.names, attributes  # what is taken for each other

    def own_lines(self) -> set[int]:
        """The numbers of the student's own lines: those below the mark, and as far to the right."""
        lines = [(n, self.lines[n - 1]) for n in range(self.first, self.node.end_lineno + 1)]
        for number, mark in ((n, mark) for n, line in lines if (mark := MARK.match(line))):
            return {n for n, line in lines if n > number and line.startswith(mark[1])}
        top = self.node.body[0]
        below = top.lineno if ast.get_docstring(self.node) is None else top.end_lineno + 1
        return {n for n, line in lines if n >= below and not GIVEN.search(line)}

    def edits(self) -> list[Edit]:
        """All edits of the student's own lines after which the function is Python, each once."""
        edits: dict[str, Edit] = {}
        for node in self.own:
            for edit in (self.edit(node, new) for new in replacements(self, node)):
                edits.setdefault(self.syntax(edit.of(self.source)), edit)
        for text in ("", self.syntax(self.source)):
            edits.pop(text, None)
        return [*edits.values()]

    def edit(self, node: ast.AST, new: ast.AST) -> Edit:
        """Another node in a node's place, without the comment behind it."""
        text = code(new)
        if isinstance(new, BARE) and isinstance(self.parents[node], OPERATORS):
            text = f"({text})"
        first, last = (self.bare[n - 1].encode() for n in (node.lineno, node.end_lineno))
        before, after = first[: node.col_offset].decode(), last[node.end_col_offset :].decode()
        about = self.about(node, code(new))
        return Edit(node.lineno, node.end_lineno, f"{before}{text}{after}", about)

    def about(self, node: ast.AST, new: str) -> str:
        """What an edit is about: the code that it takes away, or the code around."""
        if new.endswith(".detach()"):
            return "gradient"
        text = code(node).replace(new, "", 1)
        while node is not self.node:
            for about, entry in SUBJECTS.items():
                if "words" in entry and re.search(entry["words"], text, re.IGNORECASE):
                    return about
            text, node = code(node), self.parents[node]
        return "a value"

    def syntax(self, source: str) -> str:
        """The function's syntax in a file of that text, as a text; "" where it is not Python."""
        with contextlib.suppress(SyntaxError, ValueError):
            part = source.split("\n")[self.first - 1 : self.node.end_lineno]
            return ast.dump(ast.parse("\n".join(["if 1:", *part])))
        return ""


def without_comments(source: str) -> list[str]:
    """The lines of a Python text without their comments."""
    lines = source.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            lines[line - 1] = lines[line - 1][:column].rstrip()
    return lines


def code(node: ast.AST) -> str:
    """A node's code on one line."""
    return ast.unparse(node).replace("'", '"')


def replacements(f: Function, node: ast.AST) -> Iterator[ast.AST]:
    """What may take a node's place: the eight kinds of edits, by the node."""
    match node:
        case ast.Call(func, args, keywords):
            # 1. A call is left out: dropout(x) → x; x.transpose(1, 2) → x
            is_method = re.match(r"\(*(\w*)", code(func))[1] in f.families[0]
            yield from [func.value] if is_method and isinstance(func, ast.Attribute) else args[:1]
            # 2. Neighbours are swapped: f(x, y) → f(y, x)
            for n in range(len(args) - 1):
                yield ast.Call(func, [*args[:n], args[n + 1], args[n], *args[n + 2 :]], keywords)
        case ast.BinOp(left, op, right):
            if not isinstance(op, ast.Add | ast.Mult | ast.Pow):
                yield ast.BinOp(right, op, left)
            # 3. An operand is left out: a + b → a, b; a / b → a
            if not isinstance(op, ast.MatMult):
                yield from [left, right] if isinstance(op, ast.Add | ast.Mult) else [left]
            # 4. Another operator: a + b → a - b; a *= b → a /= b; if x → if not x
            if type(op) in OTHERS:
                yield ast.BinOp(left, OTHERS[type(op)](), right)
        case ast.AugAssign(target, op, value) if type(op) in OTHERS:
            yield ast.AugAssign(target, OTHERS[type(op)](), value)
        # 5. Another axis or number: dim=-1 → dim=-2; 2 → 1; 0.5 → 1
        case ast.UnaryOp(ast.USub(), ast.Constant(int() as value)):
            yield ast.Name({1: "-2", 2: "-1"}.get(value, f"{value}"))
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() as value) if not isinstance(f.parents[node], ast.UnaryOp):
            yield ast.Constant(value - 1 if value > 1 else value + 1)
        case ast.Constant(float() as value):
            yield ast.Name(f"{2 * value:g}")
        # 6. Another name that the function uses
        case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
            text = code(node)
            for names in (names for names in f.families if text in names):
                place = names.index(text) + 1
                yield from map(ast.Name, [*names[place:], *names[: place - 1]][:3])
    if node is getattr(f.parents[node], "test", None):
        yield ast.UnaryOp(ast.Not(), node)
    # 7. A line is left out
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.If):
        yield ast.Pass()
    # 8. No gradient comes back: x = f(y) → x = f(y).detach()
    if isinstance(f.parents[node], ast.Assign | ast.Return) and isinstance(
        node, ast.Call | ast.BinOp
    ):
        yield ast.Call(ast.Attribute(node, "detach"), [], [])


def in_turns(edits: Sequence[Edit], rng: random.Random) -> list[Edit]:
    """Edits in random order, those about each subject in turns."""
    groups: dict[str, list[Edit]] = {}
    for edit in rng.sample(edits, len(edits)):
        groups.setdefault(edit.about, []).append(edit)
    return round_robin(groups.values())


def round_robin(groups: Iterable[Sequence[Any]]) -> list[Any]:
    """The first of each group, then the second of each, and so on."""
    return [each for turn in itertools.zip_longest(*groups) for each in turn if each]


@contextlib.contextmanager
def installed_source(file: str, source: str) -> Iterator[types.ModuleType]:
    """While active, the module of that file of the student's is made from another source."""
    name = module_of(file)
    module = types.ModuleType(name)
    module.__file__ = str(ROOT / file)
    compiled = compile(source, module.__file__, "exec")
    before = sys.modules.get(name)
    # Whoever looks up the line of an exception finds this source, not the file's.
    lines = source.splitlines(keepends=True)
    linecache.cache[module.__file__] = (len(source), None, lines, module.__file__)
    sys.modules[name] = module  # not by mock.patch.dict: it would forget what is imported meanwhile
    try:
        exec(compiled, module.__dict__)
        yield module
    finally:
        linecache.cache.pop(module.__file__, None)
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
