"""Run one program that runs foreign code, inside what isolation.py puts around it.

Here are the limits that are watched from outside: a wall clock, silence, the size of the answer.
The limits of each process, and of the memory of all of them, are set and watched inside
(confine.py, worker.py). This module does not know what the program computes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course.grading.sandbox.confine import MIB, Limits
from course.grading.sandbox.isolation import ENVIRONMENT, Bubblewrap, Isolation, layers, stop

STOP = threading.Event()  # set where this grader is asked to end: all sandboxes end, too


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    status: str  # "ended", "timeout", "too much output"
    returncode: int
    answer: bytes  # what it wrote to its standard output
    printed: str  # the end of its standard error
    layers: list[str]


def run(
    command: Sequence[str],
    request: bytes,
    readable: Sequence[Path],
    limits: Limits | None = None,
    isolation: Isolation | None = None,
) -> Ended:
    """Run a program of ours that runs foreign code, and calls ``confine`` before it does.

    Args:
        command: what to run.
        request: its standard input.
        readable: folders that it may read; others have to be allowed to.
        limits: what it may use.
        isolation: what is put around it; without one, bubblewrap.

    Raises:
        KeyboardInterrupt: this grader was asked to end.
    """
    limits, isolation = limits or Limits(), isolation or Bubblewrap()
    with (
        isolation.around(command, readable, limits) as wrapped,
        tempfile.TemporaryFile() as printed,
    ):
        process = subprocess.Popen(
            wrapped,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            cwd="/tmp",
            env=ENVIRONMENT,
            start_new_session=True,
        )
        try:
            answer, status = _talk(process, request, limits)
        finally:
            stop(process)
        size = os.fstat(printed.fileno()).st_size
        printed.seek(max(0, size - limits.output_kib * 1024))
        text = printed.read().decode("utf-8", "replace")
    return Ended(status, process.returncode, answer, text, layers(isolation))


def _talk(process: subprocess.Popen, request: bytes, limits: Limits) -> tuple[bytes, str]:
    """Send the request, collect the answer; stop at the limits. → (answer, status)"""
    parts: list[bytes] = []
    heard = time.monotonic()

    def send() -> None:
        with contextlib.suppress(OSError):
            process.stdin.write(request)
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
    deadline = time.monotonic() + limits.wall_s
    status = "timeout"
    while time.monotonic() < min(deadline, heard + limits.quiet_s):
        if STOP.is_set():
            raise KeyboardInterrupt
        threads[1].join(0.05)  # it ends when the program has closed its output, or sent too much
        if not threads[1].is_alive():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)  # for its exit status
            status = "ended"
            break
        if process.poll() is not None:
            threads[1].join(1.0)  # a grandchild may hold the pipe open: do not wait for that
            status = "ended"
            break
    if sum(map(len, parts)) > limits.answer_mib * MIB:
        status = "too much output"
    return b"".join(parts), status
