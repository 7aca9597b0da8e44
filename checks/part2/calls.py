"""The calls that the checks of part 2 make of the student's code, and what came back.

``measure(task_id)`` builds the student's MultitaskBERT around a tiny random BERT, calls one of its
functions in many ways (other words, more padding, half of the batch, a single row, one sentence
twice, chance) and keeps what it returns as arrays. Nothing is judged here: properties.py looks at
these arrays only, so that it may run elsewhere. This file does not know how any task is solved.

B is the number of sentences or pairs, D the hidden size.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from checks.errors import describe
from checks.fingerprints import projections
from checks.fixed_dropout import FixedDropout
from checks.part1.functions import CLASSIFIER_DROPOUT
from config import BertConfig

TINY = {  # a width that many numbers of heads divide; ids of [CLS] and [SEP] as they really are
    "vocab_size": 1100,
    "hidden_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "attention_probs_dropout_prob": 0.0,  # what dropout is left is the student's own
    "hidden_dropout_prob": 0.0,
}
CLS, SEP, FIRST_WORD, WORDS = 101, 102, 999, 100
SENTIMENTS = 5
# Of seven first and seven second sentences: no class, width or usual constant is 7.
LENGTHS = ((9, 6, 4, 8, 5, 7, 10), (6, 4, 8, 5, 7, 3, 11))
MOST_NUMBERS = 100_000  # of own parameters and gradients that are kept whole
ATTEMPT = "attempt"  # the name of what was measured: which random layers
ATTEMPTS = 8  # at random layers whose last ReLU is not dead for all of a batch
SCALES = (1.0, 10.0, 100.0)  # of random embeddings
INIT, FORWARD = "multitask.init", "multitask.forward"
PREDICTIONS = (
    "multitask.predict_sentiment",
    "multitask.predict_paraphrase",
    "multitask.predict_similarity",
)
SINGLE = (FORWARD, PREDICTIONS[0])
OPTIONS = ("pretrain", "finetune")
CAME = ("ids", "mask")


# ---------------------------------------------------------------------------------------------
# The student's model around a tiny BERT


def tiny_encoder(seed: int = 0) -> nn.Module:
    """What BertModel.from_pretrained gives here: always the same random weights, large ones."""
    return copy.deepcopy(_tiny_encoder(importlib.import_module("bert").BertModel, seed))


def loaded_parameters(seed: int) -> dict[str, nn.Parameter]:
    """The parameters of what from_pretrained gives here, by their names."""
    encoder = _tiny_encoder(importlib.import_module("bert").BertModel, seed)
    return dict(encoder.named_parameters())


@functools.lru_cache(maxsize=8)
def _tiny_encoder(cls: type[nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):  # a student's layers begin alike at every call
        model = cls(BertConfig(**TINY))
    generator = torch.Generator().manual_seed(11711 + seed)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            if parameter.dim() > 1:
                parameter.normal_(std=0.15, generator=generator)
    return model


def default_flags() -> dict[str, Any]:
    """What the student's own flags are by default: the configuration may be made from them."""
    module = importlib.import_module("multitask_classifier")
    quiet = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["multitask_classifier.py"]),
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
    ):
        try:
            return vars(module.get_args())
        except (Exception, SystemExit):
            return {}


def student_model(
    option: str, seed: int = 0, attempt: int = 0
) -> tuple[nn.Module, list[nn.Module]]:
    """The student's MultitaskBERT in evaluation mode, and the encoders that it loaded.

    Args:
        option: pretrain or finetune.
        seed: of all weights.
        attempt: gives other weights to the student's own layers.
    """
    module = importlib.import_module("multitask_classifier")
    bert = importlib.import_module("bert")
    given = {
        "num_labels": {label: label for label in range(SENTIMENTS)},  # as in the data sets
        "hidden_size": TINY["hidden_size"],
        "hidden_dropout_prob": CLASSIFIER_DROPOUT,
        "data_dir": ".",
        "option": option,
    }
    config = SimpleNamespace(**(default_flags() | given))
    encoders: list[nn.Module] = []

    def load(*_: Any, **__: Any) -> nn.Module:
        encoders.append(tiny_encoder(seed))
        return encoders[-1]

    torch.manual_seed(seed + 1000 * attempt)
    with mock.patch.object(bert.BertModel, "from_pretrained", side_effect=load):
        model = module.MultitaskBERT(config).eval()
    for parameter in own_parameters(model, encoders):
        if parameter.dim() > 1 and not parameter.any():  # zeros are a fine start, but say nothing
            nn.init.normal_(parameter, std=0.1)
    return model, encoders


def bare_model() -> nn.Module:
    """A MultitaskBERT whose __init__ was not run: enough to see which functions are begun."""
    cls = importlib.import_module("multitask_classifier").MultitaskBERT
    model = cls.__new__(cls)
    nn.Module.__init__(model)
    return model


def own_parameters(model: nn.Module, encoders: list[nn.Module]) -> list[nn.Parameter]:
    """The model's parameters that did not come with a loaded BERT."""
    loaded = {id(parameter) for encoder in encoders for parameter in encoder.parameters()}
    return [parameter for parameter in model.parameters() if id(parameter) not in loaded]


def function_of(task_id: str) -> str:
    """The name of a task's method: ``predict_sentiment``."""
    return "__init__" if task_id == INIT else task_id.split(".")[1]


# ---------------------------------------------------------------------------------------------
# Batches


def sentences(side: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Ids and mask, (B, L) each, as the tokenizer gives them; no word is in both sides."""
    lengths = torch.tensor(LENGTHS[side]).roll(seed // len(LENGTHS[0]) ** side)[:, None]  # (B, 1)
    place = torch.arange(int(lengths.max()))  # (L,)
    generator = torch.Generator().manual_seed(2 * seed + side)
    words = torch.randint(0, 25, (len(lengths), len(place)), generator=generator)
    ids = FIRST_WORD + (words + 50 * side + seed) % WORDS
    ids[:, 0] = CLS
    ids = torch.where(place == lengths - 1, SEP, ids) * (place < lengths)
    return ids, (place < lengths).long()


def other_words(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same batch, each word another one, which no side has."""
    return torch.where(ids >= FIRST_WORD, FIRST_WORD + (ids - FIRST_WORD + 25) % WORDS, ids), mask


def wider(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same batch, with three more columns of padding."""
    return tuple(nn.functional.pad(tensor, (0, 3)) for tensor in (ids, mask))


Batch = list[tuple[Tensor, Tensor]]  # of each side: ids, mask


def batch_for(task_id: str, seed: int = 0) -> Batch:
    """What a task's function is called with."""
    return [sentences(side, seed) for side in range(1 if task_id in SINGLE else 2)]


def changed(batch: Batch, side: int, change: Callable[..., tuple[Tensor, Tensor]]) -> Batch:
    """A batch in which one side is changed."""
    return [change(*pair) if i == side else pair for i, pair in enumerate(batch)]


def copied(batch: Batch) -> Batch:
    """The same batch in tensors of its own, which the student's function may change."""
    return [(ids.clone(), mask.clone()) for ids, mask in batch]


def call(model: nn.Module, task_id: str, batch: Batch, seed: int = 0) -> Any:
    """What the student's function returns for a batch."""
    torch.default_generator.manual_seed(seed)
    return getattr(model, function_of(task_id))(*(tensor for pair in batch for tensor in pair))


def rows_of(batch: Batch, rows: slice) -> Batch:
    """Some rows of a batch."""
    return [(ids[rows], mask[rows]) for ids, mask in batch]


# ---------------------------------------------------------------------------------------------
# Changes from outside: the embedding of padding, and what BERT returns


@contextlib.contextmanager
def other_padding(encoders: list[nn.Module]) -> Iterator[None]:
    """While active, [PAD] has another embedding. Its id stays, since code may look for that."""
    tables = [getattr(encoder, "word_embedding", None) for encoder in encoders]
    rows = [table.weight.data[0] for table in tables if isinstance(table, nn.Embedding)]
    before = [row.clone() for row in rows]
    try:
        for row in rows:
            row.copy_(torch.linspace(-2, 2, len(row)).sin())
        yield
    finally:
        for row, old in zip(rows, before, strict=True):
            row.copy_(old)


@contextlib.contextmanager
def loud(model: nn.Module, encoders: list[nn.Module], scale: float) -> Iterator[None]:
    """While active, BERT returns, and each own layer gets, random numbers of that scale, if any.

    Both, since some ways never call BERT's forward and others have no layers.
    """

    def noise(value: Any) -> Any:
        floating = isinstance(value, Tensor) and value.is_floating_point()
        return scale * torch.randn_like(value) if floating else value

    def replace_outputs(_module: nn.Module, _inputs: Any, outputs: Any) -> Any:
        if not isinstance(outputs, dict):
            return outputs
        return {name: noise(value) for name, value in outputs.items()}

    def replace_inputs(_module: nn.Module, inputs: tuple) -> tuple:
        return tuple(map(noise, inputs))

    inside = {module for encoder in encoders for module in encoder.modules()}
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Bilinear)]
    if not scale:
        yield
        return
    hooks = [encoder.register_forward_hook(replace_outputs) for encoder in encoders]
    hooks += [m.register_forward_pre_hook(replace_inputs) for m in layers if m not in inside]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


# ---------------------------------------------------------------------------------------------
# Measuring: all calls of the student's code, one after the other

Measured = dict[str, Any]  # "call" or "call/what" → a tensor, a text or None
CHANGES = {"other words": other_words, "wider": wider}  # of one side of a batch
CHANCE: dict[str, dict[str, bool]] = {  # how the calls differ that only chance tells apart
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
    weights: Mapping[str, Tensor] = field(
        default_factory=dict
    )  # to set first; for names see ``named``


def requests(task_id: str, seed: int) -> dict[str, Request]:
    """All calls of a function after the first one, by their names."""
    batch = batch_for(task_id, seed)
    half = len(LENGTHS[0]) // 2
    found = {"gradients": Request(batch, gradients="whole", seed=1 + seed)}
    found |= {f"loud {i}": Request(batch, scale=scale) for i, scale in enumerate(SCALES)}
    for side in range(len(batch)):
        for name, change in CHANGES.items():
            found[f"{name} {side}"] = Request(changed(batch, side, change))
    for i, rows in enumerate((slice(half), slice(half, None))):
        found[f"half {i}"] = Request(rows_of(batch, rows))
    found["other padding"] = Request(batch, other_padding=True)
    found["single"] = Request(rows_of(batch, slice(1)))
    if task_id not in SINGLE:
        twice = [sentences(0, seed)] * 2
        found["identical"] = Request(twice)
        found["gradients if identical"] = Request(twice, gradients="largest")
    if task_id != FORWARD:
        found["pretrain"] = Request(batch, option="pretrain", gradients="whole", seed=2 + seed)
    for name, changes in CHANCE.items():
        found |= {f"{name} {i}": Request(batch, seed=i, **changes) for i in range(2)}
    return found


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
        finding = describe(error)
        measured |= {f"{call}/error": finding.text, f"{call}/error kind": finding.kind}


def not_begun(task_id: str) -> bool:
    """Whether the function itself, not one that it calls, raises NotImplementedError."""
    try:
        if task_id == INIT:
            student_model("finetune")
        else:
            call(bare_model(), task_id, batch_for(task_id))
    except (Exception, SystemExit) as error:
        innermost = error.__traceback__
        while innermost.tb_next:
            innermost = innermost.tb_next
        where = innermost.tb_frame.f_code.co_name
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
    found = {
        "bert": torch.cat(rows),
        "own": torch.tensor(own),
        "widths": torch.tensor([float(layer.in_features) for layer in linear]),
    }
    loose = loose_layers(model, encoders)
    return found | ({"loose": loose[0]} if loose else {})


def loose_layers(model: nn.Module, encoders: list[nn.Module]) -> list[str]:
    """Attributes that hold layers to train, in a container that nn.Module does not look into."""
    known = {id(parameter) for module in (model, *encoders) for parameter in module.parameters()}
    found = []
    for name, value in vars(model).items():
        values = value.values() if isinstance(value, dict) else value
        if name.startswith("_") or not isinstance(value, dict | list | tuple):
            continue
        layers = [layer for layer in values if isinstance(layer, nn.Module)]
        parameters = [parameter for layer in layers for parameter in layer.parameters()]
        if any(p.requires_grad and id(p) not in known for p in parameters):
            found.append(name)
    return found


def fitting(seed: int) -> Measured:
    """What the predictions that are written so far raise, whatever they return."""
    model, _ = student_model("finetune", seed)
    found: Measured = {}
    for task_id in PREDICTIONS:
        try:
            with torch.no_grad():
                call(model, task_id, batch_for(task_id, seed))
        except (Exception, SystemExit) as error:
            found[function_of(task_id)] = str(error)[:300]
    return found


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
            given = copied(batch)
            with FixedDropout(), watched(encoders, seen):
                result = plain(call(model, task_id, given))
            if not is_dead(result):
                break
        measured |= {"result": result, ATTEMPT: torch.tensor(float(attempt))}
        for side, pair in enumerate(given):
            measured |= {f"given {side}/{name}": t for name, t in zip(CAME, pair, strict=True)}
    except (Exception, SystemExit) as error:
        finding = describe(error)
        measured |= {"result/error": finding.text, "result/error kind": finding.kind}
    for i, came in enumerate(seen):
        measured |= {f"seen {i}/{name}": one for name, one in zip(CAME, came, strict=True)}
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


class DropoutWatch(TorchFunctionMode):
    """While active, notes how many numbers each dropout was given that drops some."""

    def __init__(self):
        super().__init__()
        self.sizes: list[float] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in (F.dropout, torch.dropout):
            return func(*args, **kwargs)
        before = (args[0] if args else kwargs["input"]).clone()  # it may be changed in place
        result = func(*args, **kwargs)
        if not torch.equal(before, result):
            self.sizes.append(float(result.numel()))
        return result


def plain(result: Any) -> Any:
    """A tensor of ordinary numbers without its graph; of all else the type's name."""
    if not isinstance(result, Tensor) or result.is_complex() or result.layout != torch.strided:
        return type(result).__name__
    return result.detach().cpu().clone()


@contextlib.contextmanager
def watched(encoders: list[nn.Module], seen: list[tuple[Any, Any]]) -> Iterator[None]:
    """While active, the ids and the mask of every pass through BERT are noted."""
    ids: list[Any] = []

    def embed(given: Callable) -> Callable:
        def noting(*args: Any, **kwargs: Any) -> Any:
            ids.append(args[0] if args else kwargs.get("input_ids"))
            return given(*args, **kwargs)

        return noting

    def encode(given: Callable) -> Callable:
        def noting(*args: Any, **kwargs: Any) -> Any:
            mask = args[1] if len(args) > 1 else kwargs.get("attention_mask")
            seen.append((ids[-1] if ids else None, mask))
            return given(*args, **kwargs)

        return noting

    with contextlib.ExitStack() as stack:
        for encoder in encoders:
            for name, note in (("embed", embed), ("encode", encode)):
                own = note(getattr(encoder, name))
                stack.enter_context(mock.patch.object(encoder, name, own))
        yield


def named(model: nn.Module, encoders: list[nn.Module], seed: int) -> dict[str, list[nn.Parameter]]:
    """All parameters by their names, those of the same name in several BERTs together.

    "encoder NAME" is as it was loaded, "inside NAME" something else in a BERT, "own NAME" the rest.
    """
    loaded = loaded_parameters(seed)
    found: dict[str, list[nn.Parameter]] = {}
    for encoder in encoders:
        for name, parameter in encoder.named_parameters():
            if name in loaded and torch.equal(loaded[name], parameter):
                found.setdefault(f"encoder {name}", []).append(parameter)
    known = {id(parameter) for parameters in found.values() for parameter in parameters}
    own = {id(parameter) for parameter in own_parameters(model, encoders)}
    for name, parameter in model.named_parameters():
        if id(parameter) not in known:
            found[f"{'own' if id(parameter) in own else 'inside'} {name}"] = [parameter]
    return found


def set_weights(parameters: Mapping[str, list[nn.Parameter]], weights: Mapping[str, Tensor]):
    """Give parameters other values; what is not there, or of another shape, stays as it is."""
    with torch.no_grad():
        for name, tensor in weights.items():
            for parameter in parameters.get(name, ()):
                if parameter.shape == tensor.shape:
                    parameter.copy_(tensor)


def cotangent(shape: Sequence[int], seed: int) -> Tensor:
    """The weights of results in the sum whose gradients are taken."""
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(seed))


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
    found = {
        "flows": torch.tensor(float(result.requires_grad)),
        "trains": torch.tensor(float(sum(p.requires_grad for p in inside))),
        "loaded": torch.tensor([float(times == len(encoders)) for times in loaded]),
    }
    for name, alike in parameters.items():
        grads = [p.grad for p in alike if p.grad is not None]
        if grads:
            found[name] = sum(grads[1:], grads[0].clone())
    others = [name for name in parameters if not name.startswith("encoder ")]
    found |= within(MOST_NUMBERS, {name: found[name] for name in others if name in found})
    weights = {f"weight {name}": parameters[name][0].detach().clone() for name in others}
    return found | within(MOST_NUMBERS, weights) if whole else within(0, found)


def within(most: int, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of so many numbers together; of those that are too many, their largest number."""
    found = {}
    for name, tensor in tensors.items():
        most -= tensor.numel()
        found[name] = tensor if most >= 0 or not tensor.numel() else tensor.abs().max()
    return found
