"""What staff should look at in a submission's source: calls of a library in the student's place.

Right numbers are right whoever computes them, so this costs no points. Sources are only parsed:
names are followed through imports, assignments and the submission's own modules.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Collection, Iterator

from checks.graded_tasks import GRADED_TASKS
from checks.names import IMPORTERS, Names, dotted, followed, imported, names_in, names_used
from course.grading.intake import parse
from course.grading.judging.types import Submission
from course.grading.sandbox import packages

PART_1 = {task.file for task in GRADED_TASKS if task.part == 1}
KINDS = {  # of operators of torch that do what a task of part 1 asks for, by their names
    r"attention|_sdpa?_": "torch's own attention (Task 1.1)",
    r"transformer": "torch's own layers (Task 1.3)",
    r"^torch\.optim\.(?!(Optimizer|optimizer|lr_scheduler|swa_utils)\b)": (
        "one of torch's own optimizers (Task 1.5)"
    ),
    r"_(foreach|fused)_|adam": "a kernel of torch's own optimizers (Task 1.5)",
}
# Names that mean these even where it cannot be read what they are looked up in
WELL_KNOWN = re.compile(
    r"_?(scaled_dot_product_\w+|(native_)?multi_head_attention\w*|flex_attention|_(foreach|fused)_\w+)"
    r"|MultiheadAttention|Transformer(En|De)coder(Layer)?"
)
RUNS_TEXT = ("exec", "eval", "compile")
LOOKS_UP = re.compile(r"sys\.modules|operator\.(attrgetter|methodcaller)|torch(\..+)?\.__dict__")
LATER = "{} of something that is only known when it runs"
MOST = 10


def library_calls(submission: Submission, allowed: tuple[str, ...] = ()) -> list[str]:
    """A sentence for each place, with file and line.

    Args:
        allowed: packages besides those of requirements.txt.
    """
    trees, exported, own = {}, {}, set()
    for name, content in sorted(submission.files.items()):
        if name.endswith(".py"):
            with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                with parse.ONE_AT_A_TIME:  # what cannot be parsed cannot be run
                    tree = trees[name] = ast.parse(content)
                known, module = names_in(tree), name.removesuffix(".py").replace("/", ".")
                exported |= {f"{module}.{key}": followed(key, known) for key in known}
                own |= {getattr(node, "name", None) for node in ast.walk(tree)}
    sentences: list[str] = []
    for name, tree in trees.items():
        seen = set(imports(tree, packages.hidden(allowed)))
        if submission.part == 1 or name in PART_1:
            seen |= set(places(tree, exported | names_in(tree), own))
        sentences += [f"{name}:{line}: {text}" for line, text in sorted(seen)]
    more = len(sentences) - MOST
    return sentences[:MOST] + ([f"and {more} more places"] if more > 0 else [])


def imports(tree: ast.AST, hidden: Collection[str]) -> Iterator[tuple[int, str]]:
    """Imports of modules that submissions may not import."""
    for node in ast.walk(tree):
        for name in imported(node):
            if (top := name.partition(".")[0]) in hidden:
                yield node.lineno, f"imports {top}, which requirements.txt does not lead to"


def places(tree: ast.AST, known: Names, own: Collection[str]) -> Iterator[tuple[int, str]]:
    """Lines, and what of torch is used there, or could be.

    Args:
        own: functions and classes that the submission defines.
    """
    for line, full in names_used(tree, known):
        last, of_torch = full.rpartition(".")[2], full.startswith("torch.")
        if of_torch or (last not in own and WELL_KNOWN.fullmatch(last)):
            kinds = [text for kind, text in KINDS.items() if re.search(kind, full, re.I)]
            shown = ".".join(full.split(".")[:3]) if "torch.optim" in full else full
            has = "is" if of_torch else "has the name of"
            yield from ((line, f"{shown} {has} {text}") for text in kinds[:1])
        if LOOKS_UP.fullmatch(full):
            yield line, LATER.format(full)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not dotted(node):
            called, *of = (followed(dotted(part), known) for part in (node.func, *node.args))
            of_torch = called in ("getattr", "vars") and of and of[0].split(".")[0] == "torch"
            if of_torch or called in RUNS_TEXT or called.rpartition(".")[2] in IMPORTERS:
                yield node.lineno, LATER.format(called)
