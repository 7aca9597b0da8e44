"""Correct solutions that differ from ours: read them, put them in the solution's place.

``course/variants/<task id>/<name>.py`` is one. Its docstring's first line says how it differs. The
methods of its class take the place of those of the task's class, or of functions; several classes
are several versions.

    with installed_source(answer.task.file, put(answer)): …   as a student would hand it in
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from checks.graded_tasks import GradedTask, graded_task

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = ROOT / "course" / "variants"
Methods = Mapping[str, str]  # name → source


@dataclass(frozen=True)
class Answer:
    """A correct solution."""

    task: GradedTask
    name: str  # of its file, and of its class
    methods: Methods
    imports: tuple[str, ...] = ()


def read_all(task_id: str) -> list[Answer]:
    """All answers to a task."""
    answers = []
    for path in sorted((VARIANTS / task_id).glob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        imports = tuple(ast.unparse(n) for n in body if isinstance(n, ast.Import | ast.ImportFrom))
        for node in body:
            if isinstance(node, ast.ClassDef):
                parts = [part for part in node.body if isinstance(part, ast.FunctionDef)]
                methods = {part.name: ast.unparse(part) for part in parts}
                name = f"{path.stem}, {node.name}"
                answers.append(Answer(graded_task(task_id), name, methods, imports))
    return answers


def put(answer: Answer) -> str:
    """The task's file with the answer's methods in place of ours."""
    return solution_with(answer.task, answer.methods, answer.imports)


def solution_with(task: GradedTask, methods: Methods, imports: tuple[str, ...] = ()) -> str:
    """A task's file, without comments, with methods of its class or functions replaced or added."""
    tree = ast.parse((ROOT / task.file).read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    place = classes.get(task.function.rpartition(".")[0], tree)
    kept = [node for node in place.body if getattr(node, "name", "") not in methods]
    place.body = kept + [ast.parse(text).body[0] for text in methods.values()]
    first = next(
        i for i, n in enumerate(tree.body) if isinstance(n, ast.ClassDef | ast.FunctionDef)
    )
    tree.body[first:first] = [ast.parse(line).body[0] for line in imports]
    return ast.unparse(tree)
