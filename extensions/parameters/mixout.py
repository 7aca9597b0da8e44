"""Mixout: dropout that falls back to the pretrained weights instead of to zero.

Lee et al. 2020 ("Mixout: Effective Regularization to Finetune Large-scale Pretrained Language
Models"), section 3: of a weight matrix W with pretrained values U, in every training step,

    W′ = (M W + (1 − M) U − p U) / (1 − p),   M ~ Bernoulli(1 − p)

so that E W′ = W. M has one number for each input neuron, a column of W, as in the paper's figure 1
and its code: all weights that leave a neuron are its own or all the pretrained ones. U = 0 gives
dropout. The gradient is ∂L/∂W = M / (1 − p) ∂L/∂W′; the code released with the paper leaves out its
1 / (1 − p), so that p changes the learning rate there.

What to try: p of 0.7 to 0.9, in place of dropout. A step costs little more; memory one more copy of
the weights.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.files.errors import InputError


def mix(weight: Tensor, pretrained: Tensor, keep: Tensor, p: float) -> Tensor:
    """W′: (out, in), (out, in), and ``keep`` (in,) of 1 and 0 → (out, in)."""
    mixed = torch.where(keep.bool(), weight, pretrained)  # (out, in)
    return (mixed - p * pretrained) / (1 - p)


class MixoutLinear(nn.Linear):
    """A linear layer with mixout while it trains; its bias is an ordinary one.

    It takes over the layer's own parameters, under the same names, so that optimizers and
    checkpoints do not notice. What they are now is U, which is not saved with them.
    """

    def __init__(self, linear: nn.Linear, p: float):
        super().__init__(linear.in_features, linear.out_features, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.train(linear.training)
        self.p = p
        self.register_buffer("pretrained", linear.weight.detach().clone(), persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        """(…, in) → (…, out)."""
        if not self.training or not self.p:
            return super().forward(input)
        chances = torch.full_like(self.weight[0], 1 - self.p)  # (in,)
        weight = mix(self.weight, self.pretrained, chances.bernoulli(), self.p)
        return F.linear(input, weight, self.bias)


def replace_linears(module: nn.Module, p: float) -> int:
    """Give every linear layer inside ``module`` mixout, switch dropout off; how many there were.

    Call it as soon as the pretrained weights are there, before they learn. Layers outside
    ``module``, such as the heads, have no pretrained weights: they keep their dropout.

    Raises:
        InputError: p is not in [0, 1), or nothing in ``module`` learns.
    """
    if not 0 <= p < 1:
        raise InputError(f"mixout {p}: it is a probability below 1")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InputError("mixout mixes what is learned with what was there: BERT has to learn")
    count = 0
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, MixoutLinear(child, p))
                count += 1
            elif isinstance(child, nn.Dropout):
                child.p = 0.0
    return count
