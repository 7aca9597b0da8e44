"""The students' repository and its zip: made once, then updated by one more commit.

An update that would give a conflict to students who have filled a stub is refused. What a handout
holds is not decided here.
"""

from __future__ import annotations

import io
import re
import subprocess
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from checks.graded_tasks import GRADED_TASKS
from course.handout_checks import Handout, refuse, write_files
from course.regions import Fault
from prepare_submit import FIXED_DATE
from training.files.errors import InputError
from training.files.writing import write_whole


def zipped(
    files: Mapping[str, bytes],
    method: int = zipfile.ZIP_STORED,
    rights: int = 0o644,
    executable: Collection[str] = (),
) -> bytes:
    """A zip of files, the same bytes each time: their order, dates and rights are fixed.

    Not compressed unless asked for: compressed bytes depend on the version of zlib.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, FIXED_DATE)
            info.create_system, info.compress_type = 3, method
            info.external_attr = (rights | (0o100 if name in executable else 0)) << 16
            archive.writestr(info, data)
    return content.getvalue()


def write_zip(target: Path, handout: Handout) -> None:
    """The handout in a folder of its own."""
    part = handout.part if handout.part == "all" else f"part{handout.part}"
    top = f"{handout.settings['course']['folder']}-{part}"
    write_whole(target, zipped({f"{top}/{name}": data for name, data in handout.files.items()}))


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; its output. InputError with git's own words if it fails."""
    fixed = ("commit.gpgsign=false", "core.autocrlf=false", "core.quotepath=false")
    options = [word for setting in fixed for word in ("-c", setting)]
    command = ["git", *options, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise InputError(f"git in {folder} failed: {done.stderr.strip()}")
    return done.stdout


def commit(folder: Path, handout: Handout, what: str) -> bool:
    """Commit the handout's files, also those that .gitignore names; False if nothing has changed.

    The message's last line tells a later --update what this handout is.
    """
    course = handout.settings["course"]
    part = "both parts" if handout.part == "all" else f"part {handout.part}"
    text = f"{what} of {course['name']}, {part}\n\n{signature(handout)}"
    who = ("-c", f"user.name={course['committer']}", "-c", f"user.email={course['email']}")
    git(folder, "add", "--force", "--", *handout.files)
    changed = bool(git(folder, "status", "--porcelain"))
    if changed:
        git(folder, *who, "commit", "--quiet", "-m", text)
    return changed


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


# ---------------------------------------------------------------------------------------------
# Updating


def update_repository(out: Path, handout: Handout, allow_conflicts: bool) -> bool:
    """One more commit with what has changed; False if nothing has.

    Raises:
        InputError: no handout, one of another kind, uncommitted changes, or students who filled a
            stub would get a conflict.
    """
    check_same_kind(out, handout)
    if git(out, "status", "--porcelain"):
        raise InputError(f"{out} has changes that are not committed; commit or undo them first")
    if not allow_conflicts:
        refuse(conflicts(out, handout))
    # every file that a handout ever brought; what else is there, staff put there
    log = git(out, "log", "--format=", "--name-only", "--grep=^Handout: ")
    gone = sorted(set(filter(None, log.split("\n"))) - handout.files.keys())
    try:
        write_files(out, handout.files)
        for name in gone:
            git(out, "rm", "--quiet", "--ignore-unmatch", "--", name)
        return commit(out, handout, "Update")
    except (InputError, OSError) as error:
        git(out, "reset", "--quiet", "--hard")
        raise InputError(f"{out} is as it was: {error}") from error


def check_same_kind(out: Path, handout: Handout) -> None:
    """An update may add a part or a language, but neither take away nor give solutions.

    The newest handout in the repository says what was there before.
    """
    if not (out / ".git").is_dir():
        raise InputError(f"{out} is not a git repository; leave out --update to make one")
    kind = re.compile(r"^Handout: (1|2|3|all) (solved|stubs)(?: (de))?$", re.MULTILINE)
    before, now = kind.search(git(out, "log", "--format=%B")), kind.search(signature(handout))
    if not before:
        raise InputError(f"{out} is a repository that this script did not make")
    (part, state, language), (new_part, new_state, new_language) = before.groups(), now.groups()
    later = part in ("1", new_part) or (part, new_part) in (("2", "3"), ("all", "3"))
    grows = later and language in (None, new_language)
    if not grows or state != new_state or (part != new_part and state == "solved"):
        raise InputError(
            f"{out} was made as '{before[0]}', this would be '{now[0]}'; "
            "only stubs of part 2 or 3 can be added to earlier ones, and a language to either"
        )


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
        raising = re.escape(f'raise NotImplementedError("{task.title}")')
        stub = re.compile(rf"^ *### TODO\n(?: *#.*\n)*? *{raising}$", re.MULTILINE)
        solution = "\n".join(region.solution)
        filled = stub.sub(lambda _, solution=solution: solution, before)
        versions = {"theirs": filled, "old": before, "new": handout.text(task.file)}
        with tempfile.TemporaryDirectory() as folder:
            write_files(Path(folder), {name: text.encode() for name, text in versions.items()})
            command = ["git", "merge-file", "-p", "-q", *versions]
            if subprocess.run(command, cwd=folder, capture_output=True).returncode:
                text = f"who has filled Task {task.number} gets a conflict from this update: the "
                text += "stub or lines next to it changed; undo that, or --allow-conflicts"
                yield Fault(region.file, region.line, text)
