"""Questions about gradients: which parameters, and which of their rows, get one."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from checks.fixed_dropout import default_dtype
from checks.quiz import calls
from checks.quiz.functions import Function
from checks.quiz.questions import Claim, Pool

OPTIONS = ("pretrain", "finetune")
TABLES = ("word_embedding", "pos_embedding", "tk_type_embedding")


def rows(function: Function, rng: random.Random) -> Pool | None:
    """Which row of the embedding tables gets a gradient, for ids that are given."""
    ids = rng.sample(range(1, 10), 3)
    with default_dtype(torch.float32):
        torch.manual_seed(1)
        model = calls.new_model(function.task.id, calls.Sizes(), "finetune", 0.0).bert.eval()
        result = model.embed(torch.tensor([ids]))
        (result * torch.randn(result.shape)).sum().backward()
    claims = []
    for name in TABLES:
        gradient = getattr(model, name).weight.grad
        for row in range(min(10, len(getattr(model, name).weight))):
            size = 0.0 if gradient is None else gradient[row].abs().max().item()
            holds = calls.differ([size])
            claims.append(Claim(f"`{name}.weight[{row}]`", holds, largest(gradient, size)))
    return Pool(
        f"`{function.task.function}` gets `input_ids` = {[ids]}, in evaluation mode, and a loss is "
        "computed of the result. Which of these rows has a gradient other than 0 after "
        "`loss.backward()`?",
        balanced(claims, rng),
        "The gradients were computed for these ids; those of the other three rows are 0.",
    )


def largest(gradient: Tensor | None, size: float) -> str:
    """A gradient in words."""
    return "there is no gradient" if gradient is None else f"the largest number is {size:.2g}"


def balanced(claims: Iterable[Claim], rng: random.Random) -> list[Claim]:
    """At most three of the false claims about each table: the large ones would crowd out others."""
    kept: list[Claim] = []
    for name in TABLES:
        of_table = [claim for claim in claims if name in claim.text]
        false = [claim for claim in of_table if claim.holds is False]
        kept += [c for c in of_table if c.holds] + rng.sample(false, min(3, len(false)))
    return kept


def parameters(function: Function, rng: random.Random) -> Pool | None:
    """Which parameters of the classifier get a gradient, by option."""
    sizes = calls.draw_sizes(rng)
    for option in rng.sample(OPTIONS, len(OPTIONS)):
        with default_dtype(torch.float32):
            torch.manual_seed(1)
            model = calls.new_model(function.task.id, sizes, option, 0.0).eval()
            ids = torch.ones(2, sizes.length).long()
            model(ids, torch.ones_like(ids)).square().sum().backward()
        what = f"A `{type(model).__name__}` is made with option={option!r}"
        if pool := pool_of(model, f"{what}, and a loss computed of its logits.", rng):
            return pool
    return None


def tasks(function: Function, rng: random.Random) -> Pool | None:
    """Which parameters of the model for several tasks get a gradient from one task's loss."""
    models = importlib.import_module("checks.part2.models")  # it comes with part 2
    batches = importlib.import_module("checks.part2.batches")
    option = rng.choice(OPTIONS)
    with torch.random.fork_rng(devices=[]):
        model, _ = models.student_model(option)
        batch = batches.batch_for(function.task.id, rng.randint(0, 99))
        result = getattr(model.eval(), function.name)(*(part for pair in batch for part in pair))
        result.square().sum().backward()
    what = f"A `{type(model).__name__}` is made with option={option!r}"
    text = f"{what}, and a loss computed of `{function.name}` alone."
    return pool_of(model, text, rng)


def pool_of(model: nn.Module, text: str, rng: random.Random) -> Pool | None:
    """The question which parameter has a gradient, or which has none."""
    named: dict[str, Any] = {name: p.grad for name, p in model.named_parameters()}
    has = {name: gradient is not None for name, gradient in named.items()}
    other = rng.choice([True, False])
    if sum(value is not other for value in has.values()) < 3:
        other = not other
    if all(value is not other for value in has.values()):
        return None
    claims = [
        Claim(f"`{name}`", value is other, "it has one" if value else "`.grad` is None")
        for name, value in has.items()
    ]
    return Pool(
        f"{text} Which of these parameters has {'a' if other else 'no'} gradient (`.grad` is "
        f"{'not ' * other}None) after `loss.backward()`?",
        claims,
        f"Of all {len(has)} parameters, {sum(has.values())} have a gradient.",
    )
