"""Our AdamW beside a NumPy program, by way of the checks of a student's, and torch.optim."""

import dataclasses
import runpy
import sys

import make_optimizer_test
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import optimizer_test
from checks.findings import ROOT
from checks.part1 import adamw_checks
from checks.part1.adamw_checks import CASES, Case, run_case, start_value
from optimizer import AdamW
from training.fast.adamw import fused_step
from training.files.errors import InputError

# The other order of decay, which is correct, too
PATH = ROOT / "course" / "variants" / "optimizer.step" / "decay_before.py"
Before = type("Before", (AdamW,), {"step": runpy.run_path(str(PATH))["CorrectedMoments"].step})
Fused = type("Fused", (AdamW,), {"step": fused_step})


class InTurns(AdamW):
    """A fused step after each plain one, on the same state: each goes on from the other's."""

    def step(self) -> None:
        """Update the parameters."""
        self.count = getattr(self, "count", 0) + 1
        (fused_step if self.count % 2 else AdamW.step)(self)


def test_a_closure_is_called_and_a_sparse_gradient_refused():
    parameter = torch.nn.Parameter(torch.ones(2))
    adamw = AdamW([parameter])
    assert adamw.step(lambda: parameter.square().sum().backward() or 7) == 7
    assert (parameter < 1).all()
    parameter.grad = parameter.grad.to_sparse()
    with pytest.raises(RuntimeError, match="no sparse gradients"):
        adamw.step()


def test_published_weight_is_returned():
    weight = optimizer_test.test_optimizer(AdamW)
    assert (weight.shape, weight.dtype, weight.requires_grad) == ((2, 3), torch.float32, False)


@pytest.mark.parametrize("opt_class", [AdamW, Fused])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_in_float32_it_stays_near_numpy(case, opt_class):
    case = dataclasses.replace(case, steps=20)
    wanted = make_optimizer_test.trajectory(case, "after")
    found = run_case(opt_class, case, torch.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@st.composite
def any_case(draw) -> Case:
    hyper = {
        "lr": draw(st.floats(1e-6, 0.1)),
        # torch.lerp, in Before, loses what a tiny β₂ would keep: v + (1 − β₂)(0 − v) is rounded
        "betas": (draw(st.floats(0, 0.99)), draw(st.just(0.0) | st.floats(0.001, 0.9999))),
        "eps": draw(st.floats(1e-8, 1.0)),
        "weight_decay": draw(st.floats(0, 1)),
        "correct_bias": draw(st.booleans()),
    }
    moments = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 1)).map(list), max_size=4)
    return Case(
        "drawn",
        "",
        [{"shapes": [[2, 2], [3]], **hyper}],
        steps=8,
        scale=draw(st.floats(1e-6, 1e3)),
        missing=draw(moments),
        resume_at=draw(st.integers(0, 8)),
        halve_lr_at=draw(st.integers(0, 8)),
    )


@settings(max_examples=25, deadline=None)
@given(case=any_case())
def test_equals_numpy_for_any_hyper_parameters(case):
    for opt_class in (AdamW, Fused, InTurns, Before):
        wanted = make_optimizer_test.trajectory(case, "before" if opt_class is Before else "after")
        bound = 1e-11 * max(1.0, np.abs(wanted).max())  # relative to the largest excursion
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


def test_equals_torch_with_decay_up_to_its_order():
    # torch decays before the update. With fixed gradients, decaying after it is the same as
    # starting from θ₀ / (1 − αλ) and taking one more factor (1 − αλ) off every result.
    hyper = {"lr": 0.05, "eps": 0.0, "weight_decay": 0.5}
    torchs = steps(torch.optim.AdamW, START, **hyper)
    torch.testing.assert_close(steps(Before, START, **hyper), torchs, rtol=0, atol=1e-12)
    keep = 1 - hyper["lr"] * hyper["weight_decay"]
    ours = steps(AdamW, START * keep, **hyper)
    torch.testing.assert_close(ours, keep * torchs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("opt_class", [AdamW, Fused])
def test_a_rate_that_is_a_tensor_stays_as_it_was(opt_class):
    rate = torch.tensor(0.05, dtype=torch.float64)
    hyper = {"eps": 1e-3, "weight_decay": 0.5}
    ours = steps(opt_class, START, lr=rate, **hyper)
    torch.testing.assert_close(ours, steps(AdamW, START, lr=0.05, **hyper), rtol=0, atol=1e-12)
    assert rate == 0.05


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, x) for name in ("lr", "eps", "weight_decay") for x in (float("nan"), -1)),
        *(("betas", betas) for betas in ((1.0, 0.9), (-0.1, 0.9), (0.9, 1.0), (0.9, -0.1))),
    ],
)
def test_an_impossible_hyper_parameter_is_refused(name, value):
    with pytest.raises(ValueError, match=name.removesuffix("s")):
        AdamW([torch.nn.Parameter(torch.zeros(2))], **{name: value})


def test_reference_needs_no_pickle_and_is_made_again_to_the_byte(tmp_path, monkeypatch):
    assert not np.load(adamw_checks.REFERENCE, allow_pickle=False).dtype.hasobject
    monkeypatch.setattr(sys, "argv", ["make_optimizer_test", "--out", str(tmp_path / "new.npy")])
    make_optimizer_test.main()
    assert (tmp_path / "new.npy").read_bytes() == adamw_checks.REFERENCE.read_bytes()


def test_missing_reference_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(adamw_checks, "REFERENCE", tmp_path / "optimizer_test.npy")
    adamw_checks.reference.cache_clear()
    with pytest.raises(InputError, match=r"^optimizer_test\.npy cannot be read .* from git$"):
        adamw_checks.reference()
