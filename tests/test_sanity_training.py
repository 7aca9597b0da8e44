"""checks/part2/loop.py against our loop, the handout's, wrong ones and other right ones.

Wrong and right ones are files: course/mistakes/multitask.training/, course/variants/.
"""

import os
import random
import sys

import numpy as np
import pytest
import torch
from torch.optim.optimizer import _global_optimizer_post_hooks

import bert
import multitask_classifier
import sanity_check
from checks.findings import Finding, faulty
from checks.graded_tasks import GRADED_TASKS
from checks.part2 import loop, models
from checks.part2.loop import another_label, made_up, other_words
from course.answers import (
    MISTAKES,
    ROOT,
    TRAINING,
    VARIANTS,
    installed,
    installed_source,
    put,
    read,
    read_all,
)
from course.handout import build

PLAIN = "multitask/plain"
LOOP = f"{TRAINING}/plain"
THRESHOLD = "STS: a label of 3.6 is learnt like one of 3.9; if your loss only asks whether it is"


def found_in(source):
    with installed_source("multitask_classifier.py", source):
        return loop.check()


def loop_with(old, new):
    """What is found in the plain loop with one text replaced."""
    source = put(read(VARIANTS, LOOP))
    assert source.count(old) == 1, old
    return found_in(source.replace(old, new))


# ---------------------------------------------------------------------------------------------
# Data


def test_what_a_change_changes():
    rows = made_up(16, seed=0)
    assert rows == made_up(16, seed=0) != made_up(16, seed=1)
    for task, given in rows.items():
        label = another_label(task)
        assert all(label(row)[:-1] == row[:-1] and label(row)[-1] != row[-1] for row in given)
        for side in range(len(given[0]) - 1):
            for row in given:
                other = other_words(side)(row)
                assert not set(other[side].split()) & set(row[side].split())
                assert list(map(len, other[side].split())) == list(map(len, row[side].split()))
                assert other[:side] + other[side + 1 :] == row[:side] + row[side + 1 :]


# ---------------------------------------------------------------------------------------------
# Right loops


def test_our_loop_is_right(monkeypatch):
    flags = models.default_flags() | {"clip": 1.0, "warmup": 0.1}
    monkeypatch.setattr(loop, "default_flags", lambda: flags)
    assert loop.check() == []


WIDE = "width_of_bert_base"
RIGHT = [answer for answer in read_all(VARIANTS, TRAINING) if answer.name != WIDE]


@pytest.mark.parametrize("answer", RIGHT, ids=lambda answer: answer.name)
def test_no_right_loop_is_a_false_positive(answer):
    hints = [THRESHOLD] if answer.name == "thresholds" else []
    for version in answer.versions:
        with installed(answer, version):
            findings = loop.check()
        assert faulty(findings) == []
        assert len(findings) == len(hints), findings
        for finding, start in zip(findings, hints, strict=True):
            assert finding.text.startswith(start)


def test_a_loop_that_wants_768_numbers_gets_them():
    with (
        installed(read(VARIANTS, f"{TRAINING}/{WIDE}")),
        loop.nothing_stays() as folder,
    ):
        student_loop, run = loop.loop_and_first_run(folder)
        assert student_loop.bert.name == "bert-768"
        assert loop.in_itself(run) == []


def test_the_loop_of_the_handout_trains_sst_alone():
    source = build(ROOT, "2").files["multitask_classifier.py"].decode()
    findings = found_in(put(read(VARIANTS, PLAIN), source=source))
    assert [(finding.kind, finding.text) for finding in findings] == [
        ("hint", "not trained yet: Quora, STS")
    ]
    (nothing,) = found_in(source)  # with stubs
    assert (nothing.kind, nothing.text[:8]) == ("waits", "Task 2.1")


# ---------------------------------------------------------------------------------------------
# Wrong loops

FILES = read_all(MISTAKES, TRAINING)


@pytest.mark.parametrize("answer", FILES, ids=lambda answer: answer.name)
def test_a_known_mistake_is_named(answer):
    for version in answer.versions:
        with installed(answer, version):
            findings = loop.check()
        assert {finding.name for finding in findings if finding.name} == {answer.named}, findings
        assert faulty(findings)[0].text.endswith(f"(read {answer.read})")


def test_labels_that_are_not_learnt_from_are_a_hint():
    findings = loop_with("F.mse_loss(scores, labels)", "scores.square().mean()")
    assert [(found.kind, found.text) for found in findings] == [
        (
            "hint",
            "STS: its labels make no difference to what is learnt; if you meant it, fine",
        )
    ]


# ---------------------------------------------------------------------------------------------
# What cannot be checked


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            'raise RuntimeError("no such data")',
            "RuntimeError: no such data (multitask_classifier.py",
        ),
        ("raise SystemExit(2)", "SystemExit: 2"),
        ("raise NotImplementedError", "not written"),
        ("return", "RuntimeError: train_multitask makes no MultitaskBERT"),
    ],
)
def test_a_loop_that_cannot_be_run(change, reason):
    (finding,) = loop_with(
        "    args = find_files(complete(args, MultitaskFlags), TASKS)\n    train_sets",
        f"    {change}\n    _",
    )
    assert finding.kind == "waits"
    assert finding.text.startswith(reason)


def test_a_loop_whose_seeds_are_not_fixed():
    import_time = (
        "    import time\n    torch.manual_seed(time.perf_counter_ns())\n    best = -1.0\n"
    )
    (finding,) = loop_with("    best = -1.0\n", import_time)
    assert finding == Finding(
        "waits", "two runs with the same seed and data learn different parameters"
    )


# ---------------------------------------------------------------------------------------------
# What it leaves, and what the script says


def test_nothing_stays(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def state():
        return (
            torch.get_rng_state().tolist(),
            random.getstate(),
            np.random.get_state()[1].tolist(),
            torch.are_deterministic_algorithms_enabled(),
            dict(os.environ),
            os.getcwd(),
            list(sys.path),
            torch.autograd.backward,
            len(_global_optimizer_post_hooks),
            bert.BertModel.from_pretrained,
            multitask_classifier.MultitaskBERT.__init__,
        )

    before = state()
    findings = loop_with(
        "    best = -1.0\n", "    best = seed_everything(1) or -1.0\n    print(1)\n"
    )
    assert findings == []
    assert state() == before
    assert list(tmp_path.iterdir()) == []
    assert "".join(capsys.readouterr()) == ""


@pytest.fixture
def report(monkeypatch, check_here):
    """A function: what sanity_check.py says of these findings in the loop, and its exit status."""

    def function(findings, todo=()):
        monkeypatch.setattr(loop, "check", lambda: findings)
        monkeypatch.setattr(sanity_check.Session, "run_tasks", lambda s, _: s.todo.extend(todo))
        code, lines = check_here("--part", "2")
        return code, lines[:-1]

    return function


def test_what_the_script_says(report):
    ok = "  ok    the training loop: both sentences and unrounded labels reach the losses"
    assert report([]) == (0, [ok])
    code, lines = report([Finding("hint", "not trained yet: Quora")])
    assert (code, lines) == (0, [ok, "        hint: not trained yet: Quora"])
    code, lines = report([Finding("values", "labels are cut", name="labels_cut_to_integers")])
    assert (code, lines) == (1, ["  WRONG the training loop", "        labels are cut"])
    code, lines = report([Finding("waits", "no such file")])
    said = "  --    the training loop: it is not checked: no such file"
    assert (code, lines) == (0, [said])
    code, lines = report([], todo=GRADED_TASKS[-1:])
    waits = "  --    the training loop is checked once all tasks of part 2 are right"
    assert (code, lines[0]) == (1, waits)
