"""Which files of a folder a script imports: a student's own are handed in with it.

It only parses them, and imports none.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path


def imports(source: str | bytes, path: Path) -> Iterator[Path]:
    """Where the modules that ``source``, what is in ``path``, imports would lie in this folder."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            depth = len(path.parent.parts) - node.level + 1  # of what the dots stand for
            here = path.parent.parts[: max(0, depth)] if node.level else ()
            module = ".".join([*here, *filter(None, [node.module])])
            # ``from package import name``: the name may be a file of the package
            names = [module, *(f"{module}.{name.name}".strip(".") for name in node.names)]
        else:
            continue
        for name in filter(None, names):
            module = Path(*name.split("."))
            yield from (parent / "__init__.py" for parent in (*module.parents[:-1], module))
            yield module.with_suffix(".py")


def imported_files(path: Path) -> list[Path]:
    """The Python files in the current folder and its packages that a source file imports."""
    try:
        return [file for file in imports(path.read_bytes(), path) if file.is_file()]
    except (OSError, SyntaxError, ValueError):  # a fault that prepare_submit.py names
        return []


def with_imported(scripts: Sequence[str], leave_out: Collection[str] = ()) -> list[Path]:
    """Scripts and every further file they import, also by way of others, in a fixed order.

    Args:
        scripts: by their names; what is no Python file is passed on.
        leave_out: names of files and folders at the top that do not go along.
    """
    files = [Path(name) for name in scripts]
    for path in files:  # the list grows while it is read
        if path.suffix == ".py":
            found = {file for file in imported_files(path) if file.parts[0] not in leave_out}
            files += sorted(found - set(files))
    return files
