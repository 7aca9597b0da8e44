"""What the machine is like: how many cores are idle; memory that is full."""

import os
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
import torch
from running import assert_refused, at_call, succeeded

from optimizer import AdamW
from training.loop import devices
from training.loop.checkpoints import load_checkpoint


@pytest.fixture
def four_threads(monkeypatch) -> Iterator[None]:
    """A process that would take four threads, and whose user has chosen nothing."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    devices.take_idle_cores.cache_clear()
    yield
    torch.set_num_threads(before)
    devices.take_idle_cores.cache_clear()


@pytest.mark.parametrize(
    ("load", "chosen", "threads"),
    [
        ("0.10 0.5 0.5 1/200 9", None, 4),
        ("1.20 0.5 0.5 2/200 9", None, 3),
        ("4.00 0.5 0.5 5/200 9", None, 1),
        ("4.00 0.5 0.5 5/200 9", "OMP_NUM_THREADS", 4),
        ("4.00 0.5 0.5 5/200 9", "MKL_NUM_THREADS", 4),
        ("4.00 0.5 0.5 1/200 9", None, 4),  # what ran in the last minute has ended
        ("0.00 0.5 0.5 5/200 9", None, 4),  # a moment's work
        (None, None, 4),
    ],
)
def test_as_many_threads_as_cores_are_idle_unless_the_user_chooses(
    monkeypatch, tmp_path, four_threads, load, chosen, threads
):
    monkeypatch.setattr(devices, "LOAD", tmp_path / "loadavg")
    if load:
        devices.LOAD.write_text(load)
    if chosen:
        monkeypatch.setenv(chosen, "4")
    devices.pick_device(use_gpu=False)
    assert torch.get_num_threads() == threads


def test_a_resumed_run_has_the_threads_it_had(interruptible, four_threads, monkeypatch, tmp_path):
    """Another number may round differently."""
    monkeypatch.setattr(devices, "LOAD", tmp_path / "nowhere")
    torch.set_num_threads(2)
    with monkeypatch.context() as patch:
        at_call(patch, AdamW, "step", 5, Mock(side_effect=KeyboardInterrupt))
        interruptible()
    torch.set_num_threads(1)
    succeeded(interruptible("--resume"))
    assert torch.get_num_threads() == 2


FULL = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has …"),
    RuntimeError("MPS backend out of memory (MPS allocated: 9.06 GB)"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"),
)


@pytest.mark.parametrize("fault", FULL, ids=["CUDA", "MPS", "CPU"])
def test_a_full_device_is_one_line_that_says_how_to_go_on(interruptible, monkeypatch, fault):
    at_call(monkeypatch, AdamW, "step", 4, Mock(side_effect=fault))
    assert_refused(interruptible(), "lower --batch_size", "--resume")
    assert load_checkpoint("sst-classifier.resume")["position"]["step"] == 3


@pytest.mark.parametrize(
    "fault",
    [
        torch.AcceleratorError("CUDA error: device-side assert triggered"),  # a label too large
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        NotImplementedError("cross encoding"),  # which a student's code does not support
    ],
)
def test_a_fault_of_the_program_keeps_its_traceback(interruptible, monkeypatch, fault):
    at_call(monkeypatch, AdamW, "step", 2, Mock(side_effect=fault))
    with pytest.raises(RuntimeError) as caught:
        interruptible()
    assert caught.value is fault
