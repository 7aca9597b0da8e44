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

from checks.graded_tasks import GRADED_TASKS
from checks.part2.submission import CODE as CODE_PART_2
from checks.part2.submission import FILES as PART_2_FILES
from course.grading.intake.archives import MB, ZIP, File, Refused, plain_name, read_files, read_zip
from course.grading.types import Submission
from prepare_submit import CODE, GIVEN, PART_1_FILES, ZIP_NAME
from training.files.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
WANTED = {1: (*CODE, *PART_1_FILES), 2: (*CODE, *CODE_PART_2, *PART_2_FILES)}
WANTED[3] = tuple({task.file for task in GRADED_TASKS if task.part == 3})
SCRIPTS = [name for name in (*WANTED[2], *WANTED[3]) if name.endswith(".py")]
SOURCE, SOURCES, OTHER = MB // 2, 1 * MB, 8 * MB  # bytes of a Python file, of all, of another file
TEST = re.compile(r"(^|/)(tests?/|test_|conftest\.)|_tests?\.py$")
MODULE = re.compile(r"(?:[a-z_]\w*/)*[a-z_]\w*\.py", re.IGNORECASE | re.ASCII)
# Top names of modules that would shadow others, or that Python imports by itself
TAKEN = {Path(name).stem.lower() for name in (*GIVEN, *SCRIPTS)} | {"course", "tests"}
TAKEN |= {"sitecustomize", "usercustomize", "__init__", "__main__"}
TAKEN |= {
    name.lower() for name in sys.stdlib_module_names | metadata.packages_distributions().keys()
}

# Names as Canvas and Moodle make them, as systems number copies, and as prepare_submit.py does
ARCHIVE = re.compile(r"\.(zip|rar|7z|tar|tgz|tar\.gz)$", re.IGNORECASE)
CANVAS = re.compile(r"(?=[^_]*[^\W\d_])([^_]+)_(?:LATE_)?(\d+)_(\d{3,18})_(.+)")
MOODLE = re.compile(r"(.+)_(\d+)_assignsubmission_file_()(.*)")
ONLINE_TEXT = re.compile(r".+_\d+_assignsubmission_onlinetext_?")  # Moodle's, next to the files
COPY = re.compile(r"(?is)(.*?)(?:(?:[ _-]+|(?=\())(?:copy|kopie)? ?\(?(\d{,9})\)?)?")
OURS = re.compile(rf"(?:(.*)_)?{ARCHIVE.sub('', ZIP_NAME)}")


@dataclass(frozen=True)
class Found:
    """A submission's id, and its zip or folder."""

    student: str
    path: Path


def _owner(name: str) -> tuple[str, tuple[int, int]]:
    """Whose a zip or folder is by its name, and its place among others of the same owner.

    Canvas and Moodle say whose it is; else it is who prepare_submit.py was told, or the name.
    """
    stem = ARCHIVE.sub("", unicodedata.normalize("NFC", name))
    platform = CANVAS.fullmatch(stem) or MOODLE.fullmatch(stem)
    who, number, attempt, file = platform.groups() if platform else ("", "", "", stem)
    base, copy = COPY.fullmatch(file).groups()
    ours = OURS.fullmatch(base)
    owner = f"{who}_{number}" if platform else (ours[1] or base) if ours else stem
    return owner, (int(attempt or 0), int(copy or 0))


def student_id(name: str) -> str:
    """The id of a name: letters and digits of any script, _ and -, at most 80 and 200 bytes."""
    owner = re.sub("(_part[123])+$", "", _owner(name)[0])
    # signs that only say how letters are joined, as in Hindi and Persian, leave no trace
    text = "".join(c for c in owner if unicodedata.category(c) != "Cf")
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
    staffs = {path.resolve() for path in ours}
    owners = defaultdict(list)
    for path in folder.iterdir() if folder.is_dir() else [folder] * folder.is_file():
        is_asked = plain_name(path.name) and not ONLINE_TEXT.fullmatch(path.name)
        is_one = path.is_dir() or ARCHIVE.search(path.name)
        if is_one and is_asked and path.resolve() not in staffs:
            owner, order = _owner(path.name)
            owners[owner].append((order, path.lstat().st_mtime, path))
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
    notes: dict[str, list[str]] = defaultdict(list)
    files, refused = {}, ""
    try:
        files = _choose(_open(Path(path), part), part, notes)
    except Refused as error:
        refused = f"{error}; hand in the zip that prepare_submit.py writes"
    except (OSError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    lines = tuple(
        f"{why}: {', '.join(name[:60] for name in names[:3])}{' …' * (len(names) > 3)}"
        for why, names in notes.items()
    )
    digest = hashlib.sha256(repr((sorted(files.items()), lines, refused)).encode()).hexdigest()
    return Submission(student, part, files, lines, refused, digest)


def _open(path: Path, part: int) -> list[File]:
    """The files of a zip or a folder; of one without scripts also those of the zip in it."""
    bases = {Path(name).name.lower() for name in WANTED[part]}

    def limit(name: str) -> int:
        base = name.rpartition("/")[2].lower()
        is_other = base in bases or (part == 2 and base.endswith(".pdf"))
        return SOURCE if base.endswith(".py") else OTHER * is_other

    files = read_files(path, limit)
    zips = {name: _owner(Path(name).name) for name, _ in files if name.lower().endswith(".zip")}
    if zips and not any(name.lower().endswith(tuple(SCRIPTS)) for name, _ in files):
        if len({owner for owner, _ in zips.values()}) > 1:
            raise Refused(f"no scripts but several zips in it: {', '.join(sorted(zips))[:100]}")
        newest = max(zips, key=lambda name: zips[name][1])
        inside = dict(read_files(path, lambda name: ZIP * (name == newest)))[newest]
        files += read_zip(inside or b"", limit)
    return files


# ---------------------------------------------------------------------------------------------
# What counts


def _choose(files: list[File], part: int, notes: dict[str, list[str]]) -> dict[str, bytes]:
    """The files that count, by their paths in the repository."""
    places = {alias.lower(): name for name in WANTED[part] for alias in (Path(name).name, name)}
    tops = _tops([name for name, _ in files], places)
    claims = defaultdict(list)  # files by the path that each would be read as
    for name, content in files:
        inside = next(name[len(top) :] for top in tops[name[-3:] == ".py"] if name.startswith(top))
        target = places.get(inside.lower(), inside)
        claims[target].append((target != inside, name.count("/"), name, content))
    chosen: dict[str, bytes] = {}
    for target in sorted(claims, key=lambda target: (target not in WANTED[part], target)):
        (*rank, name, content), *others = sorted(claims[target], key=lambda claim: claim[:2])
        if others and others[0][:2] == tuple(rank):  # readers of zips disagree on which one counts
            why = "left out, it is there twice"
        else:
            why = _why_not(target, content, part, chosen)
        if why == "":
            chosen[target] = _plain(target, content)
            why = f"read as {target}" if rank[0] else ""
        if why:
            notes[why].append(name)
    if chosen.keys().isdisjoint(WANTED[part]):
        raise Refused(f"none of the files that part {part} asks for is in it")
    return chosen


def _tops(names: list[str], places: Iterable[str]) -> dict[bool, list[str]]:
    """The folders that are read as the top: of Python files, and of all others (False)."""
    tops = {}
    for kind in (True, False):
        ends = [f"/{place}" for place in places if (place[-3:] == ".py") == kind]
        found = [(name, end) for name in names for end in ends if f"/{name.lower()}".endswith(end)]
        holders = Counter(name[: len(name) + 1 - len(end)] for name, end in found)
        ranked = sorted((top.count("/"), -count, top) for top, count in holders.items())
        if kind and len(ranked) > 1 and ranked[0][:2] == ranked[1][:2]:
            raise Refused(f"scripts in several folders: {ranked[0][2]}, {ranked[1][2]}")
        tops[kind] = ranked[0][2] if ranked else ""
    return {True: [tops[True], ""], False: [*sorted(tops.values(), key=len, reverse=True), ""]}


def _why_not(target: str, content: bytes | None, part: int, chosen: dict[str, bytes]) -> str | None:
    """Why a file is not taken, for the student; None: the course has it, too; "": it is taken."""
    is_module = MODULE.fullmatch(target) and target not in SCRIPTS and not TEST.search(target)
    is_pdf = part == 2 and target.lower().endswith(".pdf") and (content or b"").startswith(b"%PDF-")
    if not (target in WANTED[part] or is_module or is_pdf):
        return "left out, not asked for"
    plain, sources = _plain(target, content), (len(chosen[n]) for n in chosen if n.endswith(".py"))
    if plain is None or sum(sources) + len(plain) * target.endswith(".py") > SOURCES:
        return "left out, too large, a link, packed by another method than deflate, or not UTF-8"
    if target in WANTED[part] or is_pdf:
        return ""
    if (ROOT / target).is_file() and _plain("", (ROOT / target).read_bytes()) == plain:
        return None
    is_taken = target.split("/")[0].removesuffix(".py").lower() in TAKEN
    return "left out, the course, Python or a package has such a module" if is_taken else ""


def _plain(name: str, content: bytes | None) -> bytes | None:
    """A PDF as it is, a text with plain line ends and no byte-order mark; None: neither."""
    if content is None or name.lower().endswith(".pdf"):
        return content
    try:
        return re.sub("\r\n?", "\n", content.decode("utf-8-sig")).encode()
    except UnicodeDecodeError:
        return None
