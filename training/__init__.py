"""Training: its loop, files, flags and reports. Importing it makes syntax errors one line."""

import os
import sys
from types import TracebackType


def show_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show an error that ends the program: that a file is not Python in one line, status 2."""
    if not isinstance(error, SyntaxError) or not os.path.isfile(error.filename or ""):
        sys.__excepthook__(kind, error, trace)
        return
    file, text = os.path.relpath(error.filename), (error.text or "").strip()
    print(f"error: {file}, line {error.lineno}: {error.msg}: {text}", file=sys.stderr)
    sys.exit(2)


sys.excepthook = show_error  # no try helps: a script imports students' files before it runs
