"""Safe intake: of a student's zip or folder only the files that are asked for, read into memory.

What is left out or repaired is said in a note, what cannot be read safely is refused as a whole.
Students' code is parsed (in another process), never run. Names in notes are the students' text.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import os
import re
import stat
import subprocess
import sys
import tokenize
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from checks.graded_tasks import GRADED_TASKS
from checks.part2.submission import CODE as CODE_PART_2
from checks.part2.submission import FILES as PART_2_FILES
from course import table
from course.grading.intake import parse
from course.grading.intake.entries import (
    CLOSED,
    JUNK,
    MB,
    REMEDY,
    ArchiveLimits,
    Entry,
    Reader,
    Refused,
    folder_entries,
    open_regular,
    zip_entries,
)
from course.grading.intake.names import ARCHIVE, ONLINE_TEXT, parts_of, student_id
from course.grading.judging.types import Submission
from prepare_submit import CODE, PART_1_FILES, TESTS, ZIP_NAME
from training.files.errors import InputError
from training.files.imports import imports

ROOT = Path(__file__).resolve().parents[3]
LIMITS = ArchiveLimits()
WANTED = {1: (*CODE, TESTS, *PART_1_FILES), 2: (*CODE, *CODE_PART_2, *PART_2_FILES)}
WANTED[3] = tuple({task.file for task in GRADED_TASKS if task.part == 3})
MODULE = re.compile(r"([a-z_]\w*/)*[a-z_]\w*\.py", re.IGNORECASE | re.ASCII)
UNASKED = {"conftest", "sitecustomize", "usercustomize", "__init__", "__main__"}  # load themselves
STAFF_ONLY = {"course", "tests"}  # never in a handout, and no student's package

# Reasons in notes
NOT_ASKED = CLOSED
MISSING = "not in it"
NOT_IMPORTED = "left out, not imported by your scripts"
UNSAFE = "left out, its name leads outside the submission, is too long or has hidden characters"
ALMOST = "left out, its name only resembles one that is asked for"
TWICE = "left out, such a name is there twice (perhaps with other capital letters)"
NESTED = "left out, an archive inside the submission is not opened"
SHADOWS = "left out, the course, Python or a package has a module of that name"
COURSES_OWN = "left out, the course's own version is used"
TOO_LONG = "left out, too large for a Python file"
NOT_UTF8 = "left out, not UTF-8 text"
NOT_PDF = "left out, no PDF whatever its name"
SECOND_PDF = "left out, a second PDF"
FROM_JUNK = "ignored, made by the operating system or by Python"
TOP_FOLDER = "read as if it were not there: the one folder around everything"
SCRIPTS_FOLDER = "read as if it were not there: the one folder that holds the scripts"
MOVED = "read as if it lay in {}/"
Pairs = list[tuple[str, Entry]]  # by the name that counts


Notes = defaultdict[str, list[str]]  # names of files by what was left out or repaired


def lines_of(notes: Notes) -> tuple[str, ...]:
    """A line for each reason: the first three names, and how many more."""
    lines = []
    for reason, names in notes.items():
        shown = [name if len(name) <= 60 else f"{name[:59]}…" for name in names[:3]]
        # a name that is not UTF-8, as unzip makes them, could not be written
        shown = [name.encode(errors="backslashreplace").decode() for name in shown]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"{reason}: {', '.join(shown)}{more}")
    return tuple(lines)


# ---------------------------------------------------------------------------------------------
# Which submissions there are


def find(
    folder: str | Path,
    zip_name: str = ZIP_NAME,
    ours: Iterable[Path] = (),
    clashes: dict[str, str] | None = None,
) -> list[tuple[str, Path]]:
    """(student's id, zip or folder) of every submission in a folder, or of the folder if it is one.

    A folder with nothing but one archive, as learning platforms export it, counts as the archive.

    Args:
        ours: folders of staff's, which are no submissions wherever they are.
        clashes: gets each id that several would have, with a line that names them; they are left
            out.

    Raises:
        InputError: there is none; or two would get the same id, and nobody asks for clashes.
    """
    folder = Path(folder)
    if ARCHIVE.search(folder.name) and folder.is_file():
        return [(student_id(folder.name, zip_name), folder)]
    if not folder.is_dir():
        raise InputError(f"{folder} is neither a zip nor a folder of submissions")
    staffs = {path.resolve() for path in ours}
    paths = sorted(path for path in folder.iterdir() if _is_submission(path))
    paths = [path for path in paths if path.resolve() not in staffs]
    if code := [name for name in WANTED[2] if (folder / name).is_file() and name[-3:] == ".py"]:
        if archives := [path.name for path in paths if ARCHIVE.search(path.name)]:
            raise InputError(f"{folder} has {code[0]} and also {archives[0]!r}: move one of them")
        return [(student_id(folder.resolve().name, zip_name), folder)]
    if not paths:
        raise InputError(f"{folder} holds no submission: no zip and no folder")
    owners = defaultdict(list)
    for path in paths:
        student = student_id(name_of(path, zip_name), zip_name)
        owners[fold(student)].append((student, path))
    shared = {
        pairs[0][0]: "the same student's id for " + " and ".join(repr(p.name) for _, p in pairs)
        for pairs in owners.values()
        if len(pairs) > 1
    }
    if shared and clashes is None:
        raise InputError(f"{folder}: {'; '.join(shared.values())}; rename them")
    if shared:
        clashes |= {student: f"{text}; rename one of them" for student, text in shared.items()}
    single = (pairs[0] for pairs in owners.values() if len(pairs) == 1)
    return [(student, only_archive(path)) for student, path in single]


def name_of(path: Path, zip_name: str) -> str:
    """A submission's name: of the zip in a folder, where it has a group's, else of the folder."""
    inside = only_archive(path).name
    _, group = parts_of(ARCHIVE.sub("", inside), zip_name)
    return inside if group and inside != path.name else path.name


def _is_submission(path: Path) -> bool:
    if path.name in JUNK or path.name.startswith("._") or ONLINE_TEXT.fullmatch(path.name):
        return False
    return bool(ARCHIVE.search(path.name)) or (path.is_dir() and not path.name.startswith("."))


def only_archive(path: Path) -> Path:
    """The archive in a folder with nothing else, else the folder."""
    if path.is_symlink() or not path.is_dir() or not os.access(path, os.R_OK | os.X_OK):
        return path
    inside = [item for item in path.iterdir() if not item.name.startswith(".")]
    return inside[0] if len(inside) == 1 and ARCHIVE.search(inside[0].name) else path


# ---------------------------------------------------------------------------------------------
# What is taken of one


def take(student: str, path: str | Path, part: int, limits: ArchiveLimits = LIMITS) -> Submission:
    """Read what a part asks for from a zip or a folder.

    Raises:
        InputError: this machine cannot read it, which is no fault of the student's.
    """
    path, notes, reader = Path(path), Notes(list), Reader(limits)
    files: dict[str, bytes] = {}
    refused = sha256 = ""
    try:
        if stat.S_ISDIR(path.lstat().st_mode):
            files = choose(folder_entries(path, limits), part, reader, notes)
            listing = json.dumps([sorted(files), [len(files[name]) for name in sorted(files)]])
            parts = (listing.encode(), *(files[name] for name in sorted(files)))
            sha256 = hashlib.sha256(b"".join(parts)).hexdigest()
        else:
            with open_regular(path) as file:
                content = file.read(limits.archive + 1)
            if len(content) > limits.archive:
                raise Refused(f"the zip has more than {limits.archive // MB} MB; {REMEDY}")
            sha256 = hashlib.sha256(content).hexdigest()
            files = choose(zip_entries(content, limits), part, reader, notes)
    except Refused as error:
        refused = str(error)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    return Submission(student, part, files, lines_of(notes), refused, sha256)


def choose(entries: Iterable[Entry], part: int, reader: Reader, notes: Notes) -> dict[str, bytes]:
    """The files that count, read, by their paths in the repository."""
    named = dict(unambiguous(without_top_folder(safe(entries, notes), notes), part, notes))
    files: dict[str, bytes] = {}
    modules: dict[str, bytes] = {}
    pdfs = []
    at_top = {PurePosixPath(name).name: name for name in WANTED[part]}
    for name, entry in sorted(named.items()):
        target = name if name in WANTED[part] else at_top.get(name, name)
        if entry.fault:
            notes[entry.fault].append(name)
        elif target in WANTED[part] and (target == name or target not in named):
            if target != name:
                notes[MOVED.format(PurePosixPath(target).parent)].append(name)
            put(files, target, reader.read(entry), reader.limits, notes)
        elif name in course_files(part):
            ours = (ROOT / name).read_bytes()  # git may have changed line ends of theirs
            if reader.read(entry).replace(b"\r\n", b"\n") != ours.replace(b"\r\n", b"\n"):
                notes[COURSES_OWN].append(name)
        elif part == 2 and name.lower().endswith(".pdf"):
            pdfs.append(name)
        elif MODULE.fullmatch(name) and name not in WANTED[2]:
            if name.split("/")[0].removesuffix(".py").lower() in reserved():
                notes[SHADOWS].append(name)
            else:
                put(modules, name, reader.read(entry), reader.limits, notes)
        else:
            notes[NESTED if ARCHIVE.search(name) else NOT_ASKED].append(name)
    sources = [files[name] for name in files if name.endswith(".py")]
    if sum(map(len, (*sources, *modules.values()))) > reader.limits.sources:
        raise Refused(f"more than {reader.limits.sources // MB} MB of Python files; {REMEDY}")
    files |= one_pdf(pdfs, named, reader, notes)
    if files and part == 2:
        card = not any(name.lower().endswith(".pdf") for name in files)
        missing = ["README.md"] * ("README.md" not in files) + ["a PDF, the AI-usage card"] * card
        notes |= {MISSING: missing} if missing else {}
    if not files:
        why = [line for line in lines_of(notes) if not line.startswith(FROM_JUNK)][:2]
        text = f"none of the files that part {part} asks for is in it"
        raise Refused("; ".join([text, *why, REMEDY]))
    return with_modules(files, modules, reader.limits, notes)


def put(
    files: dict[str, bytes], name: str, content: bytes, limits: ArchiveLimits, notes: Notes
) -> None:
    """Add a file; of a Python file only what can be a source, without its byte-order mark."""
    if not name.endswith(".py"):
        files[name] = content
    elif len(content) > limits.source:
        notes[TOO_LONG].append(name)
    elif not is_utf8(content := content.removeprefix(b"\xef\xbb\xbf")):
        notes[NOT_UTF8].append(name)
    else:
        files[name] = content


def is_utf8(source: bytes) -> bool:
    """Whether Python and every other reader see the same text in a source file."""
    lines = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        source.decode("utf-8")
        # Python would read "# coding: utf-7" otherwise than whoever reads the file
        encoding, _ = tokenize.detect_encoding(io.BytesIO(lines).readline)
    except (UnicodeDecodeError, SyntaxError):
        return False
    return encoding in ("utf-8", "ascii") and b"\0" not in source


def one_pdf(
    names: Iterable[str], named: Mapping[str, Entry], reader: Reader, notes: Notes
) -> dict[str, bytes]:
    """The first PDF, those at the top before others, by its name without folders."""
    taken: dict[str, bytes] = {}
    for name in sorted(names, key=lambda name: (name.count("/"), name)):
        if taken:
            notes[SECOND_PDF].append(name)
        elif (content := reader.read(named[name])).startswith(b"%PDF-"):
            taken[PurePosixPath(name).name] = content
        else:
            notes[NOT_PDF].append(name)
    return taken


# ---------------------------------------------------------------------------------------------
# Names


def safe(entries: Iterable[Entry], notes: Notes) -> Pairs:
    """The entries whose names stay inside, with / between folders, and are nobody's junk."""
    pairs = []
    for entry in entries:
        parts = [part for part in entry.name.replace("\\", "/").split("/") if part not in ("", ".")]
        if not is_safe(entry.name, parts):
            notes[UNSAFE].append(entry.name)
        elif JUNK.intersection(parts) or parts[-1].startswith("._") or parts[-1].endswith(".pyc"):
            notes[FROM_JUNK].append("/".join(parts))
        else:
            pairs.append(("/".join(parts), entry))
    return pairs


def is_safe(name: str, parts: list[str]) -> bool:
    """Whether a name stays in its folder on every system and shows all its characters."""
    return (
        0 < len(name.encode(errors="replace")) <= 240
        and not name.startswith(("/", "\\"))
        and ":" not in name  # C:, and streams of NTFS
        # Windows drops dots and spaces at the end: ".. " leads outside too
        and bool(parts)
        and all(part.strip(". ") for part in parts)
        # control, format (bidirectional, zero-width) and undecodable characters
        and not any(unicodedata.category(letter).startswith("C") for letter in name)
    )


def without_top_folder(pairs: Pairs, notes: Notes) -> Pairs:
    """The names without the folder around all of them, or around all scripts, if there is one."""
    while len(tops := {name.partition("/")[0] for name, _ in pairs}) == 1:
        (top,) = tops
        if top in ("predictions", "lessons") or any("/" not in name for name, _ in pairs):
            break
        notes[TOP_FOLDER].append(top)
        pairs = [(name.partition("/")[2], entry) for name, entry in pairs]
    scripts = {name for name in WANTED[2] if name.endswith(".py")}
    holders = {name.partition("/")[0] for name, _ in pairs if name.partition("/")[2] in scripts}
    if len(holders) == 1 and scripts.isdisjoint(name for name, _ in pairs):
        (top,) = holders
        notes[SCRIPTS_FOLDER].append(top)
        pairs = [(name.removeprefix(f"{top}/"), entry) for name, entry in pairs]
    return pairs


def unambiguous(pairs: Pairs, part: int, notes: Notes) -> Iterator[tuple[str, Entry]]:
    """Those whose names no system takes for one another or for one that is asked for."""
    exact = {*WANTED[part], *(PurePosixPath(name).name for name in WANTED[part])}
    folded = {fold(name) for name in exact}
    similar = {name for name, _ in pairs if name not in exact and fold(name) in folded}
    times = Counter(fold(name) for name, _ in pairs if name not in similar)
    for name, entry in pairs:
        if name in similar:
            notes[ALMOST].append(name)
        elif times[fold(name)] > 1:
            notes[TWICE].append(name)  # none counts: readers of zips disagree on which one does
        else:
            yield name, entry


def fold(name: str) -> str:
    """What is the same for two names that some system takes for one."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "/".join(part.rstrip(". ") for part in plain.split("/"))


# ---------------------------------------------------------------------------------------------
# Modules of the students' own


@cache
def course_files(part: int) -> frozenset[str]:
    """What ships with a part's handout."""
    files = table.read_table(ROOT).files
    patterns = [pattern for number in range(1, part + 1) for pattern in files[number]]
    paths = (path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file())
    return frozenset(path.relative_to(ROOT).as_posix() for path in paths)


@cache
def reserved() -> frozenset[str]:
    """Top names, in small letters, that a student's module must not have."""
    ours = {name.split("/")[0].removesuffix(".py") for name in course_files(2)}
    installed = importlib.metadata.packages_distributions()
    names = ours | UNASKED | STAFF_ONLY | sys.stdlib_module_names | installed.keys()
    return frozenset(name.lower() for name in names)


def with_modules(
    files: Mapping[str, bytes], modules: Mapping[str, bytes], limits: ArchiveLimits, notes: Notes
) -> dict[str, bytes]:
    """The files and those modules that its scripts import, also by way of others."""
    scripts = [name for name in files if name.endswith(".py")]
    parsed = parse_all({name: (files | modules)[name] for name in (*scripts, *modules)}, limits)
    taken = dict.fromkeys(scripts)
    waiting = list(taken)
    for name in waiting:  # the list grows while it is read
        statements, fault = parsed[name]
        if fault:
            notes[f"does not parse ({fault})"].append(name)
        with parse.ONE_AT_A_TIME:
            paths = dict.fromkeys(path.as_posix() for path in imports(statements, Path(name)))
        waiting += [path for path in paths if path in modules and path not in waiting]
    for name in sorted(modules.keys() - set(waiting)):
        notes[NOT_IMPORTED].append(name)
    return {**files, **{name: modules[name] for name in waiting if name in modules}}


def parse_all(sources: Mapping[str, bytes], limits: ArchiveLimits) -> dict[str, tuple[str, str]]:
    """The import statements of each source and what is wrong with it, by parse.py."""
    lines = [json.dumps([name, source.decode()]) for name, source in sources.items()]
    command = [sys.executable, "-I", "-S", parse.__file__]
    try:
        output = subprocess.run(
            command,
            input="\n".join(lines).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=limits.seconds,
            check=False,
        ).stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
    ready, *answers = output.split(b"\n")[:-1] or [b""]  # the last one may be cut
    if ready != parse.READY.encode():
        raise InputError(f"{' '.join(command)} does not start")
    parsed = dict.fromkeys(sources, ("", "Python's parser gave up"))
    for answer in answers:
        name, statements, fault = json.loads(answer)
        parsed[name] = statements, fault
    return parsed
