"""Make the students' repository from this one: every marked region becomes its stub.

    python course/handout.py --out ../minbert-part1 --part 1
    python course/handout.py --out ../minbert-part2 --part 2 --with-part1-solution
    python course/handout.py --out ../minbert-part1 --part 1 --update
    python course/handout.py --out ../minbert --language de

Writes a git repository with one commit and, next to it, a zip that is the same bytes each time.
With --update the repository made earlier gets one more commit, so that a student's ``git pull``
brings the changes and keeps filled stubs. What ships is in parts.toml, what a course may change in
settings.toml. With any fault nothing is written. It does not know how solutions are checked.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tempfile
import zipfile
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from checks.graded_tasks import GRADED_TASKS
from course import table as tables
from course.readme import student_readme
from course.regions import (
    LIKE_A_MARKER,
    Fault,
    Line,
    Piece,
    Region,
    parse,
    render,
    text_of,
)
from training.cli.arguments import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import atomic_write

FIXED_DATE = (2020, 1, 1, 0, 0, 0)
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
    table: tables.Table
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


def build(
    root: Path, part: str = "all", with_solution: bool = False, language: str | None = None
) -> Handout:
    """All files of a handout, checked.

    Raises:
        InputError: names every fault, with file and line.
    """
    handout = Handout(
        root, part, with_solution, language, tables.read_settings(root), tables.read_table(root)
    )
    paths = dict(tables.files_of(root, handout.table, 1 if part == "1" else 2))
    handout.files = {name: path.read_bytes() for name, path in paths.items()}
    pieces, faults = read_regions(handout)
    refuse(faults)
    for name, found in pieces.items():
        if name in handout.files:
            handout.lines[name] = render(found, handout.table.modes, handout.solved)
            handout.files[name] = text_of(handout.lines[name]).encode()
    if language:
        handout.files[f"docs/handout.{language}.md"] = translation(root)
    adapt(handout)
    refuse([*parse_faults(handout), *text_faults(handout), *import_faults(handout)])
    refuse(leaks(handout))
    refuse(ruff_faults(handout))
    handout.files = dict(sorted(handout.files.items()))
    return handout


def refuse(faults: Iterable[Fault]) -> None:
    """InputError if there is any fault."""
    found = list(dict.fromkeys(map(str, faults)))
    if found:
        listed = "".join(f"\n  {fault}" for fault in found)
        raise InputError(f"nothing written, {len(found)} faults:{listed}")


# ---------------------------------------------------------------------------------------------
# Making the files


def read_regions(handout: Handout) -> tuple[dict[str, list[Piece]], list[Fault]]:
    """Every file with regions, of both parts, in pieces; what is wrong with its markers."""
    table = handout.table
    pieces: dict[str, list[Piece]] = {}
    faults: list[Fault] = []
    names = dict.fromkeys([*table.file_of.values(), *(n for n in handout.files if "/" not in n)])
    for name in (name for name in names if name.endswith(".py")):
        found, wrong = parse(name, (handout.root / name).read_text(encoding="utf-8"))
        faults += wrong
        regions = [piece for piece in found if isinstance(piece, Region)]
        for region in regions:
            earlier = handout.regions.setdefault(region.id, region)
            if earlier is not region:
                where = f"{earlier.file}:{earlier.line}"
                faults.append(Fault(name, region.line, f"{region.id} is a duplicate of {where}"))
            faults += mode_faults(region, table)
        if regions:
            pieces[name] = found
    for name in table.modes.keys() - handout.regions.keys():
        faults.append(Fault(table.file_of[name], 1, f"no region {name}, which parts.toml lists"))
    return pieces, faults


def mode_faults(region: Region, table: tables.Table) -> Iterator[Fault]:
    """Whether a region is registered and has the stub that its mode asks for."""
    mode = table.modes.get(region.id)
    if mode is None or table.file_of[region.id] != region.file:
        yield Fault(
            region.file, region.line, f"{region.id} is not registered here in {tables.PARTS}"
        )
    elif mode == "nothing" and region.stub:
        text = f"{region.id} leaves nothing, says parts.toml, but has a STUB line"
        yield Fault(region.file, region.stub[0][0], text)
    elif mode != "nothing" and not region.stub:
        yield Fault(region.file, region.line, f"{region.id} has no STUB line")
    elif mode == "task":
        for number, line in region.stub:
            if not line.strip().startswith("#"):
                yield Fault(region.file, number, f"{region.id}'s STUB lines are to be comments")


def translation(root: Path) -> bytes:
    """The assignment's text in German, as docs/translate.py makes it; InputError where it can't."""
    command = [sys.executable, "-X", "utf8", str(root / "docs" / "translate.py"), "--print"]
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise InputError(done.stderr.decode("utf-8", "replace").strip())
    return done.stdout


def adapt(handout: Handout) -> None:
    """The students' README, what the settings change, and the cuts."""
    settings, files = handout.settings, handout.files
    points, zip_name = settings["points"], settings["submission"]["file"]
    files[tables.TASKS_FILE] = tables.with_points(handout.text(tables.TASKS_FILE), points).encode()
    for name in {"docs/handout.md", f"docs/handout.{handout.language}.md"} & files.keys():
        files[name] = tables.text_with_points(handout.text(name), points).encode()
    submit = tables.with_submission_name(handout.text("prepare_submit.py"), zip_name)
    files["prepare_submit.py"] = submit.encode()
    text = student_readme(files, handout.part, handout.with_solution, handout.language, settings)
    files["README.md"] = text.encode()
    for cut in handout.table.cuts:
        if cut.file in files and cut.part in ("", handout.part):
            files[cut.file] = without(handout.text(cut.file), cut).encode()


def without(text: str, cut: tables.Cut) -> str:
    """A text without what is cut out of it; InputError if that is not there."""
    start = text.find(cut.start)
    stop = text.find(cut.stop, start) if cut.stop else len(text)
    if start < 0 or stop < 0:
        missing = cut.start if start < 0 else cut.stop
        raise InputError(f"{tables.PARTS} cuts {cut.file} at {missing!r}, which is not there")
    return text[:start] + text[stop:]


# ---------------------------------------------------------------------------------------------
# What must not be in a handout


def parse_faults(handout: Handout) -> Iterator[Fault]:
    """Python that is none."""
    for name in (name for name in handout.files if name.endswith(".py")):
        try:
            ast.parse(handout.text(name))
        except SyntaxError as error:
            text = f"the handout's file does not parse: {error.msg}"
            yield handout.place(name, error.lineno or 1, text)


def text_faults(handout: Handout) -> Iterator[Fault]:
    """Markers, and references to the folder that stays here."""
    for name in handout.files:
        for number, line in enumerate(handout.text(name).split("\n"), start=1):
            if LIKE_A_MARKER.search(line):
                yield handout.place(name, number, f"a stray marker: {line.strip()!r}")
            if COURSE.search(line):
                yield handout.place(name, number, f"a reference to course/: {line.strip()!r}")


def import_faults(handout: Handout) -> Iterator[Fault]:
    """Imports of our own modules that do not ship.

    A file that looks for a part of a package first, and imports it under ``if``, can do without.
    """
    for name in (name for name in handout.files if name.endswith(".py")):
        try:
            tree = ast.parse(handout.text(name))
        except SyntaxError:  # said already
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
                modules.insert(0, node.module or "")
            else:
                continue
            if node not in tree.body:
                modules = [module.split(".")[0] for module in modules]
            missing = [module for module in modules if stays(module, handout)]
            for module in missing[:1]:
                text = f"an import of {module}, which does not ship"
                yield handout.place(name, node.lineno, text)


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
    solved, table = handout.solved, handout.table
    given = {
        squeezed(line)
        for region in handout.regions.values()
        if region.id in solved
        for _, line in region.solution
    }
    secret: dict[str, str] = {}
    for region in handout.regions.values():
        if region.id not in solved:
            for _, line in region.solution:
                secret.setdefault(squeezed(line), region.id)
    secret = {
        line: name
        for line, name in secret.items()
        if len(line) >= SHORT and line not in given and line not in table.common_lines
    }
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
        found = ruff(folder, "check", "--output-format", "concise", ".")
        form = ruff(folder, "format", "--check", ".")
    faults = []
    for line in found.splitlines():
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


# ---------------------------------------------------------------------------------------------
# Writing: a folder, a zip, a repository


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write every file under its name."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def write_zip(target: Path, handout: Handout) -> None:
    """The same bytes for the same files: order, dates and rights fixed, nothing compressed.

    Compressed bytes would depend on the version of zlib.
    """
    content = io.BytesIO()
    top = f"{handout.settings['course']['folder']}-{repository_part(handout.part)}"
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, data in handout.files.items():
            info = zipfile.ZipInfo(f"{top}/{name}", FIXED_DATE)
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, data)
    with atomic_write(target, "wb") as file:
        file.write(content.getvalue())


def repository_part(part: str) -> str:
    """part1, part2 or all."""
    return part if part == "all" else f"part{part}"


def git(folder: Path, *arguments: str, settings: Mapping | None = None) -> str:
    """Run git in a folder; its output. InputError with git's own words if it fails."""
    course = (settings or {}).get("course", {})
    who = [f"user.name={course.get('committer', '')}", f"user.email={course.get('email', '')}"]
    fixed = [*who, "commit.gpgsign=false", "core.autocrlf=false", "core.quotepath=false"]
    options = [word for setting in fixed for word in ("-c", setting)]
    command = ["git", *options, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise InputError(f"git {arguments[0]} in {folder} failed: {done.stderr.strip()}")
    return done.stdout


def message(handout: Handout, what: str) -> str:
    """A commit's message; its last line tells a later --update what this handout is."""
    part = "both parts" if handout.part == "all" else f"part {handout.part}"
    return f"{what} of {handout.settings['course']['name']}, {part}\n\n{signature(handout)}"


def signature(handout: Handout) -> str:
    """Which part, whether part 1 is solved, and the language of a translation."""
    state = "solved" if handout.with_solution else "stubs"
    return " ".join(filter(None, ["Handout:", handout.part, state, handout.language]))


def write_repository(out: Path, handout: Handout) -> None:
    """A new repository with one commit, put in place when it is whole."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is there already; --update adds a commit, or choose another --out")
    if out.resolve().is_relative_to(handout.root.resolve()):
        raise InputError(f"{out} is inside the staff's repository; choose a place outside")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as folder:
        made = Path(folder) / out.name
        write_files(made, handout.files)
        git(made, "init", "--quiet", "--initial-branch=main")
        commit(made, handout, "Handout")
        if out.is_dir():
            out.rmdir()
        made.rename(out)


def commit(folder: Path, handout: Handout, what: str) -> None:
    """Commit the handout's files, also those that .gitignore names."""
    git(folder, "add", "--force", "--", *handout.files)
    git(folder, "commit", "--quiet", "-m", message(handout, what), settings=handout.settings)


# ---------------------------------------------------------------------------------------------
# Updating


def update_repository(out: Path, handout: Handout, allow_conflicts: bool) -> bool:
    """One more commit with what has changed; False if nothing has.

    Raises:
        InputError: no handout, one of another kind, uncommitted changes, or students who filled a
            stub would get a conflict.
    """
    made = earlier_handouts(out)
    check_same_kind(out, made[0], handout)
    if git(out, "status", "--porcelain"):
        raise InputError(f"{out} has changes that are not committed; commit or undo them first")
    if not allow_conflicts:
        refuse(conflicts(out, handout))
    gone = sorted(set(shipped_before(out)) - handout.files.keys())
    try:
        write_files(out, handout.files)
        for name in gone:
            git(out, "rm", "--quiet", "--ignore-unmatch", "--", name)
        git(out, "add", "--force", "--", *handout.files)
        if not git(out, "status", "--porcelain"):
            return False
        commit(out, handout, "Update")
    except (InputError, OSError) as error:
        git(out, "reset", "--quiet", "--hard")
        raise InputError(f"{out} is as it was: {error}") from error
    return True


def earlier_handouts(out: Path) -> list[str]:
    """Signatures of the handouts in a repository, the newest first."""
    if not (out / ".git").is_dir():
        raise InputError(f"{out} is not a git repository; leave out --update to make one")
    log = git(out, "log", "--format=%B")
    found = re.findall(r"^Handout: (?:1|2|all) (?:solved|stubs)(?: de)?$", log, re.M)
    if not found:
        raise InputError(f"{out} is a repository that this script did not make")
    return found


def check_same_kind(out: Path, before: str, handout: Handout) -> None:
    """An update may add part 2 or a language, but neither take away nor give solutions."""
    now = signature(handout)
    (part, state, *language), (new_part, new_state, *new_language) = (
        one.split()[1:] for one in (before, now)
    )
    grows = part in ("1", new_part) and language in ([], new_language)
    if not grows or state != new_state or (part != new_part and state == "solved"):
        raise InputError(
            f"{out} was made as '{before}', this would be '{now}'; "
            "only stubs of part 2 can be added to stubs of part 1, and a language to either"
        )


def shipped_before(out: Path) -> list[str]:
    """Every file that a handout ever brought; what else is there, staff put there."""
    log = git(out, "log", "--format=", "--name-only", "--grep=^Handout: ")
    return sorted(set(filter(None, log.split("\n"))))


def conflicts(out: Path, handout: Handout) -> Iterator[Fault]:
    """Tasks whose filled stub a pull of this update would not merge.

    Tried out: each stub of the present handout is filled with the solution, and git merges.
    """
    for task in GRADED_TASKS:
        old = out / task.file
        region = handout.regions[task.id]
        if task.file not in handout.files or task.id in handout.solved or not old.is_file():
            continue
        before = old.read_text(encoding="utf-8")
        filled = fill(before, region)
        with tempfile.TemporaryDirectory() as folder:
            names = []
            for name, text in (
                ("theirs", filled),
                ("old", before),
                ("new", handout.text(task.file)),
            ):
                names.append(Path(folder, name))
                names[-1].write_text(text, encoding="utf-8")
            command = ["git", "merge-file", "-p", "-q", *map(str, names)]
            if subprocess.run(command, capture_output=True).returncode:
                text = f"who has filled Task {task.number} gets a conflict from this update: the "
                text += "stub or lines next to it changed; undo that, or --allow-conflicts"
                yield Fault(region.file, region.line, text)


def fill(text: str, region: Region) -> str:
    """A file for students with the stub of one task replaced by the solution."""
    title = next(task.title for task in GRADED_TASKS if task.id == region.id)
    stub = re.compile(
        rf'^ *### TODO\n(?: *#.*\n)*? *raise NotImplementedError\("{re.escape(title)}"\)\n', re.M
    )
    return stub.sub(lambda _: text_of(region.solution), text)


# ---------------------------------------------------------------------------------------------
# The command line


def get_args(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(prog="course/handout.py", description="Make the students' repository.")
    add = parser.add_argument
    add("--out", type=Path, required=True, help="folder of the students' repository")
    add("--part", choices=("1", "2", "all"), default="all", help="2: part 1 comes as stubs, too")
    add("--with-part1-solution", action="store_true", help="with --part 2: part 1 is written")
    add("--language", choices=("de",), help="the assignment's text in German, too")
    add("--update", action="store_true", help="add a commit to a repository made earlier")
    add("--allow-conflicts", action="store_true", help="with --update: also where a stub changed")
    args = parser.parse_args(arguments)
    if args.with_part1_solution and args.part != "2":
        parser.error("--with-part1-solution goes with --part 2")
    if args.allow_conflicts and not args.update:
        parser.error("--allow-conflicts goes with --update")
    return args


def make(args: argparse.Namespace, root: Path = ROOT) -> None:
    """Build, check and write a handout."""
    handout = build(root, args.part, args.with_part1_solution, args.language)
    out = args.out.absolute()
    if args.update:
        changed = update_repository(out, handout, args.allow_conflicts)
        print(f"{args.out}: {'one more commit' if changed else 'nothing has changed, no commit'}")
    else:
        write_repository(out, handout)
        print(f"{args.out}: {len(handout.files)} files, one commit")
    target = out.with_name(f"{out.name}.zip")
    write_zip(target, handout)
    print(f"{target.name}: {target.stat().st_size:,} bytes")


def main() -> None:
    """Make or update a handout."""
    make(get_args())


if __name__ == "__main__":
    run_script(main)
