"""Questions about gradients: which parameters, and which of their rows, get one."""

from __future__ import annotations

import importlib
import random
from collections.abc import Collection
from functools import partial
from typing import Any

import torch
from torch import nn

from checks.errors import attempt
from checks.fixed_dropout import default_dtype
from checks.graded_tasks import GradedTask
from checks.hunt.mutants import Edit
from checks.quiz import calls
from checks.quiz.functions import Function
from checks.quiz.questions import Claim, Pool, either

OPTIONS = ("pretrain", "finetune")
TABLES = ("word_embedding", "pos_embedding", "tk_type_embedding")
PREDICTIONS = ("predict_sentiment", "predict_paraphrase", "predict_similarity")
LOSS_OF = {  # by task: of what a loss may be computed
    "classifier.init": ("forward",),
    "classifier.forward": ("forward",),
    "multitask.init": PREDICTIONS,
    "multitask.forward": ("forward",),
    **{f"multitask.{name}": (name,) for name in PREDICTIONS},
}
MOST_EDITS = 60


def rows(function: Function, rng: random.Random) -> Pool | None:
    """Which row of the embedding tables gets a gradient, for ids that are given."""
    ids = rng.sample(range(1, 10), 3)
    with default_dtype(torch.float32):
        torch.manual_seed(1)
        model = calls.new_model(function.task.id, calls.Sizes(), "finetune", 0.0).eval()
        result = model.embed(torch.tensor([ids]))
        (result * torch.randn(result.shape)).sum().backward()
    claims = []
    for name in TABLES:
        weight = getattr(model, name).weight
        of_table = []
        for row in range(min(10, len(weight))):
            size = 0.0 if weight.grad is None else weight.grad[row].abs().max().item()
            words = (
                "there is no gradient"
                if weight.grad is None
                else f"the largest number is {size:.2g}"
            )
            of_table.append(Claim(f"`{name}.weight[{row}]`", calls.differ([size]), words))
        false = [claim for claim in of_table if claim.holds is False]
        # the large tables would crowd out the small one
        claims += [c for c in of_table if c.holds] + rng.sample(false, min(3, len(false)))
    return Pool(
        f"`{function.task.function}` gets `input_ids` = {[ids]}, in evaluation mode, and a loss is "
        "computed of the result. Which of these rows has a gradient other than 0 after "
        "`loss.backward()`?",
        claims,
        "The gradients were computed for these ids; those of the other three rows are 0.",
    )


def parameters(function: Function, rng: random.Random) -> Pool | None:
    """Which parameters get a gradient, by option and task; often after an edit that matters."""
    method = rng.choice(LOSS_OF[function.task.id])
    edits = [None, *function.draw_edits(rng)[:MOST_EDITS]][:: rng.choice((1, -1))]
    for option in rng.sample(OPTIONS, len(OPTIONS)):
        plain = attempt(reached, function, None, option, method)
        for edit in edits:
            has = attempt(reached, function, edit, option, method) if edit else plain
            if not isinstance(has, dict) or not isinstance(plain, dict):
                continue
            if edit and (has == plain or has.keys() != plain.keys()):
                continue
            changed = {name for name in has if has[name] != plain[name]}
            asked = {n: value for n, value in has.items() if n in changed or n not in odd_in(has)}
            why = f"Of all {len(has)} parameters, {sum(has.values())} have a gradient."
            suppose = f"Suppose {edit}. " if edit else ""
            text = f"{suppose}A `{function.owner.__name__}` is made with option={option!r}, and a "
            text += f"loss is computed of what its `{method}` returns."
            pool = either(rng, partial(which, asked, changed if edit else has, text, why))
            if pool:
                return pool
    return None


def odd_in(has: dict[str, bool]) -> set[str]:
    """Parameters of a BERT that are not as most of it is: other functions than this one say why."""
    berts = [n.partition("word_embedding")[0] for n in has if n.endswith("word_embedding.weight")]
    groups = [[name for name in has if name.startswith(bert)] for bert in berts]
    return {n for g in groups for n in g if 2 * sum(has[m] is has[n] for m in g) < len(g)}


def reached(function: Function, edit: Edit | None, option: str, method: str) -> dict[str, bool]:
    """Whether each parameter of the student's model has a gradient after a loss of a method."""
    with function.edited(edit), torch.random.fork_rng(devices=[]):
        model, result = model_and_result(function.task, option, method)
        result.square().sum().backward()
    return {name: parameter.grad is not None for name, parameter in model.named_parameters()}


def model_and_result(task: GradedTask, option: str, method: str) -> tuple[nn.Module, Any]:
    """The student's model in evaluation mode, and what one of its methods returns."""
    if task.part == 1:
        sizes = calls.Sizes()
        with default_dtype(torch.float32):
            model = calls.new_model(task.id, sizes, option, 0.0)
        ids = torch.ones(sizes.batch, sizes.length).long()
        inputs = [ids, ids]
    else:
        models = importlib.import_module("checks.part2.models")  # it comes with part 2
        batches = importlib.import_module("checks.part2.batches")
        model, _ = models.student_model(option)
        batch = batches.batch_for(f"multitask.{method}")
        inputs = [tensor for sentences in batch for tensor in sentences]
    return model, getattr(model.eval(), method)(*inputs)


def which(has: dict[str, bool], changed: Collection[str], text: str, why: str, other: bool) -> Pool:
    """The question which parameter has a gradient, or which has none.

    Args:
        changed: what an edit changes; the true option is one of these, or all false ones are.
    """
    false = {name for name, value in has.items() if value is not other}
    answers = has if false <= {*changed} else changed
    claims = [
        Claim(
            f"`{name}`",
            None if value is other and name not in answers else value is other,
            "it has one" if value else "`.grad` is None",
        )
        for name, value in has.items()
    ]
    return Pool(
        f"{text} Which of these parameters has {'a' if other else 'no'} gradient (`.grad` is "
        f"{'not ' * other}None) after `loss.backward()`?",
        claims,
        why,
    )
