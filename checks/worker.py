"""The process in which a student's code runs: ``python -m checks.worker DUMP SECONDS``.

It reads the name of a job from standard input, runs it, and answers with a line of JSON, until its
input ends. What the student's code prints goes to standard error instead. A job that takes too long
ends the process, in whatever code it is, and Python's faulthandler writes into the file DUMP where
it was: so does a crash of Python itself, and Ctrl-C. checks/child.py is the other end.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from dataclasses import asdict
from typing import IO, Any

from checks.jobs import run
from training.files.errors import InputError


def answer(name: str) -> dict[str, Any]:
    """What is answered to the name of a job."""
    try:
        return {"outcome": asdict(run(name))}
    except InputError as error:  # a file of the course's own is damaged
        return {"error": str(error)}


def separate_streams() -> tuple[IO[str], IO[str]]:
    """Commands and answers; from here on the student's code has no input and prints elsewhere."""
    commands = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace", line_buffering=True)
    return commands, answers


def main() -> None:
    """Run jobs until there are no more."""
    commands, answers = separate_streams()
    with open(sys.argv[1], "w", encoding="utf-8") as dump:
        faulthandler.enable(dump)
        if hasattr(faulthandler, "register"):  # not on Windows
            faulthandler.register(signal.SIGINT, dump, all_threads=False)
        print("ready", file=answers, flush=True)
        for line in commands:
            faulthandler.dump_traceback_later(float(sys.argv[2]), exit=True, file=dump)
            answered = answer(line.strip())
            faulthandler.cancel_dump_traceback_later()
            sys.stdout.flush()
            print(json.dumps(answered), file=answers, flush=True)


if __name__ == "__main__":
    main()
