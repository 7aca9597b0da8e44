"""What students do not get: marked regions of source files, and marked passages of other texts.

It does not know which files ship.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from checks.graded_tasks import GRADED_TASKS

REGION = re.compile(
    r"^( *)### BEGIN SOLUTION ([\w.]+)\n(.*?)^\1### END SOLUTION \2$\n?", re.M | re.S
)
STUB = re.compile(r"^( *)### STUB: (.+)$")
# Whatever was meant as a marker, with another number of #, spaces, letters or in the wrong place
LIKE_A_MARKER = re.compile(
    r"#+\s*(BEGIN|END)[\s_]*SOLUTION\b|#+\s*STUB\b(?=\s*:|\s*$)"
    r"|<!--\s*/?\s*(staff|part\s*\d)\b|^(?-i:# /?(staff|part \d))$",
    re.I,
)
TITLES = {task.id: task.title for task in GRADED_TASKS}
SHORT = 12  # a shorter line of a solution, without its blanks, says nothing


@dataclass
class Region:
    """One marked region: what students see in its place, and the solution."""

    id: str
    place: str  # file and line of its BEGIN
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

    def faults(self) -> Iterator[str]:
        """Markers within it, and what is wrong with the stub of a task."""
        yield from (
            f"{self.place}: {self.id} has a marker inside: {line.strip()!r}"
            for line in self.solution
            if LIKE_A_MARKER.search(line)
        )
        if self.id in TITLES and not self.stub:
            yield f"{self.place}: {self.id} has no STUB line"
        if self.id in TITLES and not all(line.strip().startswith("#") for line in self.stub):
            yield f"{self.place}: {self.id}'s STUB lines are to be comments"


def parse(file: str, text: str) -> tuple[list[str | Region], list[str]]:
    """Split a file into what everybody gets and its regions; what is wrong with its markers."""
    pieces: list[str | Region] = []
    end = 0
    for found in REGION.finditer(text):
        pieces.append(text[end : found.start()])
        line = text.count("\n", 0, found.start()) + 1
        region = Region(found[2], f"{file}:{line}", found[1])
        for line in found[3].splitlines():
            stub = STUB.match(line)
            (region.stub if stub else region.solution).append(stub[1] + stub[2] if stub else line)
        pieces.append(region)
        end = found.end()
    pieces.append(text[end:])
    faults = [fault for piece in pieces if isinstance(piece, Region) for fault in piece.faults()]
    outside = REGION.sub(lambda found: "\n" * found[0].count("\n"), text)
    for number, line in enumerate(outside.splitlines(), start=1):
        if LIKE_A_MARKER.search(line):
            faults.append(f"{file}:{number}: a marker without its partner: {line.strip()!r}")
    return pieces, faults


def render(pieces: Iterable[str | Region], solved: Collection[str] = ()) -> str:
    """A file for students; ``solved`` are the ids of the regions that keep their solution.

    Nothing is formatted: a region holds the blank lines that only its solution needs.
    """
    return "".join(
        piece
        if isinstance(piece, str)
        else "".join(
            f"{line}\n" for line in (piece.solution if piece.id in solved else piece.shown)
        )
        for piece in pieces
    )


def without_passages(text: str, part: int) -> str:
    """A text without its passages for staff, and those for parts after this one.

    A passage is between ``<!-- staff -->`` and ``<!-- /staff -->``, or ``<!-- part 2 -->`` and its
    like; where there are no such comments, between lines ``# staff`` and ``# /staff``. In Markdown,
    a line that begins with a mark has nothing else: it is HTML. Marks without a partner stay.
    """
    for kind in ("staff", "part 2", "part 3"):
        begin, end = (rf"(?:<!-- {mark} -->|^# {mark}$)" for mark in (kind, f"/{kind}"))
        is_kept = kind != "staff" and int(kind[-1]) <= part
        text = re.sub(f"{begin}(.*?){end}", r"\1" if is_kept else "", text, flags=re.M | re.S)
    return text.rstrip() + "\n"


def secret_lines(regions: Iterable[Region], public: Collection[str]) -> dict[str, str]:
    """Lines that only a solution has, without blanks and comments; the region of each.

    Args:
        public: lines, without blanks, that may be elsewhere, too.
    """
    lines = ((line, region) for region in regions for line in region.solution)
    bare = (("".join(re.split(r"(?:^|\s)#", line)[0].split()), region) for line, region in lines)
    return {line: region.id for line, region in bare if len(line) >= SHORT and line not in public}


def surviving(secret: Iterable[str], text: str) -> list[str]:
    """Which of these lines are in a text, also broken or put together otherwise."""
    whole = "".join(text.split())
    return [line for line in secret if line in whole]
