"""Distillation: a model learns from the outputs of another one, or of an ensemble.

    soft        T² · KL(p ‖ q), p = softmax(z_teacher / T), q = softmax(z_student / T)
                Hinton et al. 2015, section 2 and equation 2; its gradient by z_student is T (q − p)

Of an ensemble p is the mean of its members' probabilities. Losses are sums over what is given, so
the parts of a batch add up to the batch. Teachers run in evaluation mode. To try: T = 1, 2, 5.

    with torch.no_grad():
        teachers = torch.stack([teacher(ids, mask) for teacher in models])  # (M, B, C)
    loss = 0.5 * loss + 0.5 * soft_loss(outputs, teachers) / len(labels)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from extensions.loss.divergences import HIGHEST_SIMILARITY, wide


def soft_loss(student: Tensor, teachers: Tensor, temperature: float = 2.0) -> Tensor:
    """T² · KL(teacher ‖ student) at temperature T, summed over texts.

    Args:
        student: logits, (B, K) of classes, or (B,) of "yes".
        teachers: those of M teachers, (M, B, K) or (M, B).
    """
    student, teachers = wide(student), wide(teachers)
    if student.dim() == 1:
        student, teachers = _two_classes(student), _two_classes(teachers)  # (B, 2), (M, B, 2)
    log_student = F.log_softmax(student / temperature, dim=-1)  # (B, K)
    log_teachers = F.log_softmax(teachers / temperature, dim=-1)  # (M, B, K)
    # the log of the members' mean probability
    log_teacher = log_teachers.logsumexp(dim=0) - math.log(len(teachers))  # (B, K)
    divergence = F.kl_div(log_student, log_teacher, reduction="sum", log_target=True)
    return temperature**2 * divergence


def score_loss(student: Tensor, teachers: Tensor) -> Tensor:
    """For scores from 0 to 5: squared difference from the teachers' mean, both brought to 0 … 1.

    (B,) and (M, B) → (), summed over texts. A number has no temperature.
    """
    difference = wide(student) - wide(teachers).mean(dim=0)  # (B,)
    return (difference / HIGHEST_SIMILARITY).square().sum()


def _two_classes(logits: Tensor) -> Tensor:
    """Logits of "no" and "yes", whose softmax is the sigmoid: (…, B) → (…, B, 2)."""
    return torch.stack([torch.zeros_like(logits), logits], dim=-1)
