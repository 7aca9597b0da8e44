"""What must not be in a handout: solutions, markers, the staff's files, Python that is broken.

Each check yields faults; the caller shows all of them at once. Nothing is written here.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from course.regions import LIKE_A_MARKER, Fault, Region
from course.table import Table
from training.files.errors import InputError
from training.files.imports import imports

SHORT = 12  # a shorter line of a solution, without its blanks, says nothing
COURSE = re.compile(r"(?<![\w/])(\.\./)?course/|^\s*(from|import) course\b")


@dataclass
class Handout:
    """What a handout is made of."""

    root: Path
    part: str  # "1", "2", "3", "all": 1 and 2
    with_solution: bool  # of part 1
    language: str | None  # of a translation that comes along
    settings: Mapping
    table: Table
    files: dict[str, bytes] = field(default_factory=dict)
    regions: dict[str, Region] = field(default_factory=dict)  # of all parts

    @property
    def solved(self) -> dict[str, str]:
        """The regions that keep their solution, each with its file."""
        later = self.table.files[2] + self.table.files[3]
        files = {n: r.file for n, r in self.regions.items() if r.file not in later}
        return files if self.with_solution else {}

    def text(self, name: str) -> str:
        """A file of the handout; "" if it is not text."""
        try:
            return self.files[name].decode("utf-8")
        except UnicodeDecodeError:
            return ""

    def place(self, name: str, number: int, text: str) -> Fault:
        """A fault in a line of the handout, at the source's first line with that text."""
        line = self.text(name).split("\n")[number - 1].strip()
        source = self.root / name
        if line and source.is_file():
            lines = source.read_text(encoding="utf-8").split("\n")
            number = next((n for n, other in enumerate(lines, start=1) if line in other), number)
        return Fault(name, number, text)


def refuse(faults: Iterable[Fault]) -> None:
    """InputError if there is any fault."""
    messages = list(dict.fromkeys(map(str, faults)))
    if messages:
        listed = "".join(f"\n  {fault}" for fault in messages)
        raise InputError(f"nothing written, {len(messages)} faults:{listed}")


def faults_of(handout: Handout) -> Iterator[Fault]:
    """Markers, references to course/, Python that does not parse, imports of what does not ship."""
    for name in handout.files:
        for number, line in enumerate(handout.text(name).split("\n"), start=1):
            if LIKE_A_MARKER.search(line):
                yield handout.place(name, number, f"a stray marker: {line.strip()!r}")
            if COURSE.search(line):
                yield handout.place(name, number, f"a reference to course/: {line.strip()!r}")
        if name.endswith(".py"):
            try:
                tree = ast.parse(handout.text(name))
            except SyntaxError as error:
                text = f"the handout's file does not parse: {error.msg}"
                yield handout.place(name, error.lineno or 1, text)
            else:
                yield from import_faults(handout, name, tree)


def import_faults(handout: Handout, name: str, tree: ast.Module) -> Iterator[Fault]:
    """Imports of our own files that do not ship.

    A file that looks for a part of a package first, and imports it under ``if``, can do without.
    """
    folders = {file.partition("/")[0] for file in handout.files}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for path in imports(ast.unparse(node), Path(name)):
                needed = node in tree.body or path.parts[0] not in folders
                ships = path.as_posix() in handout.files
                if needed and not ships and (handout.root / path).is_file():
                    yield handout.place(
                        name, node.lineno, f"an import of {path}, which does not ship"
                    )
                    break


def leaks(handout: Handout) -> Iterator[Fault]:
    """Lines of a solution anywhere in the handout, also broken or put together otherwise."""
    public, secret = set(handout.table.common_lines), {}
    for region in handout.regions.values():
        # without blanks and comments
        lines = ["".join(re.split(r"(?:^|\s)#", line)[0].split()) for line in region.solution]
        if region.id in handout.solved:
            public.update(lines)
        else:
            secret |= dict.fromkeys(lines, region.id)
    secret = {n: name for n, name in secret.items() if len(n) >= SHORT and n not in public}
    for name in handout.files:
        parts = ["".join(line.split()) for line in handout.text(name).split("\n")]
        whole = "".join(parts)
        ends = [0]  # where each line ends in ``whole``
        for part in parts:
            ends.append(ends[-1] + len(part))
        for line, region in secret.items():
            if (at := whole.find(line)) >= 0:
                text = f"a line of the solution of {region} survives: {line!r}"
                yield handout.place(name, bisect(ends, at), text)


def formatted(handout: Handout) -> Iterator[Fault]:
    """Format the files with regions; what ruff finds in the handout, as imports of a stub alone.

    A region may leave blank lines behind, and markers among imports.
    """
    names = sorted({region.file for region in handout.regions.values()} & handout.files.keys())
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), handout.files)
        ruff(folder, "check", "--select", "I", "--fix", *names)
        ruff(folder, "format", *names)
        for name in names:
            handout.files[name] = (Path(folder) / name).read_bytes()
        for line in ruff(folder, "check", "--output-format", "concise", ".").splitlines():
            if match := re.match(r"(.+?):(\d+):\d+: (.*)", line):
                yield handout.place(match[1], int(match[2]), match[3])


def ruff(folder: str | Path, *arguments: str) -> str:
    """Run ruff in a folder; what it says."""
    command = [sys.executable, "-m", "ruff", *arguments, "--no-cache"]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8")
    if done.returncode not in (0, 1) or "No module named ruff" in done.stderr:
        raise InputError(
            f"ruff cannot run ({done.stderr.strip()[:200]}); pip install -r requirements-dev.txt"
        )
    return done.stdout


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write every file under its name."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
