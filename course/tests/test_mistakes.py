"""Known mistakes: each is caught and named, alone and together; correct solutions are not."""

import random

import pytest
import torch
from answers import put, read_all, solution_with

from checks import jobs, known
from checks.findings import faulty
from checks.graded_tasks import GRADED_TASKS, graded_task
from checks.hunt.edits import installed_source
from checks.part1.tasks import READY_MADE
from checks.task import ERROR, outputs_of
from course import make_tables
from course.grading.judging.judge import costs
from course.make_tables import entry_of, functions, sentences, switched
from training.files.errors import InputError

FUNCTIONS = functions()
SWITCHES = [
    (function, name)
    for function in FUNCTIONS.values()
    for name in function.names()
    if name not in function.neutral and not function.is_second_run
]


def found(function, *switches):
    """The names that the tables give to some switches, and what they leave unexplained."""
    with switched(function, frozenset(switches)):
        mistakes, left = known.find(function.task_id, outputs_of(function.task_id))
    return {mistake.name for mistake in mistakes}, left


def entries(function, *switches):
    """The names of the sentences of some switches."""
    words = sentences()[function.task_id.partition(",")[0]]
    return {entry_of(switch, words) for switch in switches}


@pytest.mark.parametrize(
    ("function", "switch"), SWITCHES, ids=[f"{f.task_id}-{name}" for f, name in SWITCHES]
)
def test_every_switch_is_caught_and_named(function, switch):
    for way in ([], *([name] for name in function.neutral)):
        assert found(function, switch, *way) == (entries(function, switch), [])
    if function.task_id == "optimizer.step":  # whose thousand steps take long
        return
    with switched(function, frozenset([switch])):
        findings = jobs.examine(graded_task(function.task_id))
    assert faulty(findings)
    assert {finding.name for finding in findings} - {""} <= {
        *entries(function, switch), "nothing_returned", "no_tensor_returned"
    }  # fmt: skip


@pytest.mark.parametrize(
    "function",
    [f for f in FUNCTIONS.values() if f.task_id != "optimizer.step"],
    ids=lambda function: function.task_id,
)
def test_of_two_switches_no_other_is_named(function):
    pairs = [wrong for wrong in make_tables.combinations(function) if len(wrong) == 2]
    named = 0
    for pair in random.Random(0).sample(pairs, min(20, len(pairs))):
        with switched(function, pair):
            outputs = outputs_of(function.task_id)
        mistakes, left = known.find(function.task_id, outputs)
        names = {mistake.name for mistake in mistakes}
        if names == entries(function, *pair) or left or not names:
            named += not left and bool(names)
            continue
        with switched(function, frozenset(names)):  # others, which compute the same
            columns = [*outputs]
            rows = [known.fingerprints(o, columns) for o in (outputs_of(function.task_id), outputs)]
            assert known.alike(*rows).all() or ERROR in outputs, pair
    assert named >= 4 or function.is_second_run


def test_what_explains_by_chance_or_only_nan_is_not_named():
    by_chance = ["gradient_changed_zeroed", "lr_is_decay", "no_momentum"]
    all_nan = ["moments_before_the_step", "no_eps"]
    nan_or_wrong = ["step_from_zero", "correct_bias_half_ignored"]
    for switches in (by_chance, all_nan, nan_or_wrong):
        assert found(FUNCTIONS["optimizer.step"], *switches) == (set(), [])


def test_a_mistake_next_to_an_unknown_one_is_named_and_the_rest_is_said():
    entry = graded_task("bert.add_norm")
    source = """def add_norm(self, input, output, dense_layer, dropout, ln_layer):
    return F.dropout(input + ln_layer(dense_layer(output)), 0.7, self.training)
"""
    with installed_source("bert.py", solution_with(entry, {"add_norm": source})):
        findings = jobs.examine(entry)
    assert {finding.name for finding in findings} == {"", "norm_before_residual"}
    (fact,) = (finding.text for finding in findings if finding.kind == "left")
    assert fact.startswith("that is not all: it does not explain dropout of result")


def test_switches_that_compute_nothing_new_are_refused():
    function = FUNCTIONS["bert.add_norm"]
    words = sentences()["bert.add_norm"]

    def run(wrong, self, *given):
        if "nan" in wrong:
            return given[0] * torch.nan
        return function.run(wrong, self, *(() if "fails" in wrong else given))

    refused = {"nothing": "what is correct", "no_norm no_norm": "no_norm"}
    refused |= {"fails": "others", "nan": "others"}
    for names, said in refused.items():
        again = make_tables.Function(function.task_id, run, {"slot": names.split()})
        with pytest.raises(InputError, match=f"computes the same as {said}"):
            make_tables.table_of(again, words)
    with pytest.raises(InputError, match="have no entry for odd"):
        entry_of("odd", words)


def test_a_hint_has_40_to_80_words():
    hints = {(task, m.name): m.hint for task, words in sentences().items() for m in words.values()}
    assert {key: len(hint.split()) for key, hint in hints.items()} == {
        key: min(max(len(hint.split()), 40), 80) for key, hint in hints.items()
    }


def test_costs_are_those_of_known_mistakes():
    for task_id, prices in costs().items():
        tables = [known.load_table(run) for run in (task_id, f"{task_id}, whole")]
        named = {name for table in tables for name in table.mistakes}
        assert prices.keys() <= {"known", *named}, task_id


# ---------------------------------------------------------------------------------------------
# Correct solutions

SOLUTIONS = [answer for entry in GRADED_TASKS for answer in read_all(entry.id) if entry.part != 2]


@pytest.mark.parametrize("answer", SOLUTIONS, ids=lambda answer: answer.name)
def test_a_correct_solution_is_no_false_positive(answer):
    tasks = [entry for entry in GRADED_TASKS if entry.file == answer.task.file]
    with installed_source(answer.task.file, put(answer)):
        said = [finding.text for entry in tasks for finding in jobs.run(entry.id).findings]
    ready_made = answer.name.startswith("own_kernel")  # it is right, but against a rule
    assert said == [READY_MADE] * ready_made
