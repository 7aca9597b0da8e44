"""Every task's own gradient, kept apart until a rule says how to combine them.

A network trained on several tasks has parameters θ_sh that all tasks share and parameters θ_i of
one task alone (its head, its PALs). With g_i = ∇ L_i over θ_sh, methods such as PCGrad choose the
update of θ_sh; θ_i simply gets ∇ L_i, since nothing there is in conflict (Sener & Koltun 2018,
"Multi-Task Learning as Multi-Objective Optimization", section 3). To mix or average the heads'
gradients too is a common mistake: half of each head's update is then lost.

All these methods return a sum Σ w_i g_i of the given gradients, and the weights depend on nothing
but the inner products g_i · g_j. So this file computes a (T, T) table of inner products, a method
is a function from that table to T weights, and no T × (all parameters) matrix is ever built:

    gradients = TaskGradients(model)
    for batch in one_batch_of_every_task:        # a step
        ...                                      # backward passes as usual, of that task alone
        gradients.take(batch["task"])            # moves .grad away
    gradients.combine(pcgrad, seed + step)       # puts the result into .grad
    clip, schedule, optimizer.step()             # clipping comes after: it changes lengths

What to try: log the cosines of the returned table first. Where tasks are hardly ever in conflict
(no cosine below 0) PCGrad is plain summing. Memory: T gradients rather than one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from training.loop.devices import widest
from training.loop.processes import all_reduce_gradients, world_size


def inner_products(gradients: Sequence[Sequence[Tensor]]) -> Tensor:
    """g_i · g_j of T gradients, each a list of tensors of the same shapes: (T, T), on their device.

    Over all of them together, not tensor by tensor: that would be another method (GradVac's paper
    compares such granularities).
    """

    def inner(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
        products = [(a * b).sum() for a, b in zip(first, second, strict=True)]
        return torch.stack(products).sum(dtype=widest(products[0].device))

    rows = [[inner(a, b) for b in gradients[: i + 1]] for i, a in enumerate(gradients)]
    count = range(len(rows))
    return torch.stack([torch.stack([rows[max(i, j)][min(i, j)] for j in count]) for i in count])


def cosines(products: Tensor) -> Tensor:
    """cos(g_i, g_j) out of the inner products, (T, T) → (T, T): below 0 is a conflict."""
    lengths = products.diagonal().sqrt()  # (T,)
    return products / (lengths[:, None] * lengths[None, :])


def plain_sum(products: Tensor, generator: torch.Generator) -> Tensor:
    """The rule that weighs all tasks alike: (T, T) → (T,)."""
    return torch.ones_like(products[0])


class TaskGradients:
    """The gradients of one step, task by task.

    Args:
        model: its parameters that do not learn are left alone.
    """

    def __init__(self, model: nn.Module):
        self.model = model
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.taken: dict[str, list[Tensor | None]] = {}  # task → a gradient for each parameter

    def take(self, task: str) -> None:
        """Move what the task's backward passes left in .grad, of all processes, to its account."""
        all_reduce_gradients(self.model)
        self.taken[task] = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None

    def combine(self, rule: Callable[[Tensor, torch.Generator], Tensor], seed: int) -> Tensor:
        """Set .grad of every parameter, and forget what was taken.

        A parameter that all tasks have reached gets Σ w_i g_i, any other the plain sum of what
        there is: of a task-only parameter its task's gradient, None if there is none.

        Args:
            rule: inner products (T, T), in the order of the first takes, and a generator
                for what it draws → weights (T,).
            seed: of the generator, a run's and the step's: processes agree, and a resumed run
                continues alike.

        Returns:
            The inner products (T, T); see ``cosines``.
        """
        accounts = list(self.taken.values())
        grads = list(zip(*accounts, strict=True))  # for each parameter those of the T tasks
        shared = [all(grad is not None for grad in of_tasks) for of_tasks in grads]
        products = inner_products(
            [[g for g, is_shared in zip(a, shared, strict=True) if is_shared] for a in accounts]
        )
        weights = rule(products, torch.Generator().manual_seed(seed))
        for parameter, of_tasks, is_shared in zip(self.parameters, grads, shared, strict=True):
            parameter.grad = None
            for weight, grad in zip(weights, of_tasks, strict=True):
                if grad is not None:
                    grad = weight * grad if is_shared else grad
                    parameter.grad = grad if parameter.grad is None else parameter.grad + grad
            if parameter.grad is not None:  # they will be added up over the processes once more
                parameter.grad /= world_size()
        self.taken = {}
        return products
