"""What the program in the sandbox runs for each task: a student's function on given inputs.

Each function returns outputs by name, ``run|output``: tensors, or under ``run|error`` a text. The
right answers are not known here; judge.py compares. The runs are those of the students' checks.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import random
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from checks.errors import describe
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import graded_task
from checks.part1 import adamw_checks
from checks.references import in_dtype, under
from checks.task import task_of
from training.files.errors import InputError

DTYPES = {"float64": torch.float64, "float32": torch.float32}


def warm_up() -> None:
    """Before the fork, do what every task would do again, and spare all of them what none needs."""
    torch.set_num_threads(1)
    # Optimizers' methods load torch.compile, which takes a second, only to be left out of it
    for name in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
        inner = getattr(Optimizer, name).__wrapped__
        inner.__dynamo_disable = inner
    weight = torch.ones(2, requires_grad=True)
    torch.autograd.grad(weight.sum(), weight, torch.ones(()))  # loads five hundred modules


@contextlib.contextmanager
def caught(results: dict[str, Any], run: str, task_id: str) -> Iterator[None]:
    """Put an exception in words, and whether the task's file was imported, into a run's outputs."""
    try:
        yield
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        finding = describe(error)
        results |= {f"{run}|error": finding.text, f"{run}|error kind": finding.kind}
        if finding.slight:
            results[f"{run}|error slight"] = "yes"
        if graded_task(task_id).module not in sys.modules:  # Python forgets what failed
            results[f"{run}|error at import"] = "yes"


def part_1(tensors: dict[str, Tensor], task_id: str, runs: list[list]) -> dict[str, Any]:
    """A task of part 1 or 3, run as checks/task.py has it.

    Tensors are named ``set/name``. A run is its name, set of inputs, floating-point type, the id
    of the task's run, and whether the classifier's __init__ is ours.
    """
    results: dict[str, Any] = {}
    for name, inputs, dtype, run_id, solved in runs:
        values = in_dtype(under(f"{inputs}/", tensors), DTYPES[dtype])
        init = solved_init() if solved else contextlib.nullcontext()
        with caught(results, name, task_id), default_dtype(DTYPES[dtype]), FixedDropout(), init:
            for outputs in task_of(run_id).steps(values):
                results |= {f"{name}|{output}": value for output, value in outputs.items()}
    return results


@contextlib.contextmanager
def solved_init() -> Iterator[None]:
    """While active, the student's classifier has the two layers that Task 1.6 asks for.

    Its last Linear and its dropouts become as asked, its other layers do nothing. A name that
    forward looks for in vain means BERT, the dropout or the Linear.
    """
    classifier = importlib.import_module("classifier").BertSentimentClassifier
    begin, begin_module = classifier.__init__, nn.Module.__init__

    def init(model: nn.Module, config: Any) -> None:
        made: list[nn.Module] = []

        def note(module: nn.Module, *args: Any, **kwargs: Any) -> None:
            begin_module(module, *args, **kwargs)
            made.append(module)

        begin_module(model)
        with contextlib.suppress(Exception), mock.patch.object(nn.Module, "__init__", note):
            begin(model, config)  # it may be unwritten, or fail
        encoder = importlib.import_module("bert").BertModel.from_pretrained("")  # the runner's
        own = [part for part in made if part is not model and not [*part.children()]]
        head = ([part for part in own if isinstance(part, nn.Linear)] or [nn.Linear(1, 1)])[-1]
        dropouts = [part for part in own if isinstance(part, nn.Dropout)] or [nn.Dropout()]
        for part in {*own} - {head, *dropouts}:
            part.__class__ = nn.Identity
        nn.Linear.__init__(head, config.hidden_size, config.num_labels)
        for dropout in dropouts:
            dropout.p = config.hidden_dropout_prob
        model.solved = nn.ModuleDict({"drop": dropouts[0], "bert": encoder, "head": head})

    def lookup(model: nn.Module, name: str) -> Any:
        with contextlib.suppress(AttributeError):
            return nn.Module.__getattr__(model, name)
        if name.startswith("_") or name == "solved":
            raise AttributeError(name)
        return model.solved[next((word for word in model.solved if word in name), "head")]

    with mock.patch.multiple(classifier, create=True, __init__=init, __getattr__=lookup):
        yield


def optimizer(_: dict[str, Tensor], seed: int) -> dict[str, Any]:
    """Task 1.5 on prescribed gradients: trajectories of the hidden and the public cases."""
    results: dict[str, Any] = {}
    with caught(results, "hidden", "optimizer.step"):
        opt_class = importlib.import_module("optimizer").AdamW
        if not adamw_checks.is_started(opt_class):
            return {"hidden|error": "", "hidden|error kind": "not started"}
        task = adamw_checks.TASK
        outputs = task.run({adamw_checks.SEED: torch.tensor(seed)})
        results |= {f"hidden|{name}": output for name, output in outputs.items()}
        results |= {f"public|{name}": output for name, output in task.run({}).items()}
    return results


def checks(_: dict[str, Tensor], name: str, file: str) -> dict[str, Any]:
    """What the students' own sanity_check.py prints about a task or job of a file."""
    jobs, report = (importlib.import_module(f"checks.{module}") for module in ("jobs", "report"))
    printed, text = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        jobs.fault_of_import(file)
        outcome = jobs.run(name)
    with contextlib.redirect_stdout(text):
        report.Report().end(outcome, printed.getvalue().splitlines())
    return {"text": text.getvalue()}


def viva_subjects(
    _: dict[str, Tensor], sources: dict[str, str], tasks: list[str], seed: str
) -> dict[str, Any]:
    """What may be asked about a group's functions, as the bytes of a JSON text.

    Nothing of the group's is run: its files are texts here. A function that is not there is left
    out.
    """
    questions, subjects = importlib.import_module("checks.quiz.questions"), []
    for task in map(graded_task, tasks):
        with contextlib.suppress(InputError):
            rng = random.Random(f"{seed}:{task.id}")
            subjects.append(questions.subject_of(task, sources[task.file], rng))
    text = json.dumps(subjects).encode()
    return {"subjects": torch.frombuffer(bytearray(text), dtype=torch.uint8)}


def viva_numbers(_: dict[str, Tensor], subject: dict[str, Any]) -> dict[str, Any]:
    """The numbers of one subject, with the group's files; "wrong" where its check finds it so."""
    questions = importlib.import_module("checks.quiz.questions")
    return questions.numbers_if_right(subject)[0] or {"wrong": None}
