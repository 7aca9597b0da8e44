"""Small edits of a function in a student's file, as the bug hunt and the quiz make them.

An edit changes the text, so that all that people see of it is as the student wrote it. Nothing here
knows what a function computes, nor needs torch.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checks.graded_tasks import GradedTask
from checks.hunt.mutation_operators import OPERATORS, Scope, names_in
from training.files.errors import InputError

DELETION = "drop_statement"  # of a simple one; the operator's name


@dataclass(frozen=True)
class Edit:
    """Lines of a file that become another text, or are deleted."""

    first: int
    last: int
    text: str = ""  # "": deleted

    def __str__(self) -> str:
        if self.text:
            return f"line {self.first} becomes `{self.text.strip()}`"
        if self.first == self.last:
            return f"line {self.first} is deleted"
        return f"lines {self.first} to {self.last} are deleted"

    def of(self, lines: Sequence[str]) -> list[str]:
        """A file's lines with the edit; those behind it keep their numbers."""
        head = lines[self.first - 1]
        indent = head[: len(head) - len(head.lstrip())]
        new = (self.text or f"{indent}pass").split("\n")
        new += [""] * (self.last - self.first + 1 - len(new))
        return [*lines[: self.first - 1], *new, *lines[self.last :]]


class FunctionText:
    """A task's function, or another method of its class, in the text of the task's file.

    Raises:
        InputError: the file has no such class or method.
    """

    def __init__(self, task: GradedTask, source: str, name: str = ""):
        owner, own = task.function.split(".")
        self.task, self.name, self.lines = task, name or own, source.split("\n")
        self.class_node = last_named(ast.parse(source), owner, f"{task.file} has no class {owner}")
        missing = f"{task.file} has no function {owner}.{self.name}"
        self.node = last_named(self.class_node, self.name, missing)
        decorators = [decorator.lineno for decorator in self.node.decorator_list]
        self.first, self.last = min([self.node.lineno, *decorators]), self.node.end_lineno
        docstring = self.node.body[0] if ast.get_docstring(self.node) is not None else None
        self.docstring = (docstring.lineno, docstring.end_lineno) if docstring else (0, 0)
        self.body = self.node.body[docstring is not None :]

    def source(self, edit: Edit) -> str:
        """The whole file with an edit."""
        return "\n".join(edit.of(self.lines))

    def tree(self, edit: Edit | None = None) -> ast.FunctionDef:
        """The function's syntax, with an edit, at its place in the file.

        Raises:
            SyntaxError: it is none with the edit.
        """
        lines = (edit.of(self.lines) if edit else self.lines)[self.first - 1 : self.last]
        return ast.parse("\n" * (self.first - 2) + "class _:\n" + "\n".join(lines)).body[0].body[0]

    def scope(self) -> Scope:
        """What the function can name: of ``self`` all that its class names."""
        nodes = [n for n in ast.walk(self.class_node) if isinstance(n, ast.Attribute)]
        own = {n.attr for n in nodes if isinstance(n.value, ast.Name) and n.value.id == "self"}
        tests = tuple(node.test for node in ast.walk(self.node) if isinstance(node, ast.If))
        return Scope(names_in(self.node), tuple(sorted(own)), tests)

    def edits(self) -> dict[str, list[Edit]]:
        """All edits of the function's body, by the name of the operator that makes them."""
        made: dict[str, list[Edit]] = defaultdict(list)
        made["swap_statements"] = self.swaps(self.body)
        scope = self.scope()
        for node in itertools.chain.from_iterable(map(ast.walk, self.body)):
            if isinstance(node, ast.stmt):
                name = "drop_block" if hasattr(node, "body") else DELETION
                made[name].append(Edit(node.lineno, node.end_lineno))
            if isinstance(node, ast.For | ast.If):
                made["swap_statements"] += self.swaps(node.body)
            for operator in OPERATORS:
                made[operator.__name__] += [
                    self.spliced(node, new) for new in operator(node, scope)
                ]
        return made

    def swaps(self, body: Sequence[ast.stmt]) -> list[Edit]:
        """Two statements in a row, on lines of their own, in the other order."""
        edits = []
        for one, two in itertools.pairwise(body):
            cuts = (one.lineno - 1, one.end_lineno, two.lineno - 1, two.end_lineno)
            above, between, below = (self.lines[a:b] for a, b in itertools.pairwise(cuts))
            if one.end_lineno < two.lineno:
                text = "\n".join([*below, *between, *above])
                edits.append(Edit(one.lineno, two.end_lineno, text))
        return edits

    def spliced(self, node: Any, new: ast.AST) -> Edit:
        """Another node in a node's place, on one line and without its comment."""
        first, last = (self.lines[n - 1].encode() for n in (node.lineno, node.end_lineno))
        before, after = first[: node.col_offset].decode(), last[node.end_col_offset :].decode()
        line = f"{before}{ast.unparse(new)}{after}".partition("  #")[0].rstrip()
        return Edit(node.lineno, node.end_lineno, line)

    def distinct(self, edits: Iterable[Edit]) -> Iterator[Edit]:
        """Those after which the function is Python, and none that it was before."""
        seen = {ast.dump(self.tree())}
        for edit in edits:
            with contextlib.suppress(SyntaxError):
                syntax = ast.dump(self.tree(edit))
                if syntax not in seen:
                    seen.add(syntax)
                    yield edit


def last_named(parent: ast.Module | ast.ClassDef, name: str, missing: str) -> Any:
    """The last class or function of that name, which counts; InputError if there is none."""
    kinds = ast.ClassDef | ast.FunctionDef
    nodes = [node for node in parent.body if isinstance(node, kinds) and node.name == name]
    if not nodes:
        raise InputError(missing)
    return nodes[-1]


def in_turns(items: Iterable[Any], kind: Callable[[Any], Any], seed: int) -> list[Any]:
    """Items in random order, those of each kind in turns."""
    shuffled = list(items)
    random.Random(seed).shuffle(shuffled)
    seen: Counter[Any] = Counter()
    turns = []
    for item in shuffled:
        seen[kind(item)] += 1
        turns.append((seen[kind(item)], len(turns), item))
    return [item for *_, item in sorted(turns, key=lambda turn: turn[:2])]
