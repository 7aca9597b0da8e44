"""The check of part 2's training loop: train_multitask in multitask_classifier.py, from outside.

It trains again and again on a few made-up sentences around a tiny random BERT, each time with one
thing changed in the training data: the words of one side, the labels, or their order. The seeds are
the same, so if the parameters afterwards are the same to the last bit, then what was changed does
not reach the loss. A task of which nothing does is not trained yet, which is no fault.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import math
import os
import random
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from checks.errors import describe
from checks.findings import ROOT, Finding, faulty
from checks.part2.models import PREDICTIONS, default_flags, function_of
from checks.part2.properties import Property, ask
from checks.part2.submission import COLUMNS
from checks.part2.submission import FILES as PREDICTION_FILES
from tokenizer import SPECIAL_TOKENS
from training.files.course_files import COURSE_STEMS, SPLITS

NAMES = {"sst": "SST", "para": "Quora", "sts": "STS"}
HEADS = dict(zip(NAMES, map(function_of, PREDICTIONS), strict=True))
WORDS = ["".join(pair) for pair in itertools.product("bcdfghjklmnprstvwxyz", "aeiou")]  # 100
HALF = len(WORDS) // 2  # the first half is trained on, the second takes its place
LABELS = {  # of the eight rows, which make one batch; fractions that rounding and cutting make one
    "sst": [0, 1, 2, 3, 4, 0, 1, 2],
    "para": [0, 1, 0, 1, 1, 0, 1, 1],
    "sts": [0.0, 5.0, 1.6, 2.75, 3.9, 4.6, 1.75, 2.9],
}
TINY = {
    "vocab_size": len(SPECIAL_TOKENS) + len(WORDS),
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "attention_probs_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
}
SETTINGS = {
    "seed": 11711,
    "epochs": 3,
    "option": "finetune",
    "use_gpu": False,
    "batch_size": 8,
    "hidden_dropout_prob": 0.1,
    "lr": 1e-3,
    "precision": "fp32",
    "compile": False,
    "resume": False,
    "out_dir": "predictions",
    "filepath": "model.pt",
    "data_dir": ".",
    "model": "bert",
}
PAPER = "docs/part2.md, Training on all three"
Row = tuple[Any, ...]  # a sentence or two, label
Change = Callable[[list[Row]], list[Row]]

# ---------------------------------------------------------------------------------------------
# Training data, and changes of a task's rows


def made_up(task: str, seed: int) -> list[Row]:
    """Rows of a task, with random words."""
    chance = random.Random(seed)
    sides = 1 if task == "sst" else 2
    words = [[chance.choices(WORDS[:HALF], k=4) for _ in range(sides)] for _ in LABELS[task]]
    return [(*map(" ".join, row), label) for row, label in zip(words, LABELS[task], strict=True)]


def other_words(side: int) -> Change:
    """Other words on one side, as many as before."""

    def change(row: Row) -> Row:
        words = [WORDS[WORDS.index(word) + HALF] for word in row[side].split()]
        return (*row[:side], " ".join(words), *row[side + 1 :])

    return lambda rows: [change(row) for row in rows]


def other_labels(moved: Callable[[Any], Any]) -> Change:
    """Each label replaced."""
    return lambda rows: [(*row[:-1], moved(row[-1])) for row in rows]


def reversed_labels(rows: list[Row]) -> list[Row]:
    """The same labels in the opposite order."""
    labels = [row[-1] for row in reversed(rows)]
    return [(*row[:-1], label) for row, label in zip(rows, labels, strict=True)]


NEXT_LABEL = {  # of STS another whole number with the same fraction, the ends change places
    "sst": lambda label: (label + 1) % 5,
    "para": lambda label: 1 - label,
    "sts": lambda label: label % 1 + label // 1 % 4 + 1 if label % 1 else 5 - label,
}


def other_fraction(label: float) -> float:
    """.6 and .9 change places, so that the order of labels changes."""
    return label // 1 + {6: 0.9, 9: 0.6}.get(round(label % 1 * 10), label % 1)


def write(task: str, split: str, rows: list[Row]) -> None:
    """A course file: tab-separated, an unnamed column of numbers first."""
    texts = ["sentence"] if task == "sst" else ["sentence1", "sentence2"]
    lines = [("", "id", *texts, COLUMNS[task][1])]
    lines += [(str(i), f"{task}{i}", *map(str, row)) for i, row in enumerate(rows)]
    end = -1 if split == "test" else None  # without labels
    text = "".join("\t".join(line[:end]) + "\n" for line in lines)
    Path(file_of(task, split)).write_text(text, encoding="utf-8")


def file_of(task: str, split: str) -> str:
    """The name of a data file, as the course's."""
    return f"{COURSE_STEMS[task]}-{SPLITS[split]}.csv"


# ---------------------------------------------------------------------------------------------
# Runs of the loop


class Record:
    """What a run of train_multitask did."""

    def __init__(self):
        self.models: list[nn.Module] = []
        self.start: list[Tensor] = []  # all parameters, before anything is learnt
        self.modes: list[bool] = []  # at each backward pass: training mode or not
        self.losses: list[float] = []  # of each backward pass
        self.left: list[bool] = []  # at each backward pass after a step: gradients of before
        self.called: set[str] = set()  # predictions that a gradient may come from
        self.held: list[nn.Parameter] = []  # by the optimizer that made the latest step

    def parameters(self) -> list[Tensor]:
        """All parameters as they are now."""
        return [p.detach() for model in self.models for p in model.parameters()]

    def learns(self) -> bool:
        """Whether any parameter has changed."""
        return not all(map(torch.equal, self.start, self.parameters()))

    def is_finite(self) -> bool:
        """Whether all losses and parameters are finite."""
        return all(tensor.isfinite().all() for tensor in (*self.parameters(), Tensor(self.losses)))


@contextlib.contextmanager
def recorded(cls: type[nn.Module]) -> Iterator[Record]:
    """While active, what a loop does with models of that class is noted."""
    run, init, backward = Record(), cls.__init__, torch.autograd.backward

    def noting_init(model: nn.Module, *args: Any, **kwargs: Any) -> None:
        init(model, *args, **kwargs)
        run.models.append(model)
        run.start = [p.clone() for p in run.parameters()]

    def noting_backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        tensors = [tensors] if isinstance(tensors, Tensor) else tensors
        run.losses += [tensor.detach().sum().item() for tensor in tensors]
        run.modes += [model.training for model in run.models[-1:]]
        if run.held:
            run.left.append(any(p.grad is not None and p.grad.any() for p in run.held))
        backward(tensors, *args, **kwargs)

    def noting_step(optimizer: Optimizer, *_: Any) -> None:
        run.held = [p for group in optimizer.param_groups for p in group["params"]]

    def noting(name: str) -> Callable:
        predict = getattr(cls, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            run.called |= {name} if torch.is_grad_enabled() else set()
            return predict(*args, **kwargs)

        return call

    hook = register_optimizer_step_post_hook(noting_step)
    try:
        with (
            mock.patch.object(cls, "__init__", noting_init),
            mock.patch.object(torch.autograd, "backward", noting_backward),
            mock.patch.multiple(cls, **{name: noting(name) for name in HEADS.values()}),
        ):
            yield run
    finally:
        hook.remove()


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


class Loop:
    """The student's loop. What it needs and writes is in the current folder."""

    def __init__(self):
        self.module = importlib.import_module("multitask_classifier")
        width = 768 if "768" in Path(self.module.__file__).read_text(encoding="utf-8") else 32
        config = importlib.import_module("config").BertConfig(**TINY, hidden_size=width)
        torch.manual_seed(0)
        importlib.import_module("bert").BertModel(config).save_pretrained("bert")
        importlib.import_module("tokenizer").BertTokenizer(
            [*SPECIAL_TOKENS, *WORDS]
        ).save_pretrained("bert")
        Path("predictions").mkdir()
        for task, split in itertools.product(NAMES, ("dev", "test")):
            write(task, split, made_up(task, seed=1))
        self.first = self.run()

    def run(self, task: str = "", change: Change = list) -> Record:
        """Train, with one task's rows changed."""
        for name in NAMES:
            rows = made_up(name, seed=0)
            write(name, "train", change(rows) if name == task else rows)
        for file in Path().glob("model*"):  # checkpoints of the run before
            file.unlink()
        files = {f"{t}_{s}": file_of(t, s) for t in NAMES for s in SPLITS}
        outputs = {f"{task}_{s}_out": path for path, (task, s) in PREDICTION_FILES.items()}
        args = Namespace(**default_flags() | SETTINGS | files | outputs)
        args.model = os.environ["MINBERT_MODEL"]
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        with recorded(self.module.MultitaskBERT) as run:
            with mock.patch.object(self.module, "args", args, create=True):
                self.module.train_multitask(args)
        if not run.models:
            raise RuntimeError("train_multitask makes no MultitaskBERT")
        return run

    def same(self, task: str = "", change: Change = list) -> bool:
        """Whether the same is learnt with one task's rows changed."""
        parameters = self.run(task, change).parameters()
        return all(map(torch.equal, self.first.parameters(), parameters))


class Task:
    """What of one task's rows makes a difference to what is learnt."""

    def __init__(self, loop: Loop, task: str):
        self.loop, self.task, self.name, self.head = loop, task, NAMES[task], HEADS[task]
        self.called = self.head in loop.first.called
        sides = ("sentences",) if task == "sst" else ("first sentences", "second sentences")
        without = [words for i, words in enumerate(sides) if loop.same(task, other_words(i))]
        self.unused = " and the ".join(without)
        self.unlabelled = loop.same(task, other_labels(NEXT_LABEL[task]))
        self.without_effect = without == [*sides] and self.unlabelled

    def ignores_order(self) -> bool:
        """Whether the losses with the labels in the opposite order differ only by rounding."""
        pairs = zip(self.loop.first.losses, self.loop.run(self.task, reversed_labels).losses)
        first = next((pair for pair in pairs if pair[0] != pair[1]), (0, 0))
        return math.isclose(*first, rel_tol=1e-5)

    def cuts_labels(self) -> bool:
        """Whether labels with another fraction make no difference."""
        return self.task == "sts" and self.loop.same("sts", other_labels(other_fraction))

    def has_threshold(self) -> bool:
        """Whether some whole numbers make no difference either, as for "is it at least 4?"."""
        swaps = ({1: 2, 2: 1}, {3: 4, 4: 3})
        moves = [lambda x, s=swap: x % 1 + s.get(int(x), int(x)) for swap in swaps]
        return any(self.loop.same("sts", other_labels(move)) for move in moves)


ITSELF = [
    Property("backward_forgotten", "values", lambda r: r.learns() or r.modes),
    Property("step_forgotten", "values", lambda r: r.learns() or r.held),
    Property("nothing_learnt", "values", lambda r: r.learns() or not r.is_finite()),
    Property("loss_not_finite", "values", lambda r: r.is_finite()),
    Property("zero_grad_forgotten", "gradients", lambda r: len(r.left) < 3 or not all(r.left)),
    Property("train_forgotten", "values", lambda r: r.modes[-1:] == r.modes[:1] or r.modes[-1]),
    Property("never_trains", "hint", lambda r: any(r.modes)),
]
OF_A_TASK = [
    Property("not_trained", "hint", lambda f: not f.without_effect or f.called),
    Property("other_rows", "values", lambda f: not f.without_effect or not f.called),
    Property("side_unused", "values", lambda f: f.without_effect or not f.unused),
    Property("labels_unused", "hint", lambda f: f.without_effect or not f.unlabelled),
    Property("labels_broadcast", "values", lambda f: f.unlabelled or not f.ignores_order()),
    Property(
        "labels_cut_to_integers",
        "values",
        lambda f: f.unlabelled or not f.cuts_labels() or f.has_threshold(),
    ),
    Property("threshold", "hint", lambda f: f.unlabelled or not f.cuts_labels()),
]


def check() -> list[Finding]:
    """What is wrong with the loop, then hints; of the kind "waits" why it cannot be checked."""
    with nothing_stays():
        try:
            loop = Loop()
            findings = ask(ITSELF, loop.first, PAPER)
            if faulty(findings):
                return findings
            if not loop.same():
                text = "two runs with the same seed and data learn different parameters"
                return [Finding("waits", text), *findings]
            for task in NAMES:
                findings += ask(OF_A_TASK, Task(loop, task), PAPER)
        except (Exception, SystemExit) as error:
            return [Finding("waits", describe(error).text or "not written")]
    return sorted(findings, key=lambda finding: finding.kind == "hint")
