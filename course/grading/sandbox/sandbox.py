"""Run one program that runs foreign code, in as many layers as this machine offers.

Always: a fresh interpreter that reads no user's settings, no inherited descriptors, no environment,
limits on processor time, memory, file size, processes and output, of each process and of all
together, a wall clock, a process group that is killed as a whole. Around it is what isolation.py
names; inside, the program gives up what confine.py says. Where the kernel has control groups it
limits memory itself (cgroups.py). What was active is told, layer by layer.

It does not know what the program computes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from course.grading.sandbox import cgroups, leftovers, processes
from course.grading.sandbox.confine import FIRST_USER, MIB, Limits
from course.grading.sandbox.isolation import AnotherUser, best, layers
from course.grading.sandbox.processes import ENVIRONMENT

MOST_FILES = 10_000
STOP = threading.Event()  # set where this grader is asked to end: all sandboxes end, too


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    status: str  # "ended", "timeout", "too much output", "too much memory", "too much on disk"
    returncode: int
    answer: bytes  # what it wrote to its standard output
    printed: str  # the end of its standard error
    layers: tuple[str, ...]
    seconds: float


@contextlib.contextmanager
def private_folder(slot: int) -> Iterator[Path]:
    """A folder that nobody but the slot's user can enter; gone afterwards."""
    with leftovers.own_folder() as folder:
        if os.geteuid() == 0:
            os.chown(folder, FIRST_USER + slot, FIRST_USER + slot)
        yield folder


def run(
    command: Sequence[str],
    given: bytes,
    readable: Sequence[Path],
    limits: Limits | None = None,
    slot: int = 0,
    around: AnotherUser | None = None,
) -> Ended:
    """Run a program of ours that runs foreign code, and calls ``confine`` before it does.

    What cannot be ended or removed afterwards is left to slots.py, which then uses another slot.

    Args:
        command: what to run.
        given: its standard input.
        readable: folders that it may read; with a user of its own they have to be readable for it.
        limits: what it may use.
        slot: programs that run at the same time have different ones, from 0.
        around: what isolates it; without one, the best there is.

    Raises:
        KeyboardInterrupt: this grader was asked to end.
    """
    limits, around = limits or Limits(), around or best()
    start = time.monotonic()
    with (
        processes.ADOPTION,
        cgroups.group(slot, limits.total_mib) as group,
        private_folder(slot) as folder,
        tempfile.TemporaryFile() as printed,
    ):
        process = subprocess.Popen(
            cgroups.entering(group, around.wrapped(command, readable, limits, slot)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            cwd=folder,
            env=ENVIRONMENT | {"HOME": str(folder), "TMPDIR": around.temporary or str(folder)},
            start_new_session=True,
        )
        try:
            answer, status = _talk(
                process, given, limits, lambda: _too_much(process, limits, slot, around)
            )
        finally:
            around.end(slot)
            with contextlib.suppress(RuntimeError):
                processes.kill(process, slot, around.namespaces)
        if cgroups.was_full(group):
            status = "too much memory"
        size = os.fstat(printed.fileno()).st_size
        printed.seek(max(0, size - limits.output_kib * 1024))
        text = printed.read().decode("utf-8", "replace")
    with contextlib.suppress(OSError):
        leftovers.clean(slot)
    seconds = time.monotonic() - start
    return Ended(status, process.returncode, answer, text, layers(around), seconds)


def _talk(
    process: subprocess.Popen, given: bytes, limits: Limits, too_much: Callable[[], str]
) -> tuple[bytes, str]:
    """Send the input, collect the answer; stop at the limits. → (answer, status)

    Args:
        too_much: what it uses too much of; "": nothing.
    """
    parts: list[bytes] = []
    heard = time.monotonic()

    def send() -> None:
        with contextlib.suppress(OSError):
            process.stdin.write(given)
            process.stdin.close()

    def collect() -> None:
        nonlocal heard
        size = 0
        with contextlib.suppress(OSError, ValueError):
            while (part := process.stdout.read1(65536)) and size <= limits.answer_mib * MIB:
                parts.append(part)
                size += len(part)
                heard = time.monotonic()

    threads = [threading.Thread(target=work, daemon=True) for work in (send, collect)]
    for thread in threads:
        thread.start()
    deadline = looked = time.monotonic()
    deadline += limits.wall_s
    status = "timeout"
    while (now := time.monotonic()) < min(deadline, heard + limits.quiet_s):
        if STOP.is_set():
            raise KeyboardInterrupt
        threads[1].join(0.05)  # it ends when the program has closed its output, or sent too much
        if not threads[1].is_alive():
            status = "ended"
            break
        if process.poll() is not None:
            threads[1].join(1.0)  # a grandchild may hold the pipe open: do not wait for that
            status = "ended"
            break
        if now - looked > 0.2:  # looking at all processes is no work for every turn
            looked = now
            if what := too_much():
                status = f"too much {what}"
                break
    if sum(map(len, parts)) > limits.answer_mib * MIB:
        status = "too much output"
    return b"".join(parts), status


def _too_much(process: subprocess.Popen, limits: Limits, slot: int, around: AnotherUser) -> str:
    """What all processes together use too much of: "memory", "on disk"; "": nothing."""
    if processes.memory(process.pid, slot) > limits.total_mib * MIB:
        return "memory"
    if around.namespaces:
        return ""  # its only folder is in memory, and has a size
    size = sum(found.st_blocks * 512 for found in processes.unlinked_files(slot))
    count = 0
    waiting = [str(path) for path in leftovers.files_of(slot)]  # its own folder among them
    for path in waiting:  # the list grows while it is read
        count += 1
        try:
            found = os.lstat(path)
            size += found.st_blocks * 512
            if stat.S_ISDIR(found.st_mode):
                waiting += [f"{path}/{name}" for name in os.listdir(path)]
        except OSError as error:  # gone by now; or so deep that what is there cannot be counted
            count += MOST_FILES * (error.errno == errno.ENAMETOOLONG)
        if size > limits.file_mib * MIB or count > MOST_FILES:
            return "on disk"
    return ""
