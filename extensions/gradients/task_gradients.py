"""Every task's own gradient, kept apart until a rule says how to combine them.

A network trained on several tasks has parameters θ_sh that all tasks share and parameters θ_i of
one task alone. With g_i = ∇ L_i over θ_sh, methods such as PCGrad choose the update of θ_sh; θ_i
gets ∇ L_i as it is (Sener & Koltun 2018, "Multi-Task Learning as Multi-Objective Optimization",
section 3). A rule is a function from the inner products g_i · g_j (T, T) to weights w (T,) of
Σ w_i g_i, so no T × (all parameters) matrix is ever built:

    gradients = TaskGradients(model)
    for task, batch in one_batch_of_every_task:  # a step
        ...                                      # backward passes as usual, of that task alone
        gradients.take(task)                     # moves .grad away
    gradients.combine(pcgrad, seed + step)       # puts the result into .grad
    clip, optimizer.step()                       # clipping comes after: it changes lengths

If no inner product is below 0, PCGrad is plain summing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from training.loop.processes import sum_gradients, world_size


def inner_products(gradients: Sequence[Sequence[Tensor]]) -> Tensor:
    """g_i · g_j of T gradients, each a list of tensors of the same shapes: (T, T), on their device.

    Over all tensors together: one by one would be another method.
    """

    def inner(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
        return torch.stack([(a * b).sum() for a, b in zip(first, second, strict=True)]).sum()

    return torch.stack([torch.stack([inner(a, b) for b in gradients]) for a in gradients])


def plain_sum(products: Tensor, generator: torch.Generator) -> Tensor:
    """The rule that weighs all tasks alike: (T, T) → (T,)."""
    return torch.ones_like(products[0])


class TaskGradients:
    """The gradients of one step, task by task; parameters that do not learn are left alone."""

    def __init__(self, model: nn.Module):
        self.model = model
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.taken: dict[str, list[Tensor | None]] = {}  # task → a gradient for each parameter

    def take(self, task: str) -> None:
        """Keep what the task's backward passes, in all processes, left in .grad, and clear it."""
        sum_gradients(self.model)
        self.taken[task] = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None

    def combine(self, rule: Callable[[Tensor, torch.Generator], Tensor], seed: int) -> Tensor:
        """Set .grad of every parameter, forget what was taken, and return the inner products.

        A parameter that all tasks have reached gets Σ w_i g_i, any other the plain sum of what
        there is: its task's gradient, or None.

        Args:
            rule: inner products (T, T), in the order of the first takes, and a generator
                for what it draws → weights (T,).
            seed: of the generator; all processes, and a resumed run, give the same one.
        """
        rows = list(zip(*self.taken.values(), strict=True))  # a parameter's gradients, or None
        shared = [grads for grads in rows if all(grad is not None for grad in grads)]
        products = inner_products(list(zip(*shared, strict=True)))
        weights = rule(products, torch.Generator().manual_seed(seed))
        for parameter, grads in zip(self.parameters, rows, strict=True):
            parts = [grad for grad in grads if grad is not None]
            if len(parts) == len(grads):
                parts = [weight * grad for weight, grad in zip(weights, parts, strict=True)]
            # divided, because the processes' gradients will be added up once more
            parameter.grad = sum(parts[1:], parts[0]) / world_size() if parts else None
        self.taken = {}
        return products
