"""Two more learning-rate schedules: factors on the learning rate of each step, after a warm-up.

    warm-up   t / w for t = 0 … w − 1
    cosine    ½ (1 + cos(π (t − w) / (T − w)))     Loshchilov & Hutter 2017, equation 5
    sqrt      √(w / t)                             Vaswani et al. 2017, equation 3, also the warm-up

with w steps of warm-up among T. Step 0 of a warm-up has the factor 0: it changes nothing but the
optimizer's averages. Why to warm up at all: Adam's first steps divide by a root of a few squared
gradients, a poor estimate, and have nearly full size in every direction.

The constant and the linear one, BERT's own, are training/loop/schedule.py's. In the loop:

    for group in optimizer.param_groups:
        group["lr"] = lr * factor("cosine", step, steps, rising)

To try: no warm-up, 6 % and 10 % at learning rates 2e-5 and 1e-4. The larger the rate, the more it
matters. At the end, linear and cosine differ by little; what matters is that the rate falls to 0.
"""

from __future__ import annotations

import math

KINDS = ("cosine", "sqrt")


def factor(kind: str, step: int, steps: int, rising: int) -> float:
    """The factor on the learning rate in a step, as transformers' schedules of these names.

    Args:
        kind: one of KINDS.
        step: 0, 1, 2 … of optimizer steps, not of parts of a batch.
        steps: T, of the whole run; from there on the cosine stays at 0.
        rising: w, of the warm-up.

    Raises:
        ValueError: another kind, or a warm-up longer than the run.
    """
    if kind not in KINDS:
        raise ValueError(f"no schedule {kind!r}; there are {', '.join(KINDS)}")
    if not 0 <= rising <= steps:
        raise ValueError(f"{rising} steps of warm-up in a run of {steps}")
    if step < rising:
        return step / rising
    if kind == "sqrt":
        scale = max(1, rising)
        return math.sqrt(scale / (step - rising + scale))  # without a warm-up 1 / √(t + 1)
    left = max(0, steps - step) / max(1, steps - rising)  # from 1 to 0
    return 0.5 * (1.0 + math.cos(math.pi * (1.0 - left)))
