"""Scripts compare their device with the CPU before the first step, and no step waits for it.

What reads from it is counted over the first steps. A CPU plays the device: what ``to_device``
moves is a copy, and its original is kept as the host's.
pretraining/pretrain.py has its row in test_pretrain.py.
"""

import sys
from collections.abc import Iterator

import pytest
import torch
from factories import NO_DROPOUT, save_sentiment_checkpoint, save_tiny_model
from running import draw_nothing, succeeded
from test_heads import question_files, tagged_files
from torch.utils._python_dispatch import TorchDispatchMode

import classifier
import multitask_classifier
from extensions import multitask
from lessons import distil, question_answering, token_classifier
from training.loop import batches, devices
from training.loop import run as loop
from training.loop.run import Run

CPU = torch.device("cpu")
TASKS = "--option finetune --steps_per_epoch 12 --batch_size 4"
ROWS = [  # script, further flags
    (classifier, "--option finetune --only sst --batch_size 2 --clip 1 --accumulate 2"),
    (classifier, "--option pretrain --only sst --batch_size 2 --precision bf16"),
    (multitask_classifier, TASKS),
    (multitask_classifier, "--option pretrain --steps_per_epoch 12"),
    (multitask, TASKS),
    (multitask, f"{TASKS} --steps_per_epoch 36 --gradients pcgrad"),  # three batches a step
    (multitask, f"{TASKS} --regulariser smart --sts_loss cosent"),
    (multitask, f"{TASKS} --para_extra ranking --sts_extra simcse"),
    (multitask, f"{TASKS} --regulariser r_drop --pair_encoding cross"),
    (multitask, f"{TASKS} --pals 12 --pal_heads 2 --precision bf16"),
    (multitask, f"{TASKS} --adapt lora --rank 4 --similarity cosine --pooling mean"),
    (token_classifier, "--batch_size 3 --compile"),
    (question_answering, "--batch_size 3 --precision bf16"),
    (distil, "--batch_size 2"),
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


@pytest.fixture
def line(request, tiny_model_folder, tiny_data, tmp_path) -> list[str]:
    """The command line of a script, without its further flags: one epoch on small files."""
    script, more = request.param
    flags = [*"--epochs 1 --lr 1e-3 --precision fp32".split(), *more.split()]
    if script is distil:
        save_tiny_model(tmp_path / "teacher", num_hidden_layers=4, **NO_DROPOUT)
        file = tmp_path / "sst.pt"
        save_sentiment_checkpoint(file, tmp_path / "teacher", labels=5, dropout=0.0)
        data = [f"--{name}={tiny_data}/ids-sst-{name}.csv" for name in ("train", "dev")]
        return ["--teacher", str(file), *data, *flags]
    flags += ["--model", str(tiny_model_folder)]
    if script in (token_classifier, question_answering):
        files = tagged_files if script is token_classifier else question_files
        return [*files(tmp_path), "--length", "32", *flags]
    return ["--data_dir", str(tiny_data), *flags]


@pytest.mark.parametrize(
    ("script", "line", "is_due"),
    [*((row[0], row, True) for row in ROWS), (classifier, ROWS[0], False)],
    ids=[*(f"{script.__name__} {more}" for script, more in ROWS), "not due"],
    indirect=["line"],
)
def test_a_device_is_checked_and_a_step_reads_nothing_but_losses_that_are_due(
    script, line, is_due, run_script_here, monkeypatch
):
    """All losses at once, in every tenth step."""
    draw_nothing(monkeypatch)
    users = [m for m in sys.modules.values() if vars(m).get("to_device") is batches.to_device]
    for module in users:
        monkeypatch.setattr(module, "to_device", copied)
    monkeypatch.setattr(loop, "READ_EVERY", 10 if is_due else 999)
    monkeypatch.setattr(devices, "REFERENCE", "another")
    reads = Reads(monkeypatch)
    reads.watch(monkeypatch)
    steps = []
    end_step = Run.end_step
    monkeypatch.setattr(Run, "end_step", lambda run: end_step(run) or steps.append(1))
    epochs = Run.epochs
    monkeypatch.setattr(Run, "epochs", lambda run: print("the run begins") or epochs(run))
    result = succeeded(run_script_here(script, *line, "--use_gpu"))
    assert "device check: cpu computes as the CPU does" in result.out.split("the run begins")[0]
    assert len(steps) >= 10
    noted = [(step, name) for step, name in reads.noted if 0 < step < 20]
    assert noted == ([(10, "tolist")] if is_due else [])


def test_what_was_moved_is_still_on_the_host(monkeypatch):
    """And what was not is copied from there."""
    tensor, other = torch.arange(4), torch.ones(2)
    moved = batches.to_device(tensor, torch.device("meta"))
    assert moved.device.type == "meta"
    assert batches.cpu_copy(moved) is tensor
    assert batches.cpu_copy(other).tolist() == [1.0, 1.0]
    assert batches.to_device(tensor, CPU) is tensor
