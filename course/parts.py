"""Which files ship with which part (parts.toml)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from course.settings import read_toml
from training.files.errors import InputError

PARTS = "course/parts.toml"


def files_of(root: Path, part: int) -> Iterator[tuple[str, Path]]:
    """Name in the handout and place of every file that ships with a part, patterns resolved.

    Raises:
        InputError: a listed file is missing.
    """
    table = read_toml(root, PARTS)
    lists = [table[f"part{number}"]["files"] for number in (1, 2, 3)]
    named = {pattern for patterns in lists for pattern in patterns}
    for pattern in (pattern for patterns in lists[:part] for pattern in patterns):
        paths = sorted(path for path in root.glob(pattern) if path.is_file())
        if not paths:
            raise InputError(f"{PARTS} lists {pattern}, which is missing")
        for path in paths:
            name = path.relative_to(root).as_posix()
            if "*" not in pattern or name not in named:  # else another line decides about it
                yield name, path
