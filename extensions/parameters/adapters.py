"""Adapters: small bottleneck networks put into a frozen BERT, a set of them for each task.

    adapter(h) = V g(U h + b) + c        U (m, D), V (D, m), m much smaller than D

    serial     LN(h + a + adapter(a)), a = Dense(Sublayer(h)), after both sublayers of a layer
               Houlsby et al. 2019, section 2.1, figure 2; 2 (2 m D + D + m) numbers a layer
    parallel   LN(a + FFN(a) + adapter(h)), h the layer's input, once a layer: the "low-rank layers"
               of Stickland & Murray 2019, section 3.2, there with g the identity

V begins as 0 (Houlsby et al. take tiny numbers), so that step 0 is the pretrained model exactly.
Houlsby et al. also train the LayerNorms, a set for each task; here there is one, so with several
tasks leave it frozen. Projected attention layers, which put attention into the bottleneck, are
pals.py's.

To try: m = 8, 64, 256; serial with g = GELU against parallel with g the identity; learning rates of
1e-4 to 1e-3. They cannot be merged as LoRA's updates can: g is in between, or the sublayer.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from torch import Tensor, nn

from training.files.errors import InputError

KINDS = ("serial", "parallel")


class Adapter(nn.Module):
    """V g(U h + b) + c: (…, D) → (…, D), 0 at first."""

    def __init__(self, width: int, size: int, activation: nn.Module):
        super().__init__()
        self.down = nn.Linear(width, size)
        self.activation = activation
        self.up = nn.Linear(size, width)
        nn.init.trunc_normal_(self.down.weight, std=0.01, a=-0.02, b=0.02)
        for zero in (self.down.bias, self.up.weight, self.up.bias):
            nn.init.zeros_(zero)

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, D) → (…, D)."""
        return self.up(self.activation(self.down(hidden)))


class AdapterSlot(nn.Module):
    """The dropout behind a sublayer, with the adapters of all tasks; it adds the chosen one's.

    It takes the place of the layer's dropout, whose output ``add_norm`` adds to the sublayer's
    input: so an adapter needs no change of BertLayer.
    """

    def __init__(self, dropout: nn.Module, adapters: dict[str, Adapter]):
        super().__init__()
        self.dropout = dropout
        self.adapters = nn.ModuleDict(adapters)
        self.task = next(iter(adapters))
        self.layer_input: Tensor | None = None  # of a parallel adapter, in the layer's pass only

    def remember(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        """A hook before the layer's pass: keep its input (B, L, D)."""
        self.layer_input = inputs[0]

    def forward(self, output: Tensor) -> Tensor:
        """(B, L, D) → (B, L, D)."""
        output = self.dropout(output)
        source, self.layer_input = self.layer_input, None
        return output + self.adapters[self.task](output if source is None else source)


def add_adapters(
    bert: nn.Module,
    size: int = 64,
    kind: str = "serial",
    tasks: Iterable[str] = ("all",),
    activation: type[nn.Module] = nn.GELU,
) -> None:
    """Freeze a BertModel and put adapters, which learn, into each of its layers.

    Args:
        size: m.
        kind: one of KINDS.
        tasks: names, one set of adapters each.
    """
    if kind not in KINDS:
        raise ValueError(f"no adapter {kind!r}; there are {', '.join(KINDS)}")
    if any(isinstance(module, AdapterSlot) for module in bert.modules()):
        raise InputError("this BERT has adapters already")
    names, weight = list(tasks), bert.word_embedding.weight
    make = partial(Adapter, weight.size(1), size)
    bert.requires_grad_(False)
    for layer in bert.bert_layers:
        for part in ("attention_dropout", "out_dropout")[kind == "parallel" :]:
            slot = AdapterSlot(getattr(layer, part), {name: make(activation()) for name in names})
            setattr(layer, part, slot.to(weight).train(layer.training))
        if kind == "parallel":
            layer.register_forward_pre_hook(slot.remember)


def choose_task(bert: nn.Module, task: str) -> None:
    """Whose adapters the next passes take; gradients go to these alone."""
    for module in bert.modules():
        if isinstance(module, AdapterSlot):
            if task not in module.adapters:
                raise InputError(
                    f"no adapters for {task!r}; {', '.join(module.adapters)} have some"
                )
            module.task = task
