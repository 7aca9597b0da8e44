"""What staff should look at in a submission's source: calls of a library in the student's place.

Right numbers are right whoever computes them, so this costs no points. Sources are only parsed.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from checks.graded_tasks import GRADED_TASKS
from checks.part1.ready_made import imports_of, names_used
from course.grading.intake import parse
from course.grading.judging.types import Submission
from course.grading.sandbox import packages

PART_1 = {task.file for task in GRADED_TASKS if task.part == 1}
INSTEAD = {  # names of torch that do what a task of part 1 asks for
    "scaled_dot_product_attention": "Task 1.1",
    "multi_head_attention_forward": "Task 1.1",
    "MultiheadAttention": "Task 1.1",
    "TransformerEncoderLayer": "Task 1.3",
    "TransformerEncoder": "Task 1.3",
}
OPTIMIZERS = ("torch.optim.", "torch._foreach", "torch._fused")  # all but the base class
MOST = 10


def library_calls(submission: Submission, allowed: tuple[str, ...] = ()) -> list[str]:
    """A sentence for each place, with file and line.

    Args:
        allowed: packages besides those of requirements.txt.
    """
    sentences: list[str] = []
    for name, content in sorted(submission.files.items()):
        if not name.endswith(".py"):
            continue
        try:
            with parse.ONE_AT_A_TIME:
                tree = ast.parse(content)
            seen = sorted(set(places(tree, name in PART_1, packages.hidden(allowed))))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # what cannot be parsed cannot be run
        sentences += [f"{name}:{line}: {text}" for line, text in seen]
    return sentences[:MOST]


def places(tree: ast.AST, of_part_1: bool, hidden: Collection[str]) -> Iterator[tuple[int, str]]:
    """Lines, and what is to be looked at there.

    Args:
        hidden: modules that submissions may not import.
    """
    for node in ast.walk(tree):
        for top in {name.partition(".")[0] for name in imports_of(node).values()} & {*hidden}:
            yield node.lineno, f"imports {top}, which requirements.txt does not lead to"
    for line, name in names_used(tree) if of_part_1 else ():
        last = name.rpartition(".")[2]
        if last in INSTEAD:
            yield line, f"{last} of torch does what {INSTEAD[last]} asks for"
        if name.startswith(OPTIMIZERS) and last != "Optimizer":
            yield line, f"{name} is one of torch's own optimizers"
