"""fp16 with loss scaling: the steps of PyTorch's own idiom, steps that overflow, resumed runs."""

import copy
from collections.abc import Iterator

import pytest
import torch
from running import assert_same_tensors
from torch import nn
from torch.nn import functional as F

from optimizer import AdamW
from training.cli.flags import TrainingFlags
from training.loop.run import Run, clip
from training.reports.report import Report

STEPS, OVERFLOWS = 8, (3, 4)  # which steps have an infinite gradient


class Batches(list):
    """Batches in one order, as a training loader of one epoch."""

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        self.skip = skip

    def __iter__(self) -> Iterator[dict]:
        return iter(self[self.skip :])


@pytest.fixture
def loader() -> Batches:
    torch.manual_seed(0)
    inputs, labels = torch.randn(STEPS, 6, 5), torch.randint(0, 3, (STEPS, 6))
    return Batches({"inputs": x, "labels": y} for x, y in zip(inputs, labels, strict=True))


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


def loss_of(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.float16):
        logits = model(inputs)
    return F.cross_entropy(logits.float(), labels)


def spoil(model: nn.Module, step: int) -> None:
    """Make a gradient of this step infinite, as a product beyond float16's numbers is."""
    if step in OVERFLOWS:
        model[0].weight.grad[0, 0] = torch.inf


def trained(model, loader, weights: list[dict], last: int = 0, resume: bool = False) -> Run:
    """The loop of our scripts, interrupted after step ``last``; appends each step's weights."""
    model = copy.deepcopy(model)
    args = TrainingFlags(epochs=1, precision="fp16", resume=resume)
    args.filepath = "run.pt"
    optimizer = AdamW(model.parameters(), lr=0.01)
    with Run(args, model, optimizer, loader, Report("", "", {})) as run:
        for _ in run.epochs():
            for batch in run.batches():
                loss = loss_of(model, **batch)
                run.scale(loss).backward()
                run.log(len(batch["labels"]), loss=loss)
                spoil(model, run.step + 1)
                run.gather_gradients()
                clip(model, 0.05)
                optimizer.step()
                optimizer.zero_grad()
                weights.append(copy.deepcopy(model.state_dict()))
                run.end_step()
                if run.step == last:
                    raise KeyboardInterrupt
            run.end_epoch()
    return run


def by_the_book(model, loader) -> tuple[list[dict], float]:
    """PyTorch's documented loop with GradScaler; → the weights after each step, the last factor."""
    model, scaler = copy.deepcopy(model), torch.amp.GradScaler("cpu")
    optimizer = AdamW(model.parameters(), lr=0.01)
    weights = []
    loader.set_epoch(1)
    for step, batch in enumerate(loader, start=1):
        scaler.scale(loss_of(model, **batch)).backward()
        spoil(model, step)
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        weights.append(copy.deepcopy(model.state_dict()))
    return weights, scaler.get_scale()


def test_steps_are_those_of_pytorchs_loop_also_in_a_run_that_was_resumed(
    model, loader, resumable, monkeypatch, tmp_path
):
    """Those that overflow change nothing and halve the factor; the run goes on."""
    monkeypatch.chdir(tmp_path)
    expected, factor = by_the_book(model, loader)
    weights: list[dict] = []
    with pytest.raises(KeyboardInterrupt):
        trained(model, loader, weights, last=OVERFLOWS[0])
    run = trained(model, loader, weights, resume=True)
    for ours, theirs in zip(weights, expected, strict=True):
        assert_same_tensors(ours, theirs)
    assert run.scaler.get_scale() == factor == 2.0**16 / 4
