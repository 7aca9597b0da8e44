"""Answers to the tasks, wrong and right, as files: read them, put them in the solution's place.

``course/mistakes/<task id>/<name>.py`` holds one mistake, ``course/variants/<task id>/<name>.py``
one right answer that differs from ours. The docstring's first line says what it is; a mistake's
has a line "Hint: …" and a line "Read: …", too (and "Named: …" where the check's name for it is not
the file's). Each class in the file is one version of the answer: the first is the plain one, the
others are rewrites that compute the same. Its methods take the place of those of the task's class;
of a class whose name begins with "Script", the place of the file's functions. The answer ``plain``
of the variants is what a student would write first; mistakes are written along its lines, so that
two of them can be merged. A folder of variants that is no task's but the beginning of several
("multitask") holds answers to all of them; its ``plain`` stands in for our solution wherever
another answer is put in. The folders "multitask.training" hold training loops, which are no task.

    with installed(answer): …           the module in sys.modules holds the answer
    source = put(answer)                the file as a student would hand it in
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import itertools
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sanity_hints import Mistake
from tasks import TASKS, Task
from utils import InputError

ROOT = Path(__file__).resolve().parent.parent
MISTAKES, VARIANTS = ROOT / "course" / "mistakes", ROOT / "course" / "variants"
TRAINING = "multitask.training"
MARKER = re.compile(r"^ *### (BEGIN SOLUTION|END SOLUTION|STUB:).*\n", re.MULTILINE)
Methods = Mapping[str, str]  # name → source, not indented


@dataclass(frozen=True)
class Answer:
    """One file: what is answered, in words, and its versions."""

    folder: str  # a task's id, or how the ids of several begin
    task: Task  # the first one that it answers
    name: str
    says: str
    hint: str = ""
    read: str = ""
    named: str = ""  # what the check calls it
    versions: Mapping[str, Methods] = field(default_factory=dict)  # name of the class → methods
    imports: tuple[str, ...] = ()

    @property
    def mistake(self) -> Mistake:
        """Its words, for the checks."""
        return Mistake(self.name, self.says, self.hint, self.read)

    @property
    def first(self) -> str:
        """The version that is not a rewrite."""
        return next(iter(self.versions))


def read(path: Path) -> Answer:
    """One file of mistakes/ or variants/; InputError if it has not the form above."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lines = (ast.get_docstring(tree) or "").splitlines()
    text = " ".join(lines)
    keys = ("Hint", "Read", "Named")
    found = {key: re.search(rf"{key}: (.+?)(?= (?:{'|'.join(keys)}): |$)", text) for key in keys}
    beginning = path.parent.name.removesuffix(".training")
    entries = [entry for entry in TASKS if entry.id.startswith(beginning)]
    source = path.read_text(encoding="utf-8").splitlines()
    versions, imports = {}, []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            versions[node.name] = {part.name: _source(source, part) for part in methods}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(ast.unparse(node))
    if not lines or not entries or not versions:
        raise InputError(
            f"{path}: no docstring, no such task, or no class with the answer's methods"
        )
    if path.is_relative_to(MISTAKES) and not (found["Hint"] and found["Read"]):
        raise InputError(f"{path}: the docstring needs a line 'Hint: …' and a line 'Read: …'")
    words = {key.lower(): match[1].strip() if match else "" for key, match in found.items()}
    words["named"] = words["named"] or path.stem
    return Answer(
        path.parent.name,
        entries[0],
        path.stem,
        lines[0],
        **words,
        versions=versions,
        imports=tuple(imports),
    )


def _source(lines: list[str], node: ast.FunctionDef) -> str:
    """A method without its indent and docstring, decorators included."""
    start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    kept = list(range(start, node.end_lineno + 1))
    if ast.get_docstring(node) is not None:
        said = node.body[0]
        kept = [number for number in kept if not said.lineno <= number <= said.end_lineno]
    return textwrap.dedent("\n".join(lines[number - 1] for number in kept)) + "\n"


def read_all(folder: Path, task_id: str = "") -> list[Answer]:
    """All answers of a folder, mistakes/ or variants/, or those to one task."""
    paths = sorted(folder.glob(f"{task_id or '*'}/*.py"))
    return [read(path) for path in paths]


# ---------------------------------------------------------------------------------------------
# Into the source


def put(answer: Answer, version: str = "", source: str = "") -> str:
    """The task's file with the answer's methods in place of ours (or those of ``source``)."""
    source = source or _right(answer.task.file, answer.task.id.split(".")[0])
    version = version or answer.first
    owner = "" if version.startswith("Script") else answer.task.function.split(".")[0]
    return put_methods(source, owner, answer.versions[version], answer.imports)


@functools.cache
def _right(file: str, beginning: str) -> str:
    """A file as it is, or with the plain answer to several tasks in place of our solution."""
    source, plain = (ROOT / file).read_text(encoding="utf-8"), VARIANTS / beginning / "plain.py"
    return put(read(plain), source=source) if plain.is_file() else source


def put_methods(source: str, owner: str, methods: Methods, imports: tuple[str, ...] = ()) -> str:
    """A file with some methods of a class replaced, or added to it; markers are left out.

    Without a class ("") the file's functions are replaced.
    """
    lines = MARKER.sub("", source).splitlines()
    tree = ast.parse("\n".join(lines))
    body, indent = tree, ""
    if owner:
        body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == owner)
        indent = "    "
    own = {part.name: part for part in body.body if isinstance(part, ast.FunctionDef)}
    changes = []  # (first line, last line, new lines)
    for name, text in methods.items():
        new = textwrap.indent(text, indent).splitlines()
        if name in own:
            old = own[name]
            start = min([old.lineno, *(part.lineno for part in old.decorator_list)])
            changes.append((start, old.end_lineno, new))
        else:
            end = body.body[-1].end_lineno
            changes.append((end + 1, end, ["", *new]))
    for start, end, new in sorted(changes, reverse=True):
        lines[start - 1 : end] = new
    futures = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    last = (futures or ast.parse("\n".join(lines)).body)[-1 if futures else 0].end_lineno
    lines[last:last] = ["", *imports] if imports else []
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def installed(answer: Answer, version: str = "") -> Iterator[types.ModuleType]:
    """While active, ``import bert`` (or the answer's file) gives a module with the answer."""
    with installed_source(answer.task.file, put(answer, version)) as module:
        yield module


@contextlib.contextmanager
def installed_source(file: str, source: str) -> Iterator[types.ModuleType]:
    """While active, the module of that file is made from another source."""
    name = Path(file).stem
    module = types.ModuleType(name)
    module.__file__ = str(ROOT / file)
    code = compile(source, module.__file__, "exec")
    before = sys.modules.get(name)
    sys.modules[name] = module  # not by mock.patch.dict: it would forget what is imported meanwhile
    try:
        exec(code, module.__dict__)
        yield module
    finally:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before


# ---------------------------------------------------------------------------------------------
# Two mistakes at once


def merge(base: Methods, first: Methods, second: Methods) -> Methods | None:
    """Both changes made to one base; None where they touch the same lines or do not fit together.

    A method in all three is merged line by line, another is taken from whoever has it.
    """
    merged = {}
    for name in base.keys() | first.keys() | second.keys():
        given = [methods[name].splitlines() for methods in (first, second) if name in methods]
        if len(given) == 2 and name in base:
            lines = merge_lines(base[name].splitlines(), *given)
        elif len(given) == 2 and given[0] != given[1]:
            lines = None
        else:
            lines = given[0] if given else base[name].splitlines()
        if lines is None or not parses("\n".join(lines)):
            return None
        merged[name] = "\n".join(lines) + "\n"
    return merged


def parses(text: str) -> bool:
    """Whether it is Python."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def merge_lines(base: list[str], first: list[str], second: list[str]) -> list[str] | None:
    """A three-way merge; None where both change a line, or insert at the same place."""
    changes = []
    for text in (first, second):
        match = difflib.SequenceMatcher(None, base, text, autojunk=False)
        changes += [(i, j, text[k:m]) for tag, i, j, k, m in match.get_opcodes() if tag != "equal"]
    changes.sort(key=lambda change: change[:2])
    for (start, end, _), (start_2, _, _) in itertools.pairwise(changes):
        if start_2 < end or start_2 == start:
            return None
    lines = list(base)
    for start, end, new in reversed(changes):
        lines[start:end] = new
    return lines
