"""Make the students' repository from this one: every marked region becomes its stub.

    python -m course.handout --out ../minbert-students --part 1
    python -m course.handout --out ../minbert-students             the same part again

Writes a git repository with one commit, and a zip of it next to it. Where the repository is there
already, it gets one more commit, so that a student's ``git pull`` brings the changes and keeps
filled stubs. What ships is in parts.toml, what a course may change in settings.toml. With any fault
nothing is written.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from checks.graded_tasks import GRADED_TASKS
from checks.hunt.terminal import TESTS
from course import regions
from course.settings import read_settings, read_toml
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError, trouble_in_one_line

ROOT = Path(__file__).resolve().parent.parent

PARTS = "course/parts.toml"  # which files ship with which part
LAST_PARTS = {"1": 1, "2": 2, "all": 3}
BROUGHT = "Handout: "  # begins the message of each commit that a handout made
WITH_PASSAGES = (".md", ".toml", ".gitignore")  # endings of the files that may have some
WORKFLOW = ".github/workflows/check.yml"


@dataclass
class Handout:
    """What students get."""

    part: str
    settings: Mapping[str, Any]
    files: dict[str, bytes]

    def text(self, name: str) -> str:
        """A file of the handout; "" if it is not text."""
        try:
            return self.files[name].decode("utf-8")
        except UnicodeDecodeError:
            return ""


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


def build(root: Path, part: str = "all") -> Handout:
    """All files of a handout, checked.

    Raises:
        InputError: names every fault, with its file.
    """
    last = LAST_PARTS[part]
    stubs, found, faults = read_regions(root)
    files = {name: path.read_bytes() for name, path in files_of(root, last)}
    files |= {name: text.encode() for name, text in stubs.items() if name in files}
    for name in (name for name in files if name.endswith(WITH_PASSAGES)):
        files[name] = regions.without_passages(files[name].decode(), last).encode()
    handout = Handout(part, read_settings(root), files)
    adapt(handout, root)
    handout.files = dict(sorted(files.items()))
    secret = regions.secret_lines(found)
    faults += [fault for name in files for fault in faults_of(name, handout.text(name), secret)]
    if faults:
        raise InputError("\n  ".join([f"nothing written, {len(faults)} faults:", *faults]))
    return handout


def read_regions(root: Path) -> tuple[dict[str, str], list[regions.Region], list[str]]:
    """Every file with tasks, of all parts, with stubs; all regions; which tasks lack a good one."""
    stubs, found, faults = {}, [], []
    for name in sorted({task.file for task in GRADED_TASKS}):
        pieces = regions.parse((root / name).read_text(encoding="utf-8"))
        stubs[name] = regions.render(pieces)
        own = [piece for piece in pieces if isinstance(piece, regions.Region)]
        for task in (task for task in GRADED_TASKS if task.file == name):
            its = [region for region in own if region.id == task.id]
            if len(its) != 1:
                faults.append(f"{name}: {len(its)} regions {task.id} instead of one")
            elif not its[0].stub or not all(line.lstrip()[0] == "#" for line in its[0].stub):
                faults.append(f"{name}:{its[0].line}: {task.id} needs STUB lines, all of comments")
        found += own
    return stubs, found, faults


def adapt(handout: Handout, root: Path) -> None:
    """The first hint, the points in the assignment, the README, and what lies elsewhere here."""
    files, settings = handout.files, handout.settings
    numbers = [("checks/graded_tasks.toml", "(^first_hint = )", settings["hints"]["first"])]
    for task in (task for task in GRADED_TASKS if task.file in files):
        place = rf"(^### Task {re.escape(task.number)} · .*\n\n`[^`]*` · )"
        numbers.append((task.page, place, task.points))
    for name, place, number in numbers:
        text, count = re.subn(rf"{place}\d+", rf"\g<1>{number}", handout.text(name), flags=re.M)
        if count != 1:
            raise InputError(f"{name} has no place for the number {number}: {place}")
        files[name] = text.encode()
    files[WORKFLOW] = (root / "course" / "check.yml").read_bytes()
    files[TESTS] = (root / "course" / "hunt" / TESTS).read_bytes()
    here = {
        "part": handout.part,
        "tasks": [task for task in GRADED_TASKS if task.part <= LAST_PARTS[handout.part]],
        "dates": {name: date for name, date in settings["dates"].items() if date},
        "manual": settings["manual"] if handout.part != "1" else {},
    }
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    text = (root / "course" / "student_readme.md").read_text(encoding="utf-8")
    files["README.md"] = environment.from_string(text).render(**settings | here).encode()


def faults_of(name: str, text: str, secret: Mapping[str, str]) -> Iterator[str]:
    """Markers that are left, and lines of the solution."""
    for number, line in enumerate(text.split("\n"), start=1):
        if regions.LIKE_A_MARKER.search(line):
            yield f"{name}:{number}: a stray marker: {line.strip()!r}"
    for line in regions.surviving(secret, text):
        yield f"{name}: a line of the solution of {secret[line]} survives: {line!r}"


# ---------------------------------------------------------------------------------------------
# The students' repository


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write every file under its name."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; its output. InputError with git's own words if it fails."""
    command = ["git", "-c", "commit.gpgsign=false", "-c", "core.autocrlf=false", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise InputError(f"git in {folder} failed: {done.stderr.strip()}")
    return done.stdout


def commit(out: Path, files: Mapping[str, bytes], course: Mapping[str, str]) -> bool:
    """The first commit of a new repository, or one more if anything has changed since the last one.

    What earlier handouts brought is replaced or removed; other files stay.

    Args:
        course: [course] of settings.toml: name, committer and email.

    Returns:
        Whether there is a new commit.
    """
    if out.exists() and not (out / ".git").is_dir():
        raise InputError(f"{out} is there and is not a git repository; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    git(out, "init", "--quiet", "--initial-branch=main")  # changes nothing where there is one
    if git(out, "status", "--porcelain"):
        raise InputError(f"{out} has changes that are not committed; commit or undo them first")
    earlier = git(out, "log", "--all", "--format=", "--name-only", f"--grep=^{BROUGHT}").split()
    for name in sorted({*earlier} - files.keys()):
        git(out, "rm", "--quiet", "--ignore-unmatch", "--", name)
    write_files(out, files)
    git(out, "add", "--force", "--", *files)  # also those that .gitignore names
    has_changed = bool(git(out, "status", "--porcelain"))
    if has_changed:
        who = ("-c", f"user.name={course['committer']}", "-c", f"user.email={course['email']}")
        git(out, *who, "commit", "--quiet", "-m", f"{BROUGHT}{course['name']}")
    return has_changed


def get_args(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(description="Make the students' repository.")
    add = parser.add_argument
    add("--out", type=Path, required=True, help="the students' repository, made or updated")
    which = "2: part 1 comes, too; by default the part that --out holds, or all of them"
    add("--part", choices=tuple(LAST_PARTS), help=which)
    return parser.parse_args(arguments)


def make(args: argparse.Namespace, root: Path = ROOT) -> None:
    """Build, check and write a handout."""
    out = args.out.absolute()
    if out.resolve().is_relative_to(root.resolve()):
        raise InputError(f"{out} is inside the staff's repository; choose a place outside")
    there = max((task.part for task in GRADED_TASKS if (out / task.file).is_file()), default=0)
    part = args.part or next((p for p, last in LAST_PARTS.items() if last == there), "all")
    if LAST_PARTS[part] < there:
        lost = f"{out} holds part {there}, which students would lose"
        raise InputError(f"{lost}; choose another --part or --out")
    handout = build(root, part)
    files, course = handout.files, handout.settings["course"]
    done = "no commit: nothing is new"
    if commit(out, files, course):
        count = git(out, "rev-list", "--count", "HEAD").strip()
        replaced = "; git show HEAD~1:FILE shows what it replaced, committed work included"
        done = f"commit {count}{replaced if count != '1' else ''}"
    name = "all" if part == "all" else f"part{part}"
    print(f"{args.out}: {name}, {len(files)} files, {done}")
    target = out.with_name(f"{out.name}.zip")
    top = f"--prefix={course['folder']}-{name}/"
    git(out, "archive", "--format=zip", top, f"--output={target}", "HEAD")
    print(f"{target.name}: {target.stat().st_size:,} bytes")


def main() -> None:
    """Make or update a handout."""
    args = get_args()
    remedy = "choose another --out, make room, or install git"
    with trouble_in_one_line(remedy, f"{args.out} cannot be made: "):
        make(args)


if __name__ == "__main__":
    run_script(main)
