"""How tests run scripts: in this process, forked, killed, in pairs; and what they assert of it."""

import importlib
import itertools
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from factories import ROOT

from training.cli.scripts import run_script
from training.files.errors import InputError
from training.loop.checkpoints import ResumePoint, load_checkpoint
from training.reports import report


def as_process(script: Path | str, *arguments, folder: Path, **environment: str) -> SimpleNamespace:
    """Run a script as a shell does, which also shows warnings and late exceptions."""
    done = subprocess.run(
        [sys.executable, *map(str, (script, *arguments))],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr)


MODULES = {"PYTHONPATH": str(ROOT)}  # where ``-m`` finds them from another folder
needs_gloo = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo",
)
needs_fork = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)


def draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs make no page: drawing takes longest."""
    monkeypatch.setattr(report.Report, "draw_page", lambda *_: None)


def at_call(patch: pytest.MonkeyPatch, owner: object, name: str, number: int, act) -> None:
    """Call ``act`` at the number-th call of a function, before it."""
    function, calls = getattr(owner, name), itertools.count(1)

    def watched(*args, **kwargs):
        if next(calls) == number:
            act()
        return function(*args, **kwargs)

    patch.setattr(owner, name, watched)


def fork(
    main: Callable,
    folder: Path,
    line: Sequence[str],
    last_event: int | None = None,
    delay: float = 0.0,
    counted: tuple[str, ...] = ("",),
    **environment,
) -> multiprocessing.Process:
    """Start a script's main in a forked process, spared the imports, with its output in log.txt.

    It writes its resume file after every step, and is killed just before or just after a written
    file takes its place, the event of that number, if it has one; or so many seconds later. Files
    count whose names end in one of ``counted``.
    """
    importlib.import_module("torch._dynamo")  # torch takes it in late: once, not in every process

    folder.mkdir(exist_ok=True)

    def live() -> None:
        os.chdir(folder)
        os.environ |= environment
        sys.stdout = sys.stderr = open("log.txt", "a", buffering=1)
        sys.argv = ["script.py", *map(str, line)]
        ResumePoint.__init__.__defaults__ = (0.0,)
        os.fsync = lambda descriptor: None  # a killed process loses nothing without it
        report.Report.draw_page = lambda *_: None
        if last_event is not None:
            die_at(last_event, delay, counted)
        run_script(main)

    process = multiprocessing.get_context("fork").Process(target=live)
    process.start()
    return process


def die_at(last_event: int, delay: float, counted: tuple[str, ...]) -> None:
    """Let this process kill itself at that event, or soon after."""
    events, replace = itertools.count(1), os.replace

    def event(path) -> None:
        if not str(path).endswith(counted) or next(events) != last_event:
            return
        if delay:
            signal.setitimer(signal.ITIMER_REAL, delay)  # nobody handles it: it kills
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched_replace(old, new) -> None:
        event(new)
        replace(old, new)
        event(new)

    os.replace = watched_replace


def run_forked(main: Callable, folder: Path, line: Sequence[str], *how_it_dies: object) -> int:
    """Run it to its end, or to the event at which it is killed (see ``fork``); → its exit code."""
    process = fork(main, folder, line, *how_it_dies)
    process.join()
    return process.exitcode


def left_by(folder: Path, *patterns: str) -> dict:
    """What a finished run left: files and tensors byte for byte, metrics but for their seconds."""
    assert not list(folder.rglob("*.resume"))
    found = {}
    for file in (file for pattern in patterns for file in folder.glob(pattern)):
        name = str(file.relative_to(folder))
        if file.suffix == ".pt":
            saved = load_checkpoint(file)
            found[name, "settings"] = [saved[key] for key in ("args", "config", "kind")]
            for i, state in saved["optimizer"]["state"].items():
                saved["model"] |= {f"{i}.{key}": torch.as_tensor(state[key]) for key in state}
            for key, tensor in saved["model"].items():
                found[name, key] = tensor.numpy().tobytes()
        elif file.name.endswith("metrics.json"):
            metrics = json.loads(file.read_text())
            found[name] = [metrics.get(key) for key in ("best", "epochs", "training", "held_out")]
        elif file.suffix in (".safetensors", ".tsv", ".txt", ".json", ".csv"):
            found[name] = file.read_bytes()
    assert found
    return found


def written_at(folder: Path) -> dict[Path, int]:
    """When each file below a folder was written: equal only where nothing was written again."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != "log.txt")
    return {file: file.stat().st_mtime_ns for file in files}


def run_together(
    main: Callable, folder: Path, line: Sequence[str], count: int = 2
) -> tuple[list[int], str]:
    """Forked processes, told by torchrun's variables that they belong together.

    Returns:
        their exit codes, and their log.
    """
    with socket.socket() as free:
        free.bind(("localhost", 0))
        shared = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
    shared |= {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": str(count)}
    started = [
        fork(main, folder, line, **shared, RANK=str(rank), LOCAL_RANK=str(rank))
        for rank in range(count)
    ]
    for process in started:
        process.join()
    return [process.exitcode for process in started], (folder / "log.txt").read_text()


def run_as_two(main: Callable, folder: Path, line: Sequence[str]) -> str:
    """Two of them that have to end well; → their log."""
    codes, said = run_together(main, folder, line)
    assert codes == [0, 0], said
    return said


def succeeded(result: SimpleNamespace) -> SimpleNamespace:
    """The result of a script that had to end well."""
    assert result.code == 0, result.err
    return result


def assert_refused(result: SimpleNamespace, *facts: str) -> None:
    """A script printed one line with all the facts, and left with a status that is not 0."""
    assert result.code in (1, 2), result.out
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1, result.err
    for fact in facts:
        assert fact in result.err


@contextmanager
def one_line_error(*facts: str) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """Expect an InputError: one line that holds all the facts."""
    with pytest.raises(InputError) as caught:
        yield caught
    assert "\n" not in str(caught.value)
    for fact in facts:
        assert fact in str(caught.value)


def assert_same_tensors(found: dict, wanted: dict) -> None:
    """Two dictionaries hold the same names and the same numbers, bit for bit."""
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name
