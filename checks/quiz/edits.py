"""Questions about edits of a function: what changes, what no longer holds, what is raised."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from checks.errors import attempt
from checks.hunt.mutants import DELETION, Edit
from checks.quiz import calls
from checks.quiz.functions import Function
from checks.quiz.questions import Claim, Pool, pool_of_values

MOST_EDITS = 40
DROPS = (DELETION, "drop_call", "change_operands")
KNOWABLE = (*DROPS, "change_arguments", "replace_name", "replace_operator", "change_index")
Run = Callable[..., Tensor]  # of the function, with a seed and a setting
OF_ALL = {
    "in evaluation mode": {},
    "in training mode, with a dropout probability of 0.5": {"training": True},
    "in training mode, with a dropout probability of 0": {"training": True, "rate": 0.0},
}
PADDED = {"where the last token of each sentence is padding": {"padding": 1}}
OF_TOKENS = {"for sentences of one token": {"length": 1}}
SITUATIONS: dict[str, dict[str, dict[str, Any]]] = {  # by task, in words, and what run gets
    "bert.attention": {
        **OF_ALL,
        **PADDED,
        **OF_TOKENS,
        "where all keys are 0": {"zero": 0},
        "where all queries are 0": {"zero": 1},
        "for heads of width 1": {"width": 1},
    },
    "bert.add_norm": {
        **OF_ALL,
        "where `input` is 0": {"zero": 0},
        "where `output` is 0": {"zero": 1},
    },
    "bert.layer": {**OF_ALL, **PADDED, **OF_TOKENS},
    "bert.embed": {**OF_ALL, **OF_TOKENS},
    "classifier.forward": {**OF_ALL, **PADDED, **OF_TOKENS},
    "optimizer.step": {
        "with weight_decay=0, after two steps": {},
        "with weight_decay=0.5, after two steps": {"weight_decay": 0.5},
        "with correct_bias=False, after two steps": {"correct_bias": False},
        "with betas=(0, 0), after two steps": {"betas": (0.0, 0.0)},
        "with eps=0, after two steps": {"eps": 0.0},
        "with lr=0, after two steps": {"lr": 0.0},
        "after one step": {"gradients": (2.0,)},
        "where the gradient is 0 in both steps": {"gradients": (0.0, 0.0)},
    },
}


def given(function: Function, sizes: calls.Sizes) -> str:
    """What a question about edits says first."""
    if function.task.id == "optimizer.step":
        return (
            f"`{function.task.function}` is called for one parameter that is 1, with lr=0.1, "
            "betas=(0.5, 0.75), eps=0.1, weight_decay=0 and gradients of 2 and then -1.5, unless "
            "said otherwise."
        )
    modes = "It runs in evaluation mode and without padding, unless said otherwise."
    return f"{calls.given(function.task, sizes)} {modes}"


def runner(function: Function, sizes: calls.Sizes, edit: Edit | None) -> Run:
    """What runs the function with an edit; TypeError where the result is no tensor."""

    def run(seed: int, **setting: Any) -> Tensor:
        with function.edited(edit):
            result = calls.run(function.task.id, sizes, seed, **setting)
        if not isinstance(result, Tensor):
            raise TypeError(f"a {type(result).__name__} is returned")
        return result

    return run


def changes(function: Function, rng: random.Random) -> Pool | None:
    """Which of four results changes if a line is changed."""
    sizes, situations = calls.draw_sizes(rng), SITUATIONS[function.task.id]

    def results(edit: Edit | None) -> list[list[Tensor]]:
        run = runner(function, sizes, edit)
        return [[run(seed, **setting) for seed in calls.SEEDS] for setting in situations.values()]

    before = results(None)
    for edit in function.draw_edits(rng)[:MOST_EDITS]:
        after = attempt(results, edit)
        if isinstance(after, BaseException):
            continue
        claims = []
        for text, *pair in zip(situations, before, after, strict=True):
            distances = [*map(calls.distance, *pair)]
            claims.append(Claim(text, calls.differ(distances), calls.in_words(distances)))
        text = f"{given(function, sizes)} If {edit}, where does the result change?"
        why = "Both versions were run in each case with the same numbers and the same chance."
        if (pool := Pool(text, claims, why)).is_enough:
            return pool
    return None


# ---------------------------------------------------------------------------------------------
# Properties


def other_padding(x: Tensor, axis: int) -> Tensor:
    """Other numbers in the place of the last token."""
    return torch.cat([x.narrow(axis, 0, x.size(axis) - 1), other(x.narrow(axis, -1, 1))], axis)


def other_row(x: Tensor, axis: int) -> Tensor:
    """Another last sentence."""
    return torch.cat([x[:-1], other(x[-1:])])


def other(x: Tensor) -> Tensor:
    """Other ids, or other numbers."""
    return 99 - x if x.dtype == torch.int64 else 3 - x


@dataclass(frozen=True)
class Property:
    """What may hold of a function: two results that are the same, or not."""

    text: str
    tasks: tuple[str, ...]
    same: bool
    pair: Callable[[Run, int], tuple[Any, Any]]  # the results, of what runs it and a seed

    def holds(self, run: Run, form: torch.Size) -> bool | None:
        """Whether it holds in all runs; None if not, or if results have another form."""
        pairs = [self.pair(run, seed) for seed in calls.SEEDS]
        different = calls.differ([calls.distance(*pair) for pair in pairs])
        if different is None or run(1).shape != form:
            return None
        return different is not self.same


ENCODER = ("bert.attention", "bert.layer")
BERT = (*ENCODER, "bert.add_norm", "bert.embed")
OPTIMIZER = ("optimizer.step",)
PROPERTIES = [
    Property(
        "what stands in the padding does not change the results of the other tokens",
        ENCODER,
        True,
        lambda run, seed: tuple(
            run(seed, padding=1, change=change)[:, :-1] for change in (None, other_padding)
        ),
    ),
    Property(
        "a sentence's result does not depend on the other sentences of the batch",
        (*ENCODER, "bert.embed", "classifier.forward"),
        True,
        lambda run, seed: (run(seed)[:-1], run(seed, change=other_row)[:-1]),
    ),
    Property(
        "a token's result depends on the other tokens of its sentence",
        ENCODER,
        False,
        lambda run, seed: (run(seed)[:, :-1], run(seed, change=other_padding)[:, :-1]),
    ),
    Property(
        "a token's result depends on its position",
        ("bert.embed",),
        False,
        lambda run, seed: (run(seed), run(seed, change=lambda x, axis: x.flip(axis)).flip(1)),
    ),
    Property(
        "each token's result has mean 0 (the layer norm's weights are 1, its biases 0)",
        BERT[1:],
        True,
        lambda run, seed: (run(seed).mean(-1), 0 * run(seed)[..., 0]),
    ),
    Property(
        "two calls in training mode with the same input give different results (dropout is 0.5)",
        (*BERT, "classifier.forward"),
        False,
        lambda run, seed: tuple(run(seed, training=True, noise=noise) for noise in (1, 2)),
    ),
    Property(
        "with a gradient of 0 and weight_decay=0.5, the parameter still changes",
        OPTIMIZER,
        False,
        lambda run, seed: (run(seed, gradients=(0.0,), weight_decay=0.5), torch.ones(1)),
    ),
    Property(
        "with eps=0, a first step with the gradient 2 takes lr=0.1 off the parameter",
        OPTIMIZER,
        True,
        lambda run, seed: (run(seed, gradients=(2.0,), eps=0.0), torch.tensor([0.9])),
    ),
    Property(
        "with gradients of 2 and then 0, the second step still changes the parameter",
        OPTIMIZER,
        False,
        lambda run, seed: tuple(run(seed, gradients=(2.0, 0.0)[:steps]) for steps in (1, 2)),
    ),
]


def properties(function: Function, rng: random.Random) -> Pool | None:
    """Which edit takes a property away; deletions come first."""
    task, sizes = function.task.id, calls.draw_sizes(rng)
    plain = runner(function, sizes, None)
    form = plain(1).shape
    for prop in rng.sample(PROPERTIES, len(PROPERTIES)):
        if task not in prop.tasks or not prop.holds(plain, form):
            continue
        claims = []
        text = f"{given(function, sizes)} As the code stands, {prop.text}. With which edit does "
        text += "the function still run without an error, but this no longer hold?"
        for operators in (DROPS, ()):
            for edit in function.draw_edits(rng, operators)[:MOST_EDITS]:
                holds = attempt(prop.holds, runner(function, sizes, edit), form)
                if isinstance(holds, bool):
                    words = f"run with the edit, it {'still holds' if holds else 'does not hold'}"
                    claims.append(Claim(str(edit), not holds, words))
            pool = Pool(text, claims, "All four were run; with the others it still holds.")
            if pool.is_enough:
                return pool
    return None


# ---------------------------------------------------------------------------------------------
# Errors


def raises(function: Function, rng: random.Random) -> Pool | None:
    """What an edit raises, and where."""
    sizes = calls.draw_sizes(rng)
    outcomes: dict[Edit, tuple[type | None, int, str]] = {}
    for edit in function.draw_edits(rng, KNOWABLE)[:MOST_EDITS]:
        result = attempt(runner(function, sizes, edit), 1)
        if not isinstance(result, BaseException):
            outcomes[edit] = (None, 0, "no error")
        elif line := line_of(result, function):
            message = " ".join(str(result).split())[:120]
            outcomes[edit] = (type(result), line, f"{type(result).__name__}: {message}")
    raising = [edit for edit in outcomes if outcomes[edit][0]]
    if not raising:
        return None
    edit = rng.choice(raising)
    kind, line, message = outcomes[edit]
    others: dict[str, str] = {}
    for other_edit, (other_kind, other_line, _) in outcomes.items():
        related = other_kind and (issubclass(kind, other_kind) or issubclass(other_kind, kind))
        if not (other_line == line and related):
            others.setdefault(in_words(other_kind, other_line), f"what comes out if {other_edit}")
    text = f"{given(function, sizes)} If {edit}, what happens in a call?"
    why = f"With this edit, Python says `{message}` in line {line}."
    return pool_of_values(text, in_words(kind, line), others, why, message)


def in_words(kind: type | None, line: int) -> str:
    """An exception as an option."""
    return f"{kind.__name__} in line {line}" if kind else "no error is raised"


def line_of(error: BaseException, function: Function) -> int:
    """The function's own line that an exception went through; 0 if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if f.filename == str(function.path)]
    own = [line for line in lines if function.first <= line <= function.last]
    return own[-1] if own else 0
