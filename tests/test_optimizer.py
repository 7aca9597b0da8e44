"""AdamW against NumPy and torch.optim, and optimizer_test.py against right and wrong optimizers."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys

import make_optimizer_test
import numpy as np
import pytest
import torch
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

import optimizer_test
from checks.part1 import adamw
from checks.part1.adamw import CASES, ORDERS, Case, Group, run_case, start_value
from optimizer import AdamW
from training.errors import InputError

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


class Float32Memory(Pieces):
    """The step count a float32 tensor, the moments float32 whatever the parameter is."""

    def memory(self, p):
        state = self.state[p]
        if not state:
            state.update(t=torch.zeros(()), m=torch.zeros(p.shape), v=torch.zeros(p.shape))
        return state

    def update(self, p, group):
        super().update(p, group)
        state = self.state[p]
        state["m"], state["v"] = state["m"].float(), state["v"].float()


class Foreach(Pieces):
    """All parameters of a group at once, in torch's multi-tensor operations."""

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            ps = [p for p in group["params"] if p.grad is not None]
            if any(p.grad.is_sparse for p in ps):
                raise RuntimeError("no sparse gradients")
            if not ps:
                continue
            states = [self.memory(p) for p in ps]
            for state in states:
                state["t"] += 1
            beta1, beta2 = group["betas"]
            gs, ms, vs = [p.grad for p in ps], [s["m"] for s in states], [s["v"] for s in states]
            torch._foreach_lerp_(ms, gs, 1 - beta1)
            torch._foreach_mul_(vs, beta2)
            torch._foreach_addcmul_(vs, gs, gs, 1 - beta2)
            roots = torch._foreach_sqrt(vs)
            torch._foreach_add_(roots, group["eps"])
            rates = [-self.rate(s["t"], group) for s in states]
            torch._foreach_addcdiv_(ps, ms, roots, rates)
            torch._foreach_mul_(ps, 1 - group["lr"] * group["weight_decay"])
        return loss


# Wrong ones, each with one mistake


class NoCorrection(Pieces):
    def rate(self, t, group):
        return group["lr"]


class AlwaysCorrected(Pieces):
    def rate(self, t, group):
        return super().rate(t, group | {"correct_bias": True})


class FirstMomentOnly(Pieces):
    def rate(self, t, group):
        return group["lr"] / (1 - group["betas"][0] ** t if group["correct_bias"] else 1)


class SecondMomentOnly(Pieces):
    def rate(self, t, group):
        return group["lr"] * (1 - group["betas"][1] ** t if group["correct_bias"] else 1) ** 0.5


class StepFromZero(Pieces):
    def rate(self, t, group):
        return super().rate(t - 1, group)


class StepFromTwo(Pieces):
    def rate(self, t, group):
        return super().rate(t + 1, group)


class EpsInsideRoot(Pieces):
    def root(self, v, eps):
        return (v + eps).sqrt()


class CoupledL2(Pieces):
    def gradient(self, p, group):
        return p.grad + group["weight_decay"] * p

    def decay(self, rate, group):
        return 0.0


class DecayWithoutRate(Pieces):
    def decay(self, rate, group):
        return group["weight_decay"]


class DecayWithCorrectedRate(Pieces):
    def decay(self, rate, group):
        return rate * group["weight_decay"]


class NoDecay(Pieces):
    def decay(self, rate, group):
        return 0.0


class MomentsForgotten(Pieces):
    def memory(self, p):
        state = super().memory(p)
        state.update(m=torch.zeros_like(p), v=torch.zeros_like(p))
        return state


class MomentsShared(Pieces):
    """Parameters of one shape share one memory."""

    def memory(self, p):
        return self.state.setdefault(
            str(p.shape), {"t": 0, "m": torch.zeros_like(p), "v": torch.zeros_like(p)}
        )


class StateOutsideState(Pieces):
    """Right until it is saved: state_dict knows nothing of it."""

    def memory(self, p):
        self.own = getattr(self, "own", {})
        zeros = {"t": 0, "m": torch.zeros_like(p), "v": torch.zeros_like(p)}
        return self.own.setdefault(p, zeros)


class OneStepCount(Pieces):
    """One count for the whole optimizer, so steps without a gradient count too."""

    def step(self, closure=None):
        for p in (p for group in self.param_groups for p in group["params"]):
            self.memory(p)["t"] += p.grad is None
        return super().step(closure)


class FirstGroupOnly(Pieces):
    def update(self, p, group):
        super().update(p, self.param_groups[0])


class RateKept(Pieces):
    """Takes lr from the constructor, so a schedule has no effect."""

    def rate(self, t, group):
        return super().rate(t, group | {"lr": self.defaults["lr"]})


class GradientChanged(Pieces):
    def gradient(self, p, group):
        grad = p.grad.clone()
        p.grad.mul_(0.5)
        return grad


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


# Class, the checks which must fail and no others, one of them, and what it must say (a regex).
STEPPING = TRAJECTORIES | {"determinism", "convergence", "closure", "gradient kept"}
TWIN_SHAPES = {f"trajectory {c.name}" for c in CASES if len(set(c.shapes)) < len(c.shapes)}
FIRST = r"first differs at step 1, parameter 0, index \(0, 0\): got -?\d\S*, wanted -?\d\S*\n\(off"
SECOND = r"first differs at step 2, parameter 0, index \(0, \d\): got"
AFTER = r", compared with decay after the update \(Loshchilov & Hutter, ours\)$"
PLAIN, DECAY = "trajectory plain", "trajectory decay"
WRONG = [
    (NoCorrection, CORRECTED, PLAIN, FIRST),
    (AlwaysCorrected, {"trajectory uncorrected"}, "trajectory uncorrected", FIRST),
    (FirstMomentOnly, CORRECTED, PLAIN, FIRST),
    (SecondMomentOnly, CORRECTED, PLAIN, FIRST),
    (StepFromZero, STEPPING - {"trajectory uncorrected"}, PLAIN,
     r"^ZeroDivisionError: float division by zero \(test_optimizer"),
    (StepFromTwo, CORRECTED, PLAIN, FIRST),
    (EpsInsideRoot, TRAJECTORIES, "trajectory large_eps", FIRST),
    (CoupledL2, DECAYING, DECAY, AFTER),
    (DecayWithoutRate, DECAYING, DECAY, AFTER),
    (DecayWithCorrectedRate, DECAYING - {"trajectory uncorrected"}, DECAY, AFTER),
    (NoDecay, DECAYING, DECAY, AFTER),
    (MomentsForgotten, TRAJECTORIES, PLAIN, SECOND),
    (MomentsShared, TWIN_SHAPES, "trajectory large_eps", "at step 1, parameter 1, index"),
    (StateOutsideState, {"trajectory resume"}, "trajectory resume", "at step 6, parameter 0"),
    (OneStepCount, {"trajectory missing_gradients"}, "trajectory missing_gradients",
     "at step 2, parameter 1"),
    (FirstGroupOnly, {"trajectory groups"}, "trajectory groups", "at step 1, parameter 2"),
    (RateKept, {"trajectory groups", "trajectory schedule"}, "trajectory schedule", "at step 6"),
    (GradientChanged, {"gradient kept"}, "gradient kept",
     r"^step 1 changed p.grad in place:\nit was \[0.25, .*\nit is  \[0.125, "),
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
    ("opt_class", "failing", "name", "message"), WRONG, ids=[row[0].__name__ for row in WRONG]
)
def test_checker_names_each_mistake(opt_class, failing, name, message, monkeypatch):
    # Without the published protocol: in float32 some mistakes are hardly larger than rounding.
    sharp = [check for check in adamw.CHECKS if check[0] != "published protocol"]
    monkeypatch.setattr(adamw, "CHECKS", sharp)
    found = {r.name: r.detail for r in adamw.check_all(opt_class) if not r.passed}
    assert set(found) == failing
    assert re.search(message, found[name])
    assert max(detail.count("\n") for detail in found.values()) <= 2


def test_published_protocol_sees_a_missing_correction():
    with pytest.raises(adamw.CheckFailed, match="after 1000 steps weight"):
        adamw.check_published(NoCorrection)


@pytest.mark.parametrize(
    ("opt_class", "order"),
    [(AdamW, "after"), (Pieces, "after"), (Foreach, "after"), (Float32Memory, "after"),
     (Before, "before")],
)  # fmt: skip
def test_checker_accepts_both_orders_and_other_ways(opt_class, order):
    results = adamw.check_all(opt_class)
    assert [r for r in results if not r.passed] == []
    assert (results[-1].name, results[-1].about) == ("order of decay", ORDERS[order])


def test_published_weight_is_returned():
    weight = optimizer_test.test_optimizer(AdamW)
    assert (weight.shape, weight.dtype, weight.requires_grad) == ((2, 3), torch.float32, False)


# ---------------------------------------------------------------------------------------------
# Our AdamW beside the NumPy program and torch.optim


@pytest.mark.parametrize("name", list(BY_NAME))
def test_equals_numpy_in_float64(name):
    wanted = make_optimizer_test.trajectory(BY_NAME[name], "after", 0)
    np.testing.assert_allclose(run_case(AdamW, BY_NAME[name]), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", list(BY_NAME))
def test_equals_numpy_in_float32(name):
    case = dataclasses.replace(BY_NAME[name], steps=20)
    wanted = make_optimizer_test.trajectory(case, "after", 0)
    np.testing.assert_allclose(run_case(AdamW, case, torch.float32), wanted, rtol=1e-6, atol=1e-6)


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
    stored = np.load(adamw.REFERENCE, allow_pickle=False)
    trajectories = {"seed", *BY_NAME, "published"}
    assert set(stored.dtype.names) == trajectories | {"mistakes", "fingerprints"}
    assert not stored.dtype.hasobject
    assert b"pickle" not in adamw.REFERENCE.read_bytes()
    monkeypatch.setattr(sys, "argv", ["make_optimizer_test", "--out", str(tmp_path / "new.npy")])
    make_optimizer_test.main()
    made = np.load(tmp_path / "new.npy", allow_pickle=False)
    assert set(made.dtype.names) == trajectories  # fingerprints are course/fingerprints.py's
    for name in trajectories:
        assert made[name].tobytes() == stored[name].tobytes(), name


def test_orders_differ_far_more_than_the_tolerance():
    reference = adamw.reference()
    for name in BY_NAME:
        gap = np.abs(reference[name]["after"] - reference[name]["before"]).max()
        assert (gap > 100 * adamw.TOLERANCE) == (f"trajectory {name}" in DECAYING)


def test_importing_has_no_side_effects():
    code = "import optimizer_test, sys; assert 'optimizer' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


STUB = (
    "import torch\nclass AdamW(torch.optim.Optimizer):\n"
    "    def __init__(self, params, lr=1e-3, **rest):\n"
    "        super().__init__(params, {'lr': lr})\n"
    "    def step(self, closure=None):\n"
)
TITLE = "Task 1.5 · AdamW.step"


@pytest.fixture
def student(tmp_path):
    """A folder like a student's, without optimizer.py."""
    for folder in ("checks", "training"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("part2"))
    for path in ROOT.glob("optimizer_*"):
        shutil.copy(path, tmp_path)
    return tmp_path


def run_script(folder):
    command = [sys.executable, "optimizer_test.py"]
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, encoding="utf-8", env=environment
    )


def test_script_passes_ours(student):
    shutil.copy(ROOT / "optimizer.py", student)
    done = run_script(student)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert all(line.startswith("ok    ") for line in lines[:-1])
    assert lines[-2] == "ok    order of decay: " + ORDERS["after"]
    count = len(adamw.CHECKS) + 1
    assert lines[-1] == f"{TITLE}: {count} of {count} checks passed"


def test_script_says_not_started(student):
    stub = STUB + "        raise NotImplementedError('Task 1.5')\n"
    (student / "optimizer.py").write_text(stub, encoding="utf-8")
    done = run_script(student)
    assert (done.returncode, done.stdout, done.stderr) == (1, f"{TITLE}: not started\n", "")


REST = "param_groups, step"


def test_script_reports_an_exception_in_one_line(student):
    bug = STUB + "        self.state['a']['b'] = 1\n        return self.momentum\n"
    (student / "optimizer.py").write_text(bug, encoding="utf-8")
    done = run_script(student)
    assert (done.returncode, done.stderr) == (1, "")
    said = "      AttributeError: 'AdamW' object has no attribute 'momentum' (optimizer.py:7)"
    lines = done.stdout.splitlines()
    assert lines[0] == "FAIL  trajectory plain: Adam, no weight decay"
    assert lines[1] == f"{said}: an optimizer has no momentum: there are defaults, state, {REST}"
    assert "Traceback" not in done.stdout


def run_main(monkeypatch, folder, text):
    """optimizer_test.main() with that optimizer.py, in this process: the argument of sys.exit."""
    (folder / "optimizer.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "optimizer")
    with pytest.raises(SystemExit) as stop:
        optimizer_test.main()
    return stop.value.code


def test_file_that_cannot_be_imported(tmp_path, monkeypatch):
    said = run_main(monkeypatch, tmp_path, "import torch\nclass AdamW(:\n")
    assert said.startswith(f"{TITLE}: optimizer.py cannot be imported\n      SyntaxError: ")
    assert "(optimizer.py:2): " in said
    assert said.endswith(f"\n{' ' * 12}class AdamW(:\n{' ' * 24}^")


def test_exit_in_the_step_is_no_pass(tmp_path, monkeypatch, capsys):
    assert run_main(monkeypatch, tmp_path, STUB + "        raise SystemExit(0)\n") == 1
    assert "SystemExit: 0 (optimizer.py:6)" in capsys.readouterr().out


def test_line_is_the_students_not_that_of_torchs_own_optimizer_py(tmp_path, monkeypatch, capsys):
    bug = STUB + "        self.add_param_group({'params': [1]})\n"
    assert run_main(monkeypatch, tmp_path, bug) == 1
    assert "(optimizer.py:6)" in capsys.readouterr().out


def test_missing_reference_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(adamw, "REFERENCE", tmp_path / "optimizer_test.npy")
    adamw.reference.cache_clear()
    with pytest.raises(InputError, match=r"^cannot read optimizer_test\.npy .*git checkout$"):
        adamw.check_all(AdamW)
