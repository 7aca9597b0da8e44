"""Run one program that runs foreign code, inside what isolation.py puts around it.

Here are the limits that are watched from outside: a wall clock, silence, the size of the answer.
The limits of each process, and of the memory of all of them, are set and watched inside
(confine.py, worker.py). This module does not know what the program computes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course.grading.sandbox.confine import MIB, Limits
from course.grading.sandbox.isolation import ENVIRONMENT, Bubblewrap, Isolation, stop

STOP = threading.Event()  # set where this grader is asked to end: all sandboxes end, too


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    status: str  # "ended", "timeout", "too much output"
    returncode: int
    answer: bytes  # what it wrote to its standard output
    printed: str  # the end of its standard error


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
    with contextlib.ExitStack() as opened:
        wrapped = opened.enter_context(isolation.around(command, readable, limits))
        given, answer, printed = (
            opened.enter_context(tempfile.TemporaryFile()) for _ in range(3)
        )  # files, not pipes: nobody has to read on, or waits for who holds an end
        given.write(request)
        given.seek(0)
        fcntl.lockf(given, fcntl.LOCK_EX)  # until this process ends, which worker.py looks for
        process = subprocess.Popen(
            wrapped,
            stdin=given,
            stdout=answer,
            stderr=printed,
            cwd="/tmp",
            env=ENVIRONMENT,
            start_new_session=True,
        )
        try:
            status = watch(process, answer.fileno(), limits)
        finally:
            stop(process)
        answer.seek(0)
        printed.seek(max(0, os.fstat(printed.fileno()).st_size - limits.output_kib * 1024))
        text = printed.read().decode("utf-8", "replace")
        return Ended(status, process.returncode, answer.read(limits.answer_mib * MIB), text)


def watch(process: subprocess.Popen, answer: int, limits: Limits) -> str:
    """Wait until the program ends or has met a limit, and say which.

    Args:
        answer: the descriptor of the file that it answers into.
    """
    start = heard = time.monotonic()
    size = 0
    while time.monotonic() < min(start + limits.wall_s, heard + limits.quiet_s):
        if STOP.is_set():
            raise KeyboardInterrupt
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
        before, size = size, os.fstat(answer).st_size
        if size > limits.answer_mib * MIB:
            return "too much output"
        if process.returncode is not None:
            return "ended"
        if size != before:
            heard = time.monotonic()
    return "timeout"
