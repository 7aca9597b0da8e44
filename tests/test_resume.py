"""Interrupted runs: killed, stopped by Ctrl-C, out of disk; resumed, they end as if untouched.

The runs are processes forked from this one, so that nothing has to be imported anew, and every
one of them writes its resume file after each step instead of each minute.
"""

import errno
import io
import os
import random
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
from factories import make_rows, write_table
from running import (
    assert_refused,
    draw_nothing,
    left_by,
    needs_fork,
    run_forked,
    succeeded,
    written_at,
)

import classifier
from training.files import writing as files
from training.loop.checkpoints import ResumePoint, load_checkpoint, save_checkpoint
from training.loop.run import Run
from training.reports.report import Report

pytestmark = needs_fork

NAMES = ("sst", "cfimdb")
FILES = ("*.pt", "predictions/*")
EVENTS = 80  # files that a run writes before its last few, each counted before and after
RUNS = {  # 25 rows: 7 steps an epoch of SST, 4 of CFIMDB
    "pretrain": ["--option", "pretrain", "--lr", "1e-2"],
    "finetune": (
        "--option finetune --lr 1e-3 --accumulate 2 --clip 1 --warmup 0.2 --decay --patience 2"
    ).split(),
}


# For tests of which one option is enough
FINETUNE = pytest.mark.parametrize("line", ["finetune"], indirect=True)


@pytest.fixture(scope="module", params=RUNS)
def line(request, tiny_model_folder, tiny_data) -> list[str]:
    """A command line that trains and tests on two data sets."""
    shared = ["--epochs", "3", "--batch_size", "4", "--hidden_dropout_prob", "0.3"]
    places = ["--model", str(tiny_model_folder), "--data_dir", str(tiny_data)]
    return [*RUNS[request.param], *shared, *places]


def run(folder: Path, line: list[str], last_event=None, delay=0.0) -> int:
    """Run in a process of its own, which may end at an event; → its exit code."""

    def main() -> None:
        Report.describe = lambda *_: None
        classifier.main()

    return run_forked(main, folder, line, last_event, delay, (".pt", ".resume", ".json"))


@pytest.fixture(scope="module")
def untouched(line, tmp_path_factory):
    """What a run leaves that nobody interrupts."""
    folder = tmp_path_factory.mktemp("untouched")
    assert run(folder, line) == 0, (folder / "log.txt").read_text()
    return left_by(folder, *FILES)


def position(folder: Path) -> str:
    """Where a killed run would go on."""
    files = [folder / f"{name}-classifier.resume" for name in NAMES]
    there = [load_checkpoint(file)["position"] for file in files if file.is_file()]
    if not there:
        return "start"
    return "within an epoch" if there[-1]["batch"] else "between epochs"


# ---------------------------------------------------------------------------------------------
# Killed


def test_killed_once_at_any_moment(line, untouched, tmp_path):
    """Eight moments all over the life of a run, four for each option.

    Counted in events, not in seconds, which differ with what else the machine does.
    """
    chance = random.Random(len(line))  # other moments for the other option
    where = Counter()
    for i in range(4):
        folder = tmp_path / str(i)
        delay = chance.uniform(0.0001, 0.02)
        event = 1 + int(EVENTS * (i + chance.random()) / 4)
        code = run(folder, line, last_event=event, delay=delay)
        assert code == -signal.SIGALRM, (folder / "log.txt").read_text()
        where[position(folder)] += 1
        assert run(folder, [*line, "--resume"]) == 0, (folder / "log.txt").read_text()
        assert left_by(folder, *FILES) == untouched
    assert where["within an epoch"] >= 1, where


# ---------------------------------------------------------------------------------------------
# Ctrl-C


@pytest.fixture
def interruptible(run_script_here, monkeypatch, line):
    """A function that runs in this process, and writes the resume file after every step."""
    monkeypatch.setattr(ResumePoint.__init__, "__defaults__", (0.0,))
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    draw_nothing(monkeypatch)
    monkeypatch.setattr(Report, "describe", lambda *_: None)
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
SST, CFIMDB = 7 * 3, 4 * 3  # steps in three epochs


@FINETUNE
@pytest.mark.parametrize(
    ("place", "call", "signals", "message", "steps"),
    [
        (STEP, 10, [signal.SIGINT], stops("sst"), 10),
        (STEP, 10, [signal.SIGTERM], stops("sst"), 10),
        (STEP, 10, [signal.SIGINT] * 2, "\ninterrupted\n", 9),
        # the epoch is finished, and nothing more is begun, not even the other data set
        (EVALUATION, 3, [signal.SIGINT], stops("sst"), SST),
        (STEP, SST + 5, [signal.SIGINT], stops("cfimdb"), SST + 5),
    ],
    ids=["Ctrl-C", "SIGTERM", "Ctrl-C twice", "while evaluating", "second data set"],
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
# A run that has ended


@FINETUNE
def test_what_has_ended_is_kept(interruptible, tmp_path):
    succeeded(interruptible("--only", "sst"))
    before = written_at(tmp_path)
    result = interruptible("--resume")
    assert_refused(result, "sst-classifier.pt exists", "delete it", code=1)
    assert written_at(tmp_path) == before


# ---------------------------------------------------------------------------------------------
# Files to resume from that are not as they should be


@pytest.fixture(scope="module")
def stopped_run(line, tmp_path_factory) -> Path:
    """What a run leaves that was killed within SST's second epoch."""
    folder = tmp_path_factory.mktemp("stopped")
    assert run(folder, line, last_event=22) == -signal.SIGKILL
    assert position(folder) == "within an epoch"
    return folder


@pytest.fixture
def stopped(interruptible, stopped_run, tmp_path) -> Path:
    """The resume file of a copy of that run, in the folder in which ``interruptible`` runs."""
    shutil.copytree(stopped_run, tmp_path, dirs_exist_ok=True)
    return tmp_path / "sst-classifier.resume"


def truncated_to(share: float):
    return lambda path: path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


SPOILED = {
    "nothing left": truncated_to(0.0),
    "half": truncated_to(0.5),
    "text": lambda path: path.write_text("epoch,loss\n1,0.5\n"),
    "list": lambda path: save_checkpoint(path, [1, 2]),
    "checkpoint": lambda path: save_checkpoint(path, load_checkpoint(path.with_suffix(".pt"))),
    "no tensors": lambda path: save_checkpoint(path, load_checkpoint(path) | {"model": {}}),
}


@FINETUNE
@pytest.mark.parametrize("fault", SPOILED)
def test_a_file_that_is_damaged_or_of_another_kind(interruptible, stopped, fault):
    SPOILED[fault](stopped)
    refused(interruptible("--resume"), stopped)


def refused(result, path: Path) -> None:
    """The run would not go on, said so in one line, and kept the file."""
    assert_refused(result, path.name, "run without --resume to start over", code=1)
    assert path.is_file()


@FINETUNE
@pytest.mark.parametrize("flag", ["lr 0.5", "seed 1", "precision bf16"])
def test_other_settings(interruptible, stopped, flag):
    result = interruptible("--resume", *f"--{flag}".split())
    refused(result, stopped)
    assert f"this one has {flag.split()[1]}" in result.err.replace("'", "")


@FINETUNE
@pytest.mark.parametrize("is_same", [True, False])
def test_the_training_file_counts_by_its_contents(
    interruptible, stopped, tiny_data, tmp_path, untouched, is_same
):
    data = shutil.copytree(tiny_data, tmp_path / "data")
    if not is_same:
        rows = make_rows(25, 1, "01234", first_id=7)
        write_table(data / "ids-sst-train.csv", "id sentence sentiment", rows)
    result = interruptible("--resume", "--data_dir", data)
    if is_same:
        assert left_by(tmp_path, *FILES) == untouched
    else:
        refused(result, stopped)
        assert "a run with train=" in result.err


# ---------------------------------------------------------------------------------------------
# A full disk


class SmallDisk(io.FileIO):
    """A file on a disk on which little room is left."""

    def write(self, content) -> int:
        """Write, or fail as the system does."""
        if self.tell() + len(content) > 20_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(content)


@FINETUNE
def test_a_full_disk_keeps_the_last_good_file(interruptible, monkeypatch, untouched, tmp_path):
    path = tmp_path / "sst-classifier.resume"
    full = []

    def fill() -> None:
        full.append(path.read_bytes())
        patch.setattr(files, "open", small_open, raising=False)

    def small_open(name, mode, **options):
        if ".resume." in Path(name).name:
            return SmallDisk(name, mode.replace("b", ""))
        return open(name, mode, **options)

    with monkeypatch.context() as patch:
        at_call(patch, ResumePoint, "write", 10, fill)
        result = interruptible()
    assert result.code == 1
    assert result.err.startswith(f"error: cannot write {path.name}: ")
    assert result.err.count("\n") == 1
    assert [path.read_bytes()] == full
    assert not list(tmp_path.glob(".*"))
    assert interruptible("--resume").code == 0
    assert left_by(tmp_path, *FILES) == untouched
