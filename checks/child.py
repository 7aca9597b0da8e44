"""The process in which a student's code runs: there it may hang, crash or print.

A job that takes too long, or ends Python, is an outcome like others; the next job gets a new
process. Python's faulthandler writes down where such a process was, and where it was at Ctrl-C.
This module needs no torch until the process has started, and does not know what jobs do.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import linecache
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from checks.findings import ROOT, Finding, Outcome, is_students
from training.files.errors import InputError

JOBS = "checks.jobs"  # the module that has run(job)
FRAME = re.compile(r'File "(.+)", line (\d+) in (\S+)')  # of faulthandler, which escapes names
ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


class Child:
    """Runs jobs, one after the other, as ``with Child(60) as child: child.run("bert.embed")``.

    Args:
        limit: seconds that a job may take.
    """

    def __init__(self, limit: float):
        self.limit = limit
        self.process: multiprocessing.Process | None = None
        self.read = 0  # bytes of what was printed

    def __enter__(self) -> Child:
        self.place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.dump, self.output = Path(self.place.name) / "dump", Path(self.place.name) / "output"
        self.output.touch()
        return self

    def __exit__(self, *error: object) -> None:
        if self.process:
            self.process.kill()
            self.process.join()
        self.place.cleanup()

    def start(self) -> None:
        """A new process, ready for jobs; InputError if it cannot start."""
        spawn = multiprocessing.get_context("spawn")
        self.connection, other_end = spawn.Pipe()
        arguments = (other_end, self.output, self.dump, self.limit, JOBS)
        self.process = spawn.Process(target=serve, args=arguments, daemon=True)
        self.process.start()
        other_end.close()
        try:
            self.connection.recv()
        except EOFError:
            lines = self.printed() or ["it says nothing"]
            raise InputError(f"the checks cannot start: {lines[-1]}") from None

    def run(self, job: str, title: str) -> Outcome:
        """The outcome of a job.

        Raises:
            InputError: a file of the course's own is damaged.
        """
        if self.process is None:
            self.start()
        try:
            self.connection.send(job)
            outcome = self.connection.recv()
        except (EOFError, OSError):  # during the job, or since the one before
            return self.ended(title)
        if isinstance(outcome, InputError):
            raise outcome
        return outcome

    def ended(self, title: str) -> Outcome:
        """The outcome of a job that has ended its process."""
        self.process.join()
        status, self.process = self.process.exitcode, None
        where = self.where()
        if self.dump.read_text(encoding="utf-8", errors="replace").startswith("Timeout"):
            text = f"not done after {self.limit:g} seconds{where}   (an endless loop?)"
        else:
            text = f"Python itself ended, with status {status}{where}"
        return Outcome(title, "wrong", findings=(Finding("error", text),))

    def printed(self) -> list[str]:
        """The lines that the student's code has printed since the last call."""
        new = self.output.read_bytes()[self.read :]
        self.read += len(new)
        return new.decode(errors="replace").splitlines()

    def interrupted(self) -> str:
        """Where the student's code was when Ctrl-C came, for people; "" while it did not run."""
        time.sleep(0.2)  # until the process has written it
        return self.where()

    def where(self) -> str:
        """The innermost line of the student's that faulthandler saw, in words; "" without one."""
        if not self.dump.exists():  # it has not started yet
            return ""
        dump = self.dump.read_text(encoding="utf-8", errors="replace")
        for file, line, function in FRAME.findall(dump):
            path = Path(ESCAPE.sub(lambda code: chr(int(code[1] or code[2] or code[3], 16)), file))
            if is_students(path):
                code = linecache.getline(str(path), int(line)).strip()
                return f" at {path.name}:{line}, in {function}: {code}"
        return ""


def serve(connection: Connection, output: Path, dump: Path, limit: float, jobs: str) -> None:
    """The other end, in the new process: run jobs until there are no more.

    Args:
        output: the file to which goes what is printed.
        dump: the file for faulthandler.
        limit: seconds that a job may take.
        jobs: the module that has run(job).
    """
    os.chdir(ROOT)
    descriptor = os.open(output, os.O_WRONLY | os.O_APPEND)
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        os.dup2(descriptor, number)
        stream.reconfigure(encoding="utf-8", errors="replace", line_buffering=True)
    run = importlib.import_module(jobs).run
    with open(dump, "w", encoding="utf-8") as file:
        faulthandler.enable(file)
        if hasattr(faulthandler, "register"):  # not on Windows
            faulthandler.register(signal.SIGINT, file, all_threads=False)
        connection.send("ready")
        with contextlib.suppress(EOFError):
            while True:
                job = connection.recv()
                faulthandler.dump_traceback_later(limit, exit=True, file=file)
                try:
                    outcome = run(job)
                except InputError as error:  # a file of the course's own is damaged
                    outcome = error
                faulthandler.cancel_dump_traceback_later()
                sys.stdout.flush()
                connection.send(outcome)
