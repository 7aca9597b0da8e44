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
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from torch import Tensor

from checks.graded_tasks import GradedTask
from checks.hunt.mutants import DELETION, Edit, FunctionText
from checks.quiz.listing import listing
from training.files.texts import read_text

NOTE = "__note__"  # what an instrumented function calls
CODE_WIDTH, CODE_HEIGHT = 54, 0.8  # characters in a row of print, and its height
MOST_CODE = 60  # characters of an expression that a question quotes
MOST_OF_ONE_OPERATOR = 8  # edits


class Function(FunctionText):
    """The function of a task in the student's file, which is imported.

    Raises:
        InputError: the file has no such function.
    """

    def __init__(self, task: GradedTask):
        self.module = importlib.import_module(task.module)
        self.path = Path(self.module.__file__)
        super().__init__(task, read_text(self.path, plain=True))
        self.owner = getattr(self.module, self.class_node.name)

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
        called = [node.func for node in ast.walk(self.node) if isinstance(node, ast.Call)]
        return any(getattr(f, "attr", getattr(f, "id", "")) in own for f in called)

    @contextlib.contextmanager
    def edited(self, edit: Edit | None, note: Callable | None = None) -> Iterator[None]:
        """While active, the class has the function with an edit, compiled in module and class.

        Args:
            note: gets what each value of a call is of, and the value, which it returns.
        """
        maker = ast.parse(f"def make(__class__, {NOTE}):\n    return {self.name}").body[0]
        tree = self.tree(edit)
        if note:
            tree.body = Instrumented(self.lines).visit(ast.Module(tree.body, [])).body
        maker.body.insert(0, tree)
        module = ast.fix_missing_locations(ast.Module([maker], []))
        flags = __future__.annotations.compiler_flag  # no annotation has to have a value
        made: dict[str, Any] = {}
        exec(compile(module, str(self.path), "exec", flags), vars(self.module), made)
        with mock.patch.object(self.owner, self.name, made["make"](self.owner, note)):
            yield

    @contextlib.contextmanager
    def watched(self, edit: Edit | None) -> Iterator[dict[str, Any]]:
        """The same, and values by what they are of: ``x`` after line 3, ``f(x)`` in line 4.

        What is computed more than once is None.
        """
        values: dict[str, Any] = {}

        def note(label: str, value: Any) -> Any:
            kept = value.detach().clone() if isinstance(value, Tensor) else value
            values[label] = None if label in values else kept
            return value

        with self.edited(edit, note):
            yield values

    def draw_edits(self, rng: random.Random, operators: Collection[str] = ()) -> list[Edit]:
        """Small edits of single lines, and statements that are deleted, in random order.

        Args:
            operators: the names of those that make them; without any, all.
        """
        if any(isinstance(node, ast.While) for node in ast.walk(self.node)):
            return []  # it might never end
        made = self.edits()
        made.pop("replace_attribute", None)  # what others of the class are, no sheet shows
        drawn: dict[Edit, None] = {}
        for name in operators or made:
            edits = [edit for edit in made[name] if name == DELETION or is_plain(edit)]
            valid = self.distinct(rng.sample(edits, len(edits)))
            drawn |= dict.fromkeys(itertools.islice(valid, MOST_OF_ONE_OPERATOR))
        return rng.sample([*drawn], len(drawn))


def is_plain(edit: Edit) -> bool:
    """Whether an edit is of one line, and nothing that a deletion says better."""
    return edit.first == edit.last and not re.fullmatch(r"(\w+) = \1", edit.text.strip())


class Instrumented(ast.NodeTransformer):
    """Notes the values of expressions on one line, and of variables after each assignment."""

    def __init__(self, lines: list[str]):
        self.lines = lines

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
