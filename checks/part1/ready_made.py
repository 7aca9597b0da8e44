"""Ready-made attention, layers and optimizers in part 1's files, against the handout's rule 1.

Right numbers are right whoever computes them, so these are warnings. Sources are only parsed.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator

from checks.findings import ROOT
from checks.graded_tasks import GradedTask
from checks.names import names_in, names_used

READY_MADE = {  # task → what it asks for, and words in the names of what does that
    "bert.attention": (
        "attention",
        ("scaled_dot_product", "multi_head_attention", "MultiheadAttention", "flex_attention"),
    ),
    "bert.layer": ("Transformer layer", ("TransformerEncoder", "TransformerDecoder")),
    "optimizer.step": ("optimizer", ("torch.optim.", "_fused_adam")),
}
BASES = (".Optimizer", ".optimizer", ".lr_scheduler")  # of torch.optim, which do no step


def warnings_of(entry: GradedTask) -> Iterator[str]:
    """A sentence for each place in the task's file that names what does the task."""
    what, words = READY_MADE.get(entry.id, ("", ()))
    source = "".join(linecache.getlines(str(ROOT / entry.file)))
    tree = ast.parse(source)
    for line, name in sorted(set(names_used(tree, names_in(tree)))):
        if any(word in name for word in words) and not any(base in name for base in BASES):
            yield (
                f"{name} ({entry.file}:{line}) is a ready-made {what}, and the functions that you "
                "write may use none (docs/handout.md, rule 1)"
            )
