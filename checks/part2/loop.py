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
import functools
import importlib
import io
import itertools
import os
import random
import re
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from checks.errors import describe
from checks.findings import ROOT, Finding
from checks.part2.loop_data import (
    WORDS,
    Row,
    another_fraction,
    another_label,
    made_up,
    other_words,
    swapped_levels,
    write,
)
from checks.part2.loop_record import HEADS, TrainingRecord, recorded, same
from checks.part2.models import default_flags
from checks.part2.submission import FILES as PREDICTION_FILES
from tokenizer import SPECIAL_TOKENS
from training.files.course_files import COURSE_STEMS, SPLITS

NAMES = {"sst": "SST", "para": "Quora", "sts": "STS"}
ROWS, DEV_ROWS, BATCH, EPOCHS = 16, 8, 8, 2
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


@contextlib.contextmanager
def only_this_model(folder: Path) -> Iterator[None]:
    """While active, every pretrained model, whatever its name, is the one in that folder."""
    with contextlib.ExitStack() as stack:
        for place in ("bert.BertModel", "tokenizer.BertTokenizer", "config.BertConfig"):
            module, name = place.split(".")
            cls = getattr(importlib.import_module(module), name)

            def load(inner: Callable, *_: Any, name_or_path: Any = None, **kwargs: Any) -> Any:
                return inner(str(folder), **kwargs)

            from_folder = functools.partial(load, cls.from_pretrained)
            stack.enter_context(mock.patch.object(cls, "from_pretrained", from_folder))
        yield


@contextlib.contextmanager
def nothing_stays() -> Iterator[Path]:
    """While active, a temporary folder is the working directory and nothing is printed."""
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
        outputs = {f"{task}_{s}_out": path for path, (task, s) in PREDICTION_FILES.items()}
        places = {"data_dir": str(self.folder), "out_dir": "predictions", "filepath": "model.pt"}
        places["model"] = str(self.bert)
        return Namespace(**default_flags() | SETTINGS | files | outputs | places)

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
            mock.patch("training.reports.report.Report.draw_page"),  # drawing takes longest
            mock.patch.object(self.module, "plot_curves", create=True),
            only_this_model(self.bert),
            mock.patch.object(self.module, "args", arguments, create=True),
            recorded(self.module.MultitaskBERT, labels) as run,
        ):
            self.module.train_multitask(arguments)
        if not run.models:
            raise RuntimeError("train_multitask makes no MultitaskBERT")
        return run


def loop_and_first_run(folder: Path) -> tuple[Loop, TrainingRecord]:
    """A loop and its run on unchanged data; around a wider BERT if the code needs 768."""
    for width in WIDTHS:
        loop = Loop(folder, width)
        try:
            return loop, loop.run()
        except (Exception, SystemExit) as error:
            numbers = map(int, re.findall(r"\d+", str(error)))
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
    sides, name = ("",) if task == "sst" else ("first ", "second "), NAMES[task]
    no_effect = [same(base, loop.run(task, other_words(side))) for side in range(len(sides))]
    unlabelled = same(base, loop.run(task, another_label(task)))
    if all(no_effect) and unlabelled:
        if HEADS[task] not in base.called:
            return None
        text = f"{name}: {HEADS[task]} is trained, but no row of {name} makes a difference to what "
        text += "is learnt: do other rows go in?"
        return [Finding("values", text, name="other_rows")]
    findings = []
    for side in itertools.compress(sides, no_effect):
        text = f"{name}: the {side}sentences make no difference to what is learnt: which ids and "
        text += "masks does the loop give the model?"
        findings.append(Finding("values", text, name="sentence_unused"))
    if unlabelled:
        text = f"{name}: its labels make no difference to what is learnt; if you meant it, fine"
        return [*findings, Finding("hint", text)]
    return findings + (fractions(loop, base) if task == "sts" else [])


def fractions(loop: Loop, base: TrainingRecord) -> list[Finding]:
    """Whether labels of STS reach the loss whole.

    Losses with a threshold, as of pairs to contrast, are blind to fractions, too; but they are
    blind to most whole numbers as well.
    """
    if base.losses != loop.run("sts", another_fraction).losses:
        return []
    if any(base.losses == loop.run("sts", swapped_levels(low)).losses for low in (1, 2, 3)):
        text = "STS: a label of 3.6 is learnt like one of 3.9; if your loss only asks whether it "
        return [Finding("hint", f"{text}is high, fine")]
    text = "STS: labels are cut to integers (or rounded) before they reach the loss, so 3.6 is "
    text += "learnt like 3.9; keep them as floats, from the file to the loss (isRegression=True of "
    return [Finding("values", f"{text}SentencePairDataset)", name="labels_cut_to_integers")]


def examine(folder: Path) -> list[Finding]:
    """All findings, the runs made in that folder."""
    loop, base = loop_and_first_run(folder)
    findings = in_itself(base)
    if any(finding.name in UNFIT for finding in findings):
        return findings
    if not same(base, loop.run()):
        text = "two runs with the same seed and data learn different parameters"
        return [*findings, Finding("waits", text)]
    by_task = {task: reaching(loop, base, task) for task in NAMES}
    findings += itertools.chain.from_iterable(of_task or () for of_task in by_task.values())
    if untrained := [NAMES[task] for task, of_task in by_task.items() if of_task is None]:
        findings.append(Finding("hint", f"not trained yet: {', '.join(untrained)}"))
    return findings


UNFIT = ("nothing_learnt", "step_forgotten", "backward_forgotten", "loss_not_finite")
READ = "docs/part2.md, Training on all three"


def check() -> list[Finding]:
    """What is wrong with the loop, then hints; of the kind "waits" why it cannot be checked."""
    with nothing_stays() as folder:
        try:
            findings = examine(folder)
        except (Exception, SystemExit) as error:
            return [Finding("waits", describe(error).text or "not written")]
    named = [f for f in findings if f.name]
    sourced = [replace(f, text=f"{f.text} (read {READ})") for f in named]
    return sourced + [f for f in findings if not f.name]
