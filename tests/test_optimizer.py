"""AdamW against NumPy and torch.optim, and optimizer_test.py against right and wrong optimizers."""

import contextlib
import dataclasses
import re
import sys

import make_optimizer_test
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT, as_process

import optimizer_test
from checks.part1 import adamw_cases, adamw_checks
from checks.part1.adamw_cases import CASES, ORDERS, Case, Group, run_case, start_value
from course.answers import MISTAKES, installed, read
from optimizer import AdamW
from training.files.errors import InputError

BY_NAME = {case.name: case for case in CASES}
TRAJECTORIES = {f"trajectory {case.name}" for case in CASES}
DECAYING = {
    f"trajectory {case.name}"
    for case in CASES
    if any(group.settings.get("weight_decay") for group in case.groups)
}
CORRECTED = TRAJECTORIES - {"trajectory uncorrected"}


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


# Right ones, all to be accepted


class Before(Pieces):
    """The other order of decay."""

    def update(self, p, group):
        p.sub_(self.decay(None, group) * p)
        super().update(p, group)

    def decay(self, rate, group):
        return group["lr"] * group["weight_decay"] if rate is None else 0.0


# Wrong ones, each with one mistake


class NoCorrection(Pieces):
    def rate(self, t, group):
        return group["lr"]


class CoupledL2(Pieces):
    def gradient(self, p, group):
        return p.grad + group["weight_decay"] * p

    def decay(self, rate, group):
        return 0.0


class MomentsForgotten(Pieces):
    def memory(self, p):
        state = super().memory(p)
        state.update(m=torch.zeros_like(p), v=torch.zeros_like(p))
        return state


class NoReturn(Pieces):
    def step(self, closure=None):
        super().step(closure)


class ClosureForgotten(Pieces):
    def step(self, closure=None):
        return super().step()


class AcceptsAnything(Pieces):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, **rest):
        super().__init__(params, **rest)
        for group in self.param_groups:
            for name, value in (("lr", lr), ("betas", betas), ("eps", eps)):
                group[name] = group[name] if group[name] != self.defaults[name] else value


class TakesSparse(Pieces):
    def gradient(self, p, group):
        return p.grad.to_dense()

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None and p.grad.is_sparse:
                    p.grad = p.grad.to_dense()
        return super().step(closure)


class TorchRefusesSparse(Pieces):
    """Torch's NotImplementedError is a RuntimeError, but no check for sparse gradients."""

    def step(self, closure=None):
        if any(p.grad.is_sparse for p in self.param_groups[0]["params"] if p.grad is not None):
            raise NotImplementedError("Could not run 'aten::sqrt' with the 'SparseCPU' backend")
        return super().step(closure)


class Uphill(Pieces):
    def gradient(self, p, group):
        return -p.grad


class NotANumber(Pieces):
    def rate(self, t, group):
        return float("nan") if t == 3 else super().rate(t, group)


class Noisy(Pieces):
    def gradient(self, p, group):
        return p.grad * (1 + 1e-9 * torch.rand((), dtype=torch.float64))


class ShapeChanged(Pieces):
    def update(self, p, group):
        super().update(p, group)
        p.data = p.data[None]


class MixedOrders(Before):
    """Decays before the update, unless there are several groups."""

    def update(self, p, group):
        (Before if len(self.param_groups) == 1 else Pieces).update(self, p, group)

    def decay(self, rate, group):
        return (Before if len(self.param_groups) == 1 else Pieces).decay(self, rate, group)


# A class or a stored mistake, the checks which must fail and no others, one of them, and what it
# must say (a regex).
STEPPING = TRAJECTORIES | {"determinism", "convergence", "closure", "gradient kept"}
SEVERAL = {f"trajectory {case.name}" for case in CASES if len(case.shapes) > 1}
FIRST = r"first differs at step 1, parameter 0, index \(0, 0\): got -?\d\S*, wanted -?\d\S*\n\(off"
SECOND = r"first differs at step 2, parameter 0, index \(0, \d\): got"
AFTER = r", compared with decay after the update \(Loshchilov & Hutter, ours\)$"
PLAIN, DECAY = "trajectory plain", "trajectory decay"
WRONG = [
    (NoCorrection, CORRECTED, PLAIN, FIRST),
    ("correct_bias_ignored", {"trajectory uncorrected"}, "trajectory uncorrected", FIRST),
    ("first_moment_corrected_only", CORRECTED, PLAIN, FIRST),
    ("second_moment_corrected_only", CORRECTED, PLAIN, FIRST),
    ("step_from_zero", STEPPING - {"trajectory uncorrected"}, PLAIN,
     r"^ZeroDivisionError: float division by zero \(optimizer\.py"),
    ("eps_inside_root", TRAJECTORIES, "trajectory large_eps", FIRST),
    (CoupledL2, DECAYING, DECAY, AFTER),
    ("decay_without_lr", DECAYING, DECAY, AFTER),
    ("decay_with_corrected_lr", DECAYING - {"trajectory uncorrected"}, DECAY, AFTER),
    ("no_decay", DECAYING, DECAY, AFTER),
    (MomentsForgotten, TRAJECTORIES, PLAIN, SECOND),
    ("moments_shared", SEVERAL, "trajectory large_eps", "at step 1, parameter 1, index"),
    ("state_not_saved", {"trajectory resume"}, "trajectory resume", "at step 6, parameter 0"),
    ("step_count_of_the_group", {"trajectory missing_gradients"}, "trajectory missing_gradients",
     "at step 2, parameter 1"),
    ("first_group_for_all", {"trajectory groups"}, "trajectory groups", "at step 1, parameter 2"),
    ("lr_from_defaults", {"trajectory groups", "trajectory schedule"}, "trajectory schedule",
     "at step 6"),
    ("gradient_changed", {"gradient kept"}, "gradient kept",
     r"^step 1 changed p.grad in place:\nit was \[0.25, .*\nit is  \[0.0625, "),
    (NoReturn, {"closure"}, "closure", r"returned None, wanted its loss, 5\.0"),
    (ClosureForgotten, {"closure"}, "closure", "called the closure 0 times, wanted once"),
    (AcceptsAnything, {"arguments"}, "arguments", "lr=-1.0.* was accepted, wanted a ValueError"),
    (TakesSparse, {"sparse gradients"}, "sparse gradients", "raised no RuntimeError"),
    (TorchRefusesSparse, {"sparse gradients"}, "sparse gradients", "raised no RuntimeError"),
    (Uphill, TRAJECTORIES | {"convergence"}, "convergence", r"the loss went from 4\.859 to "),
    (NotANumber, TRAJECTORIES | {"convergence"}, PLAIN, "at step 3, .* got nan, wanted"),
    (Noisy, {"determinism"}, "determinism", "two runs of case .* first differ at step "),
    (ShapeChanged, STEPPING, PLAIN, r"from shape \(2, 3\) into shape \(1, 2, 3\)$"),
    (MixedOrders, {"order of decay"}, "order of decay",
     "^before the update in trajectory long, after the update in trajectory groups$"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "failing", "name", "message"),
    WRONG,
    ids=[getattr(row[0], "__name__", row[0]) for row in WRONG],
)
def test_checker_names_each_mistake(wrong, failing, name, message, monkeypatch):
    # Without the published protocol: in float32 some mistakes are hardly larger than rounding.
    sharp = [check for check in adamw_checks.CHECKS if check[0] != "published protocol"]
    monkeypatch.setattr(adamw_checks, "CHECKS", sharp)
    with contextlib.ExitStack() as opened:
        if isinstance(wrong, str):
            answer = read(MISTAKES, f"optimizer.step/{wrong}")
            wrong = opened.enter_context(installed(answer)).AdamW
        found = {r.name: r.detail for r in adamw_checks.check_all(wrong) if not r.passed}
    assert set(found) == failing
    assert re.search(message, found[name])
    assert max(detail.count("\n") for detail in found.values()) <= 2


def test_published_protocol_sees_a_missing_correction():
    with pytest.raises(adamw_cases.CheckFailed, match="after 1000 steps weight"):
        adamw_checks.check_published(NoCorrection)


@pytest.mark.parametrize(
    ("opt_class", "order"),
    [(AdamW, "after"), (Pieces, "after"),
     (Before, "before")],
)  # fmt: skip
def test_checker_accepts_both_orders_and_other_ways(opt_class, order):
    results = adamw_checks.check_all(opt_class)
    assert [r for r in results if not r.passed] == []
    assert (results[-1].name, results[-1].about) == ("order of decay", ORDERS[order])


def test_published_weight_is_returned():
    weight = optimizer_test.test_optimizer(AdamW)
    assert (weight.shape, weight.dtype, weight.requires_grad) == ((2, 3), torch.float32, False)


# ---------------------------------------------------------------------------------------------
# Our AdamW beside the NumPy program and torch.optim


@pytest.mark.parametrize(
    ("dtype", "steps", "near"), [(torch.float64, None, 1e-12), (torch.float32, 20, 1e-6)]
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_equals_numpy(case, dtype, steps, near):
    case = dataclasses.replace(case, steps=steps or case.steps)
    wanted = make_optimizer_test.trajectory(case, "after", 0)
    np.testing.assert_allclose(run_case(AdamW, case, dtype), wanted, rtol=near, atol=near)


@st.composite
def any_case(draw) -> Case:
    hyper = {
        "lr": draw(st.floats(1e-6, 0.1)),
        "betas": (draw(st.floats(0, 0.99)), draw(st.floats(0, 0.9999))),
        "eps": draw(st.floats(1e-8, 1.0)),
        "weight_decay": draw(st.floats(0, 1)),
        "correct_bias": draw(st.booleans()),
    }
    moment = st.tuples(st.integers(1, 8), st.integers(0, 1))
    return Case(
        "drawn",
        "",
        (Group(((2, 2), (3,)), hyper),),
        steps=8,
        scale=draw(st.floats(1e-6, 1e3)),
        missing=tuple(draw(st.sets(moment, max_size=4))),
        resume_at=draw(st.integers(0, 8)),
        halve_lr_at=draw(st.integers(0, 8)),
    )


@settings(max_examples=60, deadline=None)
@given(case=any_case())
def test_equals_numpy_for_any_hyper_parameters(case):
    for opt_class, order in ((AdamW, "after"), (Before, "before")):
        wanted = make_optimizer_test.trajectory(case, order, 0)
        bound = 1e-12 * max(1.0, np.abs(wanted).max())  # relative to the largest excursion
        np.testing.assert_allclose(run_case(opt_class, case), wanted, rtol=0, atol=bound)


def steps(opt_class, start: torch.Tensor, **hyper) -> torch.Tensor:
    """20 steps on random gradients, the same ones each time: (20, numbers)."""
    generator = torch.Generator().manual_seed(1)
    parameter = torch.nn.Parameter(start.clone())
    optimizer = opt_class([parameter], **hyper)
    history = []
    for _ in range(20):
        parameter.grad = torch.randn(start.shape, generator=generator, dtype=start.dtype)
        optimizer.step()
        history.append(parameter.detach().clone())
    return torch.stack(history)


START = torch.as_tensor(start_value(0, (6,)))


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.9), (0.0, 0.99)])
def test_equals_torch_where_eps_does_not_matter(betas):
    # torch adds ε to the corrected root, we to the plain one: equal only for ε = 0.
    hyper = {"lr": 0.05, "betas": betas, "eps": 0.0, "weight_decay": 0.0}
    torch.testing.assert_close(
        steps(AdamW, START, **hyper), steps(torch.optim.AdamW, START, **hyper), rtol=0, atol=1e-12
    )


def test_equals_torch_with_decay_up_to_its_order():
    # torch decays before the update. With fixed gradients, decaying after it is the same as
    # starting from θ₀ / (1 − αλ) and taking one more factor (1 − αλ) off every result.
    hyper = {"lr": 0.05, "eps": 0.0, "weight_decay": 0.5}
    torchs = steps(torch.optim.AdamW, START, **hyper)
    torch.testing.assert_close(steps(Before, START, **hyper), torchs, rtol=0, atol=1e-12)
    keep = 1 - hyper["lr"] * hyper["weight_decay"]
    ours = steps(AdamW, START * keep, **hyper)
    torch.testing.assert_close(ours, keep * torchs, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "setting",
    [{"lr": -1e-9}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"eps": -1e-9},
     {"weight_decay": -0.1}],
)  # fmt: skip
def test_argument_errors_name_the_value(setting):
    value = np.ravel(next(iter(setting.values())))
    with pytest.raises(ValueError, match="must be at least 0") as error:
        AdamW([torch.nn.Parameter(torch.zeros(1))], **setting)
    assert any(str(v) in str(error.value) for v in value)


# ---------------------------------------------------------------------------------------------
# The file of references and the script


def test_reference_needs_no_pickle_and_is_made_again_to_the_byte(tmp_path, monkeypatch):
    stored = np.load(adamw_cases.REFERENCE, allow_pickle=False)
    trajectories = {"seed", *BY_NAME, "published"}
    assert set(stored.dtype.names) == trajectories | {"mistakes", "fingerprints"}
    assert not stored.dtype.hasobject
    assert b"pickle" not in adamw_cases.REFERENCE.read_bytes()
    monkeypatch.setattr(sys, "argv", ["make_optimizer_test", "--out", str(tmp_path / "new.npy")])
    make_optimizer_test.main()
    made = np.load(tmp_path / "new.npy", allow_pickle=False)
    assert set(made.dtype.names) == trajectories  # fingerprints are course/fingerprints.py's
    for name in trajectories:
        assert made[name].tobytes() == stored[name].tobytes(), name


def test_orders_differ_far_more_than_the_tolerance():
    reference = adamw_cases.reference()
    for name in BY_NAME:
        gap = np.abs(reference[name]["after"] - reference[name]["before"]).max()
        assert (gap > 100 * adamw_cases.TOLERANCE) == (f"trajectory {name}" in DECAYING)


def test_importing_has_no_side_effects():
    code = "import optimizer_test, sys; assert 'optimizer' not in sys.modules"
    done = as_process("-c", code, folder=ROOT)
    assert (done.code, done.out, done.err) == (0, "", "")


STUB = (
    "import torch\nclass AdamW(torch.optim.Optimizer):\n"
    "    def __init__(self, params, lr=1e-3, **rest):\n"
    "        super().__init__(params, {'lr': lr})\n"
    "    def step(self, closure=None):\n"
)
TITLE = "Task 1.5 · AdamW.step"


@pytest.fixture
def script(tmp_path, monkeypatch, check_here):
    """A function: what optimizer_test.py says of an optimizer.py with that text: status, lines."""

    def function(text: str) -> tuple[int, list[str]]:
        (tmp_path / "optimizer.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "optimizer")
        return check_here("--task", "optimizer.step")

    return function


def test_script_passes_ours(script):
    code, lines = script((ROOT / "optimizer.py").read_text(encoding="utf-8"))
    assert (code, lines) == (
        0,
        [f"  ok    {TITLE}: all of its {len(adamw_checks.CHECKS) + 1} checks", "1 of 1 task right"],
    )


def test_script_says_not_started(script):
    code, lines = script(STUB + "        raise NotImplementedError('Task 1.5')\n")
    assert (code, lines[0]) == (1, f"  not started  {TITLE}")


def test_script_reports_an_exception_once(script):
    bug = STUB + "        self.state['a']['b'] = 1\n        return self.momentum\n"
    code, lines = script(bug)
    assert (code, lines[0]) == (1, f"  WRONG {TITLE}")
    said = "AttributeError: 'AdamW' object has no attribute 'momentum' (optimizer.py:7): an optimiz"
    assert lines[1].startswith("        trajectory plain and ")
    assert said in lines[1]
    assert str(lines).count("momentum' (") == 1


def test_file_that_cannot_be_imported(script):
    code, lines = script("import torch\nclass AdamW(:\n")
    assert code == 1
    assert lines[0].startswith("  WRONG optimizer.py cannot be imported: SyntaxError: ")
    assert "(optimizer.py:2)" in lines[0]


def test_exit_in_the_step_is_no_pass(script):
    code, lines = script(STUB + "        raise SystemExit(0)\n")
    assert code == 1
    assert "SystemExit: 0 (optimizer.py:6)" in lines[1]


def test_line_is_the_students_not_that_of_torchs_own_optimizer_py(script):
    code, lines = script(STUB + "        self.add_param_group({'params': [1]})\n")
    assert code == 1
    assert "(optimizer.py:6)" in lines[1]


def test_missing_reference_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(adamw_cases, "REFERENCE", tmp_path / "optimizer_test.npy")
    adamw_cases.reference.cache_clear()
    with pytest.raises(InputError, match=r"^cannot read optimizer_test\.npy .*git checkout$"):
        adamw_checks.check_all(AdamW)
