"""Losses on sentences' vectors by the names of their flags, and the batches that they want.

Of a pair's label it knows from where on it means "the same" and up to where "something else".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from extensions.loss import contrastive, cosine, ranking, simcse
from extensions.text.no_duplicates import NoDuplicates, groups

EXTRAS = {  # losses on sentences' vectors, next to a task's own
    "sst": ("supcon", "simcse"),
    "para": ("ranking", "ranking_symmetric", "cosine_embedding", "simcse"),
    "sts": ("ranking", "ranking_symmetric", "angle", "simcse"),
    "nli": ("ranking", "ranking_symmetric", "simcse"),
}
COMPARE_ROWS = {"supcon", "simcse", "ranking", "ranking_symmetric", "angle"}
MEANS_THE_SAME = {"para": 1, "sts": 4.0, "nli": 2}  # labels from here on are positives
MEANS_ANOTHER = {"para": 0, "sts": -1.0, "nli": 0}  # labels up to here are hard negatives


def compares_rows(args: Any) -> str | None:
    """The flag whose loss is not a mean over rows, if there is one."""
    for name in args.tasks:
        extra = getattr(args, f"{name}_extra")
        if extra in COMPARE_ROWS:
            return f"--{name}_extra {extra}"
    if "sts" in args.tasks and args.sts_loss == "cosent":
        return "--sts_loss cosent"
    return None


def on_vectors(
    extra: str, task: str, vectors: Sequence[Tensor], labels: Tensor, inputs: Sequence[Tensor]
) -> Tensor:
    """A loss of EXTRAS on one vector a row, or on two.

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
