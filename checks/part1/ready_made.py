"""Ready-made attention, layers and optimizers in part 1's files, against the handout's rule 1.

Right numbers are right whoever computes them, so these are warnings. Sources are only parsed.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator

from checks.findings import ROOT
from checks.graded_tasks import GradedTask

READY_MADE = {  # task → what it asks for, and words in the names of what does that
    "bert.attention": (
        "attention",
        ("scaled_dot_product", "multi_head_attention", "MultiheadAttention", "flex_attention"),
    ),
    "bert.layer": ("Transformer layer", ("TransformerEncoder", "TransformerDecoder")),
    "optimizer.step": ("optimizer", ("torch.optim.", "_fused_adam")),
}
BASES = (".Optimizer", ".optimizer", ".lr_scheduler")  # of torch.optim, which do no step
MOST_PARTS = 8  # of a name: each attribute of a chain is a node of its own


def warnings_of(entry: GradedTask) -> Iterator[str]:
    """A sentence for each place in the task's file that names what does the task."""
    what, words = READY_MADE.get(entry.id, ("", ()))
    source = "".join(linecache.getlines(str(ROOT / entry.file)))
    for line, name in sorted(set(names_used(ast.parse(source)))):
        if any(word in name for word in words) and not any(base in name for base in BASES):
            yield (
                f"{name} ({entry.file}:{line}) is a ready-made {what}, and the functions that you "
                "write may use none (docs/handout.md, rule 1)"
            )


def imports_of(node: ast.AST) -> dict[str, str]:
    """The names that an import makes, and what they stand for."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return {}
    module = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
    return {alias.asname or alias.name: f"{module}{alias.name}" for alias in node.names}


def names_used(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines, and the full names there, whatever they were imported as; behind a call, less."""
    nodes = list(ast.walk(tree))
    imported = {own: name for node in nodes for own, name in imports_of(node).items()}
    for node in nodes:
        yield from ((node.lineno, name) for name in imports_of(node).values())
        parts, inner = [], node
        while isinstance(inner, ast.Attribute) and len(parts) < MOST_PARTS:
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            parts.append(imported.get(inner.id, inner.id))
        if parts:
            yield node.lineno, ".".join(reversed(parts))
