"""The program in the sandbox: it alone imports a student's code, and it only ever returns arrays.

    python worker.py FOLDER…       FOLDERs go in front of sys.path, the request comes on stdin

It knows inputs, no right answers. It imports torch and the checks once, gives up its rights
(sandbox.py) and runs each task in a child of its own, so that a task that hangs, crashes or changes
what others use harms itself only. A child leaves its arrays in a file; this process passes them on
to the grader and never looks into them. The grader trusts nothing that comes from here.

Request and answer are frames: eight bytes with the lengths of a JSON text and of safetensors bytes,
then both.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import stat
import struct
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

HEAD = struct.Struct("<II")
PR_SET_DUMPABLE = 4
BIGGEST = 1_000_000  # numbers in one output
MOST_TEXT = 2**20  # bytes that an answer's JSON may have


def read_frame(stream: BinaryIO, most_text: int = 2**30) -> tuple[dict, bytes] | None:
    """The next frame's JSON and bytes; None at the end, or where it is cut off or no frame.

    Args:
        most_text: bytes of the JSON text, which takes fifty times as many when it is read.
    """
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    sizes = HEAD.unpack(head)
    if sizes[0] > most_text:
        return None
    text, data = (stream.read(size) for size in sizes)
    if (len(text), len(data)) != sizes:
        return None
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return (said, data) if isinstance(said, dict) else None


def frame(said: dict, data: bytes = b"") -> bytes:
    """A frame's bytes."""
    text = json.dumps(said).encode()
    return HEAD.pack(len(text), len(data)) + text + data


def main() -> None:
    """Answer one request."""
    folders = sys.argv[1:]
    sys.path[:1] = folders  # instead of this file's own
    sys.dont_write_bytecode = True
    from safetensors.torch import load, save

    from course.grading.sandbox.confine import Limits, Who, confine

    request, data = read_frame(sys.stdin.buffer)
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)  # what foreign code prints is no answer
    limits = Limits(**request["limits"])
    for name in request["imports"]:  # before the fork, once for all tasks
        importlib.import_module(name)
    runs = importlib.import_module("course.grading.sandbox.runs")
    runs.warm_up(gradients=request["gradients"])
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # children cannot look into this process
    answers.write(frame({"layers": confine(limits, Who(**request["who"]))}))
    answers.flush()
    tensors = load(data)
    for number, job in enumerate(request["jobs"]):
        job |= {"beside": folders[1:], "hidden": request["hidden"]}
        said, content = in_child(Path(f"job-{number}"), job, tensors, save, answers.fileno())
        answers.write(frame(said | {"job": job["name"]}, content))
        answers.flush()


def in_child(place: Path, job: dict, tensors: dict, save: Any, secret: int) -> tuple[dict, bytes]:
    """Run one job in a forked child; what it left: (status and message, safetensors bytes).

    Args:
        secret: the descriptor of the answers.
    """
    from course.grading.sandbox.confine import confine_task
    from course.grading.sandbox.removal import remove

    place = Path(os.environ.get("TMPDIR", "/tmp")) / place
    place.mkdir()
    result = place / "result"
    deadline = time.monotonic() + job["seconds"]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            os.close(secret)
            confine_task()
            said, content = work(place, job, tensors, save)
            result.write_bytes(frame(said, content))
            status = 0
        finally:
            os._exit(status)
    ended = wait(child, deadline)
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    sweep_up()
    said, content = left_behind(result) or ({"status": "crashed"}, b"")
    for left in place.parent.iterdir():
        with contextlib.suppress(OSError):  # it is not the student's
            remove(left)
    if ended is None or (os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGXCPU):
        said, content = {"status": "timeout"}, b""
    return said, content


def sweep_up() -> None:
    """End what left the child's group, and wait until it is gone; orphans are children of ours."""
    with contextlib.suppress(OSError):  # there is none, or no child is left to wait for
        os.kill(-1, signal.SIGKILL)  # all that we may kill but ourselves: the student's
        while os.waitpid(-1, 0)[0]:
            pass


def wait(child: int, deadline: float) -> int | None:
    """The child's wait status; None if it had to be killed."""
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.005)
    with contextlib.suppress(OSError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def left_behind(path: Path) -> tuple[dict, bytes] | None:
    """The frame in a child's file, which may be anything by now: no link is followed."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        return None
    with os.fdopen(number, "rb") as file:
        return read_frame(file, MOST_TEXT)


# ---------------------------------------------------------------------------------------------
# In the child


def work(place: Path, job: dict, tensors: dict, save: Any) -> tuple[dict, bytes]:
    """Write the student's files, run the job's function, encode its outputs."""
    from course.grading.sandbox.likeness import hide, look_like_checks

    code = place / "minbert"
    code.mkdir()
    for name, text in job["files"].items():
        path = code / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    module, _, name = job["run"].partition(":")
    run = getattr(importlib.import_module(module), name)
    hide(job["hidden"], code)
    look_like_checks(code, [*job["folders"], *job["beside"]])
    try:
        outputs = run(tensors, **job["arguments"])
    except MemoryError:
        return {"status": "memory"}, b""
    return encode(outputs, save)


def encode(outputs: dict[str, Any], save: Any) -> tuple[dict, bytes]:
    """Tensors as safetensors; of everything else the type's name, of texts the text."""
    import torch

    arrays, others, texts = {}, {}, {}
    for name, output in outputs.items():
        plain = isinstance(output, torch.Tensor) and output.layout is torch.strided
        if plain and output.numel() <= BIGGEST and not output.is_complex():
            arrays[name] = torch.empty(output.shape, dtype=output.dtype).copy_(output.detach())
        elif isinstance(output, str):
            texts[name] = str(output)[:2000]
        else:
            kind = "UnusualTensor" if isinstance(output, torch.Tensor) else type(output).__name__
            others[name] = kind[:40]
    return {"status": "ran", "others": others, "texts": texts}, save(arrays)


if __name__ == "__main__":
    main()
    os._exit(0)  # Python's own end takes half a second to throw away torch's modules
