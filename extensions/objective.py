"""The loss of a micro-batch, with the terms that the flags add to the task's own loss.

own loss  + λ · SMART  + μ · Bregman  + w · loss on vectors,  mixed with the teachers'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor, nn

from extensions.flags import COMPARES_ROWS, TechniqueFlags, holds, spelled
from extensions.loss import ranking, simcse, smart
from extensions.loss.cosine import cosent, cosine_embedding
from extensions.loss.distillation import mixed_loss, score_loss, soft_loss
from extensions.loss.divergences import squared_difference, symmetric_kl
from extensions.loss.r_drop import r_drop
from extensions.tasks import CLASSES, HEADS, LOSSES, relation
from training.files.errors import InputError
from training.loop.batches import on_host, to_device
from training.loop.encoder_outputs import outputs_of
from training.loop.processes import world_size


class Objective:
    """Losses of a TechniquesBERT.

    Args:
        autocast: what passes are put under.
        teachers: of each task the models to learn it from, in evaluation mode; {}: from none.

    Raises:
        InputError: a loss over the rows of a batch in several processes.
    """

    def __init__(
        self,
        args: TechniqueFlags,
        model: nn.Module,
        autocast: Callable[[], AbstractContextManager],
        teachers: Mapping[str, Sequence[nn.Module]],
    ):
        self.args, self.model, self.autocast, self.teachers = args, model, autocast, teachers
        self.slow = smart.MomentumTeacher(model) if args.bregman else None
        self.losses = LOSSES | ({"sts": cosent} if args.sts_loss == "cosent" else {})
        for condition in COMPARES_ROWS if world_size() > 1 else ():
            if holds(args, condition):
                raise InputError(
                    f"{spelled(condition)} compares the rows of a batch: use one process"
                )

    def __call__(self, name: str, inputs: Sequence[Tensor], labels: Tensor) -> Tensor:
        """The mean loss of a task's rows: inputs are what its head takes."""
        args, own_loss, divergence = self.args, self.losses[name], divergence_of(name)
        if args.regulariser == "r_drop":
            outputs = self.outputs(self.model, name, simcse.twice(*inputs))
            # KL has two directions, and a squared difference one
            alpha = args.regulariser_weight * (1 if CLASSES[name] else 2)
            return r_drop(own_loss, divergence, outputs, labels, alpha)
        forward = partial(self.outputs, self.model, name, inputs)
        passes = smart.Passes(self.model.bert, forward) if args.regulariser or self.slow else None
        extra = getattr(args, f"{name}_extra", None)
        with outputs_of(self.model) if extra else nullcontext() as vectors:  # (B, D) each
            outputs = passes.clean() if passes else forward()
        loss = own_loss(outputs, labels)
        if args.regulariser == "smart":
            change = smart.smoothness(passes, outputs, divergence, args.epsilon, args.ascents)
            loss = loss + args.regulariser_weight * change
        if self.slow:
            with passes.same_dropout(), torch.no_grad():
                slow_outputs = self.outputs(self.slow.model, name, inputs)
            loss = loss + args.bregman * divergence(outputs, slow_outputs)
        if extra == "simcse" and name != "nli":
            with outputs_of(self.model) as again:
                forward()
            term = simcse.unsupervised(torch.cat([vectors[0], again[0]]))
            loss = loss + args.extra_weight * term
        elif extra:
            term = loss_on_pairs(extra, name, *vectors, labels, inputs[0])
            loss = loss + args.extra_weight * term
        if self.teachers:
            with torch.no_grad():
                models = self.teachers[name]
                targets = torch.stack([self.outputs(model, name, inputs) for model in models])
            soft = (soft_loss if CLASSES[name] else score_loss)(outputs, targets) / len(labels)
            loss = mixed_loss(loss, soft, args.teacher_share)
        return loss

    def outputs(self, model: nn.Module, name: str, inputs: Sequence[Tensor]) -> Tensor:
        """What the task's head gives, in float32: (B, C) or (B,)."""
        with self.autocast():
            return getattr(model, HEADS[name])(*inputs).float()


def divergence_of(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    """ℓ_s of SMART: symmetric KL of classes and of yes or no, the squared difference of numbers."""
    return symmetric_kl if CLASSES[name] else squared_difference


def loss_on_pairs(
    extra: str, name: str, u: Tensor, v: Tensor, labels: Tensor, first_ids: Tensor
) -> Tensor:
    """A loss on both vectors (B, D) of each pair: one of the task's extras.

    Args:
        first_ids: of the first texts, (B, L).
    """
    if extra == "cosine_embedding":
        return cosine_embedding(u, v, labels)
    relations = [relation(name, label) for label in on_host(labels).numpy().tolist()]
    if extra == "simcse":
        premises = map(tuple, on_host(first_ids).numpy().tolist())
        rows = simcse.triplets(zip(premises, range(len(labels)), relations, strict=True))
        if not rows:
            return 0.0 * u.sum()
        _, right, wrong = (to_device(torch.tensor(i), u.device) for i in zip(*rows, strict=True))
        return simcse.supervised(u[right], v[right], v[wrong])

    def rows_of(kind: str) -> Tensor:
        rows = [row for row, kind_of_row in enumerate(relations) if kind_of_row == kind]
        return to_device(torch.tensor(rows, dtype=torch.long), u.device)

    same, different = rows_of("entailment"), rows_of("contradiction")
    symmetric = extra == "ranking_symmetric"
    return ranking.ranking(u[same], v[same], v[different], symmetric=symmetric)
