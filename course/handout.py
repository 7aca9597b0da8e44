"""Make the students' repository from this one: every marked region becomes its stub.

    python course/handout.py --out ../minbert-part1 --part 1
    python course/handout.py --out ../minbert-part2 --part 2 --with-part1-solution
    python course/handout.py --out ../minbert-part3 --part 3
    python course/handout.py --out ../minbert-part1 --part 1 --update
    python course/handout.py --out ../minbert --language de

Writes a git repository with one commit and, next to it, a zip that is the same bytes each time.
With --update the repository made earlier gets one more commit, so that a student's ``git pull``
brings the changes and keeps filled stubs. What ships is in parts.toml, what a course may change in
settings.toml. With any fault nothing is written. It does not know how solutions are checked.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from checks.graded_tasks import GRADED_TASKS, PAGES
from checks.hunt.student_tests import TESTS
from course import table as tables
from course.handout_checks import Handout, faults_of, formatted, leaks, refuse
from course.handout_repository import update_repository, write_repository, write_zip
from course.regions import Fault, Piece, Region, parse, render
from course.templates import templates_of
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError, trouble_in_one_line

WORKFLOW = ".github/workflows/check.yml"
FILES_OF = {"1": 1, "2": 2, "all": 2, "3": 3}  # up to which part


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
    paths = dict(tables.files_of(root, handout.table, FILES_OF[part]))
    handout.files = {name: path.read_bytes() for name, path in paths.items()}
    pieces, faults = read_regions(handout)
    refuse(faults)
    for name in pieces.keys() & handout.files.keys():
        handout.files[name] = render(pieces[name], handout.solved).encode()
    for page in handout.files.keys() & PAGES.values() if language else ():
        handout.files[in_language(page, language)] = translation(root, page)
    adapt(handout)
    refuse(faults_of(handout))
    refuse(leaks(handout))
    refuse(formatted(handout))
    handout.files = dict(sorted(handout.files.items()))
    return handout


# ---------------------------------------------------------------------------------------------
# Making the files


def read_regions(handout: Handout) -> tuple[dict[str, list[Piece]], list[Fault]]:
    """Every file with regions, of all parts, in pieces; what is wrong with its markers."""
    pieces: dict[str, list[Piece]] = {}
    faults: list[Fault] = []
    others = {task.file for task in GRADED_TASKS if "/" in task.file}
    paths = sorted({*handout.root.glob("*.py"), *(handout.root / name for name in others)})
    for path in filter(Path.is_file, paths):
        name = path.relative_to(handout.root).as_posix()
        file_pieces, wrong = parse(name, path.read_text(encoding="utf-8"))
        faults += wrong
        regions = [piece for piece in file_pieces if isinstance(piece, Region)]
        for region in regions:
            earlier = handout.regions.setdefault(region.id, region)
            if earlier is not region:
                text = f"{region.id} is a duplicate of {earlier.file}:{earlier.line}"
                faults.append(Fault(name, region.line, text))
            faults += region.faults()
        if regions:
            pieces[name] = file_pieces
    for task in GRADED_TASKS:
        if task.id not in handout.regions or handout.regions[task.id].file != task.file:
            faults.append(Fault(task.file, 1, f"no region {task.id}, Task {task.number}"))
    return pieces, faults


def in_language(page: str, language: str | None) -> str:
    """Where the translation of one of the assignment's pages is: docs/handout.de.md."""
    return page.replace(".md", f".{language}.md")


def translation(root: Path, page: str) -> bytes:
    """A page of the assignment in German, as docs/translate.py makes it; InputError if it can't."""
    command = [sys.executable, "-X", "utf8", str(root / "docs" / "translate.py"), "--print"]
    done = subprocess.run([*command, Path(page).stem], capture_output=True)
    if done.returncode:
        raise InputError(done.stderr.decode("utf-8", "replace").strip())
    return done.stdout


def adapt(handout: Handout) -> None:
    """The students' README, what the settings change, and the cuts."""
    settings, files = handout.settings, handout.files
    points, zip_name = settings["points"], settings["submission"]["file"]
    files[tables.TASKS_FILE] = tables.with_points(handout.text(tables.TASKS_FILE), points).encode()
    for part, page in PAGES.items():
        own = {number: n for number, n in points.items() if number.startswith(f"{part}.")}
        for name in {page, in_language(page, handout.language)} & files.keys():
            files[name] = tables.text_with_points(handout.text(name), own).encode()
    submit = tables.with_submission_name(handout.text("prepare_submit.py"), zip_name)
    files["prepare_submit.py"] = submit.encode()
    files["README.md"] = student_readme(handout).encode()
    files[WORKFLOW] = (handout.root / "course" / "check.yml").read_bytes()
    files[TESTS] = (handout.root / "course" / "hunt" / TESTS).read_bytes()
    for cut in handout.table.cuts:
        if cut.file in files and (not cut.part or handout.part in cut.part.split()):
            files[cut.file] = without(handout.text(cut.file), cut).encode()


def student_readme(handout: Handout) -> str:
    """The README of a handout: student_readme.md with tasks and settings."""
    settings, part = handout.settings, handout.part
    parts = range(2 if handout.with_solution else 1, FILES_OF[part] + 1)
    here = {
        "title": "" if part == "all" else f", part {part}",
        "part": part,
        "solved": handout.with_solution,
        "language": handout.language,
        "tasks": [task for task in tables.course_tasks(settings) if task.part in parts],
        "dates": {name: date for name, date in settings["dates"].items() if date},
        "manual": settings["manual"] if part != "1" else {},
        "extra": [
            row
            for row in settings["extra"].values()
            if part in ("all", str(row["part"])) and row["points"]
        ],
    }
    template = templates_of(__file__).get_template("student_readme.md")
    return template.render(**settings | here)


def without(text: str, cut: tables.Cut) -> str:
    """A text without what is cut out of it; InputError if that is not there."""
    start = text.find(cut.start)
    stop = text.find(cut.stop, start) if cut.stop else len(text)
    if start < 0 or stop < 0:
        missing = cut.start if start < 0 else cut.stop
        raise InputError(f"{tables.PARTS} cuts {cut.file} at {missing!r}, which is not there")
    return text[:start] + text[stop:]


# ---------------------------------------------------------------------------------------------
# The command line


def get_args(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(prog="course/handout.py", description="Make the students' repository.")
    add = parser.add_argument
    add("--out", type=Path, required=True, help="folder of the students' repository")
    add("--part", choices=tuple(FILES_OF), default="all", help="2 and 3: earlier parts come, too")
    add("--with-part1-solution", action="store_true", help="with 2 and 3: part 1 is written")
    add("--language", choices=("de",), help="the assignment in German, too")
    add("--update", action="store_true", help="add a commit to a repository made earlier")
    add("--allow-conflicts", action="store_true", help="with --update: also where a stub changed")
    args = parser.parse_args(arguments)
    if args.with_part1_solution and args.part not in ("2", "3"):
        parser.error("--with-part1-solution goes with --part 2 and --part 3")
    if args.language and args.part == "3":
        parser.error("--language goes with parts 1 and 2: part 3 is in English only")
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
    args = get_args()
    remedy = "choose another --out, make room, or install git"
    with trouble_in_one_line(remedy, f"{args.out} cannot be made: "):
        make(args)


if __name__ == "__main__":
    run_script(main)
