"""The student's MultitaskBERT around a tiny random BERT, and which of its parameters are whose."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import io
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import nn

from checks.references import CLASSIFIER_DROPOUT
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
SENTIMENTS = 5
INIT, FORWARD = "multitask.init", "multitask.forward"
PREDICTIONS = (
    "multitask.predict_sentiment",
    "multitask.predict_paraphrase",
    "multitask.predict_similarity",
)
SINGLE = (FORWARD, PREDICTIONS[0])
OPTIONS = ("pretrain", "finetune")


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
    fixed = {
        "num_labels": {label: label for label in range(SENTIMENTS)},  # as in the data sets
        "hidden_size": TINY["hidden_size"],
        "hidden_dropout_prob": CLASSIFIER_DROPOUT,
        "data_dir": ".",
        "option": option,
    }
    config = SimpleNamespace(**(default_flags() | fixed))
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


def loose_layers(model: nn.Module, encoders: list[nn.Module]) -> list[str]:
    """Attributes that hold layers to train, in a container that nn.Module does not look into."""
    known = {id(parameter) for module in (model, *encoders) for parameter in module.parameters()}
    names = []
    for name, value in vars(model).items():
        values = value.values() if isinstance(value, dict) else value
        if name.startswith("_") or not isinstance(value, dict | list | tuple):
            continue
        layers = [layer for layer in values if isinstance(layer, nn.Module)]
        parameters = [parameter for layer in layers for parameter in layer.parameters()]
        if any(p.requires_grad and id(p) not in known for p in parameters):
            names.append(name)
    return names


def named(model: nn.Module, encoders: list[nn.Module], seed: int) -> dict[str, list[nn.Parameter]]:
    """All parameters by their names, those of the same name in several BERTs together.

    "encoder NAME" is as it was loaded, "inside NAME" something else in a BERT, "own NAME" the rest.
    """
    loaded = loaded_parameters(seed)
    groups: dict[str, list[nn.Parameter]] = {}
    for encoder in encoders:
        for name, parameter in encoder.named_parameters():
            if name in loaded and torch.equal(loaded[name], parameter):
                groups.setdefault(f"encoder {name}", []).append(parameter)
    known = {id(parameter) for parameters in groups.values() for parameter in parameters}
    own = {id(parameter) for parameter in own_parameters(model, encoders)}
    for name, parameter in model.named_parameters():
        if id(parameter) not in known:
            groups[f"{'own' if id(parameter) in own else 'inside'} {name}"] = [parameter]
    return groups


def function_of(task_id: str) -> str:
    """The name of a task's method: ``predict_sentiment``."""
    return "__init__" if task_id == INIT else task_id.split(".")[1]
