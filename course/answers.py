"""Answers to the tasks, correct and incorrect: read them, put them in the solution's place.

``course/variants/<task id>/<name>.py`` is one correct solution that differs from ours. The
docstring's first line says how. The methods of its class take the place of those of the task's
class; if the class's name begins with "Script", the place of the file's functions. The answer
``plain`` is what a student would write first. A folder that is not a task's id but the beginning of
several ("multitask") holds answers to all of them; its ``plain`` replaces our solution wherever
another answer is put in. The folder "multitask.training" holds a training loop, which is not a
task.

``course/mistakes/<task id>.txt`` has the mistakes in one function, as changes to correct solutions:

    no_scale: The scores are not divided by √W.
    Hint: Large scores make the softmax hard. Read: Vaswani et al. 2017, §3.2.1
        - scores = scores / math.sqrt(self.attention_head_size)
      OwnKernel: dropout_p=p → dropout_p=p, scale=1.0
      Times(TwoLines):
        / key.size(-1) → * key.size(-1)
      InShort:
        def attention(self, key, query, value, attention_mask):
            …

First come its name and what is wrong, what to look at, and what to read (then "Named: …" where the
check has another name for it). The next lines change the plain answer, in the form that
``course/patches.py`` describes. Rewrites that compute the same follow, each with a name: that of
the correct solution's class that it changes, or its own with that class in brackets, or its own
with the whole function. A line "in name:" goes over to another method of the class; whole methods
come last. The file's first paragraph has the imports that its mistakes may use.

    with installed(answer): …                       the module in sys.modules holds the answer
    source = put(answer)                            the file as a student would hand it in
    put(read(MISTAKES, "bert.attention/no_scale"))  the file with this mistake in it
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import re
import textwrap
import types
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from checks.findings import Mistake
from checks.graded_tasks import GRADED_TASKS, GradedTask
from checks.hunt.installed import installed_source
from course.patches import patched
from training.files.errors import InputError

ROOT = Path(__file__).resolve().parent.parent
MISTAKES, VARIANTS = ROOT / "course" / "mistakes", ROOT / "course" / "variants"
TRAINING = "multitask.training"
MARKER = re.compile(r"^ *### (BEGIN SOLUTION|END SOLUTION|STUB:).*\n", re.MULTILINE)
WORDS = re.compile(
    r"(?P<name>\w+): (?P<says>.+?) Hint: (?P<hint>.+?) Read: (?P<read>.+?)"
    r"(?: Named: (?P<named>\w+))?"
)
VERSION = re.compile(r"  (\w+)(?:\((\w+)\))?:(?: (.+))?")  # Name, perhaps (Base), perhaps a change
ANOTHER = re.compile(r"in (\w+):")  # method
REMEDY = "write the change for that source, or the whole function"
Methods = Mapping[str, str]  # name → source, not indented


@dataclass(frozen=True)
class Answer:
    """What is answered, in words, and its versions."""

    folder: str  # a task's id, or how the ids of several begin
    task: GradedTask  # the first one that it answers
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


# ---------------------------------------------------------------------------------------------
# From files


def read(folder: Path, name: str) -> Answer:
    """One answer of mistakes/ or variants/, say "bert.attention/no_scale"; InputError without."""
    task_id, _, wanted = name.partition("/")
    answers = {answer.name: answer for answer in read_all(folder, task_id)}
    if wanted not in answers:
        raise InputError(f"no {name} in {folder}; there are {', '.join(answers) or 'no answers'}")
    return answers[wanted]


def read_all(folder: Path, task_id: str = "*") -> list[Answer]:
    """All answers of a folder, mistakes/ or variants/, or those to one task."""
    correct = [read_correct(path) for path in sorted(folder.glob(f"{task_id}/*.py"))]
    return correct + [m for path in sorted(folder.glob(f"{task_id}.txt")) for m in read_file(path)]


def read_correct(path: Path) -> Answer:
    """One file of variants/; InputError if it has not the form above."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    folder, says = path.parent.name, (ast.get_docstring(tree) or "").partition("\n")[0]
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    versions = {node.name: _functions(source, node) for node in classes}
    if not says or not _task(folder) or not versions:
        raise InputError(
            f"{path}: no docstring, no such task, or no class with the answer's methods"
        )
    imports = [ast.unparse(n) for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    return Answer(folder, _task(folder), path.stem, says, versions=versions, imports=tuple(imports))


def _task(folder: str) -> GradedTask | None:
    """The first task that a folder's answers answer."""
    beginning = folder.removesuffix(".training")
    return next((entry for entry in GRADED_TASKS if entry.id.startswith(beginning)), None)


def _functions(source: str, node: ast.ClassDef | ast.Module) -> Methods:
    """The functions of a class or module, by name."""
    lines = source.splitlines()
    functions = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    return {
        f.name: textwrap.dedent("\n".join(lines[_start(f) - 1 : f.end_lineno])) + "\n"
        for f in functions
    }


def _start(node: ast.FunctionDef) -> int:
    """The number of a method's first line, which may be a decorator's."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


# ---------------------------------------------------------------------------------------------
# Into the source


def put(answer: Answer, version: str = "", source: str = "") -> str:
    """The task's file with the answer's methods in place of ours (or those of ``source``)."""
    source = source or _right(answer.task.file, answer.task.id.split(".")[0])
    version = version or answer.first
    owner = "" if version.startswith("Script") else owner_of(answer.task)
    return put_methods(source, owner, answer.versions[version], answer.imports)


@functools.cache
def _right(file: str, beginning: str) -> str:
    """A file as it is, or with the plain answer to several tasks in place of our solution."""
    source, plain = (ROOT / file).read_text(encoding="utf-8"), VARIANTS / beginning / "plain.py"
    return put(read_correct(plain), source=source) if plain.is_file() else source


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
    end = body.body[-1].end_lineno
    changes = []  # (first line, last line, new lines)
    for name, text in methods.items():
        new = textwrap.indent(text, indent).splitlines()
        if name in own:
            changes.append((_start(own[name]), own[name].end_lineno, new))
        else:
            changes.append((end + 1, end, ["", *new]))
    for start, last, new in sorted(changes, reverse=True):
        lines[start - 1 : last] = new
    futures = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    last = (futures or ast.parse("\n".join(lines)).body)[-1 if futures else 0].end_lineno
    lines[last:last] = ["", *imports] if imports else []
    return "\n".join(lines) + "\n"


def solution_with(task: GradedTask, methods: Methods, imports: tuple[str, ...] = ()) -> str:
    """Our file of a task with other methods in the task's class."""
    source = (ROOT / task.file).read_text(encoding="utf-8")
    return put_methods(source, owner_of(task), methods, imports)


def owner_of(task: GradedTask) -> str:
    """The class whose method a task's function is; "" where it is a function of the file."""
    return task.function.rpartition(".")[0]


@contextlib.contextmanager
def installed(answer: Answer, version: str = "") -> Iterator[types.ModuleType]:
    """While active, ``import bert`` (or the answer's file) gives a module with the answer."""
    with installed_source(answer.task.file, put(answer, version)) as module:
        yield module
