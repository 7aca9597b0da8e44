"""The program in the sandbox that trains: it runs a student's classifier.py as a student would.

    python -I training.py FOLDER…      FOLDERs go in front of sys.path, the request comes on stdin

It lays out the student's files among the course's, gives up its rights (sandbox.py), runs one
command in a child with a time limit and sends back the files that are asked for, as bytes, whatever
they are. Frames as in worker.py. It holds no label that a student does not have.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

KEPT = 4096  # bytes of what the command printed last


def main() -> None:
    """Answer one request: frames with the layers, with each file that is there, and the end."""
    sys.path[:0] = sys.argv[1:]
    from course.grading.sandbox.confine import Limits, Who, confine
    from course.grading.sandbox.worker import PR_SET_DUMPABLE, frame, read_frame, sweep_up

    request, _ = read_frame(sys.stdin.buffer)
    answers = os.fdopen(os.dup(1), "wb")  # Python passes it on to no child
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # children cannot look into this process
    layers = confine(Limits(**request["limits"]), Who(**request["who"]))
    answers.write(frame({"layers": layers}))
    answers.flush()
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / "training"
    lay_out(folder, Path(request["course"]), request["files"])
    status = run(folder, request)
    sweep_up()
    for name in request["wanted"]:
        content = read(folder, name, request["most"])
        if content is not None:
            answers.write(frame({"file": name}, content))
    answers.write(frame({"status": status}, end_of(folder.with_name("said"))))
    answers.flush()


def lay_out(folder: Path, course: Path, files: dict[str, str]) -> None:
    """The course's files, templates and styles too, and the student's for what students write."""
    folder.mkdir()
    for pattern in ("*.py", "*.html", "*.css"):
        for path in course.rglob(pattern):
            target = folder / path.relative_to(course)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "predictions").mkdir()


def run(folder: Path, request: dict) -> str:
    """Run the command; "ended", "timeout" or "crashed"."""
    from course.grading.sandbox.confine import confine_task

    environment = {**os.environ, **request["environment"]}
    with open(folder.with_name("said"), "wb") as said:
        child = subprocess.Popen(
            request["command"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=confine_task,
        )
        try:
            code = child.wait(request["seconds"])
        except subprocess.TimeoutExpired:
            code = None
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    if code is None or code == -signal.SIGXCPU:
        return "timeout"
    return "crashed" if code else "ended"


def read(folder: Path, name: str, most: int) -> bytes | None:
    """A file that foreign code left: no link is followed, it is regular and not too long."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    *parents, last = Path(name).parts
    with contextlib.ExitStack() as opened:
        try:
            here = os.open(folder, flags | os.O_DIRECTORY)
            opened.callback(os.close, here)
            for parent in parents:
                here = os.open(parent, flags | os.O_DIRECTORY, dir_fd=here)
                opened.callback(os.close, here)
            number = os.open(last, flags, dir_fd=here)
        except OSError:
            return None
        opened.callback(os.close, number)
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            return None
        with os.fdopen(number, "rb", closefd=False) as file:
            return file.read(most)


def end_of(path: Path) -> bytes:
    """The end of what the command printed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - KEPT))
            return file.read(KEPT)
    except OSError:
        return b""


if __name__ == "__main__":
    main()
