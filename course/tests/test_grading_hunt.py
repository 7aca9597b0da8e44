"""Grading a student's own tests, and ours, which have to catch nearly all known mistakes."""

from types import SimpleNamespace

import pytest
import torch
from support import ROOT, needs_sandbox

from checks.graded_tasks import graded_task
from checks.hunt.jobs import failure_of
from checks.hunt.student_tests import TEST_OF, TESTS, faults_of
from course.answers import VARIANTS, read_all
from course.grading.judging import hunt
from course.grading.judging.types import Submission
from course.grading.sandbox.context import open_context
from course.grading.sandbox.protocol import Reply

REFERENCE = (ROOT / "course" / "tests" / "reference_tests.py").read_text(encoding="utf-8")
HOSTILE = """
import torch
from bert import BertModel
from config import BertConfig


def test_attention(attention):
    while True:
        pass


def test_add_norm(add_norm):
    raise SystemExit


def test_layer(forward):
    raise NotImplementedError("Task 1.8 · test_layer")


def test_embed(embed):
    model = BertModel(BertConfig(vocab_size=9, hidden_size=6, num_attention_heads=2)).double()
    norm = model.embed_layer_norm
    model.embed_layer_norm = lambda x: norm(x)
    assert embed(model.eval(), torch.zeros(1, 2).long()).shape == (1, 2, 6)


def test_adamw(AdamW):
    pass
"""


@pytest.mark.parametrize("task_id", TEST_OF)
def test_our_tests_catch_nearly_all_mistakes_and_fail_no_correct_solution(task_id):
    assert faults_of(REFERENCE) == []
    entry = graded_task(task_id)
    tried = hunt.implementations(entry)
    failed = [failure_of(entry, REFERENCE, each.source) is not None for each in tried]
    wrong = [fails for each, fails in zip(tried, failed, strict=True) if not each.right]
    assert [e.says for e, fails in zip(tried, failed, strict=True) if e.right and fails] == []
    assert sum(wrong) >= 0.95 * len(wrong)
    versions = sum(len(answer.versions) for answer in read_all(VARIANTS, task_id))
    assert len(tried) - len(wrong) >= versions / 2  # the others have other arguments


@needs_sandbox
def test_each_test_is_graded_alone_in_the_sandbox(monkeypatch):
    every = hunt.implementations
    monkeypatch.setattr(hunt, "implementations", lambda e: every(e)[:9] + every(e)[-3:])
    # HOSTILE has a test that never ends, the others need no time worth a limit
    for tests, seconds, share in ((REFERENCE, 120, 1.0), (HOSTILE, 25, 0.0)):
        with open_context(1, "secret", seconds=seconds) as context:
            submission = Submission("a", 1, {TESTS: tests.encode()}, sha256="b")
            reached, note = hunt.grade(context, submission)
            assert reached == share, note
    for said in (
        "test_attention: it did not end within the time limit",
        "test_add_norm: it ends Python",
        "test_layer: it is not started",
        "test_embed: it fails a correct solution, so it asks for what need not hold; that",
        "test_adamw: it catches 0 of ",
    ):
        assert said in note


def test_forbidden_and_missing_tests_get_nothing_and_run_nothing():
    for files, said in (
        ({}, "was not handed in"),
        ({TESTS: b"import inspect"}, "my_tests.py:1: `inspect`"),
        ({TESTS: b"x = ("}, "is not Python"),
    ):
        context = SimpleNamespace(seed=lambda *_: 0)
        share, note = hunt.grade(context, Submission("a", 1, files))
        assert share == 0
        assert said in note


@pytest.mark.parametrize(
    ("reply", "share", "said"),
    [
        (Reply("ran", {"failed": torch.tensor([0, 1, 0])}), 0.5, "1 of 2 known mistakes"),
        (Reply("ran", {"failed": torch.tensor([1, 1, 1])}), 0.0, "differs so: a loop"),
        (Reply("ran", {"failed": torch.tensor([0, 1])}), 0.0, "cannot be read"),
        (Reply("ran", {"failed": "1"}), 0.0, "cannot be read"),
        (Reply("crashed"), 0.0, "ended before"),
    ],
)
def test_a_correct_solution_that_fails_costs_everything(reply, share, said):
    chunk = [hunt.Implementation("", right, "a loop") for right in (True, False, False)]
    reached, note = hunt.judge([(chunk, reply)])
    assert reached == share
    assert said in note
