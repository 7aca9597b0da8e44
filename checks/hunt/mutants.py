"""Mutants of the student's own functions: a file's text with one small change in it.

It does not know what a function computes, and needs no torch.
"""

from __future__ import annotations

import ast
import difflib
import random
import textwrap
from collections import Counter
from dataclasses import dataclass

from checks.graded_tasks import GradedTask
from checks.hunt.mutation_operators import mutants
from training.files.errors import InputError


@dataclass(frozen=True)
class Mutant:
    """A student's file with one change."""

    source: str  # of the whole file
    line: int  # that is changed, in the student's file
    before: str  # that line; several where several change
    after: str


def mutants_of(entry: GradedTask, source: str, seed: int) -> list[Mutant]:
    """All mutants of a task's function in random order, the lines of the function in turns."""
    function, indent = function_in(entry, source), "    "
    lines = source.splitlines()
    text = textwrap.dedent("\n".join(lines[first_line(function) - 1 : function.end_lineno]))
    bare = ast.parse(text)
    if ast.get_docstring(bare.body[0]):
        del bare.body[0].body[0]
    whole = ast.unparse(bare)
    places = dict(zip(line_numbers(ast.parse(whole)), line_numbers(bare), strict=True))
    made = []
    for changed in mutants(whole, attributes_of(entry, source)):
        start, before, after = difference_of(whole, changed)
        new = textwrap.indent(changed, indent).splitlines()
        file = [*lines[: first_line(function) - 1], *new, *lines[function.end_lineno :]]
        line = places.get(start, 1) + first_line(function) - 1
        made.append(Mutant("\n".join(file) + "\n", line, before, after))
    random.Random(seed).shuffle(made)
    seen: Counter[int] = Counter()
    turns = []
    for mutant in made:
        seen[mutant.line] += 1
        turns.append((seen[mutant.line], len(turns), mutant))
    return [mutant for *_, mutant in sorted(turns, key=lambda turn: turn[:2])]


def class_in(entry: GradedTask, source: str) -> ast.ClassDef:
    """The class of a task's function; InputError if it is not there."""
    owner = entry.function.split(".")[0]
    for node in reversed(ast.parse(source).body):  # the last one counts
        if isinstance(node, ast.ClassDef) and node.name == owner:
            return node
    raise InputError(f"{entry.file} has no class {owner}")


def function_in(entry: GradedTask, source: str) -> ast.FunctionDef:
    """A task's function; InputError if it is not there."""
    own = entry.function.rpartition(".")[2]
    for node in reversed(class_in(entry, source).body):
        if isinstance(node, ast.FunctionDef) and node.name == own:
            return node
    raise InputError(f"{entry.file} has no function {entry.function}")


def first_line(function: ast.FunctionDef) -> int:
    """The number of a function's first line, which may be a decorator's."""
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def line_numbers(tree: ast.AST) -> list[int]:
    """The lines of all statements, in the order of the tree."""
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def attributes_of(entry: GradedTask, source: str) -> list[str]:
    """What ``self`` has in a task's function: what the class names."""
    nodes = [n for n in ast.walk(class_in(entry, source)) if isinstance(n, ast.Attribute)]
    return sorted({n.attr for n in nodes if isinstance(n.value, ast.Name) and n.value.id == "self"})


def difference_of(before: str, after: str) -> tuple[int, str, str]:
    """Where two texts first differ, the lines that go, and those that come."""
    old, new = before.splitlines(), after.splitlines()
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changes = [block for block in blocks if block[0] != "equal"]
    start, stop = changes[0][1], max(changes[-1][2], changes[0][1] + 1)
    gone = " / ".join(line.strip() for line in old[start:stop])
    come = " / ".join(line.strip() for line in new[changes[0][3] : changes[-1][4]])
    return start + 1, gone, come or "(nothing)"
