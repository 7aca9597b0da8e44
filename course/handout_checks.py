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

from course.regions import LIKE_A_MARKER, Fault, Line, Region
from course.table import Table
from training.files.errors import InputError

SHORT = 12  # a shorter line of a solution, without its blanks, says nothing
COURSE = re.compile(r"(?<![\w/])(\.\./)?course/|^\s*(from|import) course\b")


@dataclass
class Handout:
    """What a handout is made of."""

    root: Path
    part: str  # "1", "2", "all"
    with_solution: bool  # of part 1
    language: str | None  # of a translation that comes along
    settings: Mapping
    table: Table
    files: dict[str, bytes] = field(default_factory=dict)
    lines: dict[str, list[Line]] = field(default_factory=dict)  # of files with regions
    regions: dict[str, Region] = field(default_factory=dict)  # of both parts

    @property
    def solved(self) -> set[str]:
        """The regions that keep their solution."""
        return {n for n, part in self.table.part_of.items() if part == 1 and self.with_solution}

    def text(self, name: str) -> str:
        """A file of the handout; "" if it is not text."""
        try:
            return self.files[name].decode("utf-8")
        except UnicodeDecodeError:
            return ""

    def place(self, name: str, line: int, text: str) -> Fault:
        """A fault in a line of the handout, at the line of the source that it comes from."""
        if name in self.lines and line <= len(self.lines[name]):
            line = self.lines[name][line - 1][0]
        return Fault(name, line, text)


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
    """Imports of our own modules that do not ship.

    A file that looks for a part of a package first, and imports it under ``if``, can do without.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        if node not in tree.body:
            modules = [module.split(".")[0] for module in modules]
        missing = [module for module in modules if stays(module, handout)]
        for module in missing[:1]:
            yield handout.place(name, node.lineno, f"an import of {module}, which does not ship")


def stays(module: str, handout: Handout) -> bool:
    """Whether a module or package is ours and not in the handout."""
    path = "/".join(module.split("."))
    ours = (handout.root / f"{path}.py").is_file() or any(handout.root.glob(f"{path}/*.py"))
    return ours and not any(
        name == f"{path}.py" or name.startswith(f"{path}/") for name in handout.files
    )


def squeezed(line: str) -> str:
    """A line of code without blanks and without its comment."""
    return "".join(re.split(r"(?:^|\s)#", line)[0].split())


def leaks(handout: Handout) -> Iterator[Fault]:
    """Lines of a solution anywhere in the handout, also broken or put together otherwise."""
    public, secret = set(handout.table.common_lines), {}
    for region in handout.regions.values():
        lines = [squeezed(line) for _, line in region.solution]
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


def ruff_faults(handout: Handout) -> list[Fault]:
    """What ruff finds in the handout: unused imports and unknown names that a stub left, form.

    A part 1 that ships with its solution is formatted first: its markers were among imports.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), handout.files)
        if handout.solved:
            names = sorted({handout.table.file_of[name] for name in handout.solved})
            ruff(folder, "check", "--select", "I", "--fix", *names)
            ruff(folder, "format", *names)
            for name in names:
                handout.files[name] = (Path(folder) / name).read_bytes()
                del handout.lines[name]
        output = ruff(folder, "check", "--output-format", "concise", ".")
        form = ruff(folder, "format", "--check", ".")
    faults = []
    for line in output.splitlines():
        if match := re.match(r"(.+?):(\d+):\d+: (.*)", line):
            faults.append(handout.place(match[1], int(match[2]), match[3]))
    for name in re.findall(r"^Would reformat: (.+)$", form, re.M):
        faults.append(Fault(name, 1, "ruff format would change the handout's file"))
    return faults


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
