"""FGM: one step uphill, and train on that too.

Miyato et al. 2017 ("Adversarial Training Methods for Semi-Supervised Text Classification"),
equations 5 and 6, with s the embeddings of a sentence and g = ∇_s L:

    L(s; θ) + L(s + r; θ),   r = ε g / ‖g‖₂

(the paper's g is that of log p = −L, hence its minus sign). r is a constant: no gradient goes
through it. The norm is that of the sentence's whole (L, D) gradient; widespread code takes the norm
of the embedding *matrix*'s gradient instead, so that sentences of a batch share one ε, and changes
weights that it has to put back.

What to try: ε of 0.5 to 2; a single word's vector has a length of about 10 in MiniLM. A step costs
one pass more, and a backward pass down to the embeddings.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from training.files.errors import InputError


def uphill(gradient: Tensor, epsilon: float) -> Tensor:
    """Of every row its r: (B, L, D) → (B, L, D) of length ε; 0 where the gradient is 0."""
    norm = torch.linalg.vector_norm(gradient, dim=(1, 2), keepdim=True)  # (B, 1, 1)
    return epsilon * gradient / norm.clamp_min(torch.finfo(gradient.dtype).tiny)


def adversarial_loss(
    passes, loss: Tensor, loss_of: Callable[[Tensor], Tensor], epsilon: float = 1.0
) -> Tensor:
    """L(s + r; θ), to be added to ``loss``.

    Args:
        passes: a perturbation.Passes whose ``clean()`` made the outputs that ``loss`` is of.
        loss_of: outputs → loss, with the batch's labels.
    """
    if not all(x.requires_grad for x in passes.embeddings):
        raise InputError("adversarial training needs the gradient of the embeddings: finetune")
    gradients = torch.autograd.grad(loss, passes.embeddings, retain_graph=True)
    return loss_of(passes.perturbed([uphill(gradient, epsilon) for gradient in gradients]))
