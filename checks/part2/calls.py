"""The calls that the checks of part 2 make of the student's code, and what came back.

``measure(task_id)`` builds the student's MultitaskBERT around a tiny random BERT, calls one of its
functions in many ways (other words, more padding, half of the batch, a single row, one sentence
twice, chance) and keeps what it returns as arrays. Nothing is judged here: properties.py looks at
these arrays only, so that it may run elsewhere. This file does not know how any task is solved.

B is the number of sentences or pairs, D the hidden size.
"""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from checks.errors import describe
from checks.fingerprints import projections
from checks.fixed_dropout import FixedDropout
from checks.part2.batches import (
    LENGTHS,
    Batch,
    batch_for,
    changed,
    copied,
    other_words,
    rows_of,
    sentences,
    wider,
)
from checks.part2.hooks import DropoutWatch, loud, other_padding, watched
from checks.part2.models import (
    FORWARD,
    INIT,
    OPTIONS,
    PREDICTIONS,
    SINGLE,
    bare_model,
    function_of,
    loaded_parameters,
    loose_layers,
    named,
    own_parameters,
    student_model,
)

MOST_NUMBERS = 100_000  # of own parameters and gradients that are kept whole
ATTEMPT = "attempt"  # the name of what was measured: which random layers
ATTEMPTS = 8  # at random layers whose last ReLU is not dead for all of a batch
SCALES = (1.0, 10.0, 100.0)  # of random embeddings
CAME = ("ids", "mask")
Measured = dict[str, Any]  # "call" or "call/what" → a tensor, a text or None
CHANGES = {"other words": other_words, "wider": wider}  # of one side of a batch
CHANCE: dict[str, dict[str, bool]] = {  # how the calls differ that only chance distinguishes
    "no chance": {},
    "chance": {"chance": True},
    "chance in training": {"chance": True, "training": True},
}


@dataclass(frozen=True)
class Request:
    """What a task's function is called with, and how."""

    batch: Batch
    option: str = "finetune"
    training: bool = False
    chance: bool = False  # dropout as it is; without it, the same numbers are always dropped
    seed: int = 0  # of chance, and of the weights of results in a sum whose gradients are taken
    scale: float = 0.0  # of random numbers in the place of embeddings; 0: none
    other_padding: bool = False
    gradients: str = ""  # of the results, instead of them: "whole" or the "largest" numbers
    weights: Mapping[str, Tensor] = field(default_factory=dict)  # to set first; see ``named``


def requests(task_id: str, seed: int) -> dict[str, Request]:
    """All calls of a function after the first one, by their names."""
    batch = batch_for(task_id, seed)
    half = len(LENGTHS[0]) // 2
    calls = {"gradients": Request(batch, gradients="whole", seed=1 + seed)}
    calls |= {f"loud {i}": Request(batch, scale=scale) for i, scale in enumerate(SCALES)}
    for side in range(len(batch)):
        for name, change in CHANGES.items():
            calls[f"{name} {side}"] = Request(changed(batch, side, change))
    for i, rows in enumerate((slice(half), slice(half, None))):
        calls[f"half {i}"] = Request(rows_of(batch, rows))
    calls["other padding"] = Request(batch, other_padding=True)
    calls["single"] = Request(rows_of(batch, slice(1)))
    if task_id not in SINGLE:
        twice = [sentences(0, seed)] * 2
        calls["identical"] = Request(twice)
        calls["gradients if identical"] = Request(twice, gradients="largest")
    if task_id != FORWARD:
        calls["pretrain"] = Request(batch, option="pretrain", gradients="whole", seed=2 + seed)
    for name, changes in CHANCE.items():
        calls |= {f"{name} {i}": Request(batch, seed=i, **changes) for i in range(2)}
    return calls


def measure(task_id: str, seed: int = 0) -> Measured:
    """What the student's code for one task returns, nothing judged.

    Args:
        task_id: of the task.
        seed: of the words, the sentences' lengths and the weights.

    Returns:
        arrays by the calls' names; what a call raises is under ``call/error``.
    """
    measured: Measured = {}
    with torch.random.fork_rng(devices=[]):
        if not_begun(task_id):
            measured["not begun"] = "yes"
        if task_id == INIT:
            for option in OPTIONS:
                note(measured, option, lambda option=option: model_parameters(option, seed))
            note(measured, "predictions", lambda: fitting(seed))
        else:
            measure_function(measured, task_id, seed)
    return measured


def note(measured: Measured, call: str, action: Callable[[], Measured]) -> None:
    """Do one thing with the student's code; what it gives, or raises, is kept."""
    try:
        measured |= {f"{call}/{name}".rstrip("/"): value for name, value in action().items()}
    except (Exception, SystemExit) as error:
        note_error(measured, call, error)


def note_error(measured: Measured, call: str, error: BaseException) -> None:
    """Keep what a call has raised."""
    finding = describe(error)
    measured |= {f"{call}/error": finding.text, f"{call}/error kind": finding.kind}


def call(model: nn.Module, task_id: str, batch: Batch, seed: int = 0) -> Any:
    """What the student's function returns for a batch."""
    torch.default_generator.manual_seed(seed)
    return getattr(model, function_of(task_id))(*(tensor for pair in batch for tensor in pair))


def not_begun(task_id: str) -> bool:
    """Whether the function itself, not one that it calls, raises NotImplementedError."""
    try:
        if task_id == INIT:
            student_model("finetune")
        else:
            call(bare_model(), task_id, batch_for(task_id))
    except (Exception, SystemExit) as error:
        where = traceback.extract_tb(error.__traceback__)[-1].name
        return describe(error).kind == "not started" and where == function_of(task_id)
    return False


def model_parameters(option: str, seed: int) -> Measured:
    """Task 2.1: the parameters of the loaded BERTs, and all other layers.

    Returns:
        bert: a row for each parameter that was loaded: whether it is in the model, whether it
            trains, and the numbers that tell which matrix it is (nothing of others).
        own: whether each parameter of the student's own trains.
        widths: how many numbers each linear layer of the student's own takes.
        loose: the name of an attribute with layers that nn.Module does not see.
    """
    model, encoders = student_model(option, seed)
    registered = {id(parameter) for parameter in model.parameters()}
    rows = [torch.zeros(0, 2 + len(projections(None)))]
    for parameter in (p for encoder in encoders for p in encoder.parameters()):
        flags = torch.tensor([[id(parameter) in registered, parameter.requires_grad]])
        which = projections(parameter if parameter.dim() > 1 else None)[None]
        rows.append(torch.cat((flags, which), dim=1))
    own = [float(parameter.requires_grad) for parameter in own_parameters(model, encoders)]
    inside = {module for encoder in encoders for module in encoder.modules()}
    linear = [m for m in model.modules() if type(m) is nn.Linear and m not in inside]
    measured = {
        "bert": torch.cat(rows),
        "own": torch.tensor(own),
        "widths": torch.tensor([float(layer.in_features) for layer in linear]),
    }
    loose = loose_layers(model, encoders)
    return measured | ({"loose": loose[0]} if loose else {})


def fitting(seed: int) -> Measured:
    """What the predictions that are written so far raise, whatever they return."""
    model, _ = student_model("finetune", seed)
    errors: Measured = {}
    for task_id in PREDICTIONS:
        try:
            with torch.no_grad():
                call(model, task_id, batch_for(task_id, seed))
        except (Exception, SystemExit) as error:
            errors[function_of(task_id)] = str(error)[:300]
    return errors


def measure_function(measured: Measured, task_id: str, seed: int) -> None:
    """Tasks 2.2 to 2.5: one function, called in many ways."""
    attempt = first_result(measured, task_id, seed)
    if "result" in measured:
        measured |= perform(task_id, requests(task_id, seed), seed, attempt)


def first_result(measured: Measured, task_id: str, seed: int) -> int:
    """Call the function for the first time, and note what it gives and what comes to BERT.

    Returns:
        which random layers were taken: the first ones whose results are not all the same.
    """
    batch = batch_for(task_id, seed)
    seen: list[tuple[Any, Any]] = []
    try:
        for attempt in range(ATTEMPTS):
            seen.clear()
            model, encoders = student_model("finetune", seed, attempt)
            handed = copied(batch)
            with FixedDropout(), watched(encoders, seen):
                result = plain(call(model, task_id, handed))
            if not is_dead(result):
                break
        measured |= {"result": result, ATTEMPT: torch.tensor(float(attempt))}
        for side, pair in enumerate(handed):
            measured |= {f"given {side}/{name}": t for name, t in zip(CAME, pair, strict=True)}
    except (Exception, SystemExit) as error:
        note_error(measured, "result", error)
    for i, came in enumerate(seen):
        measured |= {f"seen {i}/{name}": value for name, value in zip(CAME, came, strict=True)}
    return attempt


def perform(task_id: str, asked: Mapping[str, Request], seed: int, attempt: int) -> Measured:
    """What a task's function returns to each request, by the requests' names.

    Those of the same weights share a model, but for training: a layer that the model does not know
    of stays in that mode.
    """
    measured: Measured = {}
    models: dict[Any, tuple[nn.Module, list[nn.Module]]] = {}

    def act(request: Request) -> Measured:
        weights = tuple(map(id, request.weights.values()))
        key = (request.option, weights, request.training and bool(weights))
        if key not in models:
            models[key] = student_model(request.option, seed, attempt)
            set_weights(named(*models[key], seed), request.weights)
        return answer(*models[key], task_id, request, seed)

    for name, request in asked.items():
        note(measured, name, functools.partial(act, request))
    return measured


def answer(
    model: nn.Module, encoders: list[nn.Module], task_id: str, request: Request, seed: int
) -> Measured:
    """What the function gives to one request: "" is the result, in its own shape."""
    dropout = contextlib.nullcontext() if request.chance else FixedDropout()
    padding = other_padding(encoders) if request.other_padding else contextlib.nullcontext()
    model.train(request.training)
    with dropout, padding, loud(model, encoders, request.scale):
        if request.gradients:
            return gradients_of(model, encoders, task_id, request, seed)
        with torch.no_grad(), DropoutWatch() as watch:
            result = plain(call(model, task_id, copied(request.batch), request.seed))
    return {"": result, **({"dropouts": torch.tensor(watch.sizes)} if request.training else {})}


def is_dead(result: Any) -> bool:
    """Whether all numbers of a result are the same, as behind a ReLU that passes nothing."""
    return isinstance(result, Tensor) and len(set(result.flatten().tolist())) == 1


def plain(result: Any) -> Any:
    """A tensor of ordinary numbers without its graph; of all else the type's name."""
    if not isinstance(result, Tensor) or result.is_complex() or result.layout != torch.strided:
        return type(result).__name__
    return result.detach().cpu().clone()


def set_weights(parameters: Mapping[str, list[nn.Parameter]], weights: Mapping[str, Tensor]):
    """Give parameters other values; what is not there, or of another shape, stays as it is."""
    with torch.no_grad():
        for name, tensor in weights.items():
            for parameter in parameters.get(name, ()):
                if parameter.shape == tensor.shape:
                    parameter.copy_(tensor)


def cotangent(shape: Sequence[int], seed: int) -> Tensor:
    """The weights of results in the sum whose gradients are taken.

    They add up to 0 over the rows, (B, …): what all rows have in common has no gradient.
    """
    weights = torch.randn(tuple(shape), generator=torch.Generator().manual_seed(seed))
    return weights - weights.mean(dim=0)


def gradients_of(
    model: nn.Module, encoders: list[nn.Module], task_id: str, request: Request, seed: int
) -> Measured:
    """The gradient of a sum of results with respect to each parameter that one reaches.

    Returns:
        flows: whether any gradient leaves the result.
        trains: how many parameters of BERT do.
        loaded: of each of BERT's parameters whether it is what was loaded, in every BERT.
        encoder …, inside …, own …: the gradients, as in ``named``; of several BERTs, their sum.
        weight …: what the parameters are that were not loaded.
    """
    parameters, whole = named(model, encoders, seed), request.gradients == "whole"
    model.zero_grad()
    result = call(model, task_id, copied(request.batch), request.seed)
    if result.requires_grad:
        (result * cotangent(result.shape, request.seed)).sum().backward()
    inside = [p for encoder in encoders for p in encoder.parameters()]
    loaded = [len(parameters.get(f"encoder {n}", ())) for n in loaded_parameters(seed)]
    grads = {
        "flows": torch.tensor(float(result.requires_grad)),
        "trains": torch.tensor(float(sum(p.requires_grad for p in inside))),
        "loaded": torch.tensor([float(times == len(encoders)) for times in loaded]),
    }
    for name, alike in parameters.items():
        several = [p.grad for p in alike if p.grad is not None]
        if several:
            grads[name] = sum(several[1:], several[0].clone())
    others = [name for name in parameters if not name.startswith("encoder ")]
    grads |= within(MOST_NUMBERS, {name: grads[name] for name in others if name in grads})
    weights = {f"weight {name}": parameters[name][0].detach().clone() for name in others}
    return grads | within(MOST_NUMBERS, weights) if whole else within(0, grads)


def within(most: int, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of ``most`` numbers together; of those that are too many, their largest number."""
    kept = {}
    for name, tensor in tensors.items():
        most -= tensor.numel()
        kept[name] = tensor if most >= 0 or not tensor.numel() else tensor.abs().max()
    return kept
