"""Which files of a folder a script imports: a student's own are handed in with it.

The files are parsed, and none is run.
"""

import ast
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path


def imported_names(source: bytes, package: Sequence[str]) -> Iterator[str]:
    """The dotted names that a source file in ``package`` imports: a.b for ``from a import b``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = package[: len(package) - node.level + 1] if node.level else ()
            module = [*here, *([node.module] if node.module else [])]
            yield from (".".join([*module, name.name]) for name in node.names)


def imported_files(path: Path) -> set[Path]:
    """The Python files in the current folder and its packages that a source file imports."""
    files = set()
    try:
        for name in imported_names(path.read_bytes(), path.parent.parts):
            module = Path(*name.split("."))  # what is imported from a file is no file itself
            for part in (module, *module.parents[:-1]):
                files |= {part / "__init__.py", part.with_suffix(".py")}
    except (OSError, SyntaxError, ValueError):  # a fault that prepare_submit.py names
        return set()
    return {file for file in files if file.is_file()}


def with_imported(scripts: Sequence[str], leave_out: Collection[str] = ()) -> list[Path]:
    """Scripts and every further file they import, also by way of others, in a fixed order.

    Args:
        leave_out: names of files and folders at the top that do not go along.
    """
    files = [Path(name) for name in scripts]
    for path in files:  # the list grows while it is read
        if path.suffix == ".py":
            own = {file for file in imported_files(path) if file.parts[0] not in leave_out}
            files += sorted(own - set(files))
    return files
