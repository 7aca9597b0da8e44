"""Part 2's second round: the same function, at weights chosen after the first round's answers.

Numbers that fulfil every property can be made up without a model. What cannot be made up is told
by weights that were not known before: there the function has to fulfil the properties once more,
to give what its gradients foretold, and not to care in which of many equal ways BERT is written.
The sandbox gets weights and words under numbers, in random order, and returns results; what each
of them is for, only this process knows.

θ are the parameters, "encoder NAME" and "own NAME" as in calls.named; B is the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from checks.findings import Finding, faulty
from checks.part2 import arrays, properties
from checks.part2 import tasks as part2_tasks
from checks.part2.arrays import differ, gradients_in, spread
from checks.part2.batches import FIRST_WORD, LENGTHS, Batch, batch_for, changed, other_words
from checks.part2.calls import ATTEMPT, ATTEMPTS, Measured, Request, cotangent, requests
from checks.part2.models import OPTIONS, TINY
from course.grading.judging.weights import (
    Encoders,
    Loaded,
    Weights,
    loaded_weights,
    moved,
    noise,
    other_weights,
    whole,
)

# The calls of the first round whose gradients are tried, and with respect to which parameters
SLOPES = {"gradients": ("encoder", "inside"), "pretrain": ("own",)}
DRAWS = 2  # directions of each: one alone, a wrong gradient may get right by chance
TOLD = ("given", "seen", "gradients", "pretrain")  # what the first round alone tells
ROWS = 12  # of the batch whose order is not told
STEP = 0.01  # of finite differences: how much of the results' size they are to change
NEAR = 0.01  # another step, relative to the weights: no gradient that is told has a part in it
FEW = 0.25  # of a function's numbers change at a step, if it has one; a ReLU holds many fixed
# Relative to the size of results: a bias alone has no gradient that is worth a step
LEAST_SLOPE = {"gradients": 0.0, "pretrain": 1e-4}
SLACK = 0.1  # relative: steps this large, in float32, through abs and max
VISIBLE = 0.01  # of results' spread: less may be made-up numbers, rounded
LATER = "at weights that were chosen after your function had given its first results, "
OTHER_ENCODER = (
    "the same BERT, its matrices written in another way (heads in another basis, neurons in "
    "another order), gives other results: they are no function of what BERT makes of the words"
)
NO_LAYERS = "other weights in BERT's layers change nothing of how results differ between rows"
NO_WORDS = (
    "other embeddings of the words, the ids as they were, give the same results: they are made up "
    "from the ids, not by BERT"
)
NO_ORDER = (
    "the same words in reverse order give the same results: a bag of words, not what BERT makes "
    "of sentences"
)
NO_WEIGHTS = "other weights, of BERT and your own, give the same results"
NOT_THE_SAME = "the same words give other results in another batch, among other rows"
NO_SLOPE = "a small step of the weights changes results by nothing, where the gradient says it does"
NOT_THE_GRADIENT = (
    "the gradient is not that of the results: a small step along it changes them by {:.2g}, where "
    "it says {:.2g} (detach, .data, a backward of your own?)"
)
INSIDE = (
    "layers of its own inside BERT, or weights of BERT that are not the loaded ones: results were "
    "not, or only in part, tried with the same BERT in other matrices"
)
BY_WORDS = (
    "with the ids of words exchanged, and their embeddings too, results differ: they depend on the "
    "ids, not on BERT alone (a lexicon? or made up from the words?)"
)


@dataclass(frozen=True)
class Second:
    """What is asked about one task, and what belongs to it in the first round."""

    task_id: str
    seed: int  # of the first round's words and weights
    attempt: int  # which of the student's own weights it took
    first: Measured
    requests: Mapping[str, Request]  # by what they are for
    names: tuple[str, ...]  # of the requests, each at the number by which the sandbox knows it
    order: Tensor  # (ROWS, 2): which batch, which row of it
    slopes: Mapping[str, list[tuple[float, float]]]  # by call, of each draw: slope, step


# ---------------------------------------------------------------------------------------------
# What is asked


def known_batches(task_id: str, seed: int) -> list[Batch]:
    """The batch that a task's function is called with, then with other words on each side."""
    batch = batch_for(task_id, seed)
    return [batch, *(changed(batch, side, other_words) for side in range(len(batch)))]


def in_order(batches: list[Batch], order: Tensor) -> Batch:
    """Rows of several batches as one."""
    return [
        tuple(
            torch.stack([batches[which][side][i][row] for which, row in order.tolist()])
            for i in range(2)
        )
        for side in range(len(batches[0]))
    ]


def reverse(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same sentences, the words between their first and last token in reverse order."""
    last, place = mask.sum(dim=1, keepdim=True) - 1, torch.arange(ids.shape[1])  # (B, 1), (L,)
    between = (place > 0) & (place < last)
    return ids.gather(1, torch.where(between, last - place, place)), mask


def exchanged(batch: Batch, weights: Weights, generator: torch.Generator) -> tuple[Batch, Weights]:
    """Words with other ids, whose embeddings are where their ids are."""
    rows = torch.arange(TINY["vocab_size"])
    words = rows[FIRST_WORD:]
    rows[FIRST_WORD:] = words[torch.randperm(len(words), generator=generator)]  # old id → new id
    table = weights[properties.WORDS]
    there = torch.empty_like(table).index_copy_(0, rows, table)
    return [(rows[ids], mask) for ids, mask in batch], weights | {properties.WORDS: there}


def plan(task_id: str, seed: int, first: Measured, encoders: Encoders) -> Second:
    """What is asked about one task after the first round."""
    attempt = arrays.take(first, ATTEMPT)
    if attempt.dim() or attempt not in range(ATTEMPTS):
        raise arrays.Stopped(arrays.UNREADABLE)
    generator, loaded = encoders.generator, loaded_in(first)
    batches = known_batches(task_id, seed)
    mosts = (len(batches), len(LENGTHS[0]))
    order = [torch.randint(most, (ROWS,), generator=generator) for most in mosts]
    order = torch.stack(order, dim=1)
    own = other_weights(first, "gradients")
    own_later = moved(own, generator)
    plain = Request(batches[0])
    asked = {"later": plain, "order": Request(in_order(batches, order))}
    asked |= {n: r for n, r in requests(task_id, seed).items() if not r.gradients}
    for i, (name, request) in enumerate(asked.items()):
        which = 0 if "chance" in name else i % 2  # where chance is, numbers have to be the same
        weights = encoders.get(f"later {which}", loaded) | own_later
        asked[name] = replace(request, weights=weights)
    asked["again"] = replace(plain, weights=encoders.get("again", loaded) | own)
    inside = {name: w for name, w in own_later.items() if name.startswith("inside ")}
    asked["layers"] = replace(plain, weights=encoders.get("layers", loaded) | own | inside)
    words, weights = exchanged(batches[0], encoders.get("again", loaded), generator)
    asked["exchanged"] = Request(words, weights=weights | own)
    asked["embeddings"] = replace(plain, weights=weights | own)
    asked["reversed"] = replace(asked["again"], batch=[reverse(*pair) for pair in batches[0]])
    slopes: dict[str, list[tuple[float, float]]] = {}
    for call, kinds in SLOPES.items():
        size = weighed(centred(first["result"]), seed, call).norm().item()
        others, option = other_weights(first, call), OPTIONS[call == "gradients"]
        draws = [direction(first, call, kinds, generator) for _ in range(DRAWS)]
        if any(slope <= LEAST_SLOPE[call] * size for _, slope in draws):
            continue
        slopes[call] = [(slope, STEP * size / slope) for _, slope in draws]
        steps = {
            f"{call} {draw} {sign}": {name: sign * length * part for name, part in step.items()}
            for draw, ((step, _), (_, length)) in enumerate(zip(draws, slopes[call], strict=True))
            for sign in (-1, 1)
        }
        known = {name: (loaded_weights(0) | others)[name] for name in draws[0][0]}
        steps[f"{call} near"] = {
            name: there - known[name] for name, there in moved(known, generator, NEAR).items()
        }
        for name, step in steps.items():
            weights = {n: (w + step.get(n, 0)).to(w) for n, w in others.items()}
            weights |= encoders.near(step, loaded)
            asked[name] = replace(plain, option=option, weights=weights)
    names = list(asked)
    places = torch.randperm(len(names), generator=generator).tolist()
    told = tuple(names[place] for place in places)
    return Second(task_id, seed, int(attempt), first, asked, told, order, slopes)


def loaded_in(first: Measured) -> Loaded:
    """The names of BERT's parameters that are what was loaded."""
    names = list(loaded_weights(0))
    flags = arrays.take(first, "gradients/loaded", len(names))
    return frozenset(name for name, flag in zip(names, flags.tolist(), strict=True) if flag == 1)


def direction(
    first: Measured, call: str, kinds: Sequence[str], generator: torch.Generator
) -> tuple[Weights, float]:
    """A random direction in which, the gradients say, results change; and how steeply.

    Each parameter's part is along its gradient, by a random factor, and half as much anywhere.
    Factors differ by much, as draws of one direction do whose gradient is not that of the results.
    """
    known = loaded_weights(0) | other_weights(first, call)
    gradients = gradients_in(first, call, kinds) if f"{call}/flows" in first else {}
    fitting = {n: g for n, g in gradients.items() if n in known and known[n].shape == g.shape}
    total = sum((g.square().sum() for g in fitting.values()), torch.zeros(())).sqrt()
    if not total.isfinite():
        return {}, 0.0
    step, slope = {}, 0.0
    for name, gradient in fitting.items():
        factor = torch.empty((), dtype=torch.float64).exponential_(generator=generator)
        aside = noise(gradient.shape, generator) * gradient.norm() / gradient.numel() ** 0.5
        step[name] = (factor * gradient + 0.5 * aside) / total.clamp(min=1e-30)
        slope += (step[name] * gradient).sum().item()
    return step, slope


def weighed(results: Tensor, seed: int, call: str) -> Tensor:
    """The products whose sum the gradients of one call are of."""
    shift = {"gradients": 1, "pretrain": 2}[call]
    return results.double() * cotangent(results.shape, shift + seed)


# ---------------------------------------------------------------------------------------------
# To the sandbox and back


class Parcel:
    """Tensors for the sandbox, each once, under names that say nothing."""

    def __init__(self):
        self.names: dict[int, str] = {}
        self.tensors: dict[str, Tensor] = {}

    def put(self, tensor: Tensor) -> str:
        """A tensor's name in the parcel."""
        name = self.names.setdefault(id(tensor), f"t{len(self.names)}")
        self.tensors[name] = tensor  # it stays, and so does its id
        return name

    def pack(self, second: Second) -> dict[str, Any]:
        """Arguments of runs.part_2: the requests by their numbers, in that order."""
        packed = {}
        for number, name in enumerate(second.names):
            request = second.requests[name]
            packed[str(number)] = {
                **vars(request),
                "batch": [[self.put(tensor) for tensor in pair] for pair in request.batch],
                "weights": {name: self.put(tensor) for name, tensor in request.weights.items()},
            }
        return {"attempt": second.attempt, "asked": packed}


# ---------------------------------------------------------------------------------------------
# What came back


def findings_and_flags(second: Second, outputs: Measured) -> tuple[list[Finding], list[str]]:
    """What the second round adds to a task's findings, and flags."""
    answers = by_purpose(second, outputs)
    try:
        return findings_of(second, answers), flags_of(second, answers)
    except arrays.Stopped as stopped:
        return [replace(stopped.finding, kind="values")], []


def by_purpose(second: Second, outputs: Measured) -> Measured:
    """The answers under the names of what they are for."""
    purposes = {str(number): name for number, name in enumerate(second.names)}
    answers = {}
    for name, output in outputs.items():
        number, slash, rest = name.partition("/")
        if number in purposes:
            answers[f"{purposes[number]}{slash}{rest}"] = output
    return answers


def findings_of(second: Second, answers: Measured) -> list[Finding]:
    """Properties at the later weights, then what ties both rounds together."""
    task_id, first, seed = second.task_id, second.first, second.seed
    before = {finding.kind for finding in faulty(part2_tasks.judge(task_id, first, seed))}
    rows = arrays.rows_in(first, "result")
    asked = ("again", "layers", "later", "embeddings", "reversed")
    again, layers, later, words, turned = (rows_of(answers, first, name) for name in asked)
    findings = []
    if differ(rows, again):
        findings.append(Finding("values", OTHER_ENCODER))
    elif not visible(centred(later) - centred(rows), rows):
        findings.append(Finding("values", NO_WEIGHTS))
    elif properties.WORDS in loaded_in(first) and not visible(
        centred(words) - centred(rows), rows
    ):  # a table of the student's own stays as it is
        findings.append(Finding("values", NO_WORDS))
    elif not visible(turned - rows, rows):
        findings.append(Finding("values", NO_ORDER))
    elif follows(rows, layers):
        findings.append(Finding("values", NO_LAYERS))
    first_told = {name: value for name, value in first.items() if name.startswith(TOLD)}
    more = faulty(
        part2_tasks.judge(task_id, first_told | answers | {"result": answers["later"]}, seed)
    )
    findings += [replace(f, text=LATER + f.text) for f in more if f.kind not in before]
    kinds = before | {finding.kind for finding in more}
    if "neighbours" not in kinds and not any_order(second, answers):
        findings.append(Finding("values", NOT_THE_SAME, name="rows_mixed"))
    return findings + ([] if "learning" in kinds else slopes_of(second, answers))


def follows(before: Tensor, after: Tensor) -> bool:
    """Whether one factor and one summand for each column make all rows what they become.

    Then the layers have no part in what is told of the words.
    """
    x, y = centred(before), centred(after)
    factor = (x * y).sum(dim=0) / x.square().sum(dim=0).clamp(min=1e-30)
    return not visible(y - factor * x, after)


def visible(change: Tensor, results: Tensor) -> bool:
    """Whether a change in most columns is one, compared with how far rows are apart."""
    return bool((change.abs() > VISIBLE * spread(results)).any(dim=0).double().mean() > 0.5)


def centred(results: Tensor) -> Tensor:
    """Results without what all rows have in common, (B, …)."""
    return results.double() - results.double().mean(dim=0)


def rows_of(answers: Measured, first: Measured, name: str) -> Tensor:
    """Values of the second round, as many as in the first result."""
    return arrays.rows_in({**answers, "result": first["result"]}, name)


def any_order(second: Second, answers: Measured) -> bool:
    """Whether rows give what they gave before, wherever they are and among which others."""
    sides = range(len(known_batches(second.task_id, second.seed)) - 1)
    names = ["later", *(f"other words {i}" for i in sides)]
    known = [rows_of(answers, second.first, name) for name in names]
    wanted = torch.stack([known[which][row] for which, row in second.order.tolist()])  # (ROWS, …)
    got = arrays.take(answers, "order")
    if got.numel() != wanted.numel():
        return False
    return not differ(wanted, got.reshape(wanted.shape))


def slopes_of(second: Second, answers: Measured) -> list[Finding]:
    """Whether results change as the gradients of the first round said."""
    for call, draws in second.slopes.items():
        for draw, (slope, length) in enumerate(draws):
            below, above = (
                weighed(arrays.take(answers, f"{call} {draw} {sign}"), second.seed, call).sum()
                for sign in (-1, 1)
            )
            got, wanted = (above - below).item(), 2 * length * slope
            if not abs(got - wanted) <= SLACK * abs(wanted):
                if is_flat(second.first, answers, call):
                    return [Finding("values", NO_SLOPE)]
                return [Finding("learning", NOT_THE_GRADIENT.format(got, wanted))]
    return []


def is_flat(first: Measured, answers: Measured, call: str) -> bool:
    """Whether results hardly change at a small step, however large the gradient is said to be.

    The sum whose gradient is taken may stay the same by chance; all numbers together do not.
    """
    rows, near = arrays.rows_in(first, "result"), rows_of(answers, first, f"{call} near")
    change = (centred(near) - centred(rows)).abs()
    return bool((change > arrays.TOLERANCE * spread(rows)).double().mean() < FEW)


def flags_of(second: Second, answers: Measured) -> list[str]:
    """What is no fault, but reason to look."""
    flags = [] if whole("encoder bert_layers", loaded_in(second.first)) else [INSIDE]
    before, after = (rows_of(answers, second.first, n) for n in ("again", "exchanged"))
    return [*flags, BY_WORDS] if differ(before, after) else flags
