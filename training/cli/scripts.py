"""How a script runs: what a user can fix is one line, and several processes end together."""

from __future__ import annotations

import ast
import errno
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from training.files.errors import InputError, Stopped, reader_left
from training.loop.devices import device_fault
from training.loop.processes import is_main_process, leave_processes

ROOT = Path(__file__).resolve().parents[2]


def run_script(main: Callable[[], Any]) -> None:
    """Run a script's ``main``: an InputError becomes one line on stderr and exit status 1."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a console without UTF-8 shows ? for ·
    try:
        main()
        sys.stdout.flush()
        leave_processes()
    except InputError as error:  # the same one in all processes, if there are several
        said = str(error) if isinstance(error, Stopped) else f"error: {error}"
        leave_processes(said)
        sys.exit(said)
    except NotImplementedError as error:  # which is a RuntimeError
        if not str(error).startswith("Task "):  # a stub's text is its task's title
            raise
        check = f"python sanity_check.py --task {str(error).split()[1]}"
        stub = f"error: {error} is not written yet; run {check}"
        leave_processes(stub)
        sys.exit(stub)
    except RuntimeError as error:
        fault = device_fault(error)
        if fault is None:
            raise
        leave_processes(f"error: {fault}")
        sys.exit(f"error: {fault}")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted" if is_main_process() else 1)
    except BrokenPipeError:
        if not reader_left():
            raise
        leave_processes("the output is read no more")
        sys.exit(1)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        sys.exit(f"error: {str(error.filename)[:80]} … is too long for a file's name; shorten it")


def stop_at_stubs(script: str, functions: Collection[str]) -> None:
    """Raise the error of the first stub that a training run would call, before it prints anything.

    Args:
        script: "classifier.py", say, which also takes all of bert.py and optimizer.py.
        functions: the names of those that the run calls in ``script``.
    """
    for file in ("bert.py", "optimizer.py", script):
        for node in ast.walk(ast.parse((ROOT / file).read_bytes())):
            if isinstance(node, ast.FunctionDef) and (file != script or node.name in functions):
                if title := stub_title(node.body):
                    raise NotImplementedError(title)


def stub_title(statements: Sequence[ast.stmt]) -> str | None:
    """The title of the task that a block of code always ends in; an ``if`` may lead around it."""
    for statement in statements:
        title = None
        match statement:
            case ast.For() | ast.With():
                title = stub_title(statement.body)
            case ast.Raise(exc=ast.Call(args=[ast.Constant(value=str(text))])):
                title = text if text.startswith("Task ") else None
            case ast.Return() | ast.Continue():
                return None
        if title:
            return title
    return None
