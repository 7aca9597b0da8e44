"""checks/part2/properties.py against our MultitaskBERT, wrong versions, and other right ones.

Most of these are files: course/mistakes/multitask.*.txt, course/variants/multitask/.
"""

import contextlib
import functools
import re
from argparse import Namespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bert
import multitask_classifier
import sanity_check
from checks import jobs
from checks.findings import Outcome, faulty
from checks.graded_tasks import GRADED_TASKS, graded_task
from checks.part1 import tasks as part1_tasks
from checks.part2 import models
from checks.part2 import tasks as part2_tasks
from checks.part2.models import FORWARD, INIT, PREDICTIONS
from course.answers import MISTAKES, VARIANTS, installed, installed_source, put, read, read_all
from extensions.model import TechniquesBERT

SENTIMENT, _, SIMILARITY = PREDICTIONS
IDS = (INIT, FORWARD, *PREDICTIONS)
NO_DROPOUT = "no dropout of your own in training mode"
SHIFT = "more columns of padding change results by up to"
FROZEN = "option pretrain: none of your layers takes part"


@pytest.fixture
def model():
    """The class of a plain bi-encoder, as a student would write it first, to be changed."""
    with installed(read(VARIANTS, "multitask/plain")) as module:
        yield module.MultitaskBERT


@contextlib.contextmanager
def quicker():
    """While active, what was found out of one task is not found out again for another one."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("findings_in", "faults"):
            patch.setattr(part2_tasks, name, functools.cache(getattr(part2_tasks, name)))
        yield


def all_findings():
    """Findings by task, only of tasks that have any."""
    with quicker():
        findings = {task_id: part2_tasks.check(graded_task(task_id)) for task_id in IDS}
    return {task_id: list_ for task_id, list_ in findings.items() if list_}


def faults_and_hints():
    """Faults by task, the texts of all hints."""
    findings = all_findings()
    wrong = {task_id: faulty(list_) for task_id, list_ in findings.items()}
    hints = [f.text for list_ in findings.values() for f in list_ if f.kind == "hint"]
    return {task_id: list_ for task_id, list_ in wrong.items() if list_}, hints


def assert_only_hints(words):
    """Nothing is wrong; the hints begin with these words."""
    wrong, hints = faults_and_hints()
    assert wrong == {}
    assert [hint[: len(start)] for hint, start in zip(hints, words, strict=True)] == words


def assert_only_this_is_wrong(task_id):
    """All other tasks are right, or wait for this one; the findings on this one."""
    wrong, _ = faults_and_hints()
    for key in wrong.keys() - {task_id}:
        assert [f.text for f in wrong[key]] == [f"for Task {graded_task(task_id).number}"]
    assert wrong[task_id][0].kind != "waits"
    return wrong[task_id]


# ---------------------------------------------------------------------------------------------
# Changes of the plain model


def written(name, function):
    """Another method."""
    return lambda cls: setattr(cls, name, function)


def after(name, change):
    """A method that returns ``change`` of what it should."""

    def apply(cls):
        method = getattr(cls, name)
        setattr(cls, name, lambda self, *batch: change(method(self, *batch)))

    return apply


def made(change):
    """Something is done to the model at the end of __init__."""

    def apply(cls):
        make = cls.__init__
        cls.__init__ = lambda self, config: [make(self, config), change(self)][0]

    return apply


def small_logits(self):
    """All logits of these seven pairs are between 0 and 1."""
    nn.init.normal_(self.paraphrase.weight, std=0.01)
    nn.init.constant_(self.paraphrase.bias, 0.5)


def half_frozen(self):
    self.bert.word_embedding.requires_grad_(False)
    self.bert.bert_layers[0].requires_grad_(False)


def no_dropout(self, ids, mask):
    return self.sentiment(self(ids, mask))


def distance(self, ids_1, mask_1, ids_2, mask_2):
    """A root's gradient is infinite where two sentences are the same."""
    u, v = self.dropout(self(ids_1, mask_1)), self.dropout(self(ids_2, mask_2))
    return -(u - v).square().sum(-1).sqrt()


@pytest.mark.parametrize(
    ("change", "hints"),
    [
        (made(small_logits), []),
        (made(half_frozen), ["option finetune: only 22 of 39 "]),
        (written("predict_sentiment", no_dropout), [NO_DROPOUT]),
        (
            written("predict_similarity", distance),
            [FROZEN, "the gradient of a pair of identical sentences is not finite"],
        ),
        (
            after("predict_similarity", torch.squeeze),
            ["a batch of one gives shape (): squeeze() without"],
        ),
    ],
)
def test_a_right_way_is_no_false_positive(change, hints, model):
    change(model)
    assert_only_hints(hints)


def frozen_head(self, *batch):
    return F.linear(self(*batch), self.sentiment.weight.data)


PROBABILITY = after("predict_paraphrase", torch.sigmoid)


@pytest.mark.parametrize(
    ("task_id", "change", "words"),
    [
        (FORWARD, after("forward", lambda x: x * 0), "the sentence has no effect"),
        (SENTIMENT, written("predict_sentiment", frozen_head), "none of your layers takes"),
        (SENTIMENT, written("predict_sentiment", lambda self, *_: exit(2)), "SystemExit"),
    ],
)
def test_a_mistake_is_said_in_words_and_concerns_its_own_task_only(
    task_id, change, words, model, monkeypatch
):
    change(model)
    monkeypatch.setattr(part2_tasks, "check_model", lambda _: [])  # bert.py is right: saves time
    findings = assert_only_this_is_wrong(task_id)
    assert any(words in finding.text for finding in findings), findings


FILES = [answer for task_id in IDS for answer in read_all(MISTAKES, task_id)]


@pytest.mark.parametrize("answer", FILES, ids=lambda answer: f"{answer.folder[10:]}-{answer.name}")
def test_a_known_mistake_is_named_however_it_is_written(answer, monkeypatch):
    """And no other task gets a false positive; where only this function differs, that is clear."""
    monkeypatch.setattr(part2_tasks, "check_model", lambda _: [])
    for version, methods in answer.versions.items():
        with installed(answer, version):
            findings = part2_tasks.check(answer.task)
            if methods.keys() != {models.function_of(answer.task.id)}:
                assert_only_this_is_wrong(answer.task.id)
        wrong = faulty(findings)
        assert {finding.name for finding in findings if finding.name} == {answer.named}, findings
        assert wrong[0].name == answer.named  # what is printed first
        assert wrong[0].text.endswith(f"(read {answer.read})")


HINTS = {  # version of a correct solution: words of the hints that are given
    "PairsAsPairs": [SHIFT, FROZEN],
}


@pytest.mark.parametrize("answer", read_all(VARIANTS, "multitask"), ids=lambda answer: answer.name)
def test_no_correct_solution_is_a_false_positive(answer):
    for version in answer.versions:
        with installed(answer, version):
            assert_only_hints(HINTS.get(version, []))


def test_a_forward_of_another_form_is_not_blamed_for_one_wrong_prediction():
    source = put(read(VARIANTS, "multitask/plain")).replace("return vectors", "return {0: vectors}")
    source = re.sub(r"= (self\.forward\(.*\))", r"= \1[0]", source)
    with installed_source("multitask_classifier.py", source) as module:
        assert_only_hints(["returns a dict instead of a tensor with an emb"])
        after("predict_similarity", torch.round)(module.MultitaskBERT)
        wrong, _ = faults_and_hints()
    assert {key: findings[0].name for key, findings in wrong.items()} == {SIMILARITY: "rounded"}


@pytest.mark.parametrize(
    ("cls", "options", "hints"),
    [
        (multitask_classifier.MultitaskBERT, {}, []),
        (TechniquesBERT, {"similarity": "cosine", "pooling": "mean"}, [FROZEN, NO_DROPOUT]),
        (TechniquesBERT, {"separate_layers": 1, "pooling": "cls"}, []),
    ],
)
def test_our_models_are_right(cls, options, hints, monkeypatch):
    monkeypatch.setattr(multitask_classifier, "MultitaskBERT", cls)
    monkeypatch.setattr(multitask_classifier, "get_args", lambda: Namespace(**options))
    assert_only_hints(hints)


# ---------------------------------------------------------------------------------------------
# What is not begun or has to wait


def unwritten(task_id):
    """A stub under the name that it has in the students' file."""
    name = task_id.split(".")[1] if task_id != INIT else "__init__"
    space = {}
    exec(f"def {name}(self, *_):\n    raise NotImplementedError('Task …')", space)
    return written(name, space[name])


@pytest.mark.parametrize("task_id", IDS)
def test_a_function_that_is_not_begun(task_id, model):
    unwritten(task_id)(model)
    findings = {key: (list_[0].kind, list_[0].text) for key, list_ in all_findings().items()}
    assert findings.pop(task_id) == ("not started", "")
    others = {INIT: IDS[1:], FORWARD: IDS[2:]}.get(task_id, ())
    waits = ("waits", f"for Task {graded_task(task_id).number}")
    assert findings == dict.fromkeys(others, waits)


def test_an_unfinished_bert_is_no_fault_of_part_2(model, monkeypatch):
    monkeypatch.setattr(bert.BertModel, "embed", bert.BertModel.embed)  # as before, afterwards
    unwritten("bert.embed")(bert.BertModel)
    waiting = {key: [finding.text for finding in list_] for key, list_ in all_findings().items()}
    assert waiting == {key: ["for bert.py (python sanity_check.py --part 1)"] for key in IDS[1:]}


# ---------------------------------------------------------------------------------------------
# The script


@pytest.fixture
def model_is(monkeypatch):
    """A function: let part 1's functions be right, and the whole model of this status."""

    def function(status: str) -> None:
        monkeypatch.setattr(part1_tasks, "check", lambda entry: [])
        for job in ("whole", "pretrained"):
            outcome = Outcome("the whole BertModel", status)
            monkeypatch.setitem(jobs.OTHERS, job, lambda outcome=outcome: outcome)

    return function


def test_script_on_part_2(model, model_is, check_here):
    model_is("ok")
    code, lines = check_here()  # without a choice part 2 follows part 1
    count = len([entry for entry in GRADED_TASKS if entry.part < 3])
    assert (code, lines[-2:]) == (0, [f"{count} of {count} tasks right", sanity_check.MEET])
    PROBABILITY(model)
    code, lines = check_here("--part", "2")
    assert code == 1
    assert lines[3] == "  WRONG Task 2.4 · MultitaskBERT.predict_paraphrase"
    assert lines[-3:] == [
        "  --    the training loop is checked once all tasks of part 2 are right",
        "4 of 5 tasks right",
        "next: Task 2.4 · MultitaskBERT.predict_paraphrase "
        f"({graded_task('2.4').check}); docs/part2.md explains it",
    ]


@pytest.mark.parametrize(
    ("status", "arguments", "code", "line"),
    [
        ("ok", [], 0, "  --    part 2 is not begun (python sanity_check.py --part 2)"),
        ("wrong", [], 1, "  --    part 2 is checked once part 1 is right, or with --part 2"),
        ("wrong", ["--part", "1"], 1, "  WRONG the whole BertModel"),
    ],
)
def test_a_student_of_part_1_is_not_told_of_part_2s_tasks(
    status, arguments, code, line, model, model_is, check_here
):
    for task_id in IDS:
        unwritten(task_id)(model)
    model_is(status)
    result, lines = check_here(*arguments)
    assert result == code
    assert line in lines
    assert "7 of 7 tasks right" in lines
    assert not any("Task 2" in text for text in lines)
