"""AdamW's known mistakes are named, correct versions are not, and what is said is true."""

import runpy
from unittest import mock

import pytest
import torch
from factories import ROOT

import optimizer
from checks.part1 import adamw_checks
from course.make_tables import entry_of, sentences
from course.switches import adamw
from optimizer import AdamW

WORDS = sentences()["optimizer.step"]
SINGLE = [name for wrong in adamw.combinations() if len(wrong) == 1 for name in wrong]
BODY = """
@torch.no_grad()
def step(self, closure=None):
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    for g in self.param_groups:
        for p in g["params"]:
            if p.grad is None:
                continue
            if p.grad.is_sparse:
                raise RuntimeError("no sparse gradients")
            grad = p.grad
            s, (b1, b2) = self.state[p], g["betas"]
            t = s["t"] = s.get("t", 0) + 1
            s["m"] = b1 * s.get("m", torch.zeros_like(p)) + (1 - b1) * grad
            s["v"] = b2 * s.get("v", torch.zeros_like(p)) + (1 - b2) * grad**2
            rate = g["lr"] * ((1 - b2**t) ** 0.5 / (1 - b1**t) if g["correct_bias"] else 1)
            p.sub_(rate * s["m"] / (s["v"].sqrt() + g["eps"]))
            p.sub_(g["lr"] * g["weight_decay"] * p)
    return loss
"""
OWN = '            s, (b1, b2) = self.state[p], g["betas"]\n'
LINES = BODY[BODY.index(OWN) : BODY.index("    return loss")]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Without the thousand steps of the published protocol."""
    monkeypatch.delitem(adamw_checks.PROPERTIES, "published protocol")


def installed(step):
    """A context in which AdamW has this step."""
    return mock.patch.object(optimizer, "AdamW", type("AdamW", (AdamW,), {"step": step}))


def found(step):
    """What the check says of an AdamW with this step: names of mistakes, and all texts."""
    with installed(step):
        findings = adamw_checks.check()
    return {finding.name for finding in findings} - {""}, [finding.text for finding in findings]


def written(*changes):
    """The step of BODY, with texts replaced."""
    source = BODY
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    made = {"torch": torch}
    exec(source, made)
    return made["step"]


def with_switches(*wrong):
    return lambda self, closure=None: adamw.step(frozenset(wrong), self, closure)


@pytest.mark.parametrize("name", SINGLE)
def test_a_switch_is_named(name):
    for order in ([], ["decay_before"]):
        with installed(with_switches(name, *order)):
            mistakes, left = adamw_checks.mistakes_in(adamw_checks.TASK.run({}))
        assert ([mistake.name for mistake in mistakes], left) == ([entry_of(name, WORDS)], [])


@pytest.mark.parametrize("path", sorted(ROOT.glob("course/variants/optimizer.step/*.py")))
def test_a_correct_version_is_no_false_positive(path):
    classes = [made for made in runpy.run_path(str(path)).values() if isinstance(made, type)]
    assert classes
    assert [found(each.step) for each in classes] == [(set(), [])] * len(classes)


NO_DECAY = ('            p.sub_(g["lr"] * g["weight_decay"] * p)\n', "")
EPS_INSIDE = ('s["v"].sqrt() + g["eps"]', '(s["v"] + g["eps"]).sqrt()')
NEVER = ('if g["correct_bias"] else', "if False else")
SWAPPED = ("(b1, b2) =", "(b2, b1) =")
BEHIND = (LINES, LINES.replace("\n    ", "\n")[4:])


@pytest.mark.parametrize(
    ("names", "changes"),
    [
        ({"begins_with_parameter"}, [('s.get("m", torch.zeros_like(p))', 's.get("m", p)')]),
        ({"exponent_is_decay"}, [("1 - b1**t)", '1 - b1 ** g["weight_decay"])')]),
        ({"first_parameter_of_the_group"}, [("p.sub_(rate", 'g["params"][0].sub_(rate'),
          ('p.sub_(g["lr"] * g["weight_decay"] * p)',
           'q = g["params"][0]; q.sub_(g["lr"] * g["weight_decay"] * q)')]),
        ({"update_behind_the_loop"}, [BEHIND]),
        ({"update_behind_both_loops"}, [(LINES, LINES.replace("\n        ", "\n")[8:])]),
        ({"rate_zero_without_correction"}, [('_bias"] else 1', '_bias"] else 0')]),
        ({"no_decay", "no_bias_correction"}, [NO_DECAY, NEVER]),
        ({"no_decay", "eps_inside_root"}, [NO_DECAY, EPS_INSIDE]),
        ({"no_decay", "eps_inside_root", "betas_swapped"}, [NO_DECAY, EPS_INSIDE, SWAPPED]),
    ],
)  # fmt: skip
def test_mistakes_as_students_write_them_are_named(names, changes):
    assert found(written(*changes))[0] == names


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("every update is 3 times what it should be", [("p.sub_(rate", "p.sub_(3 * rate")]),
        ("of 4 parameters these never change: 1",
         [("if p.grad is None:", "if p.grad is None or p.dim() == 2:")]),
        ("that is not all: it does not explain decay",
         [NEVER, ('["weight_decay"] * p', '["weight_decay"] * p.sign()')]),
    ],
)  # fmt: skip
def test_what_is_said_of_other_mistakes_is_true(words, changes):
    assert any(words in text for text in found(written(*changes))[1])
