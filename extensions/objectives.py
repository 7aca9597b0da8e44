"""The loss of a part of a batch, with all that the flags ask for beside the task's own loss.

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

from extensions import contrastive, cosine, fgm, freelb, r3f, ranking, simcse, smart
from extensions.additions import added
from extensions.distillation import mixed_loss, score_loss, soft_loss
from extensions.divergences import symmetric_kl
from extensions.flags import compares_rows
from extensions.losses import HIGHEST_SIMILARITY
from extensions.no_duplicates import NoDuplicates, groups
from extensions.perturbation import Passes
from training.errors import InputError
from training.processes import process_count

MEANS_THE_SAME = {"para": 1, "sts": 4.0, "nli": 2}  # labels from here on are positives
MEANS_ANOTHER = {"para": 0, "sts": -1.0, "nli": 0}  # labels up to here are hard negatives


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
        if what and process_count() > 1:
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
            uncertainty = added(self.model, "uncertainty")
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
            apart = contrastive.squared_difference if task.classes == 0 else symmetric_kl
            loss, alpha = self.losses[task.name], self.args.regulariser_weight
            yield contrastive.r_drop(loss, apart, outputs, labels, alpha)
        else:
            yield self._with_terms(task, inputs, labels, own, lambda: outputs_of(inputs))

    def _with_terms(self, task, inputs, labels, own, forward) -> Tensor:
        """The task's own loss of a clean pass and the terms beside it."""
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
    """ℓ_s of SMART: symmetric KL of classes and of yes or no, the squared difference of numbers.

    Numbers are brought to 0 … 1 as in their loss, beside which λ would else mean 25 times more.
    """
    return scores_apart if task.classes == 0 else symmetric_kl


def scores_apart(p: Tensor, q: Tensor) -> Tensor:
    """Of similarities (B,), (B,) from 0 to 5."""
    return smart.squared_difference(p / HIGHEST_SIMILARITY, q / HIGHEST_SIMILARITY)


@contextmanager
def vectors_of(model: nn.Module) -> Iterator[list[Tensor]]:
    """The vectors (B, D) that the model makes within it, one for each time that it is called."""
    found: list[Tensor] = []
    hook = model.register_forward_hook(lambda module, inputs, vectors: found.append(vectors))
    try:
        yield found
    finally:
        hook.remove()


def on_vectors(
    extra: str, task: str, vectors: Sequence[Tensor], labels: Tensor, inputs: Sequence[Tensor]
) -> Tensor:
    """A loss of EXTRAS in flags.py on one vector a row, or on two.

    Args:
        inputs: what the head took, the first texts' ids (B, L) first.
    """
    if extra == "supcon":
        return contrastive.supervised_contrastive(vectors[0], labels)
    u, v = vectors  # (B, D) each
    if extra == "angle":
        return cosine.angle(u, v, labels)
    if extra == "cosine_embedding":
        return cosine.cosine_embedding(u, v, labels)
    if extra == "simcse":
        kinds = [kind(task, label) for label in labels.tolist()]
        premises = map(tuple, inputs[0].tolist())
        found = simcse.triplets(zip(premises, range(len(labels)), kinds, strict=True))
        if not found:
            return 0.0 * u.sum()
        _, right, wrong = map(list, zip(*found, strict=True))
        return simcse.supervised(u[right], v[right], v[wrong])
    same, another = labels >= MEANS_THE_SAME[task], labels <= MEANS_ANOTHER[task]  # (B,)
    symmetric = extra == "ranking_symmetric"
    return ranking.ranking(u[same], v[same], v[another], symmetric=symmetric)


def kind(task: str, label: float) -> str:
    """What a pair's label makes of it, in NLI's words."""
    if label >= MEANS_THE_SAME[task]:
        return "entailment"
    return "contradiction" if label <= MEANS_ANOTHER[task] else "neutral"


def in_loss(first: str, second: str, relation: str) -> tuple[str, ...]:
    """Of a pair both texts, of a negative the one that others are held against, else none."""
    return {"entailment": (first, second), "contradiction": (second,)}.get(relation, ())


def without_duplicates(args: Any, rows: Mapping[str, Any], batches: Mapping[str, Any]) -> dict:
    """Batches for the tasks whose loss takes other rows' texts as negatives.

    In these no text comes twice, nor one that means the same; and a pair comes with a hard
    negative, a row of the same first text that means another thing, where there is one.

    Args:
        rows: of each task its data set, of (first, second, label, id).
        batches: of each task its sampler.
    """
    found = dict(batches)
    for name in batches:
        extra = getattr(args, f"{name}_extra")
        if extra in ("ranking", "ranking_symmetric") or (name, extra) == ("nli", "simcse"):
            pairs = [(a, b, kind(name, label)) for a, b, label, _ in rows[name]]
            leader = groups((a, b) for a, b, relation in pairs if relation == "entailment")
            keys = [{leader.get(text, text) for text in in_loss(*pair)} for pair in pairs]
            numbered = ((a, i, relation) for i, (a, _, relation) in enumerate(pairs))
            together = [unit for _, *unit in simcse.triplets(numbered)]
            apart = (unit for unit in together if keys[unit[0]].isdisjoint(keys[unit[1]]))
            found[name] = NoDuplicates(batches[name], keys, map(tuple, apart))
    return found
