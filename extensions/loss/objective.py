"""The loss of a part of a batch, with all that the flags ask for on top of the task's own loss.

    own loss  + λ · regulariser  + μ · Bregman  + w · loss on vectors,  mixed with the teachers'

An ``Objective`` yields losses, each to be followed by its backward pass: one, or FreeLB's several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from extensions.loss import contrastive, fgm, freelb, r3f, simcse, smart
from extensions.loss.distillation import mixed_loss, score_loss, soft_loss
from extensions.loss.divergences import squared_difference, symmetric_kl
from extensions.loss.on_vectors import compares_rows, on_vectors
from extensions.loss.perturbation import Passes
from training.files.errors import InputError
from training.loop.processes import world_size


class Objective:
    """Losses of a MultitaskBERT.

    Args:
        args: the flags of flags.py.
        model: its ``bert`` is what is perturbed; called, it returns vectors (B, D).
        losses: of each task, (outputs, labels) → a number.
        autocast: what passes are put under.
        teachers: of each task the models to learn it from, in evaluation mode; {}: from none.

    Raises:
        InputError: a loss over the rows of a batch in several processes, or what a model of this
            size does not allow.
    """

    def __init__(
        self,
        args: Any,
        model: nn.Module,
        losses: Mapping[str, Callable[[Tensor, Tensor], Tensor]],
        autocast: Callable[[], AbstractContextManager],
        teachers: Mapping[str, Sequence[nn.Module]] | None = None,
    ):
        what = compares_rows(args)
        if what and world_size() > 1:
            raise InputError(
                f"{what} compares the rows of a batch with each other, which several processes "
                "share: run it in one"
            )
        if args.sts_extra == "angle" and model.bert.config.hidden_size % 2:
            raise InputError("--sts_extra angle halves vectors; those of this model have odd width")
        self.args, self.model, self.losses, self.autocast = args, model, losses, autocast
        self.teachers = teachers or {}
        self.slow = smart.MomentumTeacher(model) if args.bregman else None

    def __call__(self, task: Any, inputs: Sequence[Tensor], labels: Tensor) -> Iterator[Tensor]:
        """The losses of a part.

        Args:
            task: with name, head (a method's name) and classes (0: a number on a scale).
            inputs: what the head takes.
        """
        for loss in self._losses(task, inputs, labels):
            uncertainty = self.model.added.uncertainty
            yield loss if uncertainty is None else uncertainty(task.name, loss)

    def _losses(self, task: Any, inputs: Sequence[Tensor], labels: Tensor) -> Iterator[Tensor]:
        def own(outputs: Tensor) -> Tensor:
            return self.losses[task.name](outputs, labels)

        outputs_of = partial(self._outputs, self.model, task)
        regulariser = self.args.regulariser
        if regulariser == "freelb":
            passes = Passes(self.model.bert, lambda: outputs_of(inputs))
            yield from freelb.losses(
                passes, own, **self._given(steps="ascents", start="epsilon", radius="epsilon")
            )
        elif regulariser == "r_drop":
            outputs = outputs_of(simcse.twice(*inputs))
            loss, alpha = self.losses[task.name], self.args.regulariser_weight
            if task.classes == 0:
                alpha *= 2  # KL has two directions, and a squared difference one
            yield contrastive.r_drop(loss, divergence(task), outputs, labels, alpha)
        else:
            yield self._with_terms(task, inputs, labels, own, lambda: outputs_of(inputs))

    def _with_terms(self, task, inputs, labels, own, forward) -> Tensor:
        """The task's own loss of a clean pass and the terms added to it."""
        args = self.args
        extra = getattr(args, f"{task.name}_extra")
        passes = Passes(self.model.bert, forward) if args.regulariser or args.bregman else None
        with vectors_of(self.model) if extra else nullcontext() as vectors:
            outputs = passes.clean() if passes else forward()
        loss = own(outputs)
        if args.regulariser:
            term = self._regulariser(task, passes, outputs, loss, own)
            loss = loss + args.regulariser_weight * term
        if self.slow:
            with passes.same_dropout(), torch.no_grad():
                theirs = self._outputs(self.slow.model, task, inputs)
            loss = loss + args.bregman * divergence(task)(outputs, theirs)
        if extra == "simcse" and task.name != "nli":
            with vectors_of(self.model) as again:
                forward()
            loss = loss + args.extra_weight * simcse.unsupervised(torch.cat([vectors[0], again[0]]))
        elif extra:
            term = on_vectors(extra, task.name, vectors, labels, inputs)
            loss = loss + args.extra_weight * term
        if self.teachers:
            with torch.no_grad():
                teachers = self.teachers[task.name]
                theirs = torch.stack([self._outputs(one, task, inputs) for one in teachers])
            soft = score_loss(outputs, theirs) if task.classes == 0 else soft_loss(outputs, theirs)
            loss = mixed_loss(loss, soft / len(labels), args.teacher_share)
        return loss

    def _regulariser(self, task, passes: Passes, outputs: Tensor, loss: Tensor, own) -> Tensor:
        apart = divergence(task)
        if self.args.regulariser == "fgm":
            return fgm.adversarial_loss(passes, loss, own, **self._given(epsilon="epsilon"))
        if self.args.regulariser == "r3f":
            return r3f.noise_stability(passes, outputs, apart, **self._given(sigma="epsilon"))
        search = self._given(epsilon="epsilon", steps="ascents")
        return smart.smoothness(passes, outputs, apart, **search)

    def _given(self, **flags: str) -> dict[str, Any]:
        """The arguments among these whose flag was given; the techniques have defaults."""
        values = {name: getattr(self.args, flag) for name, flag in flags.items()}
        return {name: value for name, value in values.items() if value is not None}

    def _outputs(self, model: nn.Module, task: Any, inputs: Sequence[Tensor]) -> Tensor:
        with self.autocast():
            return getattr(model, task.head)(*inputs).float()  # (B, C) or (B,)


def divergence(task: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """ℓ_s of SMART: symmetric KL of classes and of yes or no, the squared difference of numbers."""
    return squared_difference if task.classes == 0 else symmetric_kl


@contextmanager
def vectors_of(model: nn.Module) -> Iterator[list[Tensor]]:
    """The vectors (B, D) that the model makes within it, one for each time that it is called."""
    found: list[Tensor] = []
    hook = model.register_forward_hook(lambda module, inputs, vectors: found.append(vectors))
    try:
        yield found
    finally:
        hook.remove()
