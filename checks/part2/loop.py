"""The check of part 2's training loop: train_multitask in multitask_classifier.py, from outside.

It trains again and again on a few made-up sentences around a tiny random BERT, each time with one
thing changed in the training data: the words of one side, the labels, or their fractions. The seeds
are the same, so if the parameters afterwards are the same to the last bit, then what was changed
does not reach the loss. A task of which nothing does is not trained yet, which is no fault.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import os
import random
import sys
import tempfile
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from checks.errors import describe
from checks.findings import ROOT, Finding, faulty
from checks.part2.subjects import TINY, default_flags
from checks.part2.submission import FILES
from checks.part2.tasks import Property, ask
from config import BertConfig
from tokenizer import SPECIAL_TOKENS, BertTokenizer
from training.files.course_files import SETS, SPLITS

NAMES = {"sst": "SST", "para": "Quora", "sts": "STS"}
WORDS = ["".join(pair) for pair in itertools.product("bcdfghjklmnprstvwxyz", "aeiou")]  # 100
LABELS = {  # of the eight rows, which make one batch
    "sst": (0, 1, 2, 3, 4, 0, 1, 2),
    "para": (0, 1, 0, 1, 1, 0, 1, 1),
    "sts": (0, 5, 1.6, 2.75, 3.9, 4.6, 1.75, 2.9),
}
OTHER_FRACTIONS = (0, 5, 1.9, 2.9, 3.6, 4.9, 1.6, 2.6)  # STS labels that round to the same
PAPER = "docs/part2.md, Training on all three"


def write(task: str, split: str, other: int | None = None, labels: Sequence | None = None) -> str:
    """Write a course file of made-up rows; its name.

    Args:
        other: the side, 0 or 1, whose words are others than usual.
        labels: other ones than usual.
    """
    chance, half = random.Random(split), len(WORDS) // 2
    sides = ["sentence"] if task == "sst" else ["sentence1", "sentence2"]
    lines = [["", "id", *sides, SETS[task].label]]
    for i, label in enumerate(labels or LABELS[task]):
        words = [
            [WORDS[chance.randrange(half) + half * (side == other)] for _ in range(4)]
            for side in range(len(sides))
        ]
        lines.append([str(i), f"{task}{i}", *map(" ".join, words), str(label)])
    text = "".join("\t".join(line[: -1 if split == "test" else None]) + "\n" for line in lines)
    path = Path(f"{SETS[task].stem}-{SPLITS[split]}.csv")
    path.write_text(text, encoding="utf-8")
    return str(path)


@contextlib.contextmanager
def recorded(cls: type[nn.Module]) -> Iterator[SimpleNamespace]:
    """While active, what a loop does with models of that class is noted.

    Yields:
        models: all that are made; start: their parameters before anything is learnt.
        losses, modes, left: at each backward pass its loss, whether the model is in training mode,
            and, after the first step, whether there are gradients of before.
    """
    run = SimpleNamespace(models=[], start=[], losses=[], modes=[], left=[])
    init, backward = cls.__init__, torch.autograd.backward

    def noting_init(model: nn.Module, *args: Any, **kwargs: Any) -> None:
        init(model, *args, **kwargs)
        run.models.append(model)
        run.start = [parameter.clone() for parameter in parameters(run)]

    def noting_backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        tensors = [tensors] if isinstance(tensors, Tensor) else tensors
        run.losses += [tensor.detach().sum().item() for tensor in tensors]
        run.modes += [model.training for model in run.models[-1:]]
        if learns(run):  # after the first step
            kept = [p.grad for model in run.models for p in model.parameters()]
            run.left.append(any(grad is not None and grad.any() for grad in kept))
        backward(tensors, *args, **kwargs)

    with (
        mock.patch.object(cls, "__init__", noting_init),
        mock.patch.object(torch.autograd, "backward", noting_backward),
    ):
        yield run


def parameters(run: SimpleNamespace) -> list[Tensor]:
    """The parameters of a run's models as they are now."""
    return [parameter.detach() for model in run.models for parameter in model.parameters()]


def learns(run: SimpleNamespace) -> bool:
    """Whether any parameter has changed."""
    return not all(map(torch.equal, run.start, parameters(run)))


def is_finite(run: SimpleNamespace) -> bool:
    """Whether all losses and parameters are finite."""
    return all(tensor.isfinite().all() for tensor in (*parameters(run), Tensor(run.losses)))


def prepare() -> None:
    """Write what a run needs into the current folder: a tiny BERT, a place for predictions."""
    script = Path(importlib.import_module("multitask_classifier").__file__)
    width = 768 if "768" in script.read_text(encoding="utf-8") else TINY["hidden_size"]
    sizes = {"vocab_size": len(SPECIAL_TOKENS) + len(WORDS), "hidden_size": width}
    config = BertConfig(**TINY | sizes | {"num_hidden_layers": 1})
    torch.manual_seed(0)
    importlib.import_module("bert").BertModel(config).save_pretrained("bert")
    BertTokenizer([*SPECIAL_TOKENS, *WORDS]).save_pretrained("bert")
    Path("predictions").mkdir()


def train(task: str = "", **changes: Any) -> SimpleNamespace:
    """A run of the student's loop, with changes of one task's training data."""
    module = importlib.import_module("multitask_classifier")
    flags = default_flags() | {"option": "finetune", "lr": 1e-3, "epochs": 2, "batch_size": 8}
    flags |= {"model": os.environ["MINBERT_MODEL"], "filepath": "model.pt", "data_dir": "."}
    flags |= {f"{task}_{split}_out": path for path, (task, split) in FILES.items()}
    for name, split in itertools.product(NAMES, SPLITS):
        mine = changes if (name, split) == (task, "train") else {}
        flags[f"{name}_{split}"] = write(name, split, **mine)
    for file in Path().glob("model*"):  # checkpoints of the run before
        file.unlink()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    with (
        mock.patch("training.reports.report.Report.draw_page"),  # takes longest
        recorded(module.MultitaskBERT) as run,
        warnings.catch_warnings(record=True, action="always") as warned,
    ):
        module.train_multitask(Namespace(**flags))
    run.broadcasts = [w for w in warned if "Using a target size" in str(w.message)]
    if not run.models:
        raise RuntimeError("train_multitask makes no MultitaskBERT")
    return run


def is_same(first: SimpleNamespace, other: SimpleNamespace) -> bool:
    """Whether two runs have learnt exactly the same."""
    ends = zip(parameters(first), parameters(other), strict=True)
    return first.losses == other.losses and all(itertools.starmap(torch.equal, ends))


def ignored(first: SimpleNamespace, task: str) -> SimpleNamespace:
    """What of a task's training data makes no difference to what a run without changes learns."""

    def ignores(**changes: Any) -> bool:
        return is_same(first, train(task, **changes))

    sides = ("sentences",) if task == "sst" else ("first sentences", "second sentences")
    unused = [words for side, words in enumerate(sides) if ignores(other=side)]
    cut = task == "sts" and ignores(labels=OTHER_FRACTIONS)
    other = [(label + 1) % (2 if task == "para" else 5) for label in LABELS[task]]
    unlabelled = (cut or task != "sts") and ignores(labels=other)
    facts = SimpleNamespace(task=task, name=NAMES[task], unused=" and the ".join(unused))
    facts.unlabelled, facts.is_cut = unlabelled, cut and not unlabelled
    facts.trained = not unlabelled or len(unused) < len(sides)
    return facts


IN_ITSELF = [
    Property("nothing_learnt", "still", lambda run: learns(run) or not is_finite(run)),
    Property("loss_not_finite", "loss", is_finite),
    Property("zero_grad_forgotten", "steps", lambda r: len(r.left) < 3 or not all(r.left)),
    Property("train_forgotten", "mode", lambda run: run.modes[-1] or not run.modes[0]),
    Property("labels_broadcast", "labels", lambda run: not run.broadcasts),
]
OF_A_TASK = [
    Property("not_trained", "hint", lambda f: f.trained),
    Property("side_unused", "data", lambda f: not f.trained or not f.unused),
    Property("labels_unused", "hint", lambda f: not f.trained or not f.unlabelled),
    Property("labels_cut_to_integers", "data", lambda f: not f.is_cut),
]


@contextlib.contextmanager
def nothing_stays() -> Iterator[None]:
    """While active, a temporary folder is the working directory and nothing is printed."""
    with (
        torch.random.fork_rng(devices=[]),
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        mock.patch.dict(os.environ, {"MPLBACKEND": "Agg", "MINBERT_MODEL": f"{folder}/bert"}),
        mock.patch.object(sys, "path", [str(ROOT), *sys.path]),  # "" is another place there
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        yield


def check() -> list[Finding]:
    """What is wrong with the loop, then hints; of the kind "waits" why it cannot be checked."""
    with nothing_stays():
        try:
            prepare()
            first = train()
            findings = ask(IN_ITSELF, first, PAPER)
            if faulty(findings):
                return findings
            if not is_same(first, train()):
                text = "two runs with the same seed and data learn different parameters"
                return [Finding("waits", text), *findings]
            losses = getattr(importlib.import_module("multitask_classifier"), "LOSSES", NAMES)
            tasks = [ignored(first, task) for task in NAMES]
            absent = [f.name for f in tasks if not f.trained and f.task not in losses]
            for f in tasks:
                findings += ask(OF_A_TASK, f, PAPER) if f.name not in absent else []
            text = f"LOSSES has no loss for {' and '.join(absent)} yet"
            findings += [Finding("hint", text)] * bool(absent)
        except (Exception, SystemExit) as error:
            return [Finding("waits", describe(error).text or "not written")]
    return sorted(findings, key=lambda finding: finding.kind == "hint")
