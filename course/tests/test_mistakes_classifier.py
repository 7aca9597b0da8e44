"""Known mistakes in the classifier: caught and named, without false positives."""

import pytest
from support import ROOT, versions

from checks import jobs
from checks.findings import faulty
from checks.graded_tasks import GRADED_TASKS, graded_task
from course.answers import MISTAKES, VARIANTS, installed, installed_source, put, read_all

CLASSIFIER = [graded_task("classifier.init"), graded_task("classifier.forward")]
HEADS = [answer for entry in CLASSIFIER for answer in read_all(MISTAKES, entry.id)]


@pytest.mark.parametrize(("answer", "version"), versions(HEADS))
def test_a_classifiers_mistake_is_caught_and_named(answer, version):
    with installed(answer, version):
        found = {entry.id: jobs.examine(entry) for entry in CLASSIFIER}
    assert faulty(found[answer.task.id])
    assert {finding.name for finding in found[answer.task.id]} - {""} == {answer.name}
    (other,) = (found[entry.id] for entry in CLASSIFIER if entry != answer.task)
    assert [finding.kind for finding in other] in ([], ["waits"])


@pytest.mark.parametrize(("answer", "version"), versions(read_all(VARIANTS, "classifier.*")))
def test_a_right_classifier_is_no_false_positive(answer, version):
    with installed(answer, version):
        assert [jobs.examine(entry) for entry in CLASSIFIER] == [[], []]


def forward_as(old: str, new: str) -> list:
    """What the check finds where our forward has this in place of that."""
    source = (ROOT / "classifier.py").read_text(encoding="utf-8")
    assert source.count(old) == 1
    with installed_source("classifier.py", source.replace(old, new)):
        return jobs.examine(graded_task("classifier.forward"))


def test_a_batch_of_one_keeps_its_axis():
    head = "return self.classifier(self.dropout(pooled))"
    (finding,) = faulty(forward_as(head, f"{head}.squeeze()"))
    assert "logits of one sentence" in finding.text
    assert "(9,) instead of (1, 9)" in finding.text


@pytest.mark.parametrize("kind", ["float", "double", "bool", "int"])
def test_a_mask_of_another_type_is_right(kind):
    given = "self.bert(input_ids, attention_mask)"
    assert forward_as(given, given.replace("mask)", f"mask.{kind}())")) == []


def test_a_wrong_classifier_fails_no_task_in_another_file():
    others = [e for e in GRADED_TASKS if e.part == 1 and e not in CLASSIFIER]
    with installed(HEADS[0]):
        found = {entry.id: jobs.examine(entry) for entry in others}
    assert found == {entry.id: [] for entry in others}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("dropout_in_code", "nn.Dropout(0.1)", "nn.Dropout(0.25)"),
        ("labels_in_code", "nn.Linear(config.hidden_size, 5)", "nn.Linear(config.hidden_size, 7)"),
        ("width_in_code", "nn.Linear(768,", "nn.Linear(384,"),
    ],
)
def test_a_number_in_the_code_is_named_whichever_it_is(name, old, new):
    (answer,) = (answer for answer in HEADS if answer.name == name)
    source = put(answer)
    assert source.count(old) == 1
    with installed_source("classifier.py", source.replace(old, new)):
        findings = jobs.examine(answer.task)
    assert [finding.name for finding in findings if finding.name] == [name]
