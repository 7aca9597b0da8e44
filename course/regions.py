"""What students do not get: marked regions of source files, and marked passages of other texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from checks.graded_tasks import GRADED_TASKS

REGION = re.compile(r"^( *)### BEGIN SOLUTION ([\w.]+)\n(.*?)^\1### END SOLUTION \2\n", re.M | re.S)
STUB = re.compile(r"^( *)### STUB: (.+)$", re.M)
# Whatever was meant as a marker, with another number of #, spaces, letters or in the wrong place
LIKE_A_MARKER = re.compile(
    r"#+\s*(BEGIN|END)[\s_]*SOLUTION\b|#+\s*STUB\b(?=\s*:|\s*$)"
    r"|<!--\s*/?\s*(staff|part\s*\d)\b|^(?-i:# /?(staff|part \d))$",
    re.I,
)
TITLES = {task.id: task.title for task in GRADED_TASKS}
SHORT = 24  # a shorter line of a solution, without its blanks, may be elsewhere, too


@dataclass
class Region:
    """One marked region: what students see in its place, and the solution."""

    id: str
    line: int  # of its BEGIN
    indent: str
    stub: list[str]
    solution: list[str]

    @property
    def shown(self) -> list[str]:
        """The stub's lines; a graded task's end with an error that names it."""
        if self.id not in TITLES:
            return self.stub
        raising = f'{self.indent}raise NotImplementedError("{TITLES[self.id]}")'
        return [f"{self.indent}### TODO", *self.stub, raising]


def parse(text: str) -> list[str | Region]:
    """Split a file into what everybody gets and its regions."""
    pieces: list[str | Region] = []
    end = 0
    for found in REGION.finditer(text):
        lines, number = found[3].splitlines(), text.count("\n", 0, found.start()) + 1
        stub = [line[1] + line[2] for line in map(STUB.match, lines) if line]
        solution = [line for line in lines if not STUB.match(line)]
        pieces += [text[end : found.start()], Region(found[2], number, found[1], stub, solution)]
        end = found.end()
    return [*pieces, text[end:]]


def render(pieces: Iterable[str | Region]) -> str:
    """A file for students. Nothing is formatted: a region holds blank lines of its solution."""
    shown = (piece if isinstance(piece, str) else "\n".join([*piece.shown, ""]) for piece in pieces)
    return "".join(shown)


def without_passages(text: str, part: int) -> str:
    """A text without its passages for staff, and those for parts after this one.

    A passage is between ``<!-- staff -->`` and ``<!-- /staff -->``, or ``<!-- part 2 -->`` and its
    like; where there are no such comments, between lines ``# staff`` and ``# /staff``. In Markdown,
    a line that begins with a mark has nothing else: it is HTML. Marks without a partner stay.
    """
    for kind in ("staff", "part 2", "part 3"):
        begin, end = (rf"(?:<!-- {mark} -->|^# {mark}$)" for mark in (kind, f"/{kind}"))
        is_kept = kind != "staff" and int(kind[-1]) <= part
        text = re.sub(
            f"{begin}((?:(?!{begin}).)*?){end}", r"\1" if is_kept else "", text, flags=re.M | re.S
        )
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def secret_lines(regions: Iterable[Region]) -> dict[str, str]:
    """Lines that only a solution has, without blanks and comments; the region of each."""
    lines = ((line, region) for region in regions for line in region.solution)
    bare = (("".join(re.split(r"(?:^|\s)#", line)[0].split()), region) for line, region in lines)
    is_import = re.compile("from|import")
    return {b: region.id for b, region in bare if len(b) >= SHORT and not is_import.match(b)}


def surviving(secret: Iterable[str], text: str) -> list[str]:
    """Which of these lines are in a text, also broken or put together otherwise."""
    whole = "".join(text.split())
    return [line for line in secret if line in whole]
