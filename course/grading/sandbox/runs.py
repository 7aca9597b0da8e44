"""What the program in the sandbox runs for each task: a student's function on given inputs.

Each function returns outputs by name, ``run|output``: tensors, or under ``run|error`` a text. Right
answers are not known here; judge.py compares. It uses the same runners as the checks that students
have.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from checks.errors import describe
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import graded_task
from checks.part1 import adamw_cases, adamw_checks, adamw_mistakes, runners
from checks.part1.references import CLASSIFIER_DROPOUT, in_dtype, under
from checks.part2 import calls, models
from checks.quiz import generate

DTYPES = {"float64": torch.float64, "float32": torch.float32}
CASE_FAILS = (  # a step that fails in one case: the others are run still
    ArithmeticError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError,
    adamw_cases.CheckFailed,
)  # fmt: skip
HEAD = {nn.Linear: "classifier", nn.Dropout: "dropout"}  # names for what __init__ does not make


def warm_up(gradients: bool) -> None:
    """Before the fork, do what every task would do again, and spare all of them what none needs.

    Args:
        gradients: whether tasks take them; the first one loads five hundred modules.
    """
    torch.set_num_threads(1)
    spare_compiler()
    if gradients:
        weight = torch.ones(2, requires_grad=True)
        torch.autograd.grad(weight.sum(), weight, torch.ones(()))


def spare_compiler() -> None:
    """Let optimizers do without torch.compile, which takes more than a second to load.

    Their methods are wrapped so that it never compiles them, and the first call of one loads it for
    that. A torch that keeps the unwrapped ones elsewhere is as slow as before, nothing else.
    """
    for name in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
        inner = getattr(Optimizer, name).__wrapped__
        inner.__dynamo_disable = inner


def part_1(tensors: dict[str, Tensor], task_id: str, runs: list[list]) -> dict[str, Any]:
    """A task of part 1 or 3, as checks/part1/runners.py or checks/part3/runners.py runs it.

    Args:
        tensors: ``set/name``.
        task_id: of the task.
        runs: of each run its name, set of inputs, floating-point type and options of the runner;
            the option ``mended`` puts right what the classifier's __init__ may have got wrong.
    """
    results: dict[str, Any] = {}
    for name, inputs, dtype, options in runs:
        others = {key: value for key, value in options.items() if key != "mended"}
        mended = mended_classifier() if "mended" in options else contextlib.nullcontext()
        try:
            with default_dtype(DTYPES[dtype]), FixedDropout(), mended:
                values = in_dtype(under(f"{inputs}/", tensors), DTYPES[dtype])
                outputs = runners.run_of(task_id)(values, **others)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            outputs = error_outputs(error, task_id)
        results |= {f"{name}|{output}": value for output, value in outputs.items()}
    return results


def error_outputs(error: BaseException, task_id: str) -> dict[str, str]:
    """An exception in words, and whether a task's file could be imported, as outputs."""
    finding = describe(error)
    outputs = {"error": finding.text, "error kind": finding.kind}
    outputs |= {"error slight": "yes"} if finding.slight else {}
    # Python forgets a module that could not be imported
    imported = graded_task(task_id).module in sys.modules
    return outputs if imported else outputs | {"error at import": "yes"}


@contextlib.contextmanager
def mended_classifier() -> Iterator[None]:
    """While active, the student's classifier has one linear layer and dropout, both as asked.

    The linear layer takes the place of the student's last one; all other layers do nothing.
    """
    inner = runners.student_classifier

    def student_classifier(
        references: dict[str, Tensor], option: str
    ) -> tuple[nn.Module, nn.Module, list[nn.Module]]:
        model, encoder, own = inner(references, option)
        weight = references["weights/head.weight"]  # (labels, D)
        linear = nn.Linear(weight.shape[1], weight.shape[0]).to(weight.dtype)
        dropout = nn.Dropout(CLASSIFIER_DROPOUT)
        linears, dropouts = [], []
        for container, key in layers_in(model, encoder, own):
            linears += [(container, key)] * isinstance(container[key], nn.Linear)
            dropouts += [(container, key)] * isinstance(container[key], nn.Dropout)
            container[key] = nn.Identity()
        for right, places in ((linear, linears[-1:]), (dropout, dropouts)):
            for container, key in places or [(model._modules, HEAD[type(right)])]:
                container[key] = right
        return model.eval(), encoder, [linear]

    with mock.patch.object(runners, "student_classifier", student_classifier):
        yield


def layers_in(
    model: nn.Module, encoder: nn.Module, own: list[nn.Module]
) -> list[tuple[dict | list, Any]]:
    """Where the innermost layers outside the encoder are kept, in a plain list or dict as well."""
    containers: list[dict | list] = [part._modules for part in own]
    for name, held in vars(model).items():
        if isinstance(held, dict | list) and not name.startswith("_"):
            containers.append(held)
    return [
        (container, key)
        for container in containers
        for key in (list(container) if isinstance(container, dict) else range(len(container)))
        if isinstance(part := container[key], nn.Module)
        and part is not encoder
        and not [*part.children()]
    ]


def without_decay(case: adamw_cases.Case) -> adamw_cases.Case:
    """A case of its own name with no weight decay in any group."""
    groups = tuple(replace(g, settings={**g.settings, "weight_decay": 0.0}) for g in case.groups)
    return replace(case, name=f"{case.name} without decay", groups=groups)


def plain_run(case: adamw_cases.Case, index: int) -> adamw_cases.Case:
    """A case without its events, on which one of its parameters moves as it should in the case.

    There is one group, with the parameter's settings, and only steps on which it has a gradient.
    """
    group = [g for g in case.groups for _ in g.shapes][index]
    settings = {**group.settings, "weight_decay": 0.0, "correct_bias": True}
    groups = (adamw_cases.Group(tuple(case.shapes), settings),)
    order = tuple(s for s in range(1, case.steps + 1) if (s, index) not in case.missing)
    name = f"{case.name}, plain run {index}"
    return adamw_cases.Case(name, "", groups, len(order), case.scale, order=order)


def optimizer(_: dict[str, Tensor], seed: int) -> dict[str, Any]:
    """Task 1.5 on prescribed gradients: trajectories by the cases' names.

    Each case comes as it is, without weight decay, and with each parameter's plain run.
    """
    try:
        opt_class = importlib.import_module("optimizer").AdamW
        if not adamw_checks.is_started(opt_class):
            return {"hidden|error": "", "hidden|error kind": "not started"}
        results: dict[str, Any] = {}
        for case in adamw_cases.make_cases(seed):
            runs = [plain_run(case, index) for index in range(len(case.shapes))]
            for each in (case, without_decay(case), *runs):
                with contextlib.suppress(*CASE_FAILS):
                    trajectory = adamw_cases.run_case(opt_class, each, seed=seed)
                    results[f"hidden|{each.name}"] = torch.from_numpy(trajectory)
        outputs = adamw_mistakes.outputs_of(opt_class)
        results["hidden|gradient"] = outputs["gradient"]
        return results | {f"public|{name}": output for name, output in outputs.items()}
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        outputs = error_outputs(error, "optimizer.step")
        return {f"hidden|{name}": value for name, value in outputs.items()}


def tests(_: dict[str, Tensor], task_id: str, tests: str, sources: list[str]) -> dict[str, Any]:
    """What a student's test of a task's function says to each of some sources of the task's file.

    Args:
        task_id: of the task.
        tests: the source of my_tests.py.
        sources: of which the student does not know which are right.
    """
    hunting = importlib.import_module("checks.hunt.jobs")  # only where tests are graded
    codes = {"exit": -2, "not started": -1}
    failures = [hunting.failure_of(graded_task(task_id), tests, source) for source in sources]
    return {"failed": torch.tensor([codes.get(f.kind, 1) if f else 0 for f in failures])}


def viva(
    _: dict[str, Tensor], seed: str, count: int, tasks: list[str], room: float
) -> dict[str, Any]:
    """Questions about a group's functions, as the bytes of a JSON text."""
    text = generate.as_json(seed, count, tasks, room)
    return {"questions": torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)}


def part_2(
    tensors: dict[str, Tensor],
    task_id: str,
    seed: int,
    repaired: bool,
    attempt: int = 0,
    asked: dict[str, dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """A task of multitask_classifier.py, as checks/part2/calls.py measures it.

    Args:
        tensors: what the requests name.
        task_id: of the task.
        seed: of the words and weights.
        repaired: whether what other tasks may have got wrong is put right.
        attempt: which of the student's own weights.
        asked: requests, instead of those that are made from the seed.
    """
    with repaired_model(task_id) if repaired else contextlib.nullcontext():
        if asked is None:
            outputs = calls.measure(task_id, seed)
            imported = "multitask_classifier" in sys.modules  # Python forgets one that could not be
            return outputs if imported else outputs | {"error at import": "yes"}
        requests = {name: request_from(fields, tensors) for name, fields in asked.items()}
        return calls.perform(task_id, requests, seed, attempt)


def request_from(fields: dict[str, Any], tensors: dict[str, Tensor]) -> calls.Request:
    """A request from JSON, which names its tensors."""
    batch = [tuple(tensors[name] for name in pair) for pair in fields["batch"]]
    weights = {name: tensors[known] for name, known in fields["weights"].items()}
    return calls.Request(**{**fields, "batch": batch, "weights": weights})


@contextlib.contextmanager
def repaired_model(task_id: str) -> Iterator[None]:
    """While active, all layers are in the student's model, and train as they should.

    For a prediction, its forward returns BERT's pooled output besides.
    """
    inner = calls.student_model

    def student_model(
        option: str, seed: int = 0, attempt: int = 0
    ) -> tuple[nn.Module, list[nn.Module]]:
        model, encoders = inner(option, seed, attempt)
        for name in calls.loose_layers(model, encoders):
            held = getattr(model, name)
            layers = held.values() if isinstance(held, dict) else held
            modules = nn.ModuleList(layer for layer in layers if isinstance(layer, nn.Module))
            model.add_module(f"found in {name}", modules)
        model.requires_grad_(True)
        for encoder in encoders:
            encoder.requires_grad_(option == "finetune")
        if task_id != models.FORWARD:
            model.forward = lambda ids, mask, *_, **__: encoders[0](ids, mask)["pooler_output"]
        return model, encoders

    with mock.patch.object(calls, "student_model", student_model):
        yield
