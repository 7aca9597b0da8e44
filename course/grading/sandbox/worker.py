"""The program in the sandbox: it alone imports a student's code, and it returns numbers only.

    python worker.py FOLDER…       FOLDERs go in front of sys.path, the request comes on stdin

It knows inputs, not the right answers. It imports torch and the checks once, and runs each task in
a child of its own: one that hangs, crashes or changes what others use harms itself only.

The request is a safetensors message, with a JSON text as the bytes of its tensor ``request``. The
answer has a record for each job, in their order: HEAD with how it ended and the size of the
safetensors bytes that follow. An empty record before them says that the jobs begin.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

RUNS = "course.grading.sandbox.runs"
IMPORTS = ("utils", "base_bert", "tokenizer", "datasets", "evaluation", "training.loop", RUNS)
HEAD = struct.Struct("<BQ")
ENDS = ("ran", "crashed", "timeout", "memory", "disk")  # how a task ended, by number
MOST_NUMBERS = 4_000_000  # of an output
MOST_TEXT = 20_000  # bytes of one
MOST_FILES = 10_000  # of a task
FULL = 64 << 10  # bytes that are left of a full folder


def main() -> None:
    """Answer one request."""
    sys.path[:1] = sys.argv[1:]  # instead of this file's own
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the first process gets none without a handler
    tensors = load(sys.stdin.buffer.read())
    request = json.loads(tensors.pop("request").numpy().tobytes())
    request["asked"], answers = os.dup(0), os.fdopen(os.dup(1), "wb")
    for number in (0, 1):  # what foreign code prints is not an answer
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    for name in IMPORTS:  # before the fork, once for all tasks
        importlib.import_module(name)
    sys.modules[RUNS].warm_up()
    record = (ENDS.index("ran"), b"")
    for number, job in enumerate([None, *request["jobs"]]):
        if job:
            record = in_child(Path(tempfile.gettempdir(), f"job-{number}"), job, tensors, request)
        answers.write(HEAD.pack(record[0], len(record[1])) + record[1])
        answers.flush()


def in_child(place: Path, job: dict, tensors: dict, request: dict) -> tuple[int, bytes]:
    """Run one job in a forked child: the number of how it ended, what it left."""
    deadline = time.monotonic() + request["seconds"]
    place.mkdir()
    free = os.statvfs(place).f_ffree  # files that there is room for
    with tempfile.TemporaryFile() as result:
        if not (child := os.fork()):
            status = ENDS.index("crashed")
            try:
                os.closerange(3, result.fileno())
                os.closerange(result.fileno() + 1, 4096)  # also the answers
                os.setsid()
                os.nice(10)  # the grader and whatever else runs here go first
                result.write(work(place, job, tensors))
                result.flush()
                status = ENDS.index("ran")
            except MemoryError:
                status = ENDS.index("memory")
            finally:
                os._exit(status)
        ended = wait(child, deadline, place, free, request["asked"])
        end_all()
        result.seek(0)
        content = b"" if ended else result.read()
    # what is left counts against the folder's size
    left = ["find", place.parent, "-xdev", "-mindepth", "1", "-delete"]
    subprocess.run(left, check=False, capture_output=True)  # what is mounted there stays
    return ended, content


def wait(child: int, deadline: float, place: Path, free: int, asked: int) -> int:
    """Wait until the child ends or has met a limit; the number of how it ended.

    Where the grader is gone, and so its lock on the request, this process leaves: with it all do.
    """
    while True:
        with contextlib.suppress(OSError):
            fcntl.lockf(asked, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os._exit(1)
        has_ended, status = os.waitpid(child, os.WNOHANG)
        if has_ended and not status:
            return ENDS.index("ran")
        now = os.statvfs(place)
        if now.f_bavail * now.f_frsize < FULL or free - now.f_ffree > MOST_FILES:
            return ENDS.index("disk")
        code = os.waitstatus_to_exitcode(status) if has_ended else None
        if time.monotonic() > deadline or code == -signal.SIGXCPU:
            return ENDS.index("timeout")
        if has_ended:
            return code if 0 < code < len(ENDS) else ENDS.index("crashed")
        time.sleep(0.005)


def end_all() -> None:
    """End whatever a task has started, and wait until it is gone; orphans are children of ours."""
    with contextlib.suppress(OSError):  # nothing is left
        os.kill(-1, signal.SIGKILL)  # all that we may kill but ourselves: the student's
        while os.waitpid(-1, 0)[0]:
            pass


def work(place: Path, job: dict, tensors: dict) -> bytes:
    """In the child: write the student's files, run the job's function, encode its outputs."""
    os.chdir(place)
    for name, text in job["files"].items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()
    return encode(getattr(sys.modules[RUNS], job["run"])(tensors, **job["arguments"]))


def encode(outputs: dict[str, Any]) -> bytes:
    """Outputs as safetensors: tensors, texts as bytes, and of all else whether it is None."""
    arrays = {}
    for name, output in outputs.items():
        plain = isinstance(output, torch.Tensor) and output.layout is torch.strided
        if plain and output.numel() <= MOST_NUMBERS and not output.is_complex():
            arrays[f"tensor/{name}"] = torch.empty(output.shape, dtype=output.dtype)
            arrays[f"tensor/{name}"].copy_(output.detach())
        elif isinstance(output, str):
            text = output.encode(errors="replace")[:MOST_TEXT]
            arrays[f"text/{name}"] = torch.tensor(list(text), dtype=torch.uint8)
        else:
            arrays[f"{'none' if output is None else 'other'}/{name}"] = torch.zeros(1)
    return save(arrays)


if __name__ == "__main__":
    main()
    os._exit(0)  # Python's own end takes half a second to throw away torch's modules
