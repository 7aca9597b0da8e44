"""Ready-made attention, layers and optimizers in part 1's files, against the handout's rule 1.

Right numbers are right whoever computes them, so these are warnings. Sources are only parsed.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator

import torch

from checks.findings import ROOT, Finding
from checks.graded_tasks import GradedTask

READY_MADE = {  # task → what it asks for, and words in the names of what does that
    "bert.attention": (
        "attention",
        ("scaled_dot_product", "multi_head_attention", "MultiheadAttention", "flex_attention"),
    ),
    "bert.layer": ("Transformer layer", ("TransformerEncoder", "TransformerDecoder")),
    "optimizer.step": ("optimizer", ("_fused_adam", "_tensor_adam")),
}
OPTIMIZERS = {
    name.lower()
    for name, value in vars(torch.optim).items()
    if isinstance(value, type) and value is not torch.optim.Optimizer
}


def warnings_of(entry: GradedTask) -> Iterator[Finding]:
    """A warning for each place in the task's file that names what does the task."""
    what, words = READY_MADE.get(entry.id, ("", ()))
    source = "".join(linecache.getlines(str(ROOT / entry.file)))
    for line, name in sorted(set(names_used(ast.parse(source)))) if what else []:
        last = name.rpartition(".")[2]
        is_optimizer = name.startswith("torch.optim.") and last.lower() in OPTIMIZERS
        if any(word in last for word in words) or (what == "optimizer" and is_optimizer):
            yield Finding(
                "warning",
                f"{name} ({entry.file}:{line}) is a ready-made {what}, and the functions that you "
                "write may use none (docs/handout.md, rule 1)",
            )


def names_used(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines, and the full names that are used there, whatever they were imported as."""
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names = {alias.asname or alias.name: alias.name for alias in node.names}
            imported |= {own: f"{node.module or ''}.{name}" for own, name in names.items()}
    for node in ast.walk(tree):
        parts, inner = [], node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(inner, ast.Name):
            first = imported.get(inner.id, inner.id)
            yield node.lineno, ".".join([first, *reversed(parts)])
