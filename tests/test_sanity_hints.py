"""What lets a check name mistakes: fingerprints, and what is measured besides."""

import math

import pytest
import torch
from torch import nn

import bert
from checks import jobs
from checks.fingerprints import (
    KnownMistakes,
    Mistake,
    fingerprint_of,
    load_known,
    projections,
    same_projections,
)
from checks.graded_tasks import graded_task
from checks.part1 import explain, references
from course.answers import VARIANTS, installed, read_all
from course.fingerprints import tables_of, words_of

ATTENTION, ADD_NORM, LAYER, EMBED = "bert.attention", "bert.add_norm", "bert.layer", "bert.embed"

# ---------------------------------------------------------------------------------------------
# Fingerprints

torch.manual_seed(0)
OUTPUT = torch.randn(3, 7, 32, dtype=torch.float64)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (OUTPUT, OUTPUT.transpose(0, 1).contiguous().transpose(0, 1), True),
        (OUTPUT, OUTPUT.float().requires_grad_(), True),
        (OUTPUT, OUTPUT + 1e-9, True),
        (1e-12 * OUTPUT, -1e-12 * OUTPUT, True),  # both are rounding of 0
        (1e-3 * OUTPUT, -1e-3 * OUTPUT, False),
        (OUTPUT, OUTPUT.transpose(0, 1), False),
        (OUTPUT, OUTPUT.roll(1, dims=0), False),
        (OUTPUT, OUTPUT * 1.001, False),
        (math.nan * OUTPUT, math.nan * OUTPUT, False),
        (1e20 * OUTPUT.flatten(), 1e20 * torch.cat((OUTPUT.flatten(), torch.zeros(4))), False),
        (OUTPUT, None, False),
    ],
)
def test_the_same_numbers_have_the_same_fingerprint(first, second, same):
    assert same_projections(projections(first), projections(second)) is same


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_a_fingerprint_survives_float32(value):
    mixed = OUTPUT.clone()
    mixed[0, 1, 2] *= value
    projected = projections(mixed)
    assert projected.float().isfinite().all()
    assert same_projections(projected, projected.float()) is (value != 1e300)


def outputs(values=1.0, dropout=1.0):
    return {"values/result": values * OUTPUT, "dropout/result": dropout * OUTPUT}


ERROR = "RuntimeError: The size of tensor a (7) must match the size of tensor b (16) (bert.py:180)"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (ERROR.replace("180", "99"), True),
        (f"{ERROR}: two tensors do not fit", True),
        (ERROR.replace("a (7)", "a (16)").replace("b (16)", "b (7)"), False),
        (ERROR.replace("RuntimeError", "ValueError"), False),
        ("", False),
    ],
)
def test_errors_match_by_type_and_words_without_their_place(other, same):
    assert fingerprint_of(ERROR).matches(fingerprint_of(other)) is same
    assert fingerprint_of(other).matches(fingerprint_of(ERROR)) is same
    assert not fingerprint_of(ERROR).matches(fingerprint_of(outputs()))


def test_errors_match_whatever_address_or_local_variable_they_name():
    unset = "E: cannot access local variable '{}' at {} (a.py:1)"
    first, second = (unset.format(*names) for names in (("alpha", "0x7f01"), ("rate", "0x7f02")))
    assert fingerprint_of(first).matches(fingerprint_of(second))


WORDS = {name: Mistake(name, f"It is {name}.", "Look.", "a paper") for name in ("one", "two")}
KNOWN = KnownMistakes(
    [
        (("one",), fingerprint_of(outputs(values=2))),
        (("two",), fingerprint_of(outputs(values=3, dropout=3))),
        (("two",), fingerprint_of({"values/result": 9 * OUTPUT})),
        (("one", "two"), fingerprint_of(ERROR)),
    ],
    WORDS,
)


@pytest.mark.parametrize("known", [KNOWN, load_known(words_of(KNOWN), tables_of(KNOWN))])
@pytest.mark.parametrize(
    ("outputs_or_error", "decisive", "names"),
    [
        (outputs(values=2), "", ["one"]),
        (outputs(values=3, dropout=3), "", ["two"]),
        ({"values/result": 9 * OUTPUT}, "", ["two"]),
        (ERROR, "", ["one", "two"]),
        (outputs(values=2, dropout=5), "", []),
        (outputs(values=2, dropout=5), "values", ["one"]),
        (outputs(values=2, dropout=5), "gradients", []),  # there are none
        (outputs(values=4), "values", []),
        ({"values/result": OUTPUT}, "", []),
        ("KeyError: 'x' (bert.py:1)", "values", []),
    ],
)
def test_known_mistakes_are_recognised_also_after_storing(known, outputs_or_error, decisive, names):
    mistakes, unexplained = known.find(outputs_or_error, decisive)
    assert [mistake.name for mistake in mistakes] == names
    assert unexplained == (["dropout/result"] if names and decisive else [])


def test_all_outputs_count_before_the_decisive_ones():
    exact = fingerprint_of(outputs(values=2, dropout=7))
    known = KnownMistakes([*KNOWN.answers, (("two",), exact)], WORDS)
    (mistake,), unexplained = known.find(outputs(values=2, dropout=7), "values")
    assert (mistake.text, unexplained) == ("It is two. Look. (read a paper)", [])


def test_right_values_with_unknown_dropout_are_no_known_mistake(monkeypatch):
    """Many mistakes have the right values: these alone must not name one of them."""
    monkeypatch.setattr(bert.BertSelfAttention, "attention", dropout_twice)
    findings = jobs.examine(graded_task(ATTENTION))
    assert findings[0].kind == "dropout"
    assert not any(finding.name for finding in findings)


# ---------------------------------------------------------------------------------------------
# What is measured of functions that make no known mistake


def replaced(monkeypatch, task_id, function):
    """Put a function in the solution's place; the facts about it."""
    owner, name = graded_task(task_id).function.split(".")
    monkeypatch.setattr(getattr(bert, owner), name, function)
    return [finding.text for finding in explain.measured(task_id)]


RIGHT_ATTENTION, RIGHT_EMBED = bert.BertSelfAttention.attention, bert.BertModel.embed


def dropout_twice(self, key, query, value, mask):
    weights = (query @ key.mT / math.sqrt(key.size(-1)) + mask).softmax(-1)
    return (self.dropout(self.dropout(weights)) @ value).transpose(1, 2).flatten(2)


def one_weight_is_all(self, key, query, value, mask):
    """Where dropout takes it, a head gives 0."""
    return RIGHT_ATTENTION(self, key, 1e4 * query, value, mask)


@pytest.mark.parametrize(
    ("task_id", "function", "word"),
    [
        (ATTENTION, one_weight_is_all, "query · key times"),
        (ATTENTION, one_weight_is_all, "acts at the very end"),
        (ATTENTION, lambda self, k, query, *_: query.transpose(1, 2).flatten(2), "weights"),
        (EMBED, lambda self, *given: RIGHT_EMBED(self, *given).transpose(0, 1), "token "),
        (EMBED, lambda self, *given: 3, "dropout"),
        (ADD_NORM, lambda self, input, output, dense_layer, *_: dense_layer, "effect"),
        (ADD_NORM, lambda s, i, o, de, dr, ln: ln(dr(de(o)) / i), "which is not"),
    ],
)
def test_what_cannot_be_measured_is_not_told(task_id, function, word, monkeypatch):
    """No scale of what is no softmax, no pieces in another order, nothing of what is no tensor."""
    told = replaced(monkeypatch, task_id, function)
    assert not any(word in text for text in told), told


@pytest.mark.parametrize("task_id", [ATTENTION, ADD_NORM, EMBED])
def test_nothing_is_measured_of_correct_solutions(task_id):
    for answer in read_all(VARIANTS, task_id):
        with installed(answer):
            assert explain.measured(task_id) == [], answer.name


@pytest.mark.parametrize(
    "function",
    [
        lambda *args, **named: None,
        lambda *args, **named: "text",
        lambda *args, **named: torch.ones(2),
        lambda self, first, *args: {}["key"],
        lambda self, first, *args: first.mul_(math.nan),
        lambda self, *args: nn.Module(),
    ],
    ids=["None", "text", "a shape", "an error", "NaN", "a module"],
)
@pytest.mark.parametrize("task_id", [ATTENTION, ADD_NORM, LAYER, EMBED])
def test_odd_functions_stop_no_probe(task_id, function, monkeypatch):
    replaced(monkeypatch, task_id, function)
    findings = jobs.examine(graded_task(task_id))
    assert findings[0].kind in ("values", "error")
    torch.manual_seed(7)
    state = torch.get_rng_state()
    assert all(finding.kind in ("cause", "fact") for finding in explain.measured(task_id))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_stored_inputs_are_left_alone(monkeypatch):
    before = {k: v.clone() for k, v in references.load_references().items()}

    def spoils(self, key, query, value, attention_mask):
        result = RIGHT_ATTENTION(self, key, query, value, attention_mask)
        for tensor in (key, query, value, attention_mask):
            with torch.no_grad():
                tensor.zero_()
        return 2 * result

    def spoils_the_layer(self, hidden_states, attention_mask):
        attended = self.self_attention(hidden_states, attention_mask)
        attended += hidden_states
        hidden_states += attended
        attention_mask += 1
        return self.add_norm(attended, hidden_states).mul_(2)

    assert replaced(monkeypatch, ATTENTION, spoils)
    assert replaced(monkeypatch, LAYER, spoils_the_layer)
    after = references.load_references()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
