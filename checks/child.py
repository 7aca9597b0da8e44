"""The process in which a student's code runs: there it may hang, crash or print.

A job that takes too long, or ends Python, is an outcome like others; the next job gets a new
process. Python's faulthandler writes down where such a process was, and where it was at Ctrl-C.
Only the new process, ``python -m checks.child``, needs torch.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import re
import signal
import sys
import tempfile
import warnings
from dataclasses import asdict
from pathlib import Path
from subprocess import PIPE, Popen

from checks.findings import ROOT, Finding, Outcome, is_students
from training.files.errors import InputError

FRAME = re.compile(r'File "(.+)", line (\d+) in (\S+)')  # of faulthandler


class Child:
    """Runs jobs, one after the other, as ``with Child(60) as child: child.run("bert.embed")``.

    Args:
        limit: seconds that a job may take.
        jobs: the module that has run(job).
    """

    def __init__(self, limit: float, jobs: str = "checks.jobs"):
        self.limit, self.jobs = limit, jobs
        self.process: Popen | None = None
        self.read = 0  # bytes of what was printed

    def __enter__(self) -> Child:
        self.place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.dump, self.output = Path(self.place.name) / "dump", Path(self.place.name) / "output"
        self.output.touch()
        return self

    def __exit__(self, *error: object) -> None:
        if self.process:
            self.process.kill()
            self.process.communicate()
        self.place.cleanup()

    def start(self) -> None:
        """A new process, ready for jobs; InputError if it cannot start."""
        command = [sys.executable, "-m", "checks.child", self.dump, str(self.limit), self.jobs]
        with open(self.output, "ab") as output:
            self.process = Popen(
                command, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=output, encoding="utf-8"
            )
        if not self.process.stdout.readline():
            lines = self.printed() or ["it says nothing"]
            raise InputError(f"the checks cannot start: {lines[-1]}")

    def run(self, job: str, title: str) -> Outcome:
        """The outcome of a job.

        Raises:
            InputError: a file of the course's own is damaged.
        """
        if self.process is None:
            self.start()
        try:
            print(job, file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except OSError:  # it has ended since the job before
            line = ""
        if not line:
            return self.ended(title)
        outcome = json.loads(line)
        if "error" in outcome:
            raise InputError(outcome["error"])
        findings = tuple(Finding(**finding) for finding in outcome.pop("findings"))
        return Outcome(**outcome, findings=findings)

    def ended(self, title: str) -> Outcome:
        """The outcome of a job that has ended its process."""
        status, self.process = self.process.wait(), None
        where = self.where()
        if self.dump.read_text(encoding="utf-8", errors="replace").startswith("Timeout"):
            why = "an endless loop, or a busy machine: --limit 200 waits for longer"
            text = f"not done after {self.limit:g} seconds{where}   ({why})"
        else:
            text = f"Python itself ended, with status {status}{where}"
        return Outcome(title, "wrong", findings=(Finding("error", text),))

    def printed(self) -> list[str]:
        """The lines that the student's code has printed since the last call."""
        new = self.output.read_bytes()[self.read :]
        self.read += len(new)
        return new.decode(errors="replace").splitlines()

    def where(self) -> str:
        """The innermost line of the student's that faulthandler saw, in words; "" without one."""
        if not self.dump.exists():  # it has not started yet
            return ""
        dump = self.dump.read_text(encoding="utf-8", errors="replace")
        for file, line, function in FRAME.findall(dump):
            if is_students(Path(file)):
                return f" at {Path(file).name}:{line}, in {function}"
        return ""


def serve(dump: str, limit: float, jobs: str) -> None:
    """The other end, in the new process: run jobs until there are no more.

    What the student's code prints goes to standard error, and it has no input.

    Args:
        dump: the file for faulthandler.
        limit: seconds that a job may take.
        jobs: the module that has run(job).
    """
    commands, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace", line_buffering=True)
    warnings.simplefilter("ignore")  # torch's would name the checks' lines
    run = importlib.import_module(jobs).run
    with open(dump, "w", encoding="utf-8") as file:
        faulthandler.enable(file)
        if hasattr(faulthandler, "register"):  # not on Windows
            faulthandler.register(signal.SIGINT, file, all_threads=False)
        print("ready", file=answers, flush=True)
        for command in commands:
            faulthandler.dump_traceback_later(limit, exit=True, file=file)
            try:
                outcome = asdict(run(command.strip()))
            except InputError as error:  # a file of the course's own is damaged
                outcome = {"error": str(error)}
            faulthandler.cancel_dump_traceback_later()
            sys.stdout.flush()
            print(json.dumps(outcome), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], float(sys.argv[2]), sys.argv[3])
