"""Runs that a signal or a full disk ends, and resume points that do not fit.

That a killed run ends as if untouched is in scripts/test_contract.py.
"""

import errno
import io
import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
from factories import make_rows, write_table
from running import assert_refused, draw_nothing, left_by, needs_fork, run_forked

import classifier
from training.files import writing
from training.loop.checkpoints import ResumePoint, load_checkpoint, save_checkpoint
from training.loop.run import Run

pytestmark = needs_fork

FILES = ("*.pt", "predictions/*")
SST, CFIMDB = 7 * 2, 4 * 2  # steps in two epochs: 25 rows in batches of 4, of CFIMDB of 8


@pytest.fixture(scope="module")
def line(tiny_model_folder, tiny_data) -> list[str]:
    """A command line that trains and tests on two data sets."""
    flags = "--option finetune --lr 1e-3 --epochs 2 --batch_size 4 --accumulate 2 --warmup 0.2"
    return [*flags.split(), "--model", str(tiny_model_folder), "--data_dir", str(tiny_data)]


@pytest.fixture(scope="module")
def untouched(line, tmp_path_factory):
    """What a run leaves that nobody interrupts."""
    folder = tmp_path_factory.mktemp("untouched")
    assert run_forked(classifier.main, folder, line) == 0, (folder / "log.txt").read_text()
    return left_by(folder, *FILES)


@pytest.fixture
def interruptible(run_script_here, monkeypatch, line):
    """A function that runs in this process, and writes the resume point after every step."""
    monkeypatch.setattr(ResumePoint.__init__, "__defaults__", (0.0,))
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    draw_nothing(monkeypatch)
    return lambda *more: run_script_here(classifier, *line, *more)


def at_call(monkeypatch, owner, name: str, number: int, act) -> Counter:
    """Call ``act`` at the number-th call of a function, before it; → counts its calls that end."""
    function, ended = getattr(owner, name), Counter()

    def watched(*args, **kwargs):
        ended["begun"] += 1
        if ended["begun"] == number:
            act()
        result = function(*args, **kwargs)
        ended["ended"] += 1
        return result

    monkeypatch.setattr(owner, name, watched)
    return ended


def stops(data_set: str) -> str:
    return f"stopped; --resume goes on from {data_set}-classifier.resume\n"


STEP, EVALUATION = (Run, "gather_gradients"), (classifier, "model_eval")


@pytest.mark.parametrize(
    ("place", "call", "signals", "message", "steps"),
    [
        (STEP, 10, [signal.SIGTERM], stops("sst"), 10),
        (STEP, 10, [signal.SIGINT] * 2, "\ninterrupted\n", 9),
        # the epoch is finished, and nothing more is begun, not even the other data set
        (EVALUATION, 2, [signal.SIGINT], stops("sst"), SST),
        (STEP, SST + 5, [signal.SIGINT], stops("cfimdb"), SST + 5),
    ],
    ids=["SIGTERM", "Ctrl-C twice", "while evaluating", "second data set"],
)
def test_a_signal_stops_after_the_step_and_the_run_goes_on(
    interruptible, monkeypatch, untouched, tmp_path, place, call, signals, message, steps
):
    handler = signal.getsignal(signals[0])
    with monkeypatch.context() as patch:
        at_call(patch, *place, call, lambda: [signal.raise_signal(number) for number in signals])
        ended = at_call(patch, *STEP, 0, None)
        result = interruptible()
    assert (result.code, result.err) == (1, message)
    assert ended["ended"] == steps
    assert signal.getsignal(signals[0]) is handler
    rest = at_call(monkeypatch, *STEP, 0, None)
    assert interruptible("--resume").code == 0
    assert rest["ended"] == SST + CFIMDB - steps
    assert left_by(tmp_path, *FILES) == untouched


# ---------------------------------------------------------------------------------------------
# Resume points that do not fit


@pytest.fixture
def stopped(interruptible, monkeypatch, tmp_path) -> Path:
    """The resume point of a run that was stopped within SST's second epoch."""
    with monkeypatch.context() as patch:
        at_call(patch, *STEP, 10, lambda: signal.raise_signal(signal.SIGINT))
        interruptible()
    return tmp_path / "sst-classifier.resume"


SPOILED = {
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "list": lambda path: save_checkpoint(path, [1, 2]),
    "checkpoint": lambda path: shutil.copy(path.with_suffix(".pt"), path),
    "no tensors": lambda path: save_checkpoint(path, load_checkpoint(path) | {"model": {}}),
}


def test_a_damaged_resume_point_or_another_training_file_is_refused(
    interruptible, stopped, tiny_data, tmp_path, untouched
):
    """A file counts by its contents: the same one elsewhere is no other."""
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
    assert left_by(tmp_path, *FILES) == untouched


# ---------------------------------------------------------------------------------------------
# A full disk


class SmallDisk(io.FileIO):
    """A file on a disk on which little room is left."""

    def write(self, content) -> int:
        """Write, or fail as the system does."""
        if self.tell() + len(content) > 20_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(content)


def test_a_full_disk_keeps_the_last_good_file(interruptible, monkeypatch, untouched, tmp_path):
    path = tmp_path / "sst-classifier.resume"
    full = []

    def fill() -> None:
        full.append(path.read_bytes())
        patch.setattr(writing, "open", small_open, raising=False)

    def small_open(name, mode, **options):
        if ".resume." in Path(name).name:
            return SmallDisk(name, mode.replace("b", ""))
        return open(name, mode, **options)

    with monkeypatch.context() as patch:
        at_call(patch, ResumePoint, "write", 10, fill)
        result = interruptible()
    assert_refused(result, f"cannot write {path.name}: ")
    assert [path.read_bytes()] == full
    assert not list(tmp_path.glob(".*"))
    assert interruptible("--resume").code == 0
    assert left_by(tmp_path, *FILES) == untouched
