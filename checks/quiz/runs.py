"""Runs of a student's function for the quiz, on small sizes: numbers come out, and no text.

``numbers(subject)`` has what each version of the function computes in each situation, version 0
being the function as it is: ``version/situation/result``, ``…/gradient/NAME`` (the largest number
of a gradient, of each row for an embedding table) and ``…/value/TIME:LINE:VARIABLE``.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from types import FrameType, SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from checks.findings import ROOT
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import graded_task
from checks.hunt.edits import Edit
from checks.hunt.installed import installed_source

VOCABULARY, POSITIONS, MASKED, RATE = 10, 8, -1e9, 0.5  # RATE: of dropout
MOST_TIMES = 2  # that a line's values are noted


def numbers(subject: Mapping[str, Any]) -> dict[str, Tensor]:
    """All numbers of a subject; an edit that raises in a situation has none there."""
    task, lines = graded_task(subject["task"]), subject["source"].split("\n")
    made: dict[str, Tensor] = {}
    for version, edit in enumerate([None, *subject["edits"]]):
        text = "\n".join(Edit(**edit).of(lines) if edit else lines)
        for n, situation in enumerate(subject["situations"].values()):
            values: dict[str, Tensor] = {}
            with contextlib.suppress(Exception, SystemExit), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what edits do is not the student's
                given = SimpleNamespace(**subject["sizes"] | situation)
                with installed_source(task.file, text), watched(task.file, subject, values):
                    values |= run(task.id, given)
                made |= {f"{version}/{n}/{name}": value for name, value in values.items()}
    return made


@contextlib.contextmanager
def watched(file: str, subject: Mapping[str, Any], values: dict[str, Tensor]) -> Iterator[None]:
    """While active, each variable of the function is noted after the lines that change it."""
    (first, last), path, times = subject["range"], str(ROOT / file), Counter()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        code, line = frame.f_code, first
        if code.co_filename != path or not first <= code.co_firstlineno <= last:
            return None
        known: dict[str, tuple[Tensor, Tensor]] = {}  # variable → the tensor, and its numbers

        def step(frame: FrameType, *_: Any) -> Any:
            nonlocal line
            for name, value in frame.f_locals.items():
                last, content = known.get(name, (None, None))
                if not isinstance(value, Tensor) or last is value and torch.equal(content, value):
                    continue
                known[name] = value, value.detach().clone()
                times[line, name] += line > first  # 0: what is given
                if times[line, name] <= MOST_TIMES:
                    values[f"value/{times[line, name]}:{line}:{name}"] = known[name][1]
            line = frame.f_lineno
            return step

        return step(frame)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def run(task_id: str, given: SimpleNamespace) -> dict[str, Tensor]:
    """The result of one call, and the gradients of a loss of it."""
    dtype = torch.float64 if task_id == "optimizer.step" else torch.float32
    with default_dtype(dtype), FixedDropout():
        torch.manual_seed(1)
        if task_id == "optimizer.step":
            return {"result": parameter_after(**given.settings)}
        call, inputs, sources = prepared(task_id, given)
        result = call(*inputs)
        made = {"result": result.detach()}
        if result.requires_grad:
            (result * torch.randn(result.shape)).sum().backward()
        for name, source in sources.items():
            grad = torch.zeros_like(source) if source.grad is None else source.grad.abs()
            of_rows = task_id == "bert.embed" and name.endswith("embedding.weight")
            made[f"gradient/{name}"] = grad.amax(1) if of_rows else grad.max()
        return made


def prepared(task_id: str, given: SimpleNamespace) -> tuple[Any, list[Any], dict[str, Tensor]]:
    """What is called, with which arguments, and whose gradients are looked at."""
    if task_id.startswith("multitask"):
        models, batches = (importlib.import_module(f"checks.part2.{n}") for n in OF_PART_2)
        model = models.student_model(given.option)[0].eval()
        inputs = [x for sentence in batches.batch_for(f"multitask.{given.method}") for x in sentence]
        return getattr(model, given.method), inputs, dict(model.named_parameters())
    ids = torch.tensor(given.ids)[:, : given.length]  # (B, L)
    real = torch.ones(ids.shape)
    real[:, ids.size(1) - given.padding :] = 0
    model = model_for(task_id, given)
    parameters = dict(model.named_parameters())
    if task_id.startswith("classifier"):
        return model, [ids, real.long()], parameters
    if task_id == "bert.embed":
        ids = ids.flip(1) if given.reverse else ids
        return model.embed, [ids, *[torch.ones_like(ids)] * given.segments], parameters
    layer, mask = model.bert_layers[0], MASKED * (1 - real)[:, None, None]  # (B, 1, 1, L)
    shape = (*ids.shape, given.heads * given.width)
    shapes = {"hidden_states": shape}
    if task_id == "bert.attention":
        of_heads = (len(ids), given.heads, given.length, given.width)
        shapes = {"key": of_heads, "query": of_heads, "value": of_heads}
    elif task_id == "bert.add_norm":
        shapes = {"input": shape, "output": (*ids.shape, given.inner)}
    sources = {n: torch.randn(s) * (n != given.zero) for n, s in shapes.items()}
    inputs: list[Any] = [tensor.requires_grad_().clone() for tensor in sources.values()]
    if task_id == "bert.attention":
        sources["attention_mask"] = mask.requires_grad_()
        return layer.self_attention.attention, [*inputs, mask.clone()], sources
    if task_id == "bert.layer":
        return layer, [*inputs, mask], sources | dict(layer.named_parameters())
    parts = {"dense_layer": layer.out_dense, "ln_layer": layer.out_layer_norm}
    sources |= {f"{n}.{k}": p for n, part in parts.items() for k, p in part.named_parameters()}
    inputs += [layer.out_dense, layer.out_dropout, layer.out_layer_norm]
    return layer.add_norm, inputs, sources


OF_PART_2 = ("models", "batches")  # in checks/part2/, which comes with part 2


def model_for(task_id: str, given: SimpleNamespace) -> nn.Module:
    """The student's model with random weights: a BERT of one layer, perhaps with its heads."""
    config = importlib.import_module("config").BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=given.heads * given.width,
        num_hidden_layers=1,
        num_attention_heads=given.heads,
        intermediate_size=given.inner,
        max_position_embeddings=POSITIONS,
        attention_probs_dropout_prob=RATE,
        hidden_dropout_prob=RATE,
        initializer_range=0.5,
    )
    bert = importlib.import_module("bert").BertModel
    model = bert(config)
    if task_id.startswith("classifier"):
        own = {"num_labels": given.labels, "hidden_size": config.hidden_size, "data_dir": "."}
        own |= {"hidden_dropout_prob": RATE, "option": given.option}
        with mock.patch.object(bert, "from_pretrained", return_value=model):
            classifier = importlib.import_module("classifier").BertSentimentClassifier
            model = classifier(SimpleNamespace(**own))
    return model.train(given.training)


def parameter_after(gradients: tuple[float, ...] = (2.0, -1.5), **settings: Any) -> Tensor:
    """One parameter that was 1 after steps of the student's AdamW."""
    settings = {"lr": 0.1, "betas": (0.5, 0.75), "eps": 0.1, **settings}
    parameter = nn.Parameter(torch.ones(1))
    optimizer = importlib.import_module("optimizer").AdamW([parameter], **settings)
    for gradient in gradients:
        parameter.grad = torch.tensor([float(gradient)])
        optimizer.step()
    return parameter.detach()
