"""The loss of a micro-batch: the task's own, and the terms that the flags add to it.

own loss  + λ · SMART  + μ · Bregman  + w · loss on vectors,  mixed with the teachers'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor, nn

from extensions.flags import COMPARES_ROWS, TechniqueFlags, holds, spelled
from extensions.loss import simcse, smart
from extensions.loss.cosine import cosent, cosine_embedding
from extensions.loss.distillation import mixed_loss, score_loss, soft_loss
from extensions.loss.divergences import squared_difference, symmetric_kl
from extensions.loss.r_drop import r_drop
from extensions.loss.ranking import ranking
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
        args, divergence = self.args, divergence_of(name)
        if args.regulariser == "r_drop":
            outputs = self.outputs(self.model, name, simcse.twice(*inputs))
            # KL has two directions, and a squared difference one
            alpha = args.regulariser_weight * (1 if CLASSES[name] else 2)
            return r_drop(self.losses[name], divergence, outputs, labels, alpha)
        forward = partial(self.outputs, self.model, name, inputs)
        passes = smart.Passes(self.model.bert, forward) if args.regulariser or self.slow else None
        extra = getattr(args, f"{name}_extra", None)
        with outputs_of(self.model) if extra else nullcontext() as vectors:  # (B, D) each
            outputs = passes.clean() if passes else forward()
        loss = self.losses[name](outputs, labels)
        if args.regulariser == "smart":
            change = smart.smoothness(passes, outputs, divergence, args.epsilon, args.ascents)
            loss = loss + args.regulariser_weight * change
        if self.slow:
            with passes.same_dropout(), torch.no_grad():
                slow_outputs = self.outputs(self.slow.model, name, inputs)
            loss = loss + args.bregman * divergence(outputs, slow_outputs)
        if extra:
            term = LOSSES_ON_VECTORS[extra](self, name, inputs, labels, vectors)
            loss = loss + args.extra_weight * term
        if self.teachers:
            soft = self.loss_on_teachers(name, inputs, outputs) / len(labels)
            loss = mixed_loss(loss, soft, args.teacher_share)
        return loss

    def outputs(self, model: nn.Module, name: str, inputs: Sequence[Tensor]) -> Tensor:
        """What the task's head gives, in float32: (B, C) or (B,)."""
        with self.autocast():
            return getattr(model, HEADS[name])(*inputs).float()

    @torch.no_grad()
    def targets(self, name: str, inputs: Sequence[Tensor]) -> Tensor:
        """What the M teachers of the task say: (M, B, C) or (M, B)."""
        return torch.stack([self.outputs(model, name, inputs) for model in self.teachers[name]])

    def loss_on_teachers(self, name: str, inputs: Sequence[Tensor], outputs: Tensor) -> Tensor:
        """Distillation, summed over rows."""
        distance = soft_loss if CLASSES[name] else score_loss
        return distance(outputs, self.targets(name, inputs))

    def simcse(self, name: str, inputs: Sequence[Tensor], labels: Tensor, vectors: list) -> Tensor:
        """SimCSE: of NLI's triplets in the batch, else of each first text passed a second time."""
        if name != "nli":
            with outputs_of(self.model) as again:
                self.outputs(self.model, name, inputs)
            return ranking(vectors[0], again[0])
        u, v = vectors
        premises = map(tuple, on_host(inputs[0]).numpy().tolist())
        relations = relations_of(name, labels)
        rows = simcse.triplets(zip(premises, range(len(labels)), relations, strict=True))
        if not rows:
            return 0.0 * u.sum()
        _, right, wrong = (to_device(torch.tensor(i), u.device) for i in zip(*rows, strict=True))
        return ranking(u[right], v[right], v[wrong])

    def ranking(
        self,
        name: str,
        inputs: Sequence[Tensor],
        labels: Tensor,
        vectors: list,
        symmetric: bool = False,
    ) -> Tensor:
        """Multiple negatives ranking of the pairs that say the same; others are hard negatives."""
        u, v = vectors
        relations = relations_of(name, labels)
        same, different = (
            to_device(torch.tensor([kind == r for r in relations]).nonzero().squeeze(1), u.device)
            for kind in ("entailment", "contradiction")
        )
        return ranking(u[same], v[same], v[different], symmetric=symmetric)

    def cosine_embedding(
        self, name: str, inputs: Sequence[Tensor], labels: Tensor, vectors: list
    ) -> Tensor:
        """A margin between pairs that say the same and others."""
        return cosine_embedding(*vectors, labels)


LOSSES_ON_VECTORS = {
    "simcse": Objective.simcse,
    "ranking": Objective.ranking,
    "ranking_symmetric": partial(Objective.ranking, symmetric=True),
    "cosine_embedding": Objective.cosine_embedding,
}


def divergence_of(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    """ℓ_s of SMART: symmetric KL of classes and of yes or no, the squared difference of numbers."""
    return symmetric_kl if CLASSES[name] else squared_difference


def relations_of(name: str, labels: Tensor) -> list[str]:
    """What the labels (B,) say, in NLI's words."""
    return [relation(name, label) for label in on_host(labels).numpy().tolist()]
