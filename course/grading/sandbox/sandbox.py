"""Run one program that runs foreign code, inside what isolation.py puts around it.

Here are the limits that are watched from outside: the clock, silence, the size of the answer, the
memory. This module does not know what the program computes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course.grading.sandbox.confine import MIB, Limits, in_group, memory_group, needs_too_much
from course.grading.sandbox.isolation import ENVIRONMENT, Bubblewrap, Isolation, new_user

STOP = threading.Event()  # set where this grader is asked to end: all sandboxes end, too


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    status: str  # "ended", "timeout", "memory", "too much output"
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
    """Run a program of ours that runs foreign code.

    Args:
        command: what to run.
        request: its standard input.
        readable: folders that it may read; others have to be allowed to.
        limits: what it may use.
        isolation: what is put around it; without one, bubblewrap.

    Raises:
        KeyboardInterrupt: this grader was asked to end.
        RuntimeError: this machine has hardly any memory left.
    """
    limits, isolation, user = limits or Limits(), isolation or Bubblewrap(), new_user()
    with contextlib.ExitStack() as opened:
        # files, not pipes: nobody has to read on, or waits for who holds an end
        asked, answer, printed = (opened.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        asked.write(request)
        asked.seek(0)
        group = opened.enter_context(memory_group(limits))
        wrapped = opened.enter_context(isolation.around(command, readable, limits, user))
        process = subprocess.Popen(
            [*in_group(group), *wrapped],
            stdin=asked,
            stdout=answer,
            stderr=printed,
            cwd="/tmp",
            env=ENVIRONMENT,
            start_new_session=True,
        )

        def is_too_large() -> bool:
            return needs_too_much(group, limits, process.pid, user)

        try:
            status = watch(process, answer.fileno(), limits, is_too_large)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        answer.seek(0)
        printed.seek(max(0, os.fstat(printed.fileno()).st_size - limits.output_kib * 1024))
        text = printed.read().decode("utf-8", "replace")
        return Ended(status, process.returncode, answer.read(limits.answer_mib * MIB), text)


def watch(
    process: subprocess.Popen, answer: int, limits: Limits, is_too_large: Callable[[], bool]
) -> str:
    """Wait until the program ends or has met a limit, and say which.

    Args:
        answer: the descriptor of the file that it answers into.
        is_too_large: whether it needs too much memory.
    """
    start = heard = time.monotonic()
    size = 0
    while time.monotonic() < min(start + limits.wall_s, heard + limits.quiet_s):
        if STOP.is_set():
            raise KeyboardInterrupt
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
        before, size = size, os.fstat(answer).st_size
        if size > limits.answer_mib * MIB:
            return "too much output"
        if is_too_large():
            return "memory"
        if process.returncode is not None:
            return "ended"
        if size != before:
            heard = time.monotonic()
    return "timeout"
