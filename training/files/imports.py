"""Which files of a folder a script imports: a student's own are handed in with it.

The files are parsed, and none is run.
"""

import ast
from collections.abc import Collection, Sequence
from pathlib import Path


def imported_files(path: Path) -> set[Path]:
    """The Python files in the current folder and its packages that a source file imports."""
    names = []
    try:
        nodes = [*ast.walk(ast.parse(path.read_bytes()))]
    except (OSError, SyntaxError, ValueError):  # a fault that prepare_submit.py names
        return set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = path.parent.parts
            here = package[: len(package) - node.level + 1] if node.level else ()
            module = [*here, *([node.module] if node.module else [])]
            names += [".".join([*module, name.name]) for name in node.names]
    modules = [Path(*name.split(".")) for name in names]
    # what is imported from a file is no file itself
    places = [part for module in modules for part in (module, *module.parents[:-1])]
    files = {file for part in places for file in (part / "__init__.py", part.with_suffix(".py"))}
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
