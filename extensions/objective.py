"""The loss of a micro-batch: the task's own, and the terms that the flags add to it.

own loss  + λ · SMART  + w · loss on vectors,  mixed with the teachers'; or R-Drop's of both
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor, nn

from evaluation import HEADS
from extensions.flags import COMPARES_ROWS, TechniqueFlags, holds, spelled
from extensions.loss.cosine import cosent
from extensions.loss.distillation import score_loss, soft_loss
from extensions.loss.divergences import squared_difference, symmetric_kl
from extensions.loss.r_drop import r_drop, twice
from extensions.loss.ranking import ranking
from extensions.loss.simcse import simcse
from extensions.loss.smart import Passes, smoothness
from extensions.tasks import CLASSES, LOSSES, relation
from training.files.errors import InputError
from training.loop.batches import cpu_copy, to_device
from training.loop.models import outputs_of
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
        self.losses = LOSSES | ({"sts": cosent} if args.sts_loss == "cosent" else {})
        for condition in COMPARES_ROWS if world_size() > 1 else ():
            if holds(args, condition):
                raise InputError(f"{spelled(condition)} compares a batch's rows: use one process")

    def __call__(self, name: str, inputs: Sequence[Tensor], labels: Tensor) -> Tensor:
        """The mean loss of a task's rows: inputs are what its head takes."""
        args, own_loss = self.args, self.losses[name]
        # of classes, and of yes or no; of numbers
        divergence = symmetric_kl if CLASSES[name] else squared_difference
        if args.regulariser == "r_drop":
            outputs = self.outputs(self.model, name, twice(*inputs))
            # KL has two directions, and a squared difference one
            alpha = args.regulariser_weight * (1 if CLASSES[name] else 2)
            return r_drop(own_loss, divergence, outputs, labels, alpha)
        forward = partial(self.outputs, self.model, name, inputs)
        passes = Passes(self.model.bert, forward) if args.regulariser == "smart" else None
        extra = getattr(args, f"{name}_extra")
        with outputs_of(self.model) if extra else nullcontext() as vectors:  # (B, D) each
            outputs = passes.clean() if passes else forward()
        loss = own_loss(outputs, labels)
        if passes:
            change = smoothness(passes, outputs, divergence, args.epsilon)
            loss = loss + args.regulariser_weight * change
        if extra:
            term = self.loss_on_vectors(extra, name, vectors, labels, forward)
            loss = loss + args.extra_weight * term
        if self.teachers:
            with torch.no_grad():
                targets = [self.outputs(model, name, inputs) for model in self.teachers[name]]
            distance = soft_loss if CLASSES[name] else score_loss
            soft = distance(outputs, torch.stack(targets)) / len(labels)
            loss = (1 - args.teacher_share) * loss + args.teacher_share * soft
        return loss

    def outputs(self, model: nn.Module, name: str, inputs: Sequence[Tensor]) -> Tensor:
        """What the task's head gives, in float32: (B, C) or (B,)."""
        with self.autocast():
            return getattr(model, HEADS[name])(*inputs).float()

    def loss_on_vectors(
        self,
        extra: str,
        name: str,
        vectors: Sequence[Tensor],
        labels: Tensor,
        forward: Callable[[], Tensor],
    ) -> Tensor:
        """One of the task's extras, on the vectors (B, D) of the first texts and of the second."""
        if extra == "simcse":
            with outputs_of(self.model) as again:
                forward()
            return simcse(vectors[0], again[0])
        u, v = vectors
        relations = [relation(name, label) for label in cpu_copy(labels).numpy().tolist()]
        same, different = (
            to_device(torch.tensor(rows, dtype=torch.long), u.device)
            for kind in ("same", "different")
            for rows in [[i for i, name in enumerate(relations) if name == kind]]
        )
        return ranking(u[same], v[same], v[different], symmetric=extra == "ranking_symmetric")
