"""The check of part 2's training loop: train_multitask in multitask_classifier.py, from outside.

It trains again and again on a few made-up sentences around a tiny random BERT, each time with one
respect of the training data changed: the second sentences of Quora, say, or the digits behind the
point in the labels of STS. The seeds are the same, so if the parameters afterwards are the same to
the last bit, then what was changed does not reach the loss. A task of which nothing does is not
trained yet, which is no fault. This file does not know how any loop is written.

``check()`` gives the findings.
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
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from checks.errors import describe
from checks.findings import ROOT, Finding
from checks.part2.calls import PREDICTIONS, default_flags, function_of
from checks.part2.labels import LabelWatch
from tokenizer import SPECIAL_TOKENS
from training.files.course_files import COURSE_STEMS, SPLITS

NAMES = {"sst": "SST", "para": "Quora", "sts": "STS"}
COLUMNS = {"sst": "sentiment", "para": "is_duplicate", "sts": "similarity"}
SIDES = ("first", "second")
HEADS = dict(zip(NAMES, map(function_of, PREDICTIONS), strict=True))  # methods of the model
WORDS = ["".join(pair) for pair in itertools.product("bcdfghjklmnprstvwxyz", "aeiou")]  # 100
HALF = len(WORDS) // 2  # the first half is what is trained on, the second takes its place
ROWS, DEV_ROWS, BATCH, EPOCHS = 16, 8, 8, 2
ENDS = (0.0, 5.0)  # of the scale of STS
TINY = {
    "vocab_size": len(SPECIAL_TOKENS) + len(WORDS),
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "attention_probs_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
}
WIDTHS = (32, 768)  # hidden size; the second one for code in which 768 is written
SETTINGS = {
    "seed": 11711,
    "epochs": EPOCHS,
    "option": "finetune",
    "use_gpu": False,
    "batch_size": BATCH,
    "hidden_dropout_prob": 0.1,
    "lr": 1e-3,
    "precision": "fp32",
    "compile": False,
    "resume": False,
}


# ---------------------------------------------------------------------------------------------
# Data

Row = tuple[Any, ...]  # a sentence or two, label
Rows = Mapping[str, list[Row]]  # of each task


def made_up(count: int, seed: int) -> dict[str, list[Row]]:
    """Rows of the three tasks.

    Labels of STS are x.6, x.75 and x.9, which rounding and cutting make one, and the ends of the
    scale: there even a loss that only asks whether a score is too high sees a label that changes.
    """
    chance = random.Random(seed)

    def sentence() -> str:
        return " ".join(chance.choices(WORDS[:HALF], k=chance.randint(2, 5)))

    labels = {
        "sst": [i % 5 for i in range(count)],
        "para": [i % 2 for i in range(count)],
        "sts": [
            1 + i % 4 + (0.6, 0.75, 0.9)[i // 4] if i < 12 else ENDS[i % 2] for i in range(count)
        ],
    }
    return {
        task: [(*(sentence() for _ in range(1 if task == "sst" else 2)), label) for label in given]
        for task, given in labels.items()
    }


def other_words(side: int) -> Callable[[Row], Row]:
    """A change of a row: one sentence has other words, as many and as long as before."""

    def change(row: Row) -> Row:
        words = [WORDS[WORDS.index(word) + HALF] for word in row[side].split()]
        return (*row[:side], " ".join(words), *row[side + 1 :])

    return change


def another_label(task: str) -> Callable[[Row], Row]:
    """A change of a row: the next class, or for STS another whole number with the same rest."""
    moved: Callable[[Any], Any] = {
        "sst": lambda label: (label + 1) % 5,
        "para": lambda label: 1 - label,
        "sts": lambda label: 5 - label if label in ENDS else label % 1 + label // 1 % 4 + 1,
    }[task]
    return lambda row: (*row[:-1], moved(row[-1]))


def another_fraction(row: Row) -> Row:
    """A change of a row of STS: .6 and .9 change places, so that the order of labels changes."""
    return row if row[-1] in ENDS else (*row[:-1], row[-1] // 1 + 1.5 - row[-1] % 1)


def swapped_levels(low: int) -> Callable[[Row], Row]:
    """A change of a row of STS: two neighbouring whole numbers change places, the rest stays."""

    def change(row: Row) -> Row:
        whole = int(row[-1])
        other = {low: low + 1, low + 1: low}.get(whole, whole)
        return (*row[:-1], row[-1] - whole + other)

    return change


def write(path: Path, task: str, rows: list[Row], labelled: bool = True) -> None:
    """A course file: tab-separated, an unnamed column of numbers first."""
    texts = ["sentence"] if task == "sst" else ["sentence1", "sentence2"]
    lines = [["", "id", *texts, *([COLUMNS[task]] if labelled else [])]]
    for i, row in enumerate(rows):
        *texts, label = row
        cells = [*texts, f"{label:g}"] if labelled else texts
        lines.append([str(i), f"{task}{i}", *cells])
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")


# ---------------------------------------------------------------------------------------------
# One run


@dataclass
class TrainingRecord:
    """What a run of train_multitask did."""

    watch: LabelWatch  # of the labels of STS
    models: list[nn.Module] = field(default_factory=list)
    start: dict[str, Tensor] = field(default_factory=dict)  # parameters of all models, by name
    modes: list[bool] = field(default_factory=list)  # training or not, at each backward pass
    finite: bool = True  # all losses
    steps: int = 0
    later: int = 0  # backward passes after the first step …
    left: int = 0  # … and those of them that find gradients of before
    called: set[str] = field(default_factory=set)  # predictions made to learn from
    stepped: list[Tensor] = field(default_factory=list)  # parameters of the latest step

    def parameters(self) -> dict[str, Tensor]:
        """The parameters as they are now."""
        return {
            f"{number}.{name}": parameter.detach()
            for number, model in enumerate(self.models)
            for name, parameter in model.named_parameters()
        }

    def note_model(self, model: nn.Module) -> None:
        """A MultitaskBERT has been made."""
        self.models.append(model)
        self.start = {name: value.clone() for name, value in self.parameters().items()}

    def note_backward(self, losses: Any) -> None:
        """A backward pass begins."""
        losses = [losses] if isinstance(losses, Tensor) else losses
        self.finite &= all(bool(loss.isfinite().all()) for loss in losses)
        self.modes += [model.training for model in self.models[-1:]]
        if self.stepped:
            self.later += 1
            self.left += any(p.grad is not None and bool(p.grad.any()) for p in self.stepped)

    def note_step(self, optimizer: Optimizer) -> None:
        """An optimizer has made a step."""
        self.steps += 1
        self.stepped = [p for group in optimizer.param_groups for p in group["params"]]

    def learnt(self) -> bool:
        """Whether any parameter has changed."""
        now = self.parameters()
        return any(not torch.equal(now[name], old) for name, old in self.start.items())


def same(first: TrainingRecord, second: TrainingRecord) -> bool:
    """Whether both ended with the same parameters."""
    ours, theirs = first.parameters(), second.parameters()
    return ours.keys() == theirs.keys() and all(torch.equal(p, theirs[k]) for k, p in ours.items())


@contextlib.contextmanager
def recorded(cls: type[nn.Module], labels: Sequence[float]) -> Iterator[TrainingRecord]:
    """While active, what a loop does with models of that class, and with labels, is noted."""
    watch = LabelWatch(labels)
    run, make, backward = TrainingRecord(watch), cls.__init__, torch.autograd.backward

    def noting(name: str) -> Callable:
        predict = getattr(cls, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.is_grad_enabled():
                run.called.add(name)
            return predict(*args, **kwargs)

        return call

    def noting_init(model: nn.Module, *args: Any, **kwargs: Any) -> None:
        make(model, *args, **kwargs)
        run.note_model(model)

    def noting_backward(*args: Any, **kwargs: Any) -> Any:
        run.note_backward(args[0] if args else kwargs["tensors"])
        return backward(*args, **kwargs)

    hook = register_optimizer_step_post_hook(lambda optimizer, *_: run.note_step(optimizer))
    try:
        with (
            mock.patch.object(cls, "__init__", noting_init),
            mock.patch.object(torch.autograd, "backward", noting_backward),
            mock.patch.multiple(cls, **{name: noting(name) for name in HEADS.values()}),
            watch,
        ):
            yield run
    finally:
        hook.remove()


@contextlib.contextmanager
def only_this_model(folder: Path) -> Iterator[None]:
    """While active, every pretrained model, whatever its name, is the one in that folder."""
    with contextlib.ExitStack() as stack:
        for place in ("bert.BertModel", "tokenizer.BertTokenizer", "config.BertConfig"):
            module, name = place.split(".")
            cls = getattr(importlib.import_module(module), name)
            load = cls.from_pretrained

            def from_folder(*args: Any, load: Callable = load, **kwargs: Any) -> Any:
                kwargs.pop("name_or_path", None)
                return load(str(folder), *args[1:], **kwargs)

            stack.enter_context(mock.patch.object(cls, "from_pretrained", from_folder))
        yield


@contextlib.contextmanager
def nothing_stays() -> Iterator[Path]:
    """While active, a temporary folder is the working directory and nothing is printed.

    Afterwards the random numbers, torch's settings and the environment are as before.
    """
    python, numpy = random.getstate(), np.random.get_state()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        with (
            torch.random.fork_rng(devices=[]),
            mock.patch.dict(os.environ, {"MPLBACKEND": "Agg"}),
            mock.patch.object(sys, "path", [str(ROOT), *sys.path]),  # "" is another place there
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            contextlib.chdir(folder),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            yield Path(folder).resolve()
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)


class Loop:
    """The student's loop, ready to be run on one set of training data after the other.

    Args:
        folder: where the files of the runs may lie.
        hidden_size: of the tiny BERT.
    """

    def __init__(self, folder: Path, hidden_size: int):
        self.module = importlib.import_module("multitask_classifier")
        self.folder, self.bert = folder, folder / f"bert-{hidden_size}"
        config = importlib.import_module("config").BertConfig(**TINY, hidden_size=hidden_size)
        torch.manual_seed(0)
        importlib.import_module("bert").BertModel(config).save_pretrained(self.bert)
        vocabulary = [*SPECIAL_TOKENS, *WORDS]
        importlib.import_module("tokenizer").BertTokenizer(vocabulary).save_pretrained(self.bert)
        self.rows = made_up(ROWS, seed=0)
        dev = made_up(DEV_ROWS, seed=1)
        for task in NAMES:
            write(self.file(task, "dev"), task, dev[task])
            write(self.file(task, "test"), task, dev[task], labelled=False)
        (folder / "predictions").mkdir(exist_ok=True)

    def file(self, task: str, split: str) -> Path:
        """A data file, named as the course's."""
        return self.folder / f"{COURSE_STEMS[task]}-{SPLITS[split]}.csv"

    def flags(self) -> Namespace:
        """What train_multitask is called with: the student's defaults, and this folder's files."""
        files = {f"{t}_{s}": str(self.file(t, s)) for t in NAMES for s in SPLITS}
        outputs = {
            f"{task}_{split}_out": f"predictions/{task}-{split}-output.csv"
            for task in NAMES
            for split in ("dev", "test")
        }
        places = {"data_dir": str(self.folder), "out_dir": "predictions", "filepath": "model.pt"}
        model = {"model": str(self.bert)}
        return Namespace(**default_flags() | SETTINGS | files | outputs | places | model)

    def run(self, task: str = "", change: Callable[[Row], Row] | None = None) -> TrainingRecord:
        """Train with one respect of one task's rows changed."""
        for name, rows in self.rows.items():
            changed = [change(row) for row in rows] if change and name == task else rows
            write(self.file(name, "train"), name, changed)
        for file in self.folder.glob("model*"):  # checkpoints of the run before
            file.unlink()
        arguments, labels = self.flags(), [label for *_, label in self.rows["sts"]]
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        with (
            mock.patch.dict(os.environ, {"MINBERT_MODEL": str(self.bert)}),
            mock.patch("training.acceleration.HAS_FAST_WAYS", False),  # as in every student's copy
            mock.patch("training.reports.report.Report.draw_curves"),  # drawing takes longest
            mock.patch("training.reports.report.Report.draw_page"),
            mock.patch.object(self.module, "plot_curves", create=True),
            only_this_model(self.bert),
            mock.patch.object(self.module, "args", arguments, create=True),
            recorded(self.module.MultitaskBERT, labels) as run,
        ):
            self.module.train_multitask(arguments)
        if not run.models:
            raise RuntimeError("train_multitask makes no MultitaskBERT")
        return run


# ---------------------------------------------------------------------------------------------
# What the runs tell


def loop_and_first_run(folder: Path) -> tuple[Loop, TrainingRecord]:
    """A loop and its run on unchanged data; around a wider BERT if the code needs 768."""
    for width in WIDTHS:
        loop = Loop(folder, width)
        try:
            return loop, loop.run()
        except (Exception, SystemExit) as error:
            numbers = [
                int(n) for n in "".join(c if c.isdigit() else " " for c in str(error)).split()
            ]
            if width == WIDTHS[-1] or not any(n and n % 768 == 0 for n in numbers):
                raise
    raise AssertionError("the last width returns or raises")


def in_itself(run: TrainingRecord) -> list[Finding]:
    """What one run tells: whether anything is learnt, and in the right mode."""
    if run.finite and not run.learnt():
        name, text = "nothing_learnt", "the optimizer holds other parameters, or its rate is 0"
        if not run.steps:
            name, text = "step_forgotten", "no optimizer makes a step: optimizer.step()"
        if not run.modes:
            name, text = "backward_forgotten", "no gradient is computed: loss.backward()"
        return [Finding("values", f"no parameter changes: {text}", name=name)]
    if not run.finite or not all(p.isfinite().all() for p in run.parameters().values()):
        text = "a loss, or the parameters after a few steps, are not finite"
        return [Finding("values", text, name="loss_not_finite")]
    findings = []
    if run.later > 2 and run.left == run.later:
        text = "gradients of all steps add up: optimizer.zero_grad() has to come once a step"
        findings.append(Finding("gradients", text, name="zero_grad_forgotten"))
    if run.modes and run.modes[0] and not run.modes[-1]:
        text = "after the first evaluation the model trains in evaluation mode, without dropout: "
        text += "model.train() has to come at the beginning of every epoch"
        findings.append(Finding("values", text, name="train_forgotten"))
    if rows := run.watch.broadcast:
        text = f"STS: scores of shape ({rows}, 1) meet labels of shape ({rows},): the loss is "
        text += f"taken over ({rows}, {rows}), every score against every label; give scores (B,)"
        findings.append(Finding("values", text, name="labels_broadcast"))
    if not any(run.modes):
        findings.append(Finding("hint", "the model trains in evaluation mode, without dropout"))
    return findings


def reaching(loop: Loop, base: TrainingRecord, task: str) -> list[Finding] | None:
    """What of a task's rows has no effect on what is learnt; None if nothing has."""
    sides = 1 if task == "sst" else 2
    no_effect = [same(base, loop.run(task, other_words(side))) for side in range(sides)]
    unlabelled = same(base, loop.run(task, another_label(task)))
    if all(no_effect) and unlabelled:
        if HEADS[task] not in base.called:
            return None
        text = f"{NAMES[task]}: {HEADS[task]} is trained, but no row of {NAMES[task]} makes "
        text += "a difference to what is learnt: do other rows go in?"
        return [Finding("values", text, name="other_rows")]
    findings = []
    for side in (side for side in range(sides) if no_effect[side]):
        text = "sentences make" if sides == 1 else f"{SIDES[side]} sentences make"
        text = (
            f"{NAMES[task]}: the {text} no difference to what is learnt: which ids and masks does "
        )
        text += "the loop give the model?"
        findings.append(Finding("values", text, name="sentence_unused"))
    if unlabelled:
        text = (
            f"{NAMES[task]}: its labels make no difference to what is learnt; if you meant it, fine"
        )
        return [*findings, Finding("hint", text)]
    return findings + (fractions(loop, base) if task == "sts" else [])


CUT = (
    "STS: labels are cut to integers (or rounded) before they reach the loss, so 3.6 is learnt "
    "like 3.9; keep them as floats, from the file to the loss (isRegression=True of "
    "SentencePairDataset)"
)


def fractions(loop: Loop, base: TrainingRecord) -> list[Finding]:
    """Whether labels of STS reach the loss whole.

    Other losses are blind to fractions, too: those with a threshold, as of pairs to contrast, and
    absolute errors, of which only the sign has a gradient. They are blind to most whole numbers.
    """
    if base.watch.are_cut:
        return [Finding("values", CUT, name="labels_cut_to_integers")]
    if not same(base, loop.run("sts", another_fraction)):
        return []
    text = "STS: a label of 3.6 is learnt like one of 3.9"
    if any(same(base, loop.run("sts", swapped_levels(low))) for low in (1, 2, 3)):
        text += "; if your loss only asks whether it is high, or higher than the score, fine"
        return [Finding("hint", text)]
    return [Finding("values", CUT, name="labels_cut_to_integers")]


def examine(folder: Path) -> list[Finding]:
    """All findings, the runs made in that folder."""
    loop, base = loop_and_first_run(folder)
    findings = in_itself(base)
    if any(found.name in UNFIT for found in findings):
        return findings
    if not same(base, loop.run()):
        text = "two runs with the same seed and data learn different parameters"
        return [*findings, Finding("waits", text)]
    untrained = []
    for task in NAMES:
        found = reaching(loop, base, task)
        if found is None:
            untrained.append(NAMES[task])
        findings += found or []
    if untrained:
        findings.append(Finding("hint", f"not trained yet: {', '.join(untrained)}"))
    return findings


UNFIT = ("nothing_learnt", "step_forgotten", "backward_forgotten", "loss_not_finite")
READ = "docs/handout.md, Training on all three"


def check() -> list[Finding]:
    """What is wrong with the loop, then hints; of the kind "waits" why it cannot be checked."""
    with nothing_stays() as folder:
        try:
            findings = examine(folder)
        except (Exception, SystemExit) as error:
            return [Finding("waits", describe(error).text or "not written")]
    named = [found for found in findings if found.name]
    return [
        Finding(found.kind, f"{found.text} (read {READ})", name=found.name) for found in named
    ] + [found for found in findings if not found.name]
