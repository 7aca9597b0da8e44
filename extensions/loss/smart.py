"""SMART: outputs that hardly change near an input.

Jiang et al. 2020 ("SMART: Robust and Efficient Fine-Tuning …"), sections 2.1 and algorithm 1:

    min_θ  L(θ) + λ R_s(θ)
    R_s = mean over x of  max { ℓ_s(f(x̃; θ), f(x; θ)) : ‖x̃ − x‖_∞ ≤ ε }
    ℓ_s(p, q) = KL(p‖q) + KL(q‖p) of classes, (p − q)² of numbers; x is the output of the embeddings

The maximum is looked for in one ascent step (algorithm 1), where ‖g‖_∞ is that of one input:
x̃ ← x + ν, ν ~ N(0, σ² I); then x̃ ← Π_ε(x̃ + η g / ‖g‖_∞), g = ∇_x̃ ℓ_s.

The paper's ε = σ = 1e-5 and η = 1e-3 leave an R_s below 1e-8, less than bfloat16's rounding makes.
Our embeddings are numbers of about 0.3: there R_s is about 1e-2 at ε = 5e-2. The defaults keep the
paper's ratios σ = ε, η = 100 ε. To try: λ 1 … 5. A step costs two passes more. In the loop:

    passes = Passes(model.bert, lambda: model(ids, mask))
    outputs = passes.clean()
    loss = F.cross_entropy(outputs, labels) + smoothness(passes, outputs, symmetric_kl)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Divergence = Callable[[Tensor, Tensor], Tensor]

# ---------------------------------------------------------------------------------------------
# Passes that differ in nothing but what is added to the embeddings


class Passes:
    """Passes of one batch through a model, of which some have their embeddings moved.

    A sentence is moved in the space of what ``bert.embed`` returns, after its LayerNorm and
    dropout, where all words' vectors are about equally long. Every pass draws the same dropout
    masks: otherwise the difference of two outputs would be that of two masks. A bi-encoder embeds a
    pair in two calls: each row of each call is a sentence of its own, with its own ball and norm.

    Args:
        bert: whose ``embed`` is perturbed.
        forward: makes the outputs of the batch, in float32; calls ``bert.embed`` at least once.

    Attributes:
        real: 1 at a token, 0 at padding, (B, L, D) for each call of ``embed`` in the last pass.
        generator: for noise, so that it is drawn apart from the dropout.
    """

    def __init__(self, bert: nn.Module, forward: Callable[[], Tensor]):
        self.bert, self.forward = bert, forward
        device = next(bert.parameters()).device
        seed = int(torch.randint(2**62, ()).numpy())
        self.generator = torch.Generator(device).manual_seed(seed)
        # What draws dropout: torch, and torch.cuda or torch.mps
        self.sources = [torch] if device.type == "cpu" else [torch, getattr(torch, device.type)]
        self.real: list[Tensor] = []

    def clean(self) -> Tensor:
        """The outputs as the model makes them."""
        self.states = [source.get_rng_state() for source in self.sources]
        return self._run(lambda x: x)

    def perturbed(self, deltas: Sequence[Tensor]) -> Tensor:
        """The outputs with these (B, L, D) added, one for each call of ``embed``.

        It follows ``clean``, and what is drawn after it does not depend on it.
        """
        remaining = iter(deltas)
        now = [source.get_rng_state() for source in self.sources]
        try:
            self._set_states(self.states)
            return self._run(lambda x: x + next(remaining))
        finally:
            self._set_states(now)

    def _set_states(self, states: Sequence[Tensor]) -> None:
        for source, state in zip(self.sources, states, strict=True):
            source.set_rng_state(state)

    def _run(self, move: Callable[[Tensor], Tensor]) -> Tensor:
        embed, self.real = self.bert.embed, []

        def moved_embed(input_ids: Tensor, *segments: Tensor) -> Tensor:
            x = embed(input_ids, *segments)  # (B, L, D)
            real = (input_ids != self.bert.config.pad_token_id)[:, :, None]  # (B, L, 1)
            self.real.append(real.expand_as(x).to(x.dtype))
            return move(x)

        self.bert.embed = moved_embed
        try:
            return self.forward()
        finally:
            del self.bert.embed  # the class's shows again


# ---------------------------------------------------------------------------------------------
# R_s


def ascend(delta: Tensor, gradient: Tensor, step_size: float, epsilon: float) -> Tensor:
    """Π_ε(δ + η g / ‖g‖_∞), row by row: (B, L, D), (B, L, D) → (B, L, D), of at most ε each."""
    largest = gradient.abs().amax(dim=(1, 2), keepdim=True)  # (B, 1, 1)
    direction = gradient / largest.clamp_min(torch.finfo(gradient.dtype).tiny)  # no 0 / 0
    return (delta + step_size * direction).clamp(-epsilon, epsilon)


def adversary(
    passes: Passes, outputs: Tensor, divergence: Divergence, epsilon: float = 5e-2
) -> list[Tensor]:
    """The δ = x̃ − x, (B, L, D) for each call of ``embed``, that change the outputs most.

    The parameters get no gradient from it.

    Args:
        passes: whose ``clean()`` made the outputs.
        epsilon: ε; σ = ε and η = 100 ε.
    """
    noise = [
        (
            epsilon * real * torch.empty_like(real).normal_(generator=passes.generator)
        ).requires_grad_()
        for real in passes.real
    ]
    change = divergence(passes.perturbed(noise), outputs.detach())
    gradients = torch.autograd.grad(change, noise)  # of δ alone, not of θ
    return [
        ascend(delta.detach(), gradient, 100 * epsilon, epsilon)
        for delta, gradient in zip(noise, gradients, strict=True)
    ]


def smoothness(
    passes: Passes, outputs: Tensor, divergence: Divergence, epsilon: float = 5e-2
) -> Tensor:
    """R_s of a batch; its gradient goes through f(x̃) and f(x). See ``adversary``."""
    return divergence(passes.perturbed(adversary(passes, outputs, divergence, epsilon)), outputs)
