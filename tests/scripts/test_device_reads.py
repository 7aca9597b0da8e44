"""Scripts compare their device with the CPU before the first step, and no step waits for it.

What reads from it is counted over the first steps. A CPU plays the device: what ``to_device``
moves is a copy, and its original is kept as the host's.
Pre-training is left out: it looks for masks on the host, which seems a read here.
"""

import shlex
import sys
from collections.abc import Iterator

import pytest
import torch
from running import draw_nothing, succeeded
from torch.utils._python_dispatch import TorchDispatchMode
from training_scripts import COURSE, SCRIPTS, make_files, module_of

from training.loop import batches, devices
from training.loop import run as loop
from training.loop.run import Run

TECHNIQUES = f"extensions.multitask --option finetune {COURSE} --epochs 1 --steps_per_epoch 12"
MORE = {
    "classifier, finetune": "--only sst",
    "extensions, many techniques": "--epochs 1 --steps_per_epoch 36",  # three batches a step
}
LINES = [  # the contract's, and techniques that these leave out
    *(
        f"{script.command} {script.dropout} {MORE.get(script.name, '')}"
        for script in SCRIPTS
        if "pretraining" not in script.command
    ),
    f"{TECHNIQUES} --sts_loss cosent --para_extra ranking --regulariser smart",
    f"{TECHNIQUES} --regulariser r_drop --pair_encoding cross",
    f"{TECHNIQUES} --adapt lora --rank 4 --similarity cosine --pooling mean --precision bf16",
]


class Reads(TorchDispatchMode):
    """Notes what makes a CPU wait for a device: numbers that are read, and boolean indices."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        super().__init__()
        self.step, self.noted = 0, []
        for name in ("tolist", "cpu"):  # these read without an operator
            method = getattr(torch.Tensor, name)
            monkeypatch.setattr(
                torch.Tensor, name, lambda tensor, m=method, n=name: self.note(n) or m(tensor)
            )

    def note(self, name: str) -> None:
        self.noted.append((self.step, name))

    def __torch_dispatch__(self, function, types, inputs=(), options=None):
        name = str(function.overloadpacket).removeprefix("aten.")
        if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
            indices = [index for index in inputs[1] if index is not None]
            if any(index.dtype == torch.bool for index in indices):
                self.note(name)
        elif name in ("_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "equal"):
            self.note(name)
        return function(*inputs, **(options or {}))

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Look at what a script does with a batch, from forward pass to end of step."""
        all_batches = Run.batches

        def watched(run: Run) -> Iterator[dict]:
            for batch in all_batches(run):
                self.step = run.step + 1
                with self:
                    yield batch
                self.step = 0

        monkeypatch.setattr(Run, "batches", watched)


def copied(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """What to_device does on its way to a real device."""
    moved = tensor.clone()
    moved.host = tensor
    return moved


@pytest.mark.parametrize(("line", "is_due"), [*((line, True) for line in LINES), (LINES[0], False)])
def test_a_device_is_checked_and_a_step_reads_nothing_but_losses_that_are_due(
    line, is_due, run_script_here, tiny_data, monkeypatch, tmp_path
):
    """All losses at once, in every tenth step."""
    make_files(tmp_path)
    (tmp_path / "data").symlink_to(tiny_data)
    draw_nothing(monkeypatch)
    module, (_, *words) = module_of(line), shlex.split(line)
    users = [m for m in sys.modules.values() if vars(m).get("to_device") is batches.to_device]
    for user in users:
        monkeypatch.setattr(user, "to_device", copied)
    monkeypatch.setattr(loop, "READ_EVERY", 10 if is_due else 999)
    monkeypatch.setattr(devices, "REFERENCE", "another")
    reads = Reads(monkeypatch)
    reads.watch(monkeypatch)
    steps, end_step, epochs = [], Run.end_step, Run.epochs
    monkeypatch.setattr(Run, "end_step", lambda run: end_step(run) or steps.append(1))
    monkeypatch.setattr(Run, "epochs", lambda run: print("the run begins") or epochs(run))
    result = succeeded(run_script_here(module, *words, "--use_gpu"))
    assert "device check: cpu computes as the CPU does" in result.out.split("the run begins")[0]
    assert len(steps) >= 10
    noted = [(step, name) for step, name in reads.noted if 0 < step < 20]
    assert noted == ([(10, "tolist")] if is_due else [])


def test_what_was_moved_is_still_on_the_host():
    """And what was not is copied from there."""
    tensor, other = torch.arange(4), torch.ones(2)
    moved = batches.to_device(tensor, torch.device("meta"))
    assert moved.device.type == "meta"
    assert batches.cpu_copy(moved) is tensor
    assert batches.cpu_copy(other).tolist() == [1.0, 1.0]
    assert batches.to_device(tensor, torch.device("cpu")) is tensor
