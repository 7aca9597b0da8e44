"""The program in the sandbox: it alone imports a student's code, and it only ever returns arrays.

    python worker.py FOLDER…       FOLDERs go in front of sys.path, the request comes on stdin

It knows inputs, not the right answers. It imports torch and the checks once, gives up its rights
(confine.py) and runs each task in a child of its own, so that a task that hangs, crashes or changes
what others use harms itself only. A child leaves its arrays in a file; this process passes them on
to the grader and never looks into them. The grader trusts nothing that comes from here.

Request and answer are frames: eight bytes with the lengths of a JSON text and of safetensors bytes,
then both.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib
import importlib.machinery
import json
import os
import shutil
import signal
import stat
import struct
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

RUNS = "course.grading.sandbox.runs"
HEAD = struct.Struct("<II")
PR_SET_DUMPABLE = 4
MOST_NUMBERS = 1_000_000  # in one output
MOST_TEXT = 2**20  # bytes that an answer's JSON may have
MOST_FILES = 10_000  # of a task; the kernel needs a kilobyte for an empty one
FULL = 64 << 10  # bytes that are left of a folder that is full
Frame = tuple[dict, bytes]  # the JSON text's table, safetensors bytes


def read_frame(stream: BinaryIO, most_text: int = 2**30) -> Frame | None:
    """The next frame's JSON and bytes; None at the end, or where it is cut off or not a frame.

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
        header = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return (header, data) if isinstance(header, dict) else None


def frame(header: dict, data: bytes = b"") -> bytes:
    """A frame's bytes."""
    text = json.dumps(header).encode()
    return HEAD.pack(len(text), len(data)) + text + data


def main() -> None:
    """Answer one request."""
    sys.path[:1] = sys.argv[1:]  # instead of this file's own
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the first process gets none without a handler
    from safetensors.torch import load, save

    from course.grading.sandbox.confine import MIB, Limits, confine

    request, data = read_frame(sys.stdin.buffer)
    asked, answers = os.dup(0), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)  # what foreign code prints is not an answer
    limits = Limits(**request["limits"])
    for name in request["imports"]:  # before the fork, once for all tasks
        importlib.import_module(name)
    importlib.import_module(RUNS).warm_up(gradients=request["gradients"])
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # children cannot look into this process
    confine(limits)
    answers.write(frame({"ready": True}))
    answers.flush()
    tensors = load(data)
    for number, job in enumerate(request["jobs"]):
        common = {name: request[name] for name in ("hidden", "seconds", "folders")}
        job |= common | {"memory": limits.total_mib * MIB}
        header, content = in_child(f"job-{number}", job, tensors, save, (asked, answers.fileno()))
        answers.write(frame(header | {"job": job["name"]}, content))
        answers.flush()


def in_child(name: str, job: dict, tensors: dict, save: Any, grader: tuple[int, int]) -> Frame:
    """Run one job in a forked child; what it left: (status and message, safetensors bytes).

    Args:
        grader: the descriptors of the grader's files, its request and the answers.
    """
    place = Path(os.environ.get("TMPDIR", "/tmp")) / name
    place.mkdir()
    result = place / "result"
    deadline = time.monotonic() + job["seconds"]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            for number in grader:
                os.close(number)
            os.nice(10)  # the grader and whatever else runs here go first
            header, content = work(place, job, tensors, save)
            result.write_bytes(frame(header, content))
            status = 0
        finally:
            os._exit(status)
    stopped = watch(child, deadline, job["memory"], grader[0], place)
    end_all()
    without = "disk" if is_full(place) else "crashed"
    header, content = left_behind(result) or ({"status": without}, b"")
    for path in place.parent.iterdir():  # what is left counts against the folder's size
        with contextlib.suppress(RecursionError):
            shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            path.unlink()
    return ({"status": stopped}, b"") if stopped else (header, content)


def watch(child: int, deadline: float, most_memory: int, asked: int, place: Path) -> str:
    """Wait for the child; why it had to be stopped: "timeout", "memory", "disk"; "": it ended.

    Where the grader is gone, this process leaves at once. The kernel then ends the whole namespace.

    Args:
        asked: the descriptor of the request, a file that the grader has locked as long as it lives.
        place: the child's folder.
    """
    looked, before = time.monotonic(), os.statvfs(place).f_ffree  # files that there is room for
    while (now := time.monotonic()) < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            out_of_time = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
            return "timeout" if out_of_time else ""
        if now - looked > 0.2:
            looked = now
            with contextlib.suppress(OSError):
                fcntl.lockf(asked, fcntl.LOCK_SH | fcntl.LOCK_NB)
                os._exit(1)
            if memory() > most_memory:
                return "memory"
            if before - os.statvfs(place).f_ffree > MOST_FILES:
                return "disk"
        time.sleep(0.005)
    return "timeout"


def is_full(place: Path) -> bool:
    """Whether nothing more can be written where a folder is."""
    now = os.statvfs(place)
    return now.f_bavail * now.f_frsize < FULL


def memory() -> int:
    """Bytes that all processes of this user hold, as far as this one sees them."""
    kib = 0
    for path in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it has ended
            lines = dict(
                line.split(":", 1) for line in path.read_text(errors="replace").splitlines()
            )
            if int(lines["Uid"].split()[0]) == os.getuid():
                kib += int(lines.get("VmRSS", "0 kB").split()[0])
    return kib * 1024


def end_all() -> None:
    """End whatever a task has started, and wait until it is gone; orphans are children of ours."""
    with contextlib.suppress(OSError):  # there is none, or no child is left to wait for
        os.kill(-1, signal.SIGKILL)  # all that we may kill but ourselves: the student's
        while os.waitpid(-1, 0)[0]:
            pass


def left_behind(path: Path) -> Frame | None:
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


def work(place: Path, job: dict, tensors: dict, save: Any) -> Frame:
    """Write the student's files, run the job's function, encode its outputs."""
    code = place / "minbert"
    for name, text in job["files"].items():
        path = code / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    code.mkdir(exist_ok=True)
    os.chdir(code)
    sys.path[:0] = [str(code), *job["folders"]]
    finder = sys.meta_path.index(importlib.machinery.PathFinder)
    sys.meta_path[finder] = OnlyAllowed(job["hidden"], code)  # for what is not loaded yet
    importlib.invalidate_caches()
    try:
        outputs = getattr(sys.modules[RUNS], job["run"])(tensors, **job["arguments"])
    except MemoryError:
        return {"status": "memory"}, b""
    return encode(outputs, save)


class OnlyAllowed(importlib.machinery.PathFinder):
    """In place of Python's finder of files: does not find some modules that are installed.

    To look for one of them is not an error: torch.compile asks which packages there are.

    Args:
        hidden: their names.
        code: the folder where a student's own modules may have such names.
    """

    def __init__(self, hidden: list[str], code: Path):
        self.hidden, self.code = frozenset(hidden), str(code)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """What PathFinder finds; for a hidden name the student's own module, or None."""
        if path is None and name in self.hidden:
            path = [self.code]
        return super().find_spec(name, path, target)


def encode(outputs: dict[str, Any], save: Any) -> Frame:
    """Tensors as safetensors; of everything else the type's name, of texts the text."""
    import torch

    arrays, others, texts = {}, {}, {}
    for name, output in outputs.items():
        plain = isinstance(output, torch.Tensor) and output.layout is torch.strided
        if plain and output.numel() <= MOST_NUMBERS and not output.is_complex():
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
