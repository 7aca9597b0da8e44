"""PALs, projected attention layers: a task's own small layer for each layer of a shared BERT.

Stickland & Murray 2019 ("BERT and PALs"), section 3. In parallel to every layer the task adds

    TS(h) = V^D g(V^E h)           to what goes into the layer's last LayerNorm:

    h_next = LN(a + FFN(a) + TS(h)),   a = LN(h + MultiHead(h))

h (B, L, D) is the layer's input. V^E (S × D) and V^D (D × S) project to a small size S and back;
each task has one pair of them, the same in all layers. g is multi-head attention of size S without
an output projection, its own in each layer and task. S = 204 and 12 heads in the paper.

V^D starts at 0, so the first step starts from BERT exactly. BertLayer stays as it is: hooks look at
a layer's input and add to the input of its out_layer_norm. To try: S of a quarter of D; annealed
sampling, from the same paper; a frozen BERT, which makes an adapter of PALs. In the loop:

    with pals.use(task):  # pals = PALs(bert, tasks), a part of the model
        output = bert(ids, mask)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from training.files.errors import InputError


class ProjectedAttention(nn.Module):
    """g: multi-head attention of size S, without an output projection."""

    def __init__(self, size: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout  # H
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)

    def forward(self, small: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, L, S) and an additive mask (B, 1, 1, L) → (B, L, S)."""
        query, key, value = (
            linear(small).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, L, S / H)
            for linear in (self.query, self.key, self.value)
        )
        dropout = self.dropout if self.training else 0.0
        mask = attention_mask.to(query.dtype)  # (B, 1, 1, L)
        context = F.scaled_dot_product_attention(query, key, value, mask, dropout)
        return context.transpose(1, 2).flatten(2)  # (B, H, L, S / H) → (B, L, S)


class TaskPAL(nn.Module):
    """One task's V^E and V^D, and its g for each layer."""

    def __init__(self, config, layers: int, size: int, heads: int):
        super().__init__()
        self.encoder = nn.Linear(config.hidden_size, size)  # V^E
        self.decoder = nn.Linear(size, config.hidden_size)  # V^D
        dropout = config.attention_probs_dropout_prob
        self.attention = nn.ModuleList(
            ProjectedAttention(size, heads, dropout) for _ in range(layers)
        )
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=config.initializer_range)
                nn.init.zeros_(module.bias)
        nn.init.zeros_(self.decoder.weight)

    def forward(self, hidden: Tensor, attention_mask: Tensor, layer: int) -> Tensor:
        """TS(h) of that layer: (B, L, D), (B, 1, 1, L) → (B, L, D)."""
        small = self.attention[layer](self.encoder(hidden), attention_mask)  # (B, L, S)
        return self.decoder(small)  # (B, L, D)


class PALs(nn.Module):
    """The PALs of all tasks, hooked into the layers that ``bert`` has now.

    Outside of ``use`` BERT is as it was. Tasks' own top layers (task_layers.py) have to be split
    off before: a copy of a hooked layer would bring copied PALs along.

    Args:
        bert: a BertModel.
        tasks: names.
        size: S, a multiple of ``heads``; InputError otherwise.
    """

    def __init__(self, bert: nn.Module, tasks: Iterable[str], size: int = 204, heads: int = 12):
        super().__init__()
        if size % heads:
            raise InputError(f"PALs of size {size} cannot be split into {heads} heads")
        layers = len(bert.bert_layers)
        self.tasks = nn.ModuleDict(
            {task: TaskPAL(bert.config, layers, size, heads) for task in tasks}
        )
        self.task: str | None = None  # whose turn it is
        self.extra: Tensor | None = None  # TS(h) of the layer that is running, (B, L, D)
        for number, layer in enumerate(bert.bert_layers):
            layer.register_forward_pre_hook(partial(self._enter, number))
            layer.out_layer_norm.register_forward_pre_hook(self._add)

    @contextmanager
    def use(self, task: str) -> Iterator[None]:
        """Within it BERT is the task's."""
        self.task = task
        try:
            yield
        finally:
            self.task = self.extra = None

    def _enter(self, number: int, layer: nn.Module, inputs: tuple[Tensor, Tensor]) -> None:
        if self.task is not None:
            self.extra = self.tasks[self.task](*inputs, number)  # (B, L, D)

    def _add(self, layer_norm: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor] | None:
        if self.extra is None:
            return None  # the input stays
        extra, self.extra = self.extra, None
        return (inputs[0] + extra,)
