"""The program in the sandbox: it alone imports a student's code, and it only ever returns numbers.

    python worker.py FOLDER…       FOLDERs go in front of sys.path, the request comes on stdin

It knows inputs, not the right answers. It imports torch and the checks once and runs each task in a
child of its own, so that a task that hangs, crashes or changes what others use harms itself only.
The grader trusts nothing that comes from here.

The request is one safetensors message, with a JSON text as the bytes of its tensor ``request``. An
answer is a record for each job, in their order: HEAD with how it ended and the size of the
safetensors bytes that follow. The first record, an empty one, says that the jobs begin.
"""

from __future__ import annotations

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

RUNS = "course.grading.sandbox.runs"
HEAD = struct.Struct("<BQ")
ENDS = ("ran", "crashed", "timeout", "memory", "disk")  # how a task ended, by number
OTHERS = (None, (), [], {}, True, 0, 0.0, "", object())  # for what is no tensor, by number
MOST_NUMBERS = 1_000_000  # in one output
MOST_FILES = 10_000  # of a task
FULL = 64 << 10  # bytes that are left of a folder that is full


def main() -> None:
    """Answer one request."""
    sys.path[:1] = sys.argv[1:]  # instead of this file's own
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the first process gets none without a handler
    from safetensors.torch import load

    tensors = load(sys.stdin.buffer.read())
    request = json.loads(tensors.pop("request").numpy().tobytes())
    answers, nothing = os.fdopen(os.dup(1), "wb"), os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)  # what foreign code prints is not an answer
    for name in request["imports"]:  # before the fork, once for all tasks
        importlib.import_module(name)
    importlib.import_module(RUNS).warm_up(gradients=request["gradients"])
    record(answers, "ran", b"")
    for number, job in enumerate(request["jobs"]):
        place = Path(tempfile.gettempdir(), f"job-{number}")
        place.mkdir()
        record(answers, *in_child(place, job, tensors, request["seconds"], answers))
        # what is left counts against the folder's size
        subprocess.run(["find", place.parent, "-mindepth", "1", "-delete"], check=False)


def record(answers: Any, ended: str, content: bytes) -> None:
    """Tell the grader how a job ended."""
    answers.write(HEAD.pack(ENDS.index(ended), len(content)) + content)
    answers.flush()


def in_child(
    place: Path, job: dict, tensors: dict, seconds: float, answers: Any
) -> tuple[str, bytes]:
    """Run one job in a forked child: how it ended, and the safetensors bytes that it left."""
    files = os.statvfs(place).f_ffree  # that there is room for
    with tempfile.TemporaryFile() as result:
        child = os.fork()
        if child == 0:
            status = ENDS.index("crashed")
            try:
                os.setsid()
                answers.close()
                os.nice(10)  # the grader and whatever else runs here go first
                result.write(work(place, job, tensors))
                result.flush()
                status = ENDS.index("ran")
            except MemoryError:
                status = ENDS.index("memory")
            finally:
                os._exit(status)
        ended = wait(child, time.monotonic() + seconds, place, files)
        end_all()
        if ended == "crashed" and is_full(place, files):
            ended = "disk"
        result.seek(0)
        return ended, result.read() if ended == "ran" else b""


def wait(child: int, deadline: float, place: Path, files: int) -> str:
    """Wait until the child ends or has met a limit; how it ended."""
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended and os.WIFSIGNALED(status):
            return "timeout" if os.WTERMSIG(status) == signal.SIGXCPU else "crashed"
        if ended:
            known = os.WEXITSTATUS(status) < len(ENDS)
            return ENDS[os.WEXITSTATUS(status)] if known else "crashed"
        if is_full(place, files):
            return "disk"
        time.sleep(0.005)
    return "timeout"


def is_full(place: Path, files: int) -> bool:
    """Whether a task has filled the folder, or made too many of the files it has room for."""
    now = os.statvfs(place)
    return now.f_bavail * now.f_frsize < FULL or files - now.f_ffree > MOST_FILES


def end_all() -> None:
    """End whatever a task has started, and wait until it is gone; orphans are children of ours."""
    try:
        os.kill(-1, signal.SIGKILL)  # all that we may kill but ourselves: the student's
        while os.waitpid(-1, 0)[0]:
            pass
    except OSError:  # there is none, or no child is left to wait for
        return


# ---------------------------------------------------------------------------------------------
# In the child


def work(place: Path, job: dict, tensors: dict) -> bytes:
    """Write the student's files, run the job's function, encode its outputs."""
    code = place / "minbert"
    for name, text in job["files"].items():
        path = code / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    code.mkdir(exist_ok=True)
    os.chdir(code)
    sys.path.insert(0, str(code))
    importlib.invalidate_caches()
    return encode(getattr(sys.modules[RUNS], job["run"])(tensors, **job["arguments"]))


def encode(outputs: dict[str, Any]) -> bytes:
    """Outputs as safetensors: tensors, texts as their bytes, for all else its number in OTHERS."""
    import torch
    from safetensors.torch import save

    tensors = {}
    for name, output in outputs.items():
        plain = isinstance(output, torch.Tensor) and output.layout is torch.strided
        if plain and output.numel() <= MOST_NUMBERS and not output.is_complex():
            copy = torch.empty(output.shape, dtype=output.dtype).copy_(output.detach())
            tensors[f"tensor/{name}"] = copy
        elif isinstance(output, str) and output:
            text = bytearray(output.encode(errors="replace")[:8000])
            tensors[f"text/{name}"] = torch.frombuffer(text, dtype=torch.uint8)
        else:
            kinds = [type(other) for other in OTHERS]
            number = kinds.index(type(output)) if type(output) in kinds else len(kinds) - 1
            tensors[f"other/{name}"] = torch.tensor(number, dtype=torch.uint8)
    return save(tensors)


if __name__ == "__main__":
    main()
    os._exit(0)  # Python's own end takes half a second to throw away torch's modules
