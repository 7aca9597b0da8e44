"""Marked regions: find them in a source file, and write it with stubs or solutions in their place.

It does not know which files ship. A file is a list of pieces: a line that everybody gets, or a
Region. Faults are collected, never raised: the caller shows all of them at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from checks.graded_tasks import GRADED_TASKS

MARKER = re.compile(r"^( *)### (BEGIN|END) SOLUTION ([\w.]+)$")
STUB = re.compile(r"^( *)### STUB: (.+)$")
# Whatever was meant as a marker, with another number of #, spaces, letters or in the wrong place
LIKE_A_MARKER = re.compile(r"#+\s*(BEGIN|END)[\s_]*SOLUTION\b|#+\s*STUB\b(?=\s*:|\s*$)", re.I)
MODES = ("task", "stub", "nothing")
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
    """One marked region: its stub's lines and its solution's lines, each with its line number."""

    id: str
    file: str
    line: int  # of its BEGIN
    indent: str
    stub: list[tuple[int, str]] = field(default_factory=list)
    solution: list[tuple[int, str]] = field(default_factory=list)


Line = tuple[int, str]  # number in the source file, text
Piece = Line | Region


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
            if region is None:
                text = f"END of {marker[3]} without its BEGIN: an unmatched marker"
                faults.append(Fault(file, number, text))
            elif marker[3] != region.id:
                text = f"END of {marker[3]} does not match BEGIN of {region.id}"
                faults.append(Fault(file, number, f"{text} in line {region.line}"))
            region = None
        elif stub and region:
            region.stub.append((number, stub[1] + stub[2]))
        elif LIKE_A_MARKER.search(line):
            faults.append(Fault(file, number, f"a stray marker: {line.strip()!r}"))
        elif region:
            region.solution.append((number, line))
        else:
            pieces.append((number, line))
    if region:
        faults.append(Fault(file, region.line, f"{region.id} has no END: an unmatched marker"))
    return pieces, faults


def stub_lines(region: Region, mode: str) -> list[Line]:
    """What a student sees in a region's place."""
    if mode != "task":
        return region.stub
    raising = f'{region.indent}raise NotImplementedError("{TITLES[region.id]}")'
    return [(region.line, f"{region.indent}### TODO"), *region.stub, (region.line, raising)]


def render(pieces: list[Piece], modes: Mapping[str, str], solved: Collection[str]) -> list[Line]:
    """The lines of a file for students; ``solved`` are the regions that keep their solution.

    Where a region leaves nothing behind, the blank lines before and after it become one gap, as
    wide as the wider of the two.
    """
    lines: list[Line] = []
    gap = None  # blank lines before a region that left nothing; None where there was none
    for piece in pieces:
        if isinstance(piece, Region):
            new = piece.solution if piece.id in solved else stub_lines(piece, modes[piece.id])
            if not new:
                gap = blank_lines_at_end(lines) if gap is None else gap
                continue
        else:
            new = [piece]
        if gap and new == [(new[0][0], "")]:
            gap -= 1  # this one stands there already
            continue
        gap = None
        lines += new
    return lines[: len(lines) - blank_lines_at_end(lines)]


def blank_lines_at_end(lines: list[Line]) -> int:
    """How many there are."""
    count = 0
    while count < len(lines) and not lines[-1 - count][1].strip():
        count += 1
    return count


def text_of(lines: list[Line]) -> str:
    """The lines as a file."""
    return "".join(f"{line}\n" for _, line in lines)
