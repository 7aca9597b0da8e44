"""How a question calls the student's functions: small sizes, given numbers, everything else random.

``run(task_id, sizes, seed, …)`` gives what the function returns. It does not know what that should
be.
"""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from checks.fixed_dropout import default_dtype
from checks.graded_tasks import GradedTask
from config import BertConfig

VOCABULARY, POSITIONS = 100, 16
MASKED = -1e9
SAME, OTHER = 1e-4, 1e-3  # how far numbers are apart: below the first, above the second
SEEDS = (1, 2, 3)  # of numbers; what is said has to hold for all of them


@dataclass(frozen=True)
class Sizes:
    """Of the inputs: all are different where that is possible."""

    batch: int = 2
    heads: int = 3
    length: int = 5
    width: int = 4  # of a head
    inner: int = 7
    labels: int = 6

    @property
    def hidden(self) -> int:
        """D"""
        return self.heads * self.width


def draw_sizes(rng: random.Random) -> Sizes:
    """Small sizes of which no two are the same."""
    heads, batch, length, width = rng.sample((2, 3, 4, 5, 6), 4)
    others = [n for n in range(7, 14) if n != heads * width]
    return Sizes(batch, heads, length, width, *rng.sample(others, 2))


def given(task: GradedTask, sizes: Sizes) -> str:
    """What the function gets, as a sentence."""
    s = sizes
    tokens = f"({s.batch}, {s.length}"
    heads = f"({s.batch}, {s.heads}, {s.length}, {s.width})"
    mask = f"`attention_mask` of shape ({s.batch}, 1, 1, {s.length})"
    gets = {
        "bert.attention": f"`key`, `query` and `value` of shape {heads}, and {mask}",
        "bert.add_norm": f"`input` of shape {tokens}, {s.hidden}) and `output` of shape {tokens}, "
        f"{s.inner}); `dense_layer` makes {s.hidden} numbers of {s.inner}, and its biases are 0",
        "bert.layer": f"`hidden_states` of shape {tokens}, {s.hidden}) and {mask}, with {s.heads} "
        f"heads and an intermediate size of {s.inner}",
        "bert.embed": f"`input_ids` of shape {tokens}), with a hidden size of {s.hidden}, "
        f"{VOCABULARY} word pieces and at most {POSITIONS} positions",
        "classifier.forward": f"`input_ids` and `attention_mask` of shape {tokens}), with a hidden "
        f"size of {s.hidden} and {s.labels} classes",
    }
    return f"`{task.function}` gets {gets[task.id]}."


CALLS: dict[str, Callable[..., Any]] = {
    "bert.attention": lambda model, x, mask: model.bert_layers[0].self_attention.attention(
        *x, additive(mask)
    ),
    "bert.add_norm": lambda model, x, mask: add_norm(model.bert_layers[0], *x),
    "bert.layer": lambda model, x, mask: model.bert_layers[0](*x, additive(mask)),
    "bert.embed": lambda model, x, mask: model.embed(*x),
    "classifier.forward": lambda model, x, mask: model(*x, mask.long()),
}


def additive(mask: Tensor) -> Tensor:
    """A mask (B, L) of 1 and 0 as attention adds it: (B, 1, 1, L)."""
    return MASKED * (1 - mask)[:, None, None]


def add_norm(layer: nn.Module, input: Tensor, output: Tensor) -> Any:
    """The student's add_norm with the modules of the feed-forward network."""
    return layer.add_norm(input, output, layer.out_dense, layer.out_dropout, layer.out_layer_norm)


def inputs_of(task_id: str, sizes: Sizes) -> list[Tensor]:
    """Random inputs of tokens: their axis is 2 for attention, else 1."""
    s = sizes
    if task_id in ("bert.embed", "classifier.forward"):
        return [torch.randint(1, VOCABULARY - 1, (s.batch, s.length))]
    shapes = {
        "bert.attention": [(s.batch, s.heads, s.length, s.width)] * 3,
        "bert.add_norm": [(s.batch, s.length, s.hidden), (s.batch, s.length, s.inner)],
        "bert.layer": [(s.batch, s.length, s.hidden)],
    }
    return [torch.randn(shape) for shape in shapes[task_id]]


def new_model(task_id: str, sizes: Sizes, option: str, rate: float) -> nn.Module:
    """The student's classifier around a BERT of one layer; for other tasks the BERT only."""
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=sizes.hidden,
        num_hidden_layers=1,
        num_attention_heads=sizes.heads,
        intermediate_size=sizes.inner,
        max_position_embeddings=POSITIONS,
        attention_probs_dropout_prob=rate,
        hidden_dropout_prob=rate,
        initializer_range=0.5,
    )
    bert = importlib.import_module("bert").BertModel
    if not task_id.startswith("classifier"):
        return bert(config)
    head = {"num_labels": sizes.labels, "hidden_size": sizes.hidden, "hidden_dropout_prob": rate}
    with mock.patch.object(bert, "from_pretrained", return_value=bert(config)):
        classifier = importlib.import_module("classifier").BertSentimentClassifier
        return classifier(SimpleNamespace(**head, option=option, data_dir="."))


def run(
    task_id: str,
    sizes: Sizes,
    seed: int,
    *,
    padding: int = 0,
    training: bool = False,
    rate: float = 0.5,
    zero: int | None = None,
    change: Callable[[Tensor, int], Tensor] | None = None,
    noise: int = 0,
    **others: Any,
) -> Any:
    """What the student's function returns.

    Args:
        seed: of inputs and weights.
        padding: tokens at the end of each sentence that are.
        rate: of dropout, where it is training.
        zero: which of the inputs is all zeros.
        change: of the inputs, by itself and the axis of the tokens.
        noise: seeds dropout.
        others: sizes that are different.
    """
    if task_id == "optimizer.step":
        return parameter_after(**others)[0]
    sizes = replace(sizes, **others)
    axis = 2 if task_id == "bert.attention" else 1
    with default_dtype(torch.float32):
        torch.manual_seed(seed)
        model = new_model(task_id, sizes, "finetune", rate).train(training)
        inputs = inputs_of(task_id, sizes)
        mask = torch.ones(sizes.batch, sizes.length)
        mask[:, sizes.length - padding :] = 0
        if zero is not None:
            inputs[zero] = torch.zeros_like(inputs[zero])
        inputs = [change(x, axis) for x in inputs] if change else inputs
        torch.manual_seed(seed + noise)
        return CALLS[task_id](model, inputs, mask)


def parameter_after(
    gradients: Sequence[float] = (2.0, -1.5), **settings: Any
) -> tuple[Tensor, dict[str, Any]]:
    """One parameter that was 1 after steps of the student's AdamW, and its state."""
    settings = {"lr": 0.1, "betas": (0.5, 0.75), "eps": 0.1, **settings}
    with default_dtype(torch.float64):
        parameter = nn.Parameter(torch.ones(1))
        optimizer = importlib.import_module("optimizer").AdamW([parameter], **settings)
        for gradient in gradients:
            parameter.grad = torch.tensor([float(gradient)])
            optimizer.step()
        return parameter.detach(), dict(optimizer.state[parameter])


def distance(before: Any, after: Any) -> float:
    """The largest difference of two results; infinite if they do not have one form.

    It is nan, and nothing is said of it, where both have nan in one place.
    """
    if not (isinstance(before, Tensor) and isinstance(after, Tensor)):
        return math.inf
    if before.shape != after.shape or before.numel() == 0:
        return math.inf
    difference = (after.double() - before.double()).abs()
    difference[before.isnan() != after.isnan()] = math.inf
    return difference.max().item()


def in_words(distances: Sequence[float]) -> str:
    """How far results of several runs are apart."""
    if max(distances) < SAME:
        return "they are the same"
    if math.inf in distances:
        return "they have different shapes or nan"
    return f"they differ by up to {max(distances):.2g}"


def differ(distances: Sequence[float]) -> bool | None:
    """Whether results differ, in all runs; None where the runs or roundings do not agree."""
    if all(value < SAME for value in distances):
        return False
    return True if all(value > OTHER for value in distances) else None
