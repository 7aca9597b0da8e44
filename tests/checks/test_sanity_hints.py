"""What lets a check name mistakes, and how much of it a level of hints says; inputs are kept."""

import math

import pytest
import torch

import bert
from checks import jobs, properties, references
from checks.compare import is_close
from checks.findings import Finding, Outcome
from checks.graded_tasks import FIRST_HINT, graded_task
from checks.known import alike, fingerprint, load_table, unpacked
from checks.report import MORE, Report
from checks.task import ERROR, outputs_of
from course.make_tables import functions, packed, switched
from course.settings import read_settings

ATTENTION = "bert.attention"
torch.manual_seed(0)
OUTPUT = torch.randn(3, 7, 32, dtype=torch.float64)
ERROR_TEXT = "RuntimeError: size of tensor a (7) must match tensor b (16) at {} (bert.py:{})"


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (OUTPUT, OUTPUT.transpose(0, 1).contiguous().transpose(0, 1), True),
        (OUTPUT, OUTPUT.float().requires_grad_(), True),
        (1e-12 * OUTPUT, -1e-12 * OUTPUT, True),  # both are rounding of 0
        (1e-3 * OUTPUT, -1e-3 * OUTPUT, False),
        (OUTPUT, OUTPUT.transpose(0, 1), False),
        (OUTPUT, OUTPUT * 1.001, False),
        (math.nan * OUTPUT, math.nan * OUTPUT, False),
        (OUTPUT, None, False),
        (None, "text", True),
        (ERROR_TEXT.format("0x7f01", 180), ERROR_TEXT.format("0x7f02", 99) + ": why", True),
        (ERROR_TEXT, ERROR_TEXT.replace("Runtime", "Value"), False),
    ],
)
def test_the_same_numbers_or_errors_have_the_same_fingerprint(first, second, same):
    both = (Finding("error", x) if isinstance(x, str) and ":" in x else x for x in (first, second))
    rows = [*map(fingerprint, both)]
    assert bool(alike(*rows)) is same
    assert bool(alike(rows[0].float().double(), rows[1])) is same


def test_a_table_is_after_storing_what_it_was():
    table = load_table("bert.add_norm")
    again = unpacked(*packed(table))
    assert torch.equal(again.rows.nan_to_num(-9), table.rows.nan_to_num(-9))
    assert torch.equal(again.base, table.base)
    assert (again.outputs, again.names) == (table.outputs, table.names)
    assert again.mistakes == table.mistakes


def test_the_stored_inputs_are_left_alone(monkeypatch):
    before = {k: v.clone() for k, v in references.load_references().items()}

    def spoils(self, key, query, value, attention_mask):
        with torch.no_grad():
            for tensor in (key, query, value, attention_mask):
                tensor.zero_()
        return (key @ query.mT @ value).transpose(1, 2).flatten(2)

    monkeypatch.setattr(bert.BertSelfAttention, "attention", spoils)
    assert any(finding.kind == "inputs" for finding in jobs.examine(graded_task(ATTENTION)))
    assert ERROR not in outputs_of(ATTENTION)
    after = references.load_references()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


@pytest.mark.parametrize("task_id", properties.TRIALS)
def test_properties_that_are_tried_out_hold(task_id):
    name, trials = properties.TRIALS[task_id]
    stored = references.load_references()
    for tried, changes, expected in trials(stored, outputs_of(task_id)[name]):
        assert is_close(outputs_of(task_id, stored | changes)[name], expected, 1e-6), tried
        assert tried in properties.SENTENCES[task_id]


@pytest.mark.parametrize(
    ("task_id", "switch", "property_"),
    [
        (ATTENTION, "no_softmax", "If all values are 1, every result is 1."),
        (ATTENTION, "no_mask", "If only the values at padding differ from 0,"),
        (ATTENTION, "heads_not_transposed", "If the values of every token are the numbers 0,"),
        (ATTENTION, "key_query_swapped", "If q · k is greater by thousands for one key"),
        (ATTENTION, "no_scale", "If q · k is greater by √W for one key than for all"),
        (ATTENTION, "weights_detached", "The gradients of the result are those of the equation"),
        ("bert.add_norm", "norm_before_residual", "If the same number is added to all numbers of"),
        ("bert.add_norm", "dropout_on_sum", "In training mode, too, the result is that of"),
        ("bert.layer", "relu", "The second call of add_norm gets f = GELU("),
        ("bert.embed", "no_segments", "A token's vector is the norm of a sum that has three"),
        ("optimizer.step", "no_decay", "Weight decay takes α · λ · θ away"),
        ("classifier.init", "no_dropout", "There is a dropout, and its probability is"),
        ("classifier.forward", "no_dropout", "Dropout acts in training mode, and does not act"),
        ("modern.local_mask", "off_by_one", "The mask is of type torch.bool, and True where"),
    ],
)
def test_a_level_says_no_more_than_was_asked_for(task_id, switch, property_, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")  # no line is broken
    with switched(functions()[task_id], frozenset([switch])):
        outcome = jobs.run(task_id)
    screens = []
    for level in (1, 2, 3):
        Report(level=level).end(outcome)
        screens.append(
            [x.strip() for x in capsys.readouterr().out.splitlines() if "--all)" not in x]
        )
    (says,) = [m.says for m in load_table(task_id).mistakes.values() if m.name == switch]
    first = screens[0][:2]
    assert screens[0] == [*first, MORE["property"]]
    assert screens[1][:2] == first
    assert screens[1][2].startswith(f"does not hold: {property_}")
    assert (screens[1][3:], screens[2][:3]) == ([MORE["named"]], screens[1][:3])
    assert screens[2][3].startswith(f"probably: {says}")


def test_the_mistake_that_explains_the_first_line_is_named_first():
    with switched(functions()[ATTENTION], frozenset(["no_dropout", "scale_multiplied"])):
        findings = jobs.examine(graded_task(ATTENTION))
    assert [f.name for f in findings if f.name] == ["scale_multiplied", "no_dropout"]


def test_what_was_measured_is_announced_and_not_denied(capsys):
    for level, *kinds in ((1, "fact", "named"), (3, "property", "fact")):
        findings = tuple(Finding(kind, "it") for kind in kinds)
        Report(level=level).end(Outcome("Task", "wrong", findings=findings))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [lines[1], lines[-1]] == [MORE["fact"], "measured: it"]


def test_flags_of_hints_and_the_courses_first_level(check_here, monkeypatch):
    assert read_settings(references.ROOT)["hints"]["first"] == FIRST_HINT  # in this repository
    monkeypatch.setattr(bert.BertSelfAttention, "attention", lambda *inputs: inputs[1] + 1)
    of_flags = {}
    for flags in ("", "--hint", "--hint --hint", "--hint --hint --hint", "--hints all"):
        of_flags[flags] = check_here("--task", "1.1", *flags.split())[1]
    assert "        no known mistake computes this" in of_flags["--hints all"]
    assert of_flags[""][-1].startswith("or: python sanity_check.py --trace ")
    assert of_flags["--hint --hint"] == of_flags["--hint --hint --hint"] == of_flags["--hints all"]
    monkeypatch.setattr("sanity_check.FIRST_HINT", 2)
    assert check_here("--task", "1.1")[1] == of_flags["--hint"] != of_flags[""]
