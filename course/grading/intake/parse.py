"""Reduce students' sources to their import statements, in a process of its own with limits.

    python -I -S parse.py < SOURCES > IMPORTS

Python's parser may crash on a hostile text (see the warning at ``ast.parse`` in its documentation),
and half a megabyte of text can take it half a gigabyte of memory.

A line of JSON for each file comes in; a first line, then one for each file go out. It runs nothing
of what it reads and must not import the repository. In the grader's own process ONE_AT_A_TIME is
for all who parse: ``ast.parse`` counts its depth for all threads together (seen in Python 3.11),
and two at once may end in a SystemError.
"""

import ast
import contextlib
import json
import resource
import sys
import threading

READY = "ready"
ONE_AT_A_TIME = threading.Lock()
SECONDS, MEMORY = 10, 512 << 20
DOTS, LETTERS = 20, 100_000  # of a statement; of all statements of all files


def reduce(source: str) -> tuple[list[str], str]:
    """A source's import statements, and what is wrong with it ("": nothing)."""
    try:
        tree = ast.parse(source)
        compile(tree, "submission", "exec", dont_inherit=True)
    except SyntaxError as error:
        return [], f"line {error.lineno}: {str(error.msg)[:150]}"
    except (RecursionError, MemoryError, ValueError, OverflowError) as error:
        return [], f"too deeply nested or too large ({type(error).__name__})"
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return [ast.unparse(node) for node in imports], ""


def main() -> None:
    """Answer line by line, so that what was found before a crash is not lost."""
    for limit, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, MEMORY)):
        with contextlib.suppress(ValueError, OSError):  # macOS knows no RLIMIT_AS
            resource.setrlimit(limit, (most, most))
    print(READY, flush=True)
    left = LETTERS
    for line in sys.stdin:
        path, source = json.loads(line)
        statements, fault = reduce(source)
        kept = []
        for statement in statements:
            left -= len(statement)
            if left > 0 and statement.count(".") <= DOTS:
                kept.append(statement)
        print(json.dumps([path, "\n".join(kept), fault]), flush=True)


if __name__ == "__main__":
    main()
