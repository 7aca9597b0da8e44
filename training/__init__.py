"""Training: its loop, files, flags and reports. Importing it decides how an error ends a script."""

import os
import sys
import traceback
from types import TracebackType

from training.files.errors import InputError

# Errors whose cause is no function of a task
ELSEWHERE = (InputError, KeyboardInterrupt, MemoryError, ModuleNotFoundError, OSError, SyntaxError)


def show_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show an error that ends the program: that a file is not Python in one line, status 2.

    Below a traceback a script that uses the tasks' functions says what checks them.
    """
    if not isinstance(error, SyntaxError) or not os.path.isfile(error.filename or ""):
        sys.__excepthook__(kind, error, trace)
        uses_tasks = "bert" in sys.modules or 'bert.py"' in "".join(traceback.format_tb(trace))
        if uses_tasks and "checks" not in sys.modules and not isinstance(error, ELSEWHERE):
            print("python sanity_check.py checks every function of part 1", file=sys.stderr)
        return
    file, text = os.path.relpath(error.filename), (error.text or "").strip()
    print(f"error: {file}, line {error.lineno}: {error.msg}: {text}", file=sys.stderr)
    sys.exit(2)


sys.excepthook = show_error  # no try helps: a script imports students' files before it runs
