"""What the machine is like: how many cores are idle; memory that is full, a GPU that is lost."""

import os
from collections.abc import Iterator

import pytest
import torch
from running import assert_refused, draw_nothing, left_by, succeeded

import classifier
from optimizer import AdamW
from training.loop import devices
from training.loop.checkpoints import ResumePoint, load_checkpoint

# ---------------------------------------------------------------------------------------------
# Threads


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
    ("load", "threads"),
    [
        ("0.10 0.5 0.5 1/200 9", 4),
        ("1.20 0.5 0.5 2/200 9", 3),
        ("4.00 0.5 0.5 5/200 9", 1),
        ("9.00 0.5 0.5 12/200 9", 1),
        ("4.00 0.5 0.5 1/200 9", 4),  # what ran in the last minute has ended
        ("0.00 0.5 0.5 5/200 9", 4),  # a moment's work
        (None, 4),
    ],
)
def test_as_many_threads_as_cores_are_idle(monkeypatch, tmp_path, four_threads, load, threads):
    monkeypatch.setattr(devices, "LOAD", tmp_path / "loadavg")
    if load:
        devices.LOAD.write_text(load)
    devices.pick_device(use_gpu=False)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_the_user_chooses_the_threads(monkeypatch, tmp_path, four_threads, name):
    monkeypatch.setattr(devices, "LOAD", tmp_path / "loadavg")
    devices.LOAD.write_text("4.00 0.5 0.5 5/200 9")
    monkeypatch.setenv(name, "4")
    devices.pick_device(use_gpu=False)
    assert torch.get_num_threads() == 4


def test_a_resumed_run_has_the_threads_it_had(
    run_script_here, line, four_threads, monkeypatch, tmp_path
):
    """Another number may round differently."""
    draw_nothing(monkeypatch)
    monkeypatch.setattr(devices, "LOAD", tmp_path / "nowhere")
    torch.set_num_threads(2)
    with monkeypatch.context() as patch:
        fail_in_step(patch, 5, KeyboardInterrupt())
        run_script_here(classifier, *line)
    torch.set_num_threads(1)
    succeeded(run_script_here(classifier, *line, "--resume"))
    assert torch.get_num_threads() == 2


# ---------------------------------------------------------------------------------------------
# Faults


@pytest.fixture
def line(tiny_model_folder, tiny_data, monkeypatch) -> list[str]:
    """Seven steps an epoch, each of which leaves a resume point."""
    monkeypatch.setattr(ResumePoint.__init__, "__defaults__", (0.0,))
    places = ["--model", str(tiny_model_folder), "--data_dir", str(tiny_data)]
    shape = "--only sst --option finetune --lr 1e-3 --epochs 2 --batch_size 4"
    return [*shape.split(), *places]


FAULTS = {
    "full": torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 15 GiB"
    ),
    "full MPS": RuntimeError("MPS backend out of memory (MPS allocated: 9.06 GB)"),
    "full CPU": RuntimeError(
        "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: "
        "can't allocate memory: you tried to allocate 4096 bytes"
    ),
    "lost": torch.AcceleratorError(
        "CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously …"
    ),
}


def fail_in_step(monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException) -> None:
    """Let the step of this number end with an error instead of an update."""
    step, steps = AdamW.step, []

    def failing(optimizer: AdamW) -> None:
        steps.append(1)
        if len(steps) == number:
            raise error
        step(optimizer)

    monkeypatch.setattr(AdamW, "step", failing)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_full_or_lost_device_is_one_line_and_the_run_goes_on(
    run_script_here, line, monkeypatch, tmp_path, fault
):
    draw_nothing(monkeypatch)
    for folder in ("untouched", "faulty"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "untouched")
    succeeded(run_script_here(classifier, *line))
    monkeypatch.chdir(tmp_path / "faulty")
    with monkeypatch.context() as patch:
        fail_in_step(patch, 10, FAULTS[fault])
        result = run_script_here(classifier, *line)
    assert_refused(result, "--resume", code=1)
    assert load_checkpoint("sst-classifier.resume")["position"]["step"] == 9
    succeeded(run_script_here(classifier, *line, "--resume"))
    files = ("*.pt", "predictions/*.csv")
    assert left_by(tmp_path / "faulty", *files) == left_by(tmp_path / "untouched", *files)


def test_a_device_that_is_lost_while_a_resume_point_is_written(
    run_script_here, line, monkeypatch, tmp_path
):
    """The one before it stays, and the line does not speak of a full disk."""
    draw_nothing(monkeypatch)
    save, calls = torch.save, []

    def failing(values: dict, file) -> None:
        calls.append(1)
        if len(calls) == 5:
            file.write(b"half of it")
            raise FAULTS["lost"]
        save(values, file)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", failing)
        assert_refused(run_script_here(classifier, *line), "the GPU was lost", code=1)
    assert load_checkpoint("sst-classifier.resume")["position"]["step"] == 4
    assert not list(tmp_path.glob(".*.part"))


def test_a_fault_of_the_program_keeps_its_traceback(run_script_here, line, monkeypatch):
    """Such as a label beyond the last class, which CUDA notices in a kernel."""
    error = torch.AcceleratorError("CUDA error: device-side assert triggered")
    for fault in (error, RuntimeError("mat1 and mat2 shapes cannot be multiplied")):
        with monkeypatch.context() as patch:
            fail_in_step(patch, 2, fault)
            with pytest.raises(RuntimeError) as caught:
                run_script_here(classifier, *line)
        assert caught.value is fault
