"""Known mistakes of parts 1 and 3: caught, named, alone or together; no false positives."""

import itertools

import pytest
from support import ROOT, versions

from checks import jobs
from checks.findings import faulty
from checks.graded_tasks import GRADED_TASKS, graded_task
from checks.part1 import adamw_checks
from course.answers import (
    MISTAKES,
    VARIANTS,
    installed,
    installed_source,
    merge,
    put,
    read_all,
    solution_with,
)
from course.fingerprints import base_of
from course.grading.judging import hidden

PART_1 = [entry for entry in GRADED_TASKS if entry.part == 1]
WRONG = {entry.id: read_all(MISTAKES, entry.id) for entry in PART_1}
OF_PART_3 = [read_all(MISTAKES, entry.id) for entry in GRADED_TASKS if entry.part == 3]
ALL_WRONG = itertools.chain(*WRONG.values(), *OF_PART_3)
FORWARD = graded_task("classifier.forward")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Without the thousand steps of the optimizer's published protocol."""
    monkeypatch.delitem(adamw_checks.CHECKS, "published protocol")


def names(findings):
    return {finding.name for finding in findings} - {""}


def findings_where(file, source, entry):
    with installed_source(file, source):
        return jobs.examine(entry)


@pytest.mark.parametrize(("answer", "version"), versions(ALL_WRONG))
def test_a_mistake_is_caught_and_named_however_it_is_written(answer, version):
    with installed(answer, version):
        findings = jobs.examine(answer.task)
    assert faulty(findings)
    assert names(findings) == {answer.named}
    if answer.task.id != "optimizer.step" or version == answer.first:  # rewrites may need more
        assert not [finding for finding in findings if finding.kind == "fact"]


# Each task's first mistakes together, then the second ones, …; a task with fewer begins again.
OF_BERT = {task_id: answers for task_id, answers in WRONG.items() if task_id.startswith("bert.")}
TOGETHER = [
    [answers[number % len(answers)] for answers in OF_BERT.values()]
    for number in range(max(map(len, OF_BERT.values())))
]


@pytest.mark.parametrize(
    "answers", TOGETHER, ids=lambda answers: ", ".join(answer.name for answer in answers)
)
def test_a_mistake_changes_nothing_in_the_check_of_another_task(answers):
    source = (ROOT / "bert.py").read_text(encoding="utf-8")
    for answer in answers:
        source = put(answer, source=source)
    with installed_source("bert.py", source):
        named = {answer.task.id: names(jobs.examine(answer.task)) for answer in answers}
    assert named == {answer.task.id: {answer.name} for answer in answers}


@pytest.mark.parametrize(
    ("answer", "version"),
    versions(
        answer for answer in read_all(VARIANTS) if answer.task.part != 2 and "." in answer.folder
    ),
)
def test_a_correct_solution_is_no_false_positive(answer, version):
    tasks = [entry for entry in GRADED_TASKS if entry.file == answer.task.file]
    with installed(answer, version):
        assert {entry.id: jobs.examine(entry) for entry in tasks} == {e.id: [] for e in tasks}


@pytest.mark.parametrize("entry", PART_1[:4], ids=lambda entry: entry.id)
def test_of_two_mistakes_at_least_one_is_named(entry):
    base = base_of(entry)
    missed, count = [], 0
    for first, second in list(itertools.combinations(WRONG[entry.id], 2))[::11]:
        methods = merge(base, *(answer.versions[answer.first] for answer in (first, second)))
        if methods is None:
            continue
        source = solution_with(entry, methods, first.imports + second.imports)
        findings = findings_where(entry.file, source, entry)
        count += bool(faulty(findings))
        if faulty(findings) and not names(findings) & {first.name, second.name}:
            missed.append((first.name, second.name))
    assert count > 8
    assert missed == []


# ---------------------------------------------------------------------------------------------
# What no stored mistake makes


def with_change(file, old, new, task_id):
    """The findings on a task where our file has this in place of that."""
    source = (ROOT / file).read_text(encoding="utf-8")
    assert source.count(old) == 1
    return findings_where(file, source.replace(old, new), graded_task(task_id))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            attended, expanded,", "            attended.detach(), expanded,"),
        ("self.interm_dense(attended)", "self.interm_dense(attended.detach())"),
    ],
)
def test_a_gradient_that_is_lost_within_a_layer_is_seen(old, new):
    """Behind the first add_norm the gradients are stored ones, whatever arrives there."""
    findings = with_change("bert.py", old, new, "bert.layer")
    assert "gradients of result of add_norm's call 1" in faulty(findings)[0].text
    assert "bert.layer/gradients/result of add_norm's call 1" in hidden.make(0)["alone"].expected


def test_a_batch_of_one_keeps_its_axis():
    head = "return self.classifier(self.dropout(pooled))"
    findings = with_change("classifier.py", head, f"{head}.squeeze()", FORWARD.id)
    (finding,) = faulty(findings)
    assert "logits of one sentence" in finding.text
    assert "(9,) instead of (1, 9)" in finding.text


@pytest.mark.parametrize("kind", ["float", "double", "bool", "int"])
def test_a_mask_of_another_type_is_correct(kind):
    call = "self.bert(input_ids, attention_mask)"
    converted = call.replace("mask)", f"mask.{kind}())")
    assert with_change("classifier.py", call, converted, FORWARD.id) == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("dropout_in_code", "nn.Dropout(0.1)", "nn.Dropout(0.25)"),
        ("labels_in_code", "nn.Linear(config.hidden_size, 5)", "nn.Linear(config.hidden_size, 7)"),
        ("width_in_code", "nn.Linear(768,", "nn.Linear(384,"),
    ],
)
def test_a_number_in_the_code_is_named_whichever_it_is(name, old, new):
    (answer,) = (answer for answer in WRONG["classifier.init"] if answer.name == name)
    source = put(answer)
    assert source.count(old) == 1
    findings = findings_where("classifier.py", source.replace(old, new), answer.task)
    assert names(findings) == {name}
