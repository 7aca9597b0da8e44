"""CAGrad: near the average gradient, the direction in which the worst-off task gains most.

Liu et al. 2021 ("Conflict-Averse Gradient Descent for Multi-task Learning"), section 3 and
algorithm 1. With g_0 the mean of the T gradients:

    max_d  min_i  g_i · d     subject to   ‖d − g_0‖ ≤ c ‖g_0‖

Its dual has only T unknowns, shares w ≥ 0 that add up to 1, g_w = Σ w_i g_i:

    min_w  g_w · g_0 + c ‖g_0‖ ‖g_w‖               d = g_0 + c ‖g_0‖ / ‖g_w‖ · g_w

c = 0 is the average. For c < 1 it comes to rest only where the average loss is stationary; the
larger c, the more the worst task counts (towards Désidéri's MGDA). No state, nothing random.

What to try: c = 0.4 or 0.5. d is a mean, so about T times shorter than PCGrad's sum: nothing to
Adam, but to clipping and to SGD.
"""

from __future__ import annotations

import numpy as np
import scipy  # scipy.optimize loads when it is first used
import torch
from torch import Tensor


def cagrad(products: Tensor, c: float = 0.4) -> Tensor:
    """Weights (T,) so that the weighted sum of the gradients is CAGrad's d.

    Where some mixture of the gradients vanishes no direction helps all tasks; then d is the
    average g_0, which lies in the ball and keeps the guarantee above.

    Args:
        products: g_i · g_j, (T, T) on the CPU.
        c: radius of the ball, in lengths of g_0; at least 0.

    Raises:
        ValueError: c is negative.
    """
    if c < 0:
        raise ValueError(f"c is {c}, it must be at least 0")
    tasks = len(products)
    mean = np.full(tasks, 1 / tasks)  # g_0 = Σ mean_i g_i
    table = products.double().numpy()
    scale = np.trace(table) / tasks  # the best w is the same for gradients of any unit
    if scale == 0:
        return torch.from_numpy(mean).to(products.dtype)
    table = table / scale
    radius = c * np.sqrt(max(mean @ table @ mean, 0.0))  # c ‖g_0‖
    tiny = 1e-16

    def dual(shares: np.ndarray) -> tuple[float, np.ndarray]:
        length = np.sqrt(max(shares @ table @ shares, tiny))  # ‖g_w‖
        value = shares @ table @ mean + radius * length
        return value, table @ mean + radius * (table @ shares) / length

    found = scipy.optimize.minimize(
        dual,
        mean,
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * tasks,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(tasks)},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    square = found.x @ table @ found.x  # ‖g_w‖²
    if square <= 1e4 * tiny:
        weights = mean
    else:
        weights = mean + radius / np.sqrt(square) * found.x
    return torch.from_numpy(weights).to(products.dtype)
