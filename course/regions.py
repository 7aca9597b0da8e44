"""Marked regions: find them in a source file, and write it with stubs or solutions in their place.

It does not know which files ship. A file is a list of pieces: a line that everybody gets, or a
Region. Faults are collected, never raised: the caller shows all of them at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from checks.graded_tasks import GRADED_TASKS

MARKER = re.compile(r"^( *)### (BEGIN|END) SOLUTION ([\w.]+)$")
STUB = re.compile(r"^( *)### STUB: (.+)$")
# Whatever was meant as a marker, with another number of #, spaces, letters or in the wrong place
LIKE_A_MARKER = re.compile(r"#+\s*(BEGIN|END)[\s_]*SOLUTION\b|#+\s*STUB\b(?=\s*:|\s*$)", re.I)
TITLES = {task.id: task.title for task in GRADED_TASKS}


@dataclass(frozen=True)
class Fault:
    """What is wrong, and where."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass
class Region:
    """One marked region: what students see in its place, and the solution."""

    id: str
    file: str
    line: int  # of its BEGIN
    indent: str
    stub: list[str] = field(default_factory=list)
    solution: list[str] = field(default_factory=list)

    @property
    def shown(self) -> list[str]:
        """The stub's lines; a graded task's end with an error that names it."""
        if self.id not in TITLES:
            return self.stub
        raising = f'{self.indent}raise NotImplementedError("{TITLES[self.id]}")'
        return [f"{self.indent}### TODO", *self.stub, raising]

    def faults(self) -> Iterator[Fault]:
        """What is wrong with the stub of a task."""
        if self.id in TITLES and not self.stub:
            yield Fault(self.file, self.line, f"{self.id} has no STUB line")
        for number, line in enumerate(self.stub, start=self.line + 1):
            if self.id in TITLES and not line.strip().startswith("#"):
                yield Fault(self.file, number, f"{self.id}'s STUB lines are to be comments")


Piece = str | Region


def parse(file: str, text: str) -> tuple[list[Piece], list[Fault]]:
    """Split a file at its markers; nested, stray and unmatched ones are faults."""
    pieces: list[Piece] = []
    faults: list[Fault] = []
    region: Region | None = None
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        marker, stub = MARKER.match(line), STUB.match(line)
        if marker and marker[2] == "BEGIN":
            if region:
                where = f"which begins in line {region.line}"
                faults.append(Fault(file, number, f"{marker[3]} is nested in {region.id}, {where}"))
            region = Region(marker[3], file, number, marker[1])
            pieces.append(region)
        elif marker:
            if region is None or marker[3] != region.id:
                begun = f"BEGIN of {region.id} in line {region.line}" if region else "any BEGIN"
                text = f"END of {marker[3]} does not match {begun}: an unmatched marker"
                faults.append(Fault(file, number, text))
            region = None
        elif stub and region:
            region.stub.append(stub[1] + stub[2])
        elif LIKE_A_MARKER.search(line):
            faults.append(Fault(file, number, f"a stray marker: {line.strip()!r}"))
        elif region:
            region.solution.append(line)
        else:
            pieces.append(line)
    if region:
        faults.append(Fault(file, region.line, f"{region.id} has no END: an unmatched marker"))
    return pieces, faults


def render(pieces: Iterable[Piece], solved: Collection[str]) -> str:
    """A file for students; ``solved`` are the regions that keep their solution.

    What a region that leaves nothing behind does to blank lines is for a formatter to mend.
    """
    lines: list[str] = []
    for piece in pieces:
        if isinstance(piece, Region):
            lines += piece.solution if piece.id in solved else piece.shown
        else:
            lines.append(piece)
    return "\n".join(lines).rstrip() + "\n"
