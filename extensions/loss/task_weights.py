"""How much each task's loss counts in the sum: given weights, or learned uncertainties.

Given weights, as MTRec (Bi et al. 2022, "MTRec: Multi-Task Learning over BERT for News
Recommendation") has them for the losses of its main task and of two further ones, are flags:

    L = Σ_t λ_t L_t

Uncertainty weighting (Kendall, Gal & Cipolla 2018, "Multi-Task Learning Using Uncertainty to Weigh
Losses", section 3.2, equations 7 and 10) makes the weights parameters. With a task's noise σ_t² as
part of its likelihood, and s_t = log σ_t² learned for numerical stability:

    L = Σ_t  a_t e^(−s_t) L_t + s_t / 2        a_t = 1/2 for a squared error (equation 7),
                                                   1 for a cross-entropy (equation 10)

The second term keeps s_t from growing without end. For a given L_t the best s_t is log(2 a_t L_t),
where the task's weight a_t e^(−s_t) is 1 / (2 L_t) for either a_t: the method divides each loss by
its own size, and a_t decides only where that starts. Hence a loss near 0, of a task learned by
heart, gets an ever larger weight.

What to try: a learning rate of about 1e-3 for s_t. BERT's 2e-5 would leave it where it began: Adam
moves a parameter by at most about the learning rate a step.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Uncertainty(nn.Module):
    """s_t of every task; its parameters belong into the optimizer, in a group of their own.

    As a part of the model they are saved, resumed and added up between processes with it.

    Args:
        tasks: names.
        regression: those of them whose loss is a squared error.
    """

    def __init__(self, tasks: Iterable[str], regression: Iterable[str] = ()):
        super().__init__()
        regression = set(regression)
        self.log_variances = nn.ParameterDict({task: torch.zeros(()) for task in tasks})  # s
        self.factors = {task: 0.5 if task in regression else 1.0 for task in self.log_variances}
        if unknown := sorted(regression - self.factors.keys()):
            raise ValueError(f"no task {unknown[0]!r}; there are {', '.join(self.factors)}")

    def forward(self, task: str, loss: Tensor) -> Tensor:
        """The task's term of the sum: a e^(−s) L + s / 2, of one number L."""
        log_variance = self.log_variances[task]
        return self.factors[task] * torch.exp(-log_variance) * loss + log_variance / 2
