"""Mistakes in AdamW that no stored answer makes, two at once, and what the probes measure."""

import contextlib
import itertools
import math

import pytest
import torch
from support import versions
from test_true_sentences import DIVISOR, STEPPING, written

from checks.graded_tasks import graded_task
from checks.part1 import adamw_checks, adamw_mistakes
from checks.part1.adamw_parts import wrong_parts
from checks.part1.adamw_probes import facts
from course.answers import (
    MISTAKES,
    VARIANTS,
    installed,
    installed_source,
    read_all,
    solution_with,
)
from course.hint_table import merged

OPTIMIZER = graded_task("optimizer.step")
STEPS = read_all(MISTAKES, OPTIMIZER.id)


def recognise(opt_class):
    outputs = adamw_mistakes.outputs_of(opt_class)
    return adamw_mistakes.mistakes_in(outputs, adamw_mistakes.known_mistakes())[0]


def names(mistakes):
    return {mistake.name for mistake in mistakes}


def stepping(*changes):
    """While active, optimizer.py has a plain step in which this is in the place of that."""
    step = STEPPING
    for right, wrong in changes:
        assert right in step
        step = step.replace(right, wrong)
    return installed_source("optimizer.py", written(OPTIMIZER.id, step=step))


@pytest.mark.parametrize(("answer", "version"), versions(read_all(VARIANTS, OPTIMIZER.id)))
def test_a_correct_optimizer_shows_no_mistake_and_no_fact(answer, version):
    with installed(answer, version) as module:
        assert wrong_parts(module.AdamW) + facts(module.AdamW) == []
        assert recognise(module.AdamW) == []


# ---------------------------------------------------------------------------------------------
# Known mistakes, alone with the other order of decay, and together


def source_of(*answers):
    """optimizer.py with the plain answer changed as several answers change it, if they fit."""
    methods = merged(OPTIMIZER, answers)
    with contextlib.suppress(SyntaxError):  # of lines that do not fit together
        return methods and solution_with(OPTIMIZER, methods)


def recognised(source):
    with installed_source("optimizer.py", source) as module:
        return names(recognise(module.AdamW))


def test_mistakes_are_recognised_with_the_other_order_of_decay():
    (before,) = (a for a in read_all(VARIANTS, OPTIMIZER.id) if a.name == "decay_before")
    sources = {answer.name: source_of(answer, before) for answer in STEPS}
    found = {name: recognised(source) for name, source in sources.items() if source}
    assert found == {name: {name} for name in found}
    assert len(found) > 0.8 * len(STEPS)


def test_of_two_mistakes_at_least_one_is_named():
    pairs = list(itertools.combinations(STEPS, 2))[::9]
    sources = {(a.name, b.name): source_of(a, b) for a, b in pairs}
    found = {pair: recognised(source) for pair, source in sources.items() if source}
    missed = [pair for pair, said in found.items() if not said & set(pair)]
    assert len(found) > 60
    assert len(missed) <= 0.03 * len(found), missed


# ---------------------------------------------------------------------------------------------
# What no stored answer makes

UPDATE = f'p.sub_(rate * state["m"] / {DIVISOR})\n'
CORRECTION2 = '(1 - beta2 ** state["step"]) ** 0.5 / '
DECAY = '                p.sub_(group["lr"] * group["weight_decay"] * p)\n'
GROWS = DECAY.strip().replace("sub_", "add_")
COUPLED = [
    ("p.grad * p.grad", '(p.grad + group["weight_decay"] * p) ** 2'),
    ("p.grad, alpha", 'p.grad + group["weight_decay"] * p, alpha'),
    (DECAY, ""),
]
NEVER_CORRECTED = ('if group["correct_bias"]:', "if False:")
AGAIN = """
                if group["correct_bias"]:
                    state["m"] = state["m"] / (1 - beta1 ** state["step"])
                    state["v"] = state["v"] / (1 - beta2 ** state["step"])
"""


def beside(condition='group["correct_bias"]'):
    """The moments are corrected apart, and ε is beside the corrected root."""
    correction = f'(1 - beta2 ** state["step"] if {condition} else 1)'
    return (CORRECTION2, "1 / "), (
        DIVISOR,
        DIVISOR.replace('state["v"]', f'(state["v"] / {correction})'),
    )


def explained(*changes):
    """The names that an optimizer gets, and whether it is said that they are not all."""
    with stepping(*changes) as module:
        findings = adamw_mistakes.explain(module.AdamW)
    said = any(finding.text.startswith("that is not all") for finding in findings)
    return {finding.name for finding in findings} - {""}, said


@pytest.mark.parametrize(
    ("changes", "others"),
    [
        ((*beside(), *COUPLED), {"coupled_decay"}),
        ((*beside(), (DECAY, "")), {"no_decay"}),
        (
            ((DECAY, ""), (UPDATE, f"{GROWS}\n{' ' * 16}{UPDATE}"), *beside()),
            {"decay_grows"},
        ),
        (beside("True"), {"correct_bias_half_ignored"}),
    ],
)
def test_two_mistakes_leave_nothing_that_only_both_explain(changes, others):
    assert explained(*changes) == ({"eps_beside_corrected_root"} | others, False)


def test_what_one_mistake_does_not_explain_is_said():
    odd_decay = ("weight_decay", 'weight_decay"] * 3 * group["weight_decay')
    assert explained(NEVER_CORRECTED, odd_decay) == ({"no_bias_correction"}, True)
    of_several = ("rate = group", "rate = {1: 0}[len(self.param_groups)] + group")
    assert explained(*COUPLED, of_several) == ({"coupled_decay"}, True)


def test_no_name_contradicts_what_is_computed():
    """Corrected moments are kept; the step size is corrected always, and so is the decay."""
    kept = (DECAY, DECAY.replace('group["lr"]', "rate") + AGAIN)
    named, _ = explained((NEVER_CORRECTED[0], "if True:"), kept)
    assert "decay_with_corrected_lr" in named
    assert "correct_bias_inverted" not in named


@pytest.mark.parametrize("odd", [None, "text", torch.ones(2), torch.ones(()), math.nan])
def test_outputs_of_any_type_are_no_known_mistake(odd):
    """As they may come from the grader's sandbox."""
    with stepping(NEVER_CORRECTED) as module:
        given = adamw_mistakes.outputs_of(module.AdamW)
    known = adamw_mistakes.known_mistakes()
    assert names(adamw_mistakes.mistakes_in(given, known)[0]) == {"no_bias_correction"}
    assert adamw_mistakes.mistakes_in(dict.fromkeys(given, odd), known)[0] == []
    assert adamw_mistakes.mistakes_in({}, known) == ([], [])


BEGIN, STATE = 'state["step"] += 1', "state = self.state[p]"
EACH_OF_ALL = 'for p in group["params"]:'
EACH = 'for p in (p for p in group["params"] if p.grad is not None):'
UNKNOWN = [
    (BEGIN, f"{BEGIN}; p.grad = p.grad * min(1, 5 / (p.grad.norm() + 1e-12))", "does something bo"),
    (BEGIN, f"{BEGIN}; p.grad = p.grad.clamp(min=0)", "a gradient of −1 moves a parameter other"),
    (BEGIN, 'state["step"] = (state["step"] + 1).clamp(max=2)', "multiplies steps by 1.374, "),
    ('group["eps"]', 'group["eps"] ** 2 / 2', "m is divided by 0.4323, 0.8173, 4.912 where ε is"),
    ('group["eps"]', "1e-5", "has no effect: eps"),
    (
        'group["lr"] * group',
        'group["lr"] ** 2 * group',
        "takes off α times α · λ · θ instead of on",
    ),
    ("if not state:", "if True:", "m keeps nothing of what it was instead of β₁ times that"),
    (
        BEGIN,
        f'{BEGIN}; p.grad = p.grad + sum(q.grad for q in group["params"] if q is not p)',
        "they share state",
    ),
    (
        EACH,
        f"{EACH_OF_ALL}\n            if p.grad is None: p.data -= 0.01; continue",
        "is None moves",
    ),
    (
        EACH,
        f"{EACH_OF_ALL}\n            if p.grad is None: break",
        "only that one is to be left out",
    ),
    (STATE, 'state = vars(self).setdefault("own", {}).setdefault(p, {})', "after state_dict() and"),
]


@pytest.mark.parametrize(("right", "wrong", "words"), UNKNOWN)
def test_a_fact_is_measured(right, wrong, words):
    with stepping((right, wrong)) as module:
        texts = wrong_parts(module.AdamW) + facts(module.AdamW)
    assert any(words in text for text in texts), texts


def test_an_unknown_mistake_gets_its_cause_and_no_name(monkeypatch, check_here):
    monkeypatch.delitem(adamw_checks.CHECKS, "published protocol")  # a thousand steps
    with stepping(('group["weight_decay"] * p', 'group["weight_decay"] * p / 2')):
        code, lines = check_here("--task", "1.5")
    assert (code, lines[0]) == (1, "  WRONG Task 1.5 · AdamW.step")
    cause = "with a gradient of 0 weight decay takes off 0.5 times α · λ · θ instead of once"
    assert [line.strip() for line in lines if "cause" in line] == [f"cause: {cause}"]
    assert "probably" not in str(lines)
