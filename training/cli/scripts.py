"""How a script runs: what a user can fix is one line, and several processes end together."""

import sys
from collections.abc import Callable
from typing import Any

from training.files.errors import InputError, Stopped, first_line, output_fault
from training.loop.processes import is_main_process, leave_processes

# What PyTorch says where the memory is full, of a GPU or of the machine
FULL = ("out of memory", "can't allocate memory", "ALLOC_FAILED")


def run_script(main: Callable[[], Any]) -> None:
    """Run a script's ``main``: bad input is one line on stderr and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a console without UTF-8 shows ? for ·
    try:
        main()
        sys.stdout.flush()
        leave_processes(0)
    except KeyboardInterrupt:
        sys.exit("\ninterrupted" if is_main_process() else 1)
    except OSError:
        if (fault := output_fault()) is None:
            raise
        leave_processes(1)
        sys.exit(fault or 1)
    except (InputError, RuntimeError) as error:  # the same in all processes, if there are several
        if (line := one_line(error)) is None:
            raise
        if is_main_process():
            print(line, file=sys.stderr)
        leave_processes(1)
        sys.exit(1 if isinstance(error, (Stopped, RuntimeError)) else 2)  # 2 as argparse does


def one_line(error: Exception) -> str | None:
    """What is said of an error that a user can fix; None for any other."""
    if isinstance(error, InputError):
        return str(error) if isinstance(error, Stopped) else f"error: {error}"
    if isinstance(error, NotImplementedError) and str(error).startswith("Task "):  # of a stub
        return f"error: {error} is not written yet; python sanity_check.py says where to begin"
    if any(words in str(error) for words in FULL):
        remedy = "lower --batch_size or raise --accumulate, or free some and go on with --resume"
        return f"error: the memory is full ({first_line(error)}); {remedy}"
    return None
