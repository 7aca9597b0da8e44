"""Which submissions there are, whose they are, and the files that are taken from each.

Students' code is neither run nor parsed here. Names in notes are the students' text.
"""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from checks.part2.submission import CODE as CODE_PART_2
from checks.part2.submission import FILES as PART_2_FILES
from course.grading.intake.archives import MB, File, Refused, plain_name, read_files, read_zip
from course.grading.types import Submission
from prepare_submit import CODE, GIVEN, PART_1_FILES, PART_3_CODE, ZIP_NAME
from training.files.errors import InputError

WANTED = {1: (*CODE, *PART_1_FILES), 2: (*CODE, *CODE_PART_2, *PART_2_FILES), 3: PART_3_CODE}
SCRIPTS = [name for name in (*WANTED[2], *PART_3_CODE) if name.endswith(".py")]
SOURCES = 1 * MB  # bytes of all Python files
MODULE = re.compile(r"(?:[a-z_]\w*/)*[a-z_]\w*\.py", re.IGNORECASE | re.ASCII)
# Top names of modules that would shadow others, or that Python imports by itself
TAKEN = {*GIVEN, *SCRIPTS, "data", "course", "tests", "sitecustomize", "usercustomize"}
TAKEN |= sys.stdlib_module_names | metadata.packages_distributions().keys()
TAKEN = {Path(name).stem.lower() for name in TAKEN}
# Names as Canvas and Moodle make them, and as prepare_submit.py and those who copy a zip do
ARCHIVE = re.compile(r"\.(zip|rar|7z|tar|tgz|tar\.gz)$", re.IGNORECASE)
CANVAS = re.compile(r"(?=[^_]*[^\W\d_])([^_]+_)(?:LATE_)?(\d+)_(\d{3,18})_.+")
MOODLE = re.compile(r"(.+_)(\d+)_assignsubmission_file_().*")
OURS = re.compile(rf"(.+?)(?:_part[123])*_{ZIP_NAME.removesuffix('.zip')}.*")


@dataclass(frozen=True)
class Found:
    """A submission's id, and its zip or folder."""

    student: str
    path: Path


def _owner(name: str) -> tuple[str, int]:
    """Whose a zip or folder is by its name, and Canvas's number, which grows.

    Canvas and Moodle say whose it is; else it is who prepare_submit.py was told, or the name.
    """
    stem = ARCHIVE.sub("", unicodedata.normalize("NFC", name))
    if platform := CANVAS.fullmatch(stem) or MOODLE.fullmatch(stem):
        return platform[1] + platform[2], int(platform[3] or 0)
    ours = OURS.fullmatch(stem)
    return ours[1] if ours else stem, 0


def student_id(name: str) -> str:
    """The id of a name: letters and digits of any script, _ and -, at most 80 and 200 bytes."""
    # signs that only say how letters are joined, as in Hindi and Persian, leave no trace
    text = "".join(c for c in _owner(name)[0] if unicodedata.category(c) != "Cf")
    text = unicodedata.normalize("NFC", text)
    kept = (c if c in "_-" or unicodedata.category(c)[0] in "LMN" else " " for c in text)
    short = re.sub(" +", "_", "".join(kept)).lstrip("-")[:80]
    return short.encode()[:200].decode(errors="ignore") or "_"


def find(folder: str | Path, ours: Iterable[Path] = ()) -> list[Found]:
    """Each owner's newest submission in a folder, or the folder itself if it is a submission.

    Args:
        ours: folders of staff's, which are no submissions wherever they are.

    Raises:
        InputError: there is none.
    """
    folder = Path(folder)
    if any((folder / name).is_file() for name in SCRIPTS):
        return [Found(student_id(folder.resolve().name), folder)]
    staffs, owners = {path.resolve() for path in ours}, defaultdict(list)
    for path in folder.iterdir() if folder.is_dir() else [folder] * folder.is_file():
        is_text = "_assignsubmission_onlinetext_" in path.name  # Moodle's, next to the files
        is_one = (path.is_dir() or ARCHIVE.search(path.name)) and plain_name(path.name)
        if is_one and not is_text and path.resolve() not in staffs:
            owner, number = _owner(path.name)
            owners[owner].append((number, path.lstat().st_mtime, path))
    if not owners:
        raise InputError(f"{folder} has no submission in it: no zip and no folder")
    times = Counter(student_id(owner).casefold() for owner in owners)
    found = []
    for owner, paths in sorted(owners.items()):
        student = student_id(owner)
        if times[student.casefold()] > 1:  # names that differ in other signs, or after 80 letters
            student = f"{student[:40]}-{hashlib.sha256(owner.encode()).hexdigest()[:6]}"
        found.append(Found(student, max(paths)[-1]))
    return found


def take(student: str, path: str | Path, part: int) -> Submission:
    """What a part asks for of a zip or a folder; what is wrong with it is in the result.

    Raises:
        InputError: this machine cannot read it.
    """
    taken, notes, refused = {}, (), ""
    try:
        files = read_files(Path(path))
        zips = [file for file in files if file[0].lower().endswith(".zip")]
        if len(zips) == 1 and not any(name.lower().endswith(".py") for name, _ in files):
            files.remove(zips[0])  # a zip in a zip or in a folder
            files += read_zip(zips[0][1] or b"")
        taken, notes = _choose(files, part)
    except Refused as error:
        refused = f"{error}; hand in the zip that prepare_submit.py writes"
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    digest = hashlib.sha256(repr((sorted(taken.items()), notes, refused)).encode()).hexdigest()
    return Submission(student, part, taken, notes, refused, digest)


def _choose(files: list[File], part: int) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The files that count, by their paths in the repository, and notes for the student."""
    places = {alias.lower(): name for name in WANTED[part] for alias in (Path(name).name, name)}
    top, claims = _top([name for name, _ in files], places), defaultdict(list)
    for name, content in files:
        inside, base = name.removeprefix(top), name.rpartition("/")[2]
        place = inside if base.lower().endswith(".py") else base  # others count in any folder
        target = places.get(place.lower(), place)
        claims[target].append((target != inside, name.count("/"), name, content))
    chosen, moved, left, room = {}, [], [], SOURCES
    for target in sorted(claims, key=lambda target: (target not in WANTED[part], target)):
        (*rank, name, content), *others = sorted(claims[target], key=lambda claim: claim[:2])
        # readers of zips disagree on which one of two with the same name counts
        is_twice = bool(others) and others[0][:2] == tuple(rank)
        text = None if is_twice else _plain(target, content, part)
        size = len(text or b"") * target.endswith(".py")
        if text is None or size > room:
            left.append(name)
        else:
            chosen[target], room = text, room - size
            moved += [name] * rank[0]
        left += [claim[2] for claim in others]
    if chosen.keys().isdisjoint(WANTED[part]):
        raise Refused(f"none of the files that part {part} asks for is in it")
    notes = {"moved into place": moved, "left out": left}
    return chosen, tuple(f"{what}: {', '.join(n)[:280]}" for what, n in notes.items() if n)


def _top(names: list[str], places: Iterable[str]) -> str:
    """The folder that is read as the top: the outermost one with a script that is asked for."""
    ends = [place for place in places if place.endswith(".py")]
    tops = {n[: -len(end)] for n in names for end in ends if f"/{n.lower()}".endswith(f"/{end}")}
    first, *others = sorted(tops, key=lambda top: (top.count("/"), top)) or [""]
    if others and others[0].count("/") == first.count("/"):
        raise Refused(f"scripts in several folders: {first}, {others[0]}")
    return first


def _plain(target: str, content: bytes | None, part: int) -> bytes | None:
    """A text with plain line ends and no byte-order mark, or a PDF; None: it is not taken."""
    if part == 2 and target.lower().endswith(".pdf"):
        return content if (content or b"").startswith(b"%PDF-") else None
    is_free = target.split("/")[0].removesuffix(".py").lower() not in TAKEN
    if content is None or not (target in WANTED[part] or (is_free and MODULE.fullmatch(target))):
        return None
    try:
        return re.sub("\r\n?", "\n", content.decode("utf-8-sig")).encode()
    except UnicodeDecodeError:
        return None
