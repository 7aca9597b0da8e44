"""The process in which a student's code runs, seen from outside: it may hang, crash or print.

A job that takes too long, or ends Python, is an outcome like others; the next job gets a new
process. checks/worker.py is the other end. It needs no torch, and does not know what jobs do.
"""

from __future__ import annotations

import json
import linecache
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks.findings import ROOT, Finding, Outcome, is_students
from training.files.errors import InputError

FRAME = re.compile(r'File "(.+)", line (\d+) in (\S+)')  # of faulthandler, which escapes names
ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


class Child:
    """Runs jobs, one after the other, as ``with Child(60) as child: child.run("bert.embed")``.

    Args:
        limit: seconds that a job may take.
    """

    def __init__(self, limit: float):
        self.limit = limit
        self.process: subprocess.Popen | None = None
        self.read = 0  # bytes of what was printed

    def __enter__(self) -> Child:
        self.place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.dump = Path(self.place.name) / "dump"
        self.output = open(Path(self.place.name) / "output", "wb")
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        self.output.close()
        self.place.cleanup()

    def start(self) -> None:
        """A new process, ready for jobs; InputError if it cannot start."""
        command = [sys.executable, "-m", "checks.worker", str(self.dump), str(self.limit)]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.output,
            encoding="utf-8",
        )
        if not self.process.stdout.readline():
            self.process.wait()
            lines = self.printed() or ["it says nothing"]
            raise InputError(f"the checks cannot start: {lines[-1]}")

    def stop(self) -> None:
        """End the process, if there is one."""
        if self.process:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def run(self, job: str, title: str) -> Outcome:
        """The outcome of a job.

        Raises:
            InputError: a file of the course's own is damaged.
        """
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(f"{job}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:  # it has ended since the job before
            line = ""
        if not line:
            return self.ended(title)
        answered = json.loads(line)
        if "error" in answered:
            raise InputError(answered["error"])
        outcome = answered["outcome"]
        findings = tuple(Finding(**finding) for finding in outcome.pop("findings"))
        return Outcome(**outcome, findings=findings)

    def ended(self, title: str) -> Outcome:
        """The outcome of a job that has ended its process."""
        status = self.process.wait()
        self.process = None
        dump = self.dump.read_text(encoding="utf-8", errors="replace")
        where = where_in(dump)
        if dump.startswith("Timeout"):
            text = f"not done after {self.limit:g} seconds{where}   (an endless loop?)"
        else:
            text = f"Python itself ended, with status {status}{where}"
        return Outcome(title, "wrong", findings=(Finding("error", text),))

    def printed(self) -> list[str]:
        """The lines that the student's code has printed since the last call."""
        with open(self.output.name, "rb") as file:
            file.seek(self.read)
            new = file.read()
        self.read += len(new)
        return new.decode(errors="replace").splitlines()

    def interrupted(self) -> str:
        """Where the student's code was when Ctrl-C came, for people; "" while it did not run."""
        time.sleep(0.2)  # until the process has written it
        if not self.dump.exists():  # it has not started yet
            return ""
        return where_in(self.dump.read_text(encoding="utf-8", errors="replace"))


def where_in(dump: str) -> str:
    """The innermost line of the student's that faulthandler saw, in words; "" if there is none."""
    for file, line, function in FRAME.findall(dump):
        path = Path(ESCAPE.sub(lambda code: chr(int(code[1] or code[2] or code[3], 16)), file))
        if is_students(path):
            code = linecache.getline(str(path), int(line)).strip()
            return f" at {path.name}:{line}, in {function}: {code}"
    return ""
