"""What the machine is like: how many cores are idle; memory that is full, a GPU that is lost."""

import os
from collections.abc import Iterator, Sequence

import pytest
import torch
from support import assert_refused, draw_nothing, left_by, succeeded

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
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    devices.take_idle_cores.cache_clear()
    yield
    torch.set_num_threads(before)
    devices.take_idle_cores.cache_clear()


@pytest.fixture
def machine(monkeypatch, tmp_path, four_threads):
    """A function that makes cores busy: fractions of every look, one a core."""
    times, limit = tmp_path / "stat", tmp_path / "cpu.max"
    monkeypatch.setattr(devices, "CORE_TIMES", times)
    monkeypatch.setattr(devices, "CORE_LIMIT", limit)

    def make(*looks: Sequence[float], container: str = "max 100000") -> None:
        limit.write_text(f"{container}\n")
        work = [[100, 1000] for _ in looks[0]]  # ticks: busy, idle

        def write() -> None:
            lines = [f"cpu{i} {busy} 0 0 {idle} 0 0 0 0 7 7" for i, (busy, idle) in enumerate(work)]
            times.write_text("\n".join(["cpu  9 9 9 9 9 9 9 9 9 9", *lines, "intr 5 0", "ctxt 1"]))

        remaining = list(looks)

        def sleep(seconds: float) -> None:
            assert seconds == 0.1
            fractions = remaining.pop(0) if len(remaining) > 1 else remaining[0]
            for core, busy in zip(work, fractions, strict=True):
                core[0] += round(10 * busy)
                core[1] += 10 - round(10 * busy)
            write()

        write()
        monkeypatch.setattr(devices.time, "sleep", sleep)

    return make


@pytest.mark.parametrize(
    ("looks", "container", "threads"),
    [
        ([(0.0, 0.1, 0.0, 0.0)], "max 100000", 4),
        ([(1.0, 0.0, 0.0, 0.0)], "max 100000", 3),
        ([(1.0, 0.5, 0.5, 1.0)], "max 100000", 1),
        ([(1.0, 1.0, 1.0, 1.0)], "max 100000", 1),
        ([(1.0, 1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 0.1)], "max 100000", 4),  # a moment's work
        ([(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)], "max 100000", 4),  # two cores are not this process's
        ([(1.0, 1.0, 1.0, 0.0, 0.0, 0.0)], "max 100000", 1),
        ([(0.0, 0.0, 0.0, 0.0)], "200000 100000", 2),
        ([(0.0, 0.0, 0.0, 0.0)], "50000 100000", 1),
    ],
)
def test_as_many_threads_as_cores_are_idle(machine, capsys, looks, container, threads):
    """And no more than the container may use."""
    machine(*looks, container=container)
    devices.pick_device(use_gpu=False)
    assert torch.get_num_threads() == threads
    said = f"threads: {threads} of 4; " in capsys.readouterr().out
    assert said == (threads < 4)


@pytest.mark.parametrize("why", ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "no /proc", "no counting"])
def test_the_number_of_threads_stays(machine, monkeypatch, why):
    """As the user chose it, or where nobody can look."""
    machine((1.0, 1.0, 1.0, 1.0))
    if why == "no /proc":
        devices.CORE_TIMES.unlink()
    elif why == "no counting":
        monkeypatch.setattr(devices.time, "sleep", lambda _: None)
    else:
        monkeypatch.setenv(why, "4")
    devices.pick_device(use_gpu=False)
    assert torch.get_num_threads() == 4


def test_a_resumed_run_has_the_threads_it_had(
    run_script_here, line, four_threads, monkeypatch, tmp_path
):
    """Another number may round differently; more than there are cores are not taken."""
    draw_nothing(monkeypatch)
    monkeypatch.setattr(devices, "CORE_TIMES", tmp_path / "nowhere")
    torch.set_num_threads(2)
    with monkeypatch.context() as patch:
        fail_in_step(patch, 5, KeyboardInterrupt())
        run_script_here(classifier, *line)
    torch.set_num_threads(1)
    succeeded(run_script_here(classifier, *line, "--resume"))
    assert torch.get_num_threads() == 2
    devices.set_threads(64)
    assert torch.get_num_threads() == 4


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
    run_script_here, line, monkeypatch, tmp_path, message, fault
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
    message(result.err)
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
