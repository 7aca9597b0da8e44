"""A command line that a script must refuse, and the fact that its one line on stderr must hold."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """A command line to refuse.

    It runs in a folder of its own with ``data/``, the course's twelve files with a few rows each,
    and ``model/``, a tiny pretrained model.
    """

    command: str  # "classifier.py --lr 0", or "lessons.fill_mask --text x"; split as a shell does
    fact: str  # what the line says: the flag, the file, the row
    spoil: Callable[[Path], object] | None = None  # damages or adds files in the folder first
    kept: tuple[str, ...] = ()  # files that may be written all the same

    @property
    def script(self) -> str:
        """The name of the module whose ``main`` runs."""
        return self.command.split()[0].removesuffix(".py").replace("/", ".")


def cell(file: str, row: int, column: str, value: str) -> Callable[[Path], None]:
    """What writes a value into one cell of a course file; row 0 is the header."""

    def spoil(folder: Path) -> None:
        path = folder / "data" / file
        lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        lines[row][lines[0].index(column)] = value
        path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")

    return spoil


def written(file: str, content: str | bytes) -> Callable[[Path], None]:
    """What writes a file of that content, or writes over one."""

    def spoil(folder: Path) -> None:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return spoil
