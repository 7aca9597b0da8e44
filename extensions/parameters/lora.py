"""LoRA: fine-tuning as an update of low rank added to frozen weights; with rsLoRA and DoRA.

    LoRA     h = W x + (α / r) B A x                             Hu et al. 2022, equation 3
    rsLoRA   h = W x + (α / √r) B A x                            Kalajdzievski 2023
    DoRA     h = m (W + ΔW) x / ‖W + ΔW‖,  ΔW = (α / r) B A      Liu et al. 2024, equation 5

W (D_out, D_in) stays as it is; A (r, D_in) and B (D_out, r) learn. B begins as 0, so that step 0 is
the pretrained model exactly. α / √r keeps the update's size alike for every rank, where α / r lets
it shrink. DoRA learns the length m of each output's row of weights apart from its direction; in the
backward pass the norm counts as a constant (section 4.3). After training, W + ΔW is one matrix: no
cost in prediction.

Gradients and the optimizer's averages exist for A and B only: at bert-base 0.3 % of the parameters.
Activations are kept as before, so memory falls by less than the counts suggest (lessons/lora.py).

To try: r = 1 against r = 64; key, attention_dense, interm_dense and out_dense as further targets;
a learning rate ten times that of full fine-tuning, since B starts from 0 (lr 4e-4 in the paper).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.files.errors import InputError

KINDS = ("lora", "rslora", "dora")


class LoraLinear(nn.Linear):
    """A linear layer with frozen weights and a low-rank update; its other names stay the same.

    Args:
        linear: whose weight and bias it takes over, D_in → D_out.
        rank, alpha: r and α.
        dropout: on the update's input only; W sees all of x.
        kind: one of KINDS.
    """

    def __init__(
        self, linear: nn.Linear, rank: int, alpha: float, dropout: float = 0.0, kind: str = "lora"
    ):
        with_bias = linear.bias is not None
        super().__init__(linear.in_features, linear.out_features, with_bias, device="meta")
        if kind not in KINDS:
            raise ValueError(f"no update {kind!r}; there are {', '.join(KINDS)}")
        if not 1 <= rank <= min(linear.weight.shape):
            raise InputError(f"rank {rank}: a matrix {tuple(linear.weight.shape)} has no such rank")
        self.weight, self.bias = linear.weight, linear.bias
        self.requires_grad_(False)
        self.kind = kind
        self.scale = alpha / (math.sqrt(rank) if kind == "rslora" else rank)
        self.dropout = nn.Dropout(dropout)
        self.lora_a = nn.Parameter(self.weight.new_empty(rank, self.in_features))
        self.lora_b = nn.Parameter(self.weight.new_zeros(self.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        if kind == "dora":
            self.lora_m = nn.Parameter(self.weight.detach().norm(dim=1))  # (D_out,)
        self.register_buffer("unmerged", None, persistent=False)  # W, while the layer is merged

    def total(self) -> Tensor:
        """W + ΔW: (D_out, D_in)."""
        return self.weight + self.scale * (self.lora_b @ self.lora_a)

    def forward(self, x: Tensor) -> Tensor:
        """(…, D_in) → (…, D_out)."""
        if self.unmerged is not None:
            return super().forward(x)
        update = self.scale * F.linear(F.linear(self.dropout(x), self.lora_a), self.lora_b)
        if self.kind != "dora":
            return super().forward(x) + update
        length = self.total().detach().norm(dim=1)  # (D_out,), a constant in the backward pass
        output = (F.linear(x, self.weight) + update) * (self.lora_m / length)
        return output if self.bias is None else output + self.bias

    @torch.no_grad()
    def merge(self) -> None:
        """Put the update into the weight: from now on one product, and nothing to learn."""
        if self.unmerged is None:
            merged = self.total()
            if self.kind == "dora":
                merged = merged * (self.lora_m / merged.norm(dim=1))[:, None]
            self.unmerged = self.weight.detach().clone()
            self.weight.copy_(merged)

    @torch.no_grad()
    def unmerge(self) -> None:
        """Back to W and its update apart, exactly."""
        if self.unmerged is not None:
            self.weight.copy_(self.unmerged)
            self.unmerged = None


def add_lora(
    model: nn.Module,
    rank: int = 8,
    alpha: float = 8.0,
    dropout: float = 0.0,
    kind: str = "lora",
    targets: Sequence[str] = ("query", "value"),
) -> None:
    """Freeze a model, such as a BertModel, and let updates of the targets learn.

    Args:
        targets: last parts of the names of linear layers, wherever they are.
    """
    model.requires_grad_(False)
    found = [name for name, _ in _linears(model) if name.rpartition(".")[2] in targets]
    if not found:
        raise InputError(f"no linear layer of this model is called {' or '.join(targets)}")
    for name in found:
        linear = model.get_submodule(name)
        model.set_submodule(name, LoraLinear(linear, rank, alpha, dropout, kind))


def fold_lora(model: nn.Module) -> None:
    """Merge all updates for good: the plain model again, under the names it had before."""
    for name, linear in _linears(model):
        if isinstance(linear, LoraLinear):
            linear.merge()
            plain = nn.Linear(
                linear.in_features, linear.out_features, linear.bias is not None, device="meta"
            )
            plain.weight, plain.bias = linear.weight, linear.bias
            model.set_submodule(name, plain.train(linear.training))


def lora_tensors(model: nn.Module) -> dict[str, Tensor]:
    """What was learnt: for a file of some megabytes, which load_state_dict(strict=False) reads."""
    return {name: value for name, value in model.state_dict().items() if ".lora_" in name}


def _linears(model: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    """A list's worth, since the model changes while it is gone through."""
    modules = list(model.named_modules())
    yield from ((name, module) for name, module in modules if isinstance(module, nn.Linear))
