"""Passes of one batch through a model that differ in nothing but what is added to its embeddings.

SMART moves a sentence in the space of what ``bert.embed`` returns, after its LayerNorm and dropout,
where all words' vectors are about equally long. Every pass draws the same dropout masks: otherwise
the difference of two outputs would be that of two masks, not that of the perturbation.

A bi-encoder embeds a pair in two calls. Each row of each call is a sentence of its own here, with
its own ball and its own norm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from training.files.errors import InputError


class Passes:
    """Passes of one batch.

    Args:
        bert: whose ``embed`` is perturbed.
        forward: makes the outputs of the batch, in float32; calls ``bert.embed`` at least once.

    Attributes:
        embeddings: what ``embed`` returned in the last pass, (B, L, D) for each call of it.
        real: 1 at a token, 0 at padding, in the same shapes.
        deltas: what was added to them.
        generator: for noise, so that it is drawn apart from the dropout.
    """

    def __init__(self, bert: nn.Module, forward: Callable[[], Tensor]):
        self.bert, self.forward = bert, forward
        self.device = next(bert.parameters()).device
        seed = int(torch.randint(2**62, ()))
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.random_state: tuple[Tensor, ...] | None = None
        self.embeddings: list[Tensor] = []
        self.real: list[Tensor] = []
        self.deltas: list[Tensor] = []

    def clean(self) -> Tensor:
        """The outputs as the model makes them."""
        return self._run(None)

    def perturbed(self, deltas: Sequence[Tensor]) -> Tensor:
        """The outputs with these (B, L, D) added, one for each call of ``embed``."""
        return self._run(iter(deltas))

    def _run(self, deltas: Iterator[Tensor] | None) -> Tensor:
        embed = self.bert.embed
        self.embeddings, self.real, self.deltas = [], [], []

        def perturbed_embed(input_ids: Tensor, *segments: Tensor) -> Tensor:
            x = embed(input_ids, *segments)  # (B, L, D)
            real = (input_ids != self.bert.config.pad_token_id)[:, :, None]  # (B, L, 1)
            self.embeddings.append(x)
            self.real.append(real.expand_as(x).to(x.dtype))
            if deltas is None:
                return x
            self.deltas.append(next(deltas))
            return x + self.deltas[-1]

        self.bert.embed = perturbed_embed
        try:
            with self.same_dropout():
                outputs = self.forward()
        finally:
            del self.bert.embed  # the class's shows again
        if not self.embeddings:
            raise InputError("nothing to perturb: the outputs of a frozen BERT are remembered")
        return outputs

    @contextmanager
    def same_dropout(self) -> Iterator[None]:
        """Chance inside is that of the first pass; what comes after does not notice."""
        now = _random_state(self.device)
        if self.random_state is None:
            self.random_state = now
            yield
            return
        _set_random_state(self.random_state, self.device)
        try:
            yield
        finally:
            _set_random_state(now, self.device)


def _random_state(device: torch.device) -> tuple[Tensor, ...]:
    here = torch.get_rng_state()
    if device.type == "cpu":
        return (here,)
    return here, getattr(torch, device.type).get_rng_state()  # torch.cuda, torch.mps


def _set_random_state(states: tuple[Tensor, ...], device: torch.device) -> None:
    torch.set_rng_state(states[0])
    if device.type != "cpu":
        getattr(torch, device.type).set_rng_state(states[1])
