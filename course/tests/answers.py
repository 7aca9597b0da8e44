"""Correct solutions that differ from ours: read them, put them in the solution's place.

``course/variants/<task id>/<name>.py`` is one. Its docstring's first line says how it differs. The
methods of its class take the place of those of the task's class, or of functions. The folder
"multitask" holds answers to all tasks whose ids begin so.

    with installed_source(answer.task.file, put(answer)): …   as a student would hand it in
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from checks.graded_tasks import GRADED_TASKS, GradedTask

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = ROOT / "course" / "variants"
Methods = Mapping[str, str]  # name → source, not indented


@dataclass(frozen=True)
class Answer:
    """A correct solution, and its versions."""

    folder: str  # a task's id, or how the ids of several begin
    task: GradedTask  # the first one that it answers
    name: str
    versions: Mapping[str, Methods]  # name of the class → methods
    imports: tuple[str, ...] = ()


def read_all(task_id: str) -> list[Answer]:
    """All answers to a task."""
    return [read(f"{task_id}/{path.stem}") for path in sorted((VARIANTS / task_id).glob("*.py"))]


def read(name: str) -> Answer:
    """One answer, say "bert.attention/plain"."""
    path = VARIANTS / f"{name}.py"
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    task = next(entry for entry in GRADED_TASKS if entry.id.startswith(path.parent.name))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    versions = {node.name: _functions(source, node) for node in classes}
    imports = [ast.unparse(n) for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    return Answer(path.parent.name, task, path.stem, versions, tuple(imports))


def _functions(source: str, node: ast.ClassDef) -> Methods:
    """The methods of a class, by name."""
    lines = source.splitlines()
    functions = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    starts = [min([f.lineno, *(d.lineno for d in f.decorator_list)]) for f in functions]
    return {
        f.name: textwrap.dedent("\n".join(lines[start - 1 : f.end_lineno])) + "\n"
        for f, start in zip(functions, starts, strict=True)
    }


def put(answer: Answer, version: str = "") -> str:
    """The task's file with the answer's methods in place of ours."""
    methods = answer.versions[version or next(iter(answer.versions))]
    return solution_with(answer.task, methods, answer.imports)


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
