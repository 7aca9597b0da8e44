"""Known mistakes in bert.py: caught, named, alone or together, and nobody else accused."""

import itertools

import pytest
from conftest import ROOT

from checks import jobs
from checks.findings import faulty
from checks.graded_tasks import GRADED_TASKS
from course.answers import (
    MISTAKES,
    VARIANTS,
    installed,
    installed_source,
    merge,
    put,
    put_methods,
    read_all,
)
from course.fingerprints import base_of

BERT = [entry for entry in GRADED_TASKS if entry.file == "bert.py"]
WRONG = {entry.id: read_all(MISTAKES, entry.id) for entry in BERT}


def versions(answers):
    """Every version of every answer, as parameters of a test."""
    pairs = [(answer, version) for answer in answers for version in answer.versions]
    return [pytest.param(a, v, id=f"{a.task.id}/{a.name}, {v}") for a, v in pairs]


def names(findings):
    return {finding.name for finding in findings} - {""}


@pytest.mark.parametrize(("answer", "version"), versions(itertools.chain(*WRONG.values())))
def test_a_mistake_is_caught_and_named_however_it_is_written(answer, version):
    with installed(answer, version):
        findings = jobs.examine(answer.task)
    assert faulty(findings)
    assert names(findings) == {answer.name}
    assert not [finding for finding in findings if finding.kind == "fact"]


# Each task's first mistakes together, then the second ones, …; a task with fewer begins again.
TOGETHER = [
    [answers[number % len(answers)] for answers in WRONG.values()]
    for number in range(max(map(len, WRONG.values())))
]


@pytest.mark.parametrize(
    "answers", TOGETHER, ids=lambda answers: ", ".join(a.name for a in answers)
)
def test_a_mistake_changes_nothing_in_the_check_of_another_task(answers):
    source = (ROOT / "bert.py").read_text(encoding="utf-8")
    for answer in answers:
        source = put(answer, source=source)
    with installed_source("bert.py", source):
        found = {answer.task.id: names(jobs.examine(answer.task)) for answer in answers}
    assert found == {answer.task.id: {answer.name} for answer in answers}


@pytest.mark.parametrize("answer", [answers[0] for answers in WRONG.values()], ids=lambda a: a.name)
def test_a_mistake_fails_no_task_but_its_own(answer):
    others = [entry for entry in GRADED_TASKS if entry.number < "1.5" and entry != answer.task]
    with installed(answer):
        assert {entry.id: jobs.examine(entry) for entry in others} == {
            entry.id: [] for entry in others
        }


@pytest.mark.parametrize(
    ("answer", "version"),
    versions(answer for entry in BERT for answer in read_all(VARIANTS, entry.id)),
)
def test_a_right_answer_is_not_accused(answer, version):
    with installed(answer, version):
        assert {entry.id: jobs.examine(entry) for entry in BERT} == {entry.id: [] for entry in BERT}


@pytest.mark.parametrize("entry", BERT, ids=lambda entry: entry.id)
def test_of_two_mistakes_at_least_one_is_named(entry):
    base, source = base_of(entry), (ROOT / entry.file).read_text(encoding="utf-8")
    missed, count = [], 0
    for one, two in list(itertools.combinations(WRONG[entry.id], 2))[::11]:
        methods = merge(base, *(answer.versions[answer.first] for answer in (one, two)))
        if methods is None:
            continue
        owner = entry.function.split(".")[0]
        text = put_methods(source, owner, methods, one.imports + two.imports)
        with installed_source(entry.file, text):
            findings = jobs.examine(entry)
        count += bool(faulty(findings))
        if faulty(findings) and not names(findings) & {one.name, two.name}:
            missed.append((one.name, two.name))
    assert count > 8
    assert missed == []


def test_what_a_student_reads(capsys):
    answer = next(answer for answer in WRONG["bert.attention"] if answer.name == "no_scale")
    with installed(answer):
        sanity_check.report(answer.task, jobs.examine(answer.task))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("  WRONG Task 1.1 · BertSelfAttention.attention: values of context")
    assert lines[-1] == (
        f"        probably: {answer.says} {answer.hint} (read Vaswani et al. 2017, §3.2.1)"
    )
    assert answer.says == "The scores are not divided by √W."
