"""How a script runs: what a user can fix is one line, and several processes end together."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from training.files.errors import InputError, Stopped, reader_left
from training.loop.devices import device_fault
from training.loop.processes import is_main_process, leave_processes

ROOT = Path(__file__).resolve().parents[2]


def run_script(main: Callable[[], Any]) -> None:
    """Run a script's ``main``: bad input is one line on stderr and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a console without UTF-8 shows ? for ·
    try:
        main()
        sys.stdout.flush()
        leave_processes()
    except KeyboardInterrupt:
        sys.exit("\ninterrupted" if is_main_process() else 1)
    except BrokenPipeError:
        if not reader_left():
            raise
        leave_processes("the output is read no more")
        sys.exit(1)
    except (InputError, RuntimeError) as error:  # the same in all processes, if there are several
        line = one_line(error)
        if line is None:
            raise
        leave_processes(line)
        print(line, file=sys.stderr)
        sys.exit(2 if type(error) is InputError else 1)  # 2 as argparse does


def one_line(error: Exception) -> str | None:
    """What is said of an error that a user can fix; None for any other."""
    if isinstance(error, InputError):
        return str(error) if isinstance(error, Stopped) else f"error: {error}"
    if isinstance(error, NotImplementedError):
        text = str(error)  # a stub's is its task's title
        check = f"python sanity_check.py --task {''.join(text.split()[1:2])}"
        return f"error: {text} is not written yet; run {check}" if text[:5] == "Task " else None
    fault = device_fault(error)
    return fault and f"error: {fault}"


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
        match statement:
            case ast.For() | ast.With():
                if title := stub_title(statement.body):
                    return title
            case ast.Raise(exc=ast.Call(args=[ast.Constant(value=str(text))])):
                return text if text.startswith("Task ") else None
            case ast.Return() | ast.Continue():
                return None
    return None
