"""Make the students' repository from this one: every marked region becomes its stub.

    python course/handout.py --out ../minbert-students
    python course/handout.py --out ../minbert-part1 --part 1
    python course/handout.py --out ../minbert-part1 --part 2 --update

Writes a git repository with one commit and, next to it, a zip that is the same bytes each time.
With --update the repository made earlier gets one more commit, so that a student's ``git pull``
brings the changes and keeps filled stubs. What ships is in parts.toml, what a course may change in
settings.toml. With any fault nothing is written. It does not know how solutions are checked.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from checks.graded_tasks import GRADED_TASKS
from checks.hunt.hunt import TESTS
from course import regions
from course.handout_repository import update_repository, write_repository, zipped
from course.settings import course_tasks, read_settings
from course.table import files_of, read_table
from course.templates import templates_of
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError, trouble_in_one_line
from training.files.imports import imports
from training.files.writing import write_whole

LAST_PARTS = {"1": 1, "2": 2, "all": 3}
WITH_PASSAGES = (".md", ".toml", ".gitignore")  # endings of the files that may have some
WORKFLOW, TASKS_FILE = ".github/workflows/check.yml", "checks/graded_tasks.toml"
COURSE = re.compile(r"(?<![\w/])(\.\./)?course/|^\s*(from|import) course\b")


@dataclass
class Handout:
    """What students get, and the marked regions of all parts by id."""

    part: str
    settings: Mapping[str, Any]
    files: dict[str, bytes]
    regions: dict[str, regions.Region]

    def text(self, name: str) -> str:
        """A file of the handout; "" if it is not text."""
        try:
            return self.files[name].decode("utf-8")
        except UnicodeDecodeError:
            return ""


def build(root: Path, part: str = "all") -> Handout:
    """All files of a handout, checked.

    Raises:
        InputError: names every fault, with file and line.
    """
    table, last = read_table(root), LAST_PARTS[part]
    files = {name: path.read_bytes() for name, path in files_of(root, table, last)}
    stubs, found, faults = read_regions(root)
    refuse(faults)
    files |= {name: text.encode() for name, text in stubs.items() if name in files}
    for name in (name for name in files if name.endswith(WITH_PASSAGES)):
        files[name] = regions.without_passages(files[name].decode(), last).encode()
    handout = Handout(part, read_settings(root), files, found)
    adapt(handout, root)
    handout.files = dict(sorted(files.items()))
    secret = regions.secret_lines(found.values(), table.common_lines)
    for name in files:
        faults += faults_of(root, handout, name)
        for line in regions.surviving(secret, handout.text(name)):
            faults.append(f"{name}: a line of the solution of {secret[line]} survives: {line!r}")
    refuse(faults)
    return handout


def refuse(faults: list[str]) -> None:
    """InputError if there is any fault."""
    if faults:
        raise InputError("\n  ".join([f"nothing written, {len(faults)} faults:", *faults]))


def read_regions(root: Path) -> tuple[dict[str, str], dict[str, regions.Region], list[str]]:
    """Every file with tasks, of all parts, with stubs; its regions by id; what is wrong."""
    stubs: dict[str, str] = {}
    found: dict[str, regions.Region] = {}
    faults: list[str] = []
    for name in sorted({task.file for task in GRADED_TASKS}):
        pieces, wrong = regions.parse(name, (root / name).read_text(encoding="utf-8"))
        stubs[name] = regions.render(pieces)
        faults += wrong
        for region in (piece for piece in pieces if isinstance(piece, regions.Region)):
            if (earlier := found.setdefault(region.id, region)) is not region:
                faults.append(f"{region.place}: {region.id} is a duplicate of {earlier.place}")
    for task in GRADED_TASKS:
        if task.id not in found or not found[task.id].place.startswith(f"{task.file}:"):
            faults.append(f"{task.file}: no region {task.id}, Task {task.number}")
    return stubs, found, faults


# ---------------------------------------------------------------------------------------------
# What the settings change


def adapt(handout: Handout, root: Path) -> None:
    """Points and the zip's name, the students' README, and what lies elsewhere here."""
    files, zip_name = handout.files, handout.settings["submission"]["file"]

    def replace(name: str, pattern: str, new: str | int) -> None:
        """Put another text behind the one place of a file where the pattern is."""
        place = re.compile(pattern, re.M)
        if len(place.findall(handout.text(name))) != 1:
            raise InputError(f"{name} has no place, or several, for {new!r}: {pattern}")
        files[name] = place.sub(rf"\g<1>{new}", handout.text(name)).encode()

    for task in course_tasks(handout.settings):
        if task.file in files:
            number = re.escape(task.number)
            replace(TASKS_FILE, rf'(^number = "{number}"\n(?:.+\n)*?points = )\d+', task.points)
            replace(task.page, rf"(^### Task {number} · .*\n\n`[^`]*` · )\d+", task.points)
    if not re.fullmatch(r'[^/"\\]+\.zip', zip_name):
        raise InputError(f"submission.file {zip_name!r} is not a name of a zip")
    replace("prepare_submit.py", r"(^ZIP_NAME = ).*", f'"{zip_name}"')
    files["README.md"] = student_readme(handout).encode()
    files[WORKFLOW] = (root / "course" / "check.yml").read_bytes()
    files[TESTS] = (root / "course" / "hunt" / TESTS).read_bytes()


def student_readme(handout: Handout) -> str:
    """The README of a handout: student_readme.md with tasks and settings."""
    settings, part = handout.settings, handout.part
    here = {
        "part": part,
        "tasks": [task for task in course_tasks(settings) if task.part <= LAST_PARTS[part]],
        "dates": {name: date for name, date in settings["dates"].items() if date},
        "manual": settings["manual"] if part != "1" else {},
    }
    template = templates_of(__file__).get_template("student_readme.md")
    return template.render(**settings | here)


# ---------------------------------------------------------------------------------------------
# What must not be in a handout


def faults_of(root: Path, handout: Handout, name: str) -> Iterator[str]:
    """Markers, references to course/, Python that does not parse, imports of what does not ship."""
    for number, line in enumerate(handout.text(name).split("\n"), start=1):
        if regions.LIKE_A_MARKER.search(line):
            yield f"{name}:{number}: a stray marker: {line.strip()!r}"
        if COURSE.search(line):
            yield f"{name}:{number}: a reference to course/: {line.strip()!r}"
    if name.endswith(".py"):
        try:
            tree = ast.parse(handout.text(name))
        except SyntaxError as error:
            yield f"{name}:{error.lineno}: the handout's file does not parse: {error.msg}"
        else:
            yield from import_faults(root, handout, name, tree)


def import_faults(root: Path, handout: Handout, name: str, tree: ast.Module) -> Iterator[str]:
    """Imports of our own files that do not ship.

    A file that looks for a part of a package first, and imports it under ``if``, can do without.
    """
    folders = {file.partition("/")[0] for file in handout.files}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for path in imports(ast.unparse(node), Path(name)):
                is_needed = node in tree.body or path.parts[0] not in folders
                if is_needed and path.as_posix() not in handout.files and (root / path).is_file():
                    yield f"{name}:{node.lineno}: an import of {path}, which does not ship"


# ---------------------------------------------------------------------------------------------
# The command line


def get_args(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(prog="course/handout.py", description="Make the students' repository.")
    add = parser.add_argument
    add("--out", type=Path, required=True, help="folder of the students' repository")
    add("--part", choices=tuple(LAST_PARTS), default="all", help="2: part 1 comes, too")
    add("--update", action="store_true", help="add a commit to a repository made earlier")
    return parser.parse_args(arguments)


def changed_stubs(out: Path, handout: Handout) -> list[str]:
    """Tasks whose stubs the repository ``out`` has, and this handout does not have like that."""
    there = [task for task in GRADED_TASKS if (out / task.file).is_file()]
    return [
        task.title
        for task in there
        if task.file not in handout.files
        or "\n".join(handout.regions[task.id].shown) not in (out / task.file).read_text("utf-8")
    ]


def make(args: argparse.Namespace, root: Path = ROOT) -> None:
    """Build, check and write a handout."""
    out, handout = args.out.absolute(), build(root, args.part)
    files, course = handout.files, handout.settings["course"]
    if out.resolve().is_relative_to(root.resolve()):
        raise InputError(f"{out} is inside the staff's repository; choose a place outside")
    if args.update:
        changed = changed_stubs(out, handout)
        is_new = update_repository(out, files, course)
        print(f"{args.out}: {'one more commit' if is_new else 'nothing has changed, no commit'}")
        for title in changed:
            print(f"the stub of {title} has changed: whoever has written it gets a conflict")
    else:
        write_repository(out, files, course)
        print(f"{args.out}: {len(files)} files, one commit")
    top = f"{course['folder']}-{args.part if args.part == 'all' else f'part{args.part}'}"
    target = out.with_name(f"{out.name}.zip")
    write_whole(target, zipped({f"{top}/{name}": data for name, data in files.items()}))
    print(f"{target.name}: {target.stat().st_size:,} bytes")


def main() -> None:
    """Make or update a handout."""
    args = get_args()
    remedy = "choose another --out, make room, or install git"
    with trouble_in_one_line(remedy, f"{args.out} cannot be made: "):
        make(args)


if __name__ == "__main__":
    run_script(main)
