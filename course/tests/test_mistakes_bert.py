"""Known mistakes in bert.py: caught, named, alone or together, and no false positives."""

import itertools

import pytest
from support import ROOT, versions

from checks import jobs
from checks.findings import faulty
from checks.graded_tasks import GRADED_TASKS, graded_task
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

BERT = [entry for entry in GRADED_TASKS if entry.file == "bert.py"]
WRONG = {entry.id: read_all(MISTAKES, entry.id) for entry in BERT}


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
    ("old", "new"),
    [
        ("            attended, expanded,", "            attended.detach(), expanded,"),
        ("self.interm_dense(attended)", "self.interm_dense(attended.detach())"),
    ],
)
def test_a_gradient_that_is_lost_within_a_layer_is_seen(old, new):
    """Behind the first add_norm the gradients are stored ones, whatever arrives there."""
    source = (ROOT / "bert.py").read_text(encoding="utf-8")
    assert source.count(old) == 1
    with installed_source("bert.py", source.replace(old, new)):
        findings = jobs.examine(graded_task("bert.layer"))
    assert "gradients of result of add_norm's call 1" in faulty(findings)[0].text
    assert "bert.layer/gradients/result of add_norm's call 1" in hidden.make(0)["alone"].expected


@pytest.mark.parametrize(
    ("answer", "version"),
    versions(answer for entry in BERT for answer in read_all(VARIANTS, entry.id)),
)
def test_a_correct_solution_is_no_false_positive(answer, version):
    with installed(answer, version):
        assert {entry.id: jobs.examine(entry) for entry in BERT} == {entry.id: [] for entry in BERT}


@pytest.mark.parametrize("entry", BERT, ids=lambda entry: entry.id)
def test_of_two_mistakes_at_least_one_is_named(entry):
    base = base_of(entry)
    missed, count = [], 0
    for one, two in list(itertools.combinations(WRONG[entry.id], 2))[::11]:
        methods = merge(base, *(answer.versions[answer.first] for answer in (one, two)))
        if methods is None:
            continue
        source = solution_with(entry, methods, one.imports + two.imports)
        with installed_source(entry.file, source):
            findings = jobs.examine(entry)
        count += bool(faulty(findings))
        if faulty(findings) and not names(findings) & {one.name, two.name}:
            missed.append((one.name, two.name))
    assert count > 8
    assert missed == []


def test_what_a_student_reads(check_here):
    answer = next(answer for answer in WRONG["bert.attention"] if answer.name == "no_scale")
    with installed(answer):
        code, lines = check_here("--task", "1.1")
    assert (code, lines[0]) == (1, "  WRONG Task 1.1 · BertSelfAttention.attention")
    assert lines[1] == (
        f"        probably: {answer.says} {answer.hint} (read Vaswani et al. 2017, §3.2.1)"
    )
    assert lines[2].startswith("        values of context: first difference at ")
    assert answer.says == "The scores are not divided by √W."
