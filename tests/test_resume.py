"""Runs that Ctrl-C or a full disk ends, and resume points that do not fit.

That a killed run ends as if untouched is in scripts/test_contract.py.
"""

import errno
import itertools
import multiprocessing
import os
import shutil
import signal

import pytest
from factories import make_rows, write_table
from running import assert_refused, draw_nothing, needs_fork

import classifier
from training.loop.checkpoints import ResumePoint, load_checkpoint, locked, save_checkpoint
from training.loop.run import Run


@pytest.fixture(scope="module")
def line(tiny_model_folder, tiny_data) -> list[str]:
    """A command line that trains and tests on SST: 7 steps an epoch."""
    flags = "--only sst --option finetune --lr 1e-3 --epochs 2 --batch_size 4"
    return [*flags.split(), "--model", str(tiny_model_folder), "--data_dir", str(tiny_data)]


@pytest.fixture
def interruptible(run_script_here, monkeypatch, line):
    """A function that runs in this process, and writes the resume point after every step."""
    monkeypatch.setattr(ResumePoint.__init__, "__defaults__", (0.0,))
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    draw_nothing(monkeypatch)
    return lambda *more: run_script_here(classifier, *line, *more)


def at_call(monkeypatch, owner, name: str, number: int, act) -> None:
    """Call ``act`` at the number-th call of a function, before it."""
    function, calls = getattr(owner, name), itertools.count(1)

    def watched(*args, **kwargs):
        if next(calls) == number:
            act()
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, watched)


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        ([signal.SIGTERM], "stopped; --resume goes on from sst-classifier.resume\n"),
        ([signal.SIGINT] * 2, "\ninterrupted\n"),
    ],
    ids=["SIGTERM", "Ctrl-C twice"],
)
def test_a_signal_stops_after_the_step_and_a_second_one_at_once(
    interruptible, monkeypatch, tmp_path, signals, message
):
    handler = signal.getsignal(signals[0])
    at_call(monkeypatch, Run, "gather_gradients", 10, lambda: [*map(signal.raise_signal, signals)])
    result = interruptible()
    assert (result.code, result.err) == (1, message)
    assert signal.getsignal(signals[0]) is handler
    saved = load_checkpoint(tmp_path / "sst-classifier.resume")
    assert saved["position"]["step"] == 9 + (len(signals) == 1)


# ---------------------------------------------------------------------------------------------
# Resume points that do not fit


SPOILED = {
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "checkpoint": lambda path: shutil.copy(path.with_suffix(".pt"), path),
    "no tensors": lambda path: save_checkpoint(path, load_checkpoint(path) | {"model": {}}),
}


def test_a_damaged_resume_point_or_another_training_file_is_refused(
    interruptible, monkeypatch, tiny_data, tmp_path
):
    """Ctrl-C stops the second epoch. A file counts by its contents: a copy is no other."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        at_call(patch, Run, "gather_gradients", 10, interrupt)
        result = interruptible()
    assert (result.code, result.err) == (1, "\ninterrupted\n")
    stopped = tmp_path / "sst-classifier.resume"
    data, point = shutil.copytree(tiny_data, tmp_path / "data"), stopped.read_bytes()
    for spoil in SPOILED.values():
        spoil(stopped)
        result = interruptible("--resume")
        assert_refused(result, stopped.name, "run without --resume to start over")
        stopped.write_bytes(point)
    train = (data / "ids-sst-train.csv").read_bytes()
    rows = make_rows(25, 1, "01234", first_id=7)
    write_table(data / "ids-sst-train.csv", "id sentence sentiment", rows)
    assert_refused(interruptible("--resume", "--data_dir", data), "a run with train=")
    (data / "ids-sst-train.csv").write_bytes(train)
    assert interruptible("--resume", "--data_dir", data).code == 0


# ---------------------------------------------------------------------------------------------
# Two runs in one folder


@needs_fork
@pytest.mark.parametrize("stem", ["sst-classifier", "predictions/finetune-sst"])
def test_a_run_next_to_another_with_the_same_files_is_refused(interruptible, tmp_path, stem):
    """Until the other one ends, in any way; what it leaves behind is no obstacle."""
    path, (ours, theirs) = tmp_path / f"{stem}.lock", multiprocessing.Pipe()
    path.parent.mkdir(exist_ok=True)

    def hold() -> None:
        with locked(tmp_path / stem):
            theirs.send("locked")
            theirs.recv()
            os.kill(os.getpid(), signal.SIGKILL)

    other = multiprocessing.get_context("fork").Process(target=hold)
    other.start()
    assert ours.recv() == "locked"
    assert_refused(interruptible(), f"another run is writing {stem}*")
    assert not list(tmp_path.rglob("*.resume"))
    ours.send("end")
    other.join()
    assert path.exists()
    assert interruptible().code == 0
    assert not list(tmp_path.rglob("*.lock"))


# ---------------------------------------------------------------------------------------------
# A full disk


def test_a_full_disk_keeps_the_last_good_file(interruptible, monkeypatch, tmp_path):
    path = tmp_path / "sst-classifier.resume"
    full = []

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill() -> None:
        full.append(path.read_bytes())
        patch.setattr(os, "fsync", fail)

    with monkeypatch.context() as patch:
        at_call(patch, ResumePoint, "write", 10, fill)
        result = interruptible()
    assert_refused(result, f"cannot write {path.name}: ")
    assert [path.read_bytes()] == full
    assert not list(tmp_path.glob(".*"))
    assert interruptible("--resume").code == 0
