"""Mistakes in AdamW that no stored answer makes, two at once, and what the probes measure."""

import contextlib
import itertools
import math
import sys

import pytest
import torch
from support import versions
from test_optimizer import MomentsForgotten

from checks import jobs
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
from optimizer import AdamW

OPTIMIZER = graded_task("optimizer.step")
STEPS = read_all(MISTAKES, OPTIMIZER.id)


def recognise(opt_class):
    outputs = adamw_mistakes.outputs_of(opt_class)
    return adamw_mistakes.mistakes_in(outputs, adamw_mistakes.known_mistakes())[0]


def names(mistakes):
    return {mistake.name for mistake in mistakes}


@pytest.fixture
def quick(monkeypatch):
    """Without the thousand steps of the published protocol."""
    monkeypatch.delitem(adamw_checks.CHECKS, "published protocol")


# ---------------------------------------------------------------------------------------------
# An AdamW in pieces; each wrong or different one below replaces a piece


class Pieces(AdamW):
    """A right AdamW, decay after the update."""

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.is_sparse:
                    raise RuntimeError("no sparse gradients")
                self.update(p, group)
        return loss

    def update(self, p, group):
        state = self.memory(p)
        state["t"] += 1
        beta1, beta2 = group["betas"]
        grad = self.gradient(p, group)
        state["m"] = beta1 * state["m"] + (1 - beta1) * grad
        state["v"] = beta2 * state["v"] + (1 - beta2) * grad**2
        rate = self.rate(state["t"], group)
        p.sub_(rate * state["m"] / self.root(state["v"], group["eps"]))
        p.sub_(self.decay(rate, group) * p)

    def memory(self, p):
        state = self.state[p]
        if not state:
            state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
        return state

    def gradient(self, p, group):
        return p.grad

    def rate(self, t, group):
        if not group["correct_bias"]:
            return group["lr"]
        beta1, beta2 = group["betas"]
        return group["lr"] * (1 - beta2**t) ** 0.5 / (1 - beta1**t)

    def root(self, v, eps):
        return v.sqrt() + eps

    def decay(self, rate, group):
        return group["lr"] * group["weight_decay"]


class Before(Pieces):
    """The other order of decay, which is correct, too."""

    def update(self, p, group):
        p.sub_(self.decay(None, group) * p)
        super().update(p, group)

    def decay(self, rate, group):
        return group["lr"] * group["weight_decay"] if rate is None else 0.0


# ---------------------------------------------------------------------------------------------
# The optimizer's mistakes


@pytest.mark.parametrize(("answer", "version"), versions(read_all(VARIANTS, OPTIMIZER.id)))
def test_a_correct_optimizer_shows_no_mistake_and_no_fact(answer, version):
    with installed(answer, version) as module:
        assert facts(module.AdamW) == []
        assert recognise(module.AdamW) == []


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


# Mistakes that no stored answer makes


class CoupledAndCrashing(Pieces):
    """Coupled decay, and an exception where there are several groups."""

    def gradient(self, p, group):
        return p.grad + group["weight_decay"] * p

    def decay(self, rate, group):
        return 0.0

    def rate(self, t, group):
        return super().rate(t, group) if len(self.param_groups) == 1 else {}["rate"]


class NoCorrection(Pieces):
    def rate(self, t, group):
        return group["lr"]


class NoCorrectionOddDecay(NoCorrection):
    def decay(self, rate, group):
        return 3 * group["lr"] * group["weight_decay"]


def changed(**methods):
    """AdamW in pieces with other methods."""
    return type("Changed", (Pieces,), methods)


def rate(change):
    """AdamW whose step size is ``change`` of the correct one and of the parameter group."""
    return changed(rate=lambda self, t, group: change(Pieces.rate(self, t, group), group))


def explained(opt_class):
    """The names that an optimizer gets, and whether it is said that they are not all."""
    findings = adamw_mistakes.explain(opt_class)
    said = any(finding.text.startswith("that is not all") for finding in findings)
    return {finding.name for finding in findings} - {""}, said


def of_terms(decay=0.0, decoupled=1.0, correct=lambda t, group: (1.0, 1.0), base=Pieces):
    """AdamW with a factor for the decay in the gradient, for that beside it, and two corrections.

    The corrections are those of m and of v as a student may make them, with ε beside the root.
    """

    def rate(self, t, group):
        self.corrections = correct(t, group)
        return group["lr"] / self.corrections[0]

    return type(
        "OfTerms",
        (base,),
        {
            "gradient": lambda self, p, group: p.grad + decay * group["weight_decay"] * p,
            "rate": rate,
            "root": lambda self, v, eps: (v / self.corrections[1]).sqrt() + eps,
            "decay": lambda self, rate, group: decoupled * base.decay(self, rate, group),
        },
    )


def both(t, group, first=False, second=False):
    """Corrections of both moments, each perhaps also where correct_bias is False."""
    beta1, beta2 = group["betas"]
    corrects = group["correct_bias"]
    return (
        1 - beta1**t if corrects or first else 1.0,
        1 - beta2**t if corrects or second else 1.0,
    )


BESIDE = "eps_beside_corrected_root"


@pytest.mark.parametrize(
    ("opt_class", "wanted"),
    [
        (of_terms(correct=both), {BESIDE}),
        (of_terms(correct=both, base=Before), {BESIDE}),
        (of_terms(1.0, 0.0, both), {BESIDE, "coupled_decay"}),
        (of_terms(0.0, 0.0, both), {BESIDE, "no_decay"}),
        (of_terms(0.0, -1.0, both), {BESIDE, "decay_grows"}),
        (of_terms(0.0, -1.0, both, Before), {BESIDE, "decay_grows"}),
        (
            of_terms(correct=lambda t, group: both(t, group, second=True)),
            {BESIDE, "correct_bias_half_ignored"},
        ),
        (
            of_terms(correct=lambda t, group: both(t, group, first=True)),
            {BESIDE, "correct_bias_half_ignored"},
        ),
    ],
)
def test_two_mistakes_leave_nothing_that_only_both_explain(opt_class, wanted):
    assert explained(opt_class) == (wanted, False)


def test_what_one_mistake_does_not_explain_is_said():
    assert explained(NoCorrectionOddDecay) == ({"no_bias_correction"}, True)
    assert explained(CoupledAndCrashing) == ({"coupled_decay"}, True)


class CorrectedAgain(Pieces):
    """Corrected moments are kept; the step size is corrected always, and so is the decay."""

    def update(self, p, group):
        super().update(p, group)
        state, corrections = self.state[p], both(self.state[p]["t"], group)
        for name, correction in zip("mv", corrections, strict=True):
            state[name] = state[name] / correction

    def rate(self, t, group):
        return super().rate(t, group | {"correct_bias": True})

    def decay(self, rate, group):
        return rate * group["weight_decay"]


def test_no_name_contradicts_what_is_computed():
    named, _ = explained(CorrectedAgain)
    assert "decay_with_corrected_lr" in named
    assert "correct_bias_inverted" not in named


@pytest.mark.parametrize("odd", [None, "text", torch.ones(2), torch.ones(()), math.nan])
def test_outputs_of_any_type_are_no_known_mistake(odd):
    """As they may come from the grader's sandbox."""
    given = adamw_mistakes.outputs_of(NoCorrection)
    known = adamw_mistakes.known_mistakes()
    assert names(adamw_mistakes.mistakes_in(given, known)[0]) == {"no_bias_correction"}
    assert adamw_mistakes.mistakes_in(dict.fromkeys(given, odd), known)[0] == []
    assert adamw_mistakes.mistakes_in({}, known) == ([], [])


class StopsAtMissing(Pieces):
    def step(self, closure=None):
        groups = self.param_groups
        for group in groups:
            kept = list(itertools.takewhile(lambda p: p.grad is not None, group["params"]))
            self.param_groups = [{**group, "params": kept}]
            super().step(closure)
        self.param_groups = groups


class MovesAlways(Pieces):
    def step(self, closure=None):
        with torch.no_grad():
            for p in (p for group in self.param_groups for p in group["params"]):
                p.sub_(0.01 * (p.grad is None))
        return super().step(closure)


class Neighbours(Pieces):
    def gradient(self, p, group):
        shared = sum(q.grad.sum() for q in group["params"] if q.grad is not None)
        return p.grad + 0.1 * (shared - p.grad.sum())


SQUARED_DECAY = changed(decay=lambda self, rate, group: group["lr"] ** 2 * group["weight_decay"])


def clipped(tensor, limit):
    return tensor * min(1.0, limit / (float(tensor.norm()) + 1e-12))


class MomentClipped(Pieces):
    def root(self, v, eps):
        for state in self.state.values():
            state["m"] = clipped(state["m"], 1.0)
        return super().root(v, eps)

    def update(self, p, group):
        self.memory(p)
        super().update(p, group)


UNKNOWN = [
    (MomentClipped, "does something bound them"),
    (changed(gradient=lambda self, p, group: clipped(p.grad, 5.0)), "does something bound them"),
    (changed(gradient=lambda self, p, group: p.grad.clamp(-1, 1)), "does something bound them"),
    (
        rate(lambda correct, _: correct / 2),
        "the first update uses 0.15 · g where m = (1 − β₁) · g belongs",
    ),
    (
        changed(rate=lambda self, t, group: Pieces.rate(self, min(t, 2), group)),
        "correct_bias multiplies steps by 1.374, ",
    ),
    (
        rate(lambda correct, group: correct / (1 if group["correct_bias"] else 2)),
        "correct_bias multiplies steps by 2.749, ",
    ),
    (
        changed(root=lambda self, v, eps: v.sqrt() + eps**2 / 2),
        "m is divided by 0.4323, 0.8173, 4.912 where ε is 0.2, 0.9, 3.0 instead of √v + ε",
    ),
    (
        changed(gradient=lambda self, p, group: p.grad.clamp(min=0)),
        "a gradient of −1 moves a parameter otherwise",
    ),
    (SQUARED_DECAY, "weight decay takes off α times α · λ · θ instead of once"),
    (MomentsForgotten, "m keeps nothing of what it was instead of β₁ times that"),
    (Neighbours, "they share state"),
    (MovesAlways, "at which grad is None moves"),
    (StopsAtMissing, "only that one is to be left out"),
    (
        changed(state_dict=lambda self: Pieces.state_dict(self) | {"state": {}}),
        "after state_dict() and load_state_dict()",
    ),
    (changed(root=lambda self, v, eps: v.sqrt() + 1e-5), "has no effect: eps"),
]


@pytest.mark.parametrize(("opt_class", "words"), UNKNOWN)
def test_a_fact_is_measured(opt_class, words):
    assert wrong_parts(Pieces) + facts(Pieces) == []
    assert any(words in text for text in wrong_parts(opt_class) + facts(opt_class))


def test_an_unknown_mistake_gets_its_cause_and_no_name(monkeypatch, quick, check_here):
    half = changed(decay=lambda self, rate, group: group["lr"] * group["weight_decay"] / 2)
    monkeypatch.setattr(sys.modules["optimizer"], "AdamW", half)
    findings = jobs.examine(OPTIMIZER)
    assert not any(finding.name for finding in findings)
    (cause,) = (finding.text for finding in findings if finding.kind in ("cause", "fact"))
    assert (
        cause == "with a gradient of 0 weight decay takes off 0.5 times α · λ · θ instead of once"
    )
    code, lines = check_here("--task", "1.5")
    assert (code, lines[0]) == (1, "  WRONG Task 1.5 · AdamW.step")
    assert f"        cause: {cause}" in lines
    assert "probably" not in str(lines)
