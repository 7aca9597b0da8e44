"""LoRA: fine-tuning as an update of low rank added to frozen weights.

    h = W x + (α / r) B A x        Hu et al. 2022, equation 3

W (D_out, D_in) stays as it is; A (r, D_in) and B (D_out, r) learn. B begins as 0, so step 0 is the
pretrained model exactly.
Gradients and the optimizer's averages exist for A and B only; activations are kept as before, so
memory falls by less than the counts suggest (lessons/lora.py).

To try: r = 1 and 64; further targets, such as key or interm_dense; ten times the learning rate of
full fine-tuning, since B starts from 0. In front of the loop, which stays as it is:

    add_lora(model.bert, rank=8)
    optimizer = AdamW([p for p in model.parameters() if p.requires_grad], lr=4e-4)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from training.files.errors import InputError


class LoraLinear(nn.Linear):
    """A linear layer with frozen weights and a low-rank update; its other names stay the same.

    Args:
        linear: whose weight and bias it takes over, D_in → D_out.
        rank, alpha: r and α.
    """

    def __init__(self, linear: nn.Linear, rank: int, alpha: float):
        with_bias = linear.bias is not None
        super().__init__(linear.in_features, linear.out_features, with_bias, device="meta")
        if not 1 <= rank <= min(linear.weight.shape):
            raise InputError(f"rank {rank}: a matrix {tuple(linear.weight.shape)} has no such rank")
        self.weight, self.bias = linear.weight, linear.bias
        self.requires_grad_(False)
        self.scale = alpha / rank
        self.lora_a = nn.Parameter(self.weight.new_empty(rank, self.in_features))
        self.lora_b = nn.Parameter(self.weight.new_zeros(self.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        """(…, D_in) → (…, D_out)."""
        update = self.scale * F.linear(F.linear(x, self.lora_a), self.lora_b)
        return super().forward(x) + update


def add_lora(
    model: nn.Module,
    rank: int = 8,
    alpha: float = 8.0,
    targets: Sequence[str] = ("query", "value"),
) -> None:
    """Freeze a model, such as a BertModel, and let updates of the targets learn.

    Args:
        targets: last parts of the names of linear layers, wherever they are.
    """
    model.requires_grad_(False)
    for name, linear in [*model.named_modules()]:  # a list: the model changes meanwhile
        if isinstance(linear, nn.Linear) and name.rpartition(".")[2] in targets:
            model.set_submodule(name, LoraLinear(linear, rank, alpha))
