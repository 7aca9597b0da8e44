"""Run one program that runs foreign code, inside what isolation.py puts around it.

The clock, the size of the answer and the memory are watched here. This module does not know what
the program computes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from course.grading.sandbox.confine import MIB, Limits, has_too_much, memory_group
from course.grading.sandbox.isolation import ENVIRONMENT, Isolation, new_user

STOP = threading.Event()  # set where this grader is asked to end: all sandboxes end, too
JOIN = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"']  # a control group, then a command
PRINTED = 64 * 1024  # bytes that are kept of what a program prints


def run(
    command: Sequence[str],
    request: bytes,
    readable: Sequence[Path],
    limits: Limits,
    isolation: Isolation,
) -> tuple[str, bytes, str]:
    """Run a command of ours that runs foreign code; nothing of it runs on afterwards.

    Args:
        command: what to run.
        request: its standard input.
        readable: folders that it may read; others have to be allowed to.
        limits: what it may use.
        isolation: what is put around it.

    Returns:
        "ended", "timeout", "memory" or "too much output"; what it answered; the end of what it
        printed.
    """
    user = new_user()
    with contextlib.ExitStack() as opened:
        # files, not pipes: nobody has to read on, or waits for who holds an end
        asked, answer, printed = (opened.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        asked.write(request)
        asked.seek(0)
        fcntl.lockf(asked, fcntl.LOCK_EX)  # until this process ends, which worker.py looks for
        group = opened.enter_context(memory_group(limits))
        wrapped = opened.enter_context(isolation.around(command, readable, limits, user))
        process = subprocess.Popen(
            [*JOIN, group, *wrapped] if group else wrapped,
            stdin=asked,
            stdout=answer,
            stderr=printed,
            cwd="/tmp",
            env=ENVIRONMENT,
            start_new_session=True,
        )
        end, status = time.monotonic() + limits.wall_s, ""
        try:
            while not status:
                if STOP.is_set():
                    raise KeyboardInterrupt
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
                if os.fstat(answer.fileno()).st_size > limits.answer_mib * MIB:
                    status = "too much output"
                elif has_too_much(group, limits, process.pid, user):
                    status = "memory"
                elif process.returncode is not None:
                    status = "ended"
                elif time.monotonic() > end:
                    status = "timeout"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        answer.seek(0)
        printed.seek(max(0, os.fstat(printed.fileno()).st_size - PRINTED))
        text = printed.read(PRINTED).decode("utf-8", "replace")
        return status, answer.read(limits.answer_mib * MIB), text
