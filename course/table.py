"""What ships with which part (parts.toml), read and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from course.settings import read_toml
from training.files.errors import InputError

PARTS = "course/parts.toml"


@dataclass(frozen=True)
class Table:
    """parts.toml."""

    files: Mapping[int, list[str]]  # of each part, patterns
    never: set[str]  # names at the root
    common_lines: list[str]  # without blanks


def read_table(root: Path) -> Table:
    """parts.toml; InputError where something is missing."""
    parts = read_toml(root, PARTS)
    try:
        return Table(
            {part: parts[f"part{part}"]["files"] for part in (1, 2, 3)},
            set(parts["never"]),
            ["".join(line.split()) for line in parts["common_lines"]],
        )
    except KeyError as error:
        raise InputError(f"{PARTS} has no {error}") from error


def files_of(root: Path, table: Table, part: int) -> Iterator[tuple[str, Path]]:
    """Name in the handout and place of every file that ships with a part, patterns resolved."""
    patterns = [pattern for number in range(1, part + 1) for pattern in table.files[number]]
    named = {pattern for part_files in table.files.values() for pattern in part_files}
    for pattern in patterns:
        paths = sorted(path for path in root.glob(pattern) if path.is_file())
        if not paths:
            raise InputError(f"{PARTS} lists {pattern}, which is missing")
        for path in paths:
            name = path.relative_to(root).as_posix()
            if "*" in pattern and name in named:
                continue  # another line decides about this one
            if {name, name.partition("/")[0]} & table.never:
                raise InputError(f"{PARTS} lists {name}, and also that it never ships")
            yield name, path
    for path in sorted(root.glob("*.py")):
        if path.name not in named and path.name not in table.never:
            raise InputError(f"{path.name} is in no list of {PARTS}: does it ship, or never?")
