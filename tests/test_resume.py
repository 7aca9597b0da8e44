"""Runs that a signal ends, resume points that do not fit, and two runs in one folder.

That a killed run ends as if untouched is in scripts/test_contract.py.
"""

import multiprocessing
import os
import shutil
import signal
from unittest.mock import Mock

import pytest
from factories import make_rows, write_table
from running import assert_refused, at_call, needs_fork

from training.loop.checkpoints import load_checkpoint, save_checkpoint
from training.loop.outputs import locked
from training.loop.run import Run


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


SPOILED = {
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "checkpoint": lambda path: shutil.copy(path.with_suffix(".pt"), path),
    "no tensors": lambda path: save_checkpoint(path, load_checkpoint(path) | {"model": {}}),
}


def test_a_damaged_resume_point_or_another_training_file_is_refused(
    interruptible, monkeypatch, tiny_data, tmp_path
):
    """Ctrl-C stops the second epoch. A file counts by its contents: a copy is no other."""
    with monkeypatch.context() as patch:
        at_call(patch, Run, "gather_gradients", 10, Mock(side_effect=KeyboardInterrupt))
        result = interruptible()
    assert (result.code, result.err) == (1, "\ninterrupted\n")
    stopped = tmp_path / "sst-classifier.resume"
    data, point = shutil.copytree(tiny_data, tmp_path / "data"), stopped.read_bytes()
    for name, spoil in SPOILED.items():
        spoil(stopped)
        remedy = "delete it and train again" if name == "half" else "run without --resume"
        assert_refused(interruptible("--resume"), stopped.name, remedy)
        stopped.write_bytes(point)
    train = (data / "ids-sst-train.csv").read_bytes()
    rows = make_rows(25, 1, "01234", first_id=7)
    write_table(data / "ids-sst-train.csv", "id sentence sentiment", rows)
    assert_refused(interruptible("--resume", "--data_dir", data), "a run with train=")
    (data / "ids-sst-train.csv").write_bytes(train)
    assert interruptible("--resume", "--data_dir", data).code == 0


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
