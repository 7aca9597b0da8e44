"""A student's function as text and as code: run as it stands, with an edit, or watched.

It does not know what a function computes, nor what is asked about it.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import importlib
import itertools
import random
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from torch import Tensor

from checks.graded_tasks import GradedTask
from checks.hunt.mutants import first_line, function_in
from checks.hunt.mutation_operators import OPERATORS, Scope, names_in, places
from checks.quiz.listing import listing
from training.files.texts import read_text

NOTE = "__note__"  # what an instrumented function calls
CODE_WIDTH, CODE_HEIGHT = 54, 0.8  # characters in a row of print, and its height
MOST_CODE = 60  # characters of an expression that a question quotes
MOST_OF_ONE_OPERATOR = 8  # edits
DELETION = "deletion"  # of a statement, among the operators


@dataclass(frozen=True)
class Edit:
    """Lines of a function that are replaced by one line, or deleted."""

    first: int
    last: int
    text: str = ""  # "": deleted

    def __str__(self) -> str:
        if self.text:
            return f"line {self.first} becomes `{self.text.strip()}`"
        if self.first == self.last:
            return f"line {self.first} is deleted"
        return f"lines {self.first} to {self.last} are deleted"


class Function:
    """The function of a task in the student's file.

    Raises:
        InputError: the file has no such function.
    """

    def __init__(self, task: GradedTask):
        self.task = task
        self.module = importlib.import_module(Path(task.file).stem)
        self.path = Path(self.module.__file__)
        self.lines = read_text(self.path, plain=True).split("\n")
        owner, self.name = task.function.split(".")
        node = function_in(task, "\n".join(self.lines))
        self.owner = getattr(self.module, owner)
        self.first = first_line(node)
        self.last = node.end_lineno
        docstring = node.body[0] if ast.get_docstring(node) is not None else None
        self.docstring = (docstring.lineno, docstring.end_lineno) if docstring else (0, 0)

    @property
    def rows(self) -> float:
        """About how many rows of text its code takes in a column of a printed page."""
        lines = listing("\n".join(self.lines), (self.first, self.last, *self.docstring))
        return 2 + CODE_HEIGHT * sum(1 + len(line) // CODE_WIDTH for _, line in lines)

    @property
    def has_helpers(self) -> bool:
        """Whether it calls functions of the student's that are not shown with it."""
        values = {**vars(self.module), **vars(self.owner)}.items()
        own = {n for n, v in values if getattr(v, "__module__", "") == self.module.__name__}
        called = [node.func for node in ast.walk(self.tree()) if isinstance(node, ast.Call)]
        return any(getattr(f, "attr", getattr(f, "id", "")) in own for f in called)

    def tree(self, edit: Edit | None = None) -> ast.FunctionDef:
        """The function's syntax, with an edit, at its place in the file.

        Raises:
            SyntaxError: it is none with the edit.
        """
        lines = self.lines[: self.last]
        if edit:
            head = lines[edit.first - 1]
            indent = head[: len(head) - len(head.lstrip())]
            new = [edit.text or f"{indent}pass"] + [""] * (edit.last - edit.first)
            lines[edit.first - 1 : edit.last] = new
        text = "\n" * (self.first - 2) + "class _:\n" + "\n".join(lines[self.first - 1 :])
        return ast.parse(text).body[0].body[0]

    def compiled(self, tree: ast.FunctionDef, note: Callable | None = None) -> Any:
        """The function that a tree is, in the student's module and class."""
        maker = ast.parse(f"def make(__class__, {NOTE}):\n    return {self.name}").body[0]
        maker.body.insert(0, tree)
        module = ast.fix_missing_locations(ast.Module([maker], []))
        flags = __future__.annotations.compiler_flag  # no annotation has to have a value
        made: dict[str, Any] = {}
        exec(compile(module, str(self.path), "exec", flags), vars(self.module), made)
        return made["make"](self.owner, note)

    @contextlib.contextmanager
    def edited(self, edit: Edit | None) -> Iterator[None]:
        """While active, the class has the function with an edit."""
        function = self.compiled(self.tree(edit))
        with mock.patch.object(self.owner, self.name, function):
            yield

    @contextlib.contextmanager
    def watched(self, edit: Edit | None = None) -> Iterator[dict[str, Any]]:
        """While active, values by what they are of: ``x`` after line 3, ``f(x)`` in line 4.

        What is computed more than once is None.
        """
        values: dict[str, Any] = {}

        def note(label: str, value: Any) -> Any:
            kept = value.detach().clone() if isinstance(value, Tensor) else value
            values[label] = None if label in values else kept
            return value

        tree = Instrumented(self.lines).visit_function(self.tree(edit))
        with mock.patch.object(self.owner, self.name, self.compiled(tree, note)):
            yield values

    def edits(self, rng: random.Random, operators: Collection[str] = ()) -> list[Edit]:
        """Small edits of single lines, and statements that are deleted, in random order.

        Args:
            operators: the names of those that make them; without any, all.
        """
        tree = self.tree()
        if any(isinstance(node, ast.While) for node in ast.walk(tree)):
            return []  # it might never end
        scope = Scope(names_in(tree))
        by_operator: dict[str, list[Edit]] = defaultdict(list)
        for container, key in places([tree]):
            node = container[key]
            if isinstance(node, ast.stmt) and self.docstring[0] != node.lineno:
                simple = not hasattr(node, "body")
                by_operator[DELETION] += [Edit(node.lineno, node.end_lineno)] * simple
            elif isinstance(node, ast.expr) and node.lineno == node.end_lineno:
                for operator in OPERATORS:
                    texts = [self.spliced(node, ast.unparse(new)) for new in operator(node, scope)]
                    edits = [Edit(node.lineno, node.lineno, text) for text in texts]
                    by_operator[operator.__name__] += edits
        sampled: dict[Edit, None] = {}
        for name in operators or by_operator:
            edits = by_operator[name]
            valid = filter(self.compiles, rng.sample(edits, len(edits)))
            sampled |= dict.fromkeys(itertools.islice(valid, MOST_OF_ONE_OPERATOR))
        return rng.sample([*sampled], len(sampled))

    def spliced(self, node: ast.expr, text: str) -> str:
        """A node's line with another text in its place, and without its comment."""
        line = self.lines[node.lineno - 1].encode()
        new = line[: node.col_offset].decode() + text + line[node.end_col_offset :].decode()
        return new.partition("  #")[0].rstrip()

    def compiles(self, edit: Edit) -> bool:
        """Whether an edit changes the function and leaves it one of Python."""
        if re.fullmatch(r"(\w+) = \1", edit.text.strip()):
            return False  # a deletion says it better
        try:
            return ast.dump(self.tree(edit)) != ast.dump(self.tree())
        except SyntaxError:
            return False


class Instrumented(ast.NodeTransformer):
    """Notes the values of expressions on one line, and of variables after each assignment."""

    def __init__(self, lines: list[str]):
        self.lines = lines

    def visit_function(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """The whole function: its body only."""
        tree.body = [new for node in tree.body for new in as_list(self.visit(node))]
        return tree

    def generic_visit(self, node: ast.AST) -> Any:
        """An expression's value is noted, then a variable's."""
        super().generic_visit(node)
        if (
            isinstance(node, ast.Call | ast.BinOp | ast.Subscript)
            and node.lineno == node.end_lineno
        ):
            line = self.lines[node.lineno - 1]
            text = line.encode()[node.col_offset : node.end_col_offset].decode()
            loaded = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
            if loaded and len(text) <= MOST_CODE and line.count(text) == 1:
                return self.noted(f"`{text}` in line {node.lineno}", node)
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [n.id for t in targets for n in getattr(t, "elts", [t]) if hasattr(n, "id")]
            labels = {name: f"`{name}` after line {node.end_lineno}" for name in names}
            loads = [ast.Expr(self.noted(labels[n], ast.Name(n, ast.Load()))) for n in names]
            return [node, *loads]
        return node

    def noted(self, label: str, value: ast.expr) -> ast.Call:
        """``__note__(label, value)``"""
        return ast.Call(ast.Name(NOTE, ast.Load()), [ast.Constant(label), value], [])


def as_list(node: Any) -> list:
    """What a transformer's visit gives, as statements."""
    return node if isinstance(node, list) else [node]
