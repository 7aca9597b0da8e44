"""Which submissions there are, whose they are, and the files that are taken from each.

Files are read into memory, within limits. Students' code is neither run nor parsed here.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import IO

from checks.part2.submission import CODE as CODE_PART_2
from checks.part2.submission import FILES as PART_2_FILES
from course.grading.types import Submission
from prepare_submit import CODE, GIVEN, PART_1_FILES, PART_3_CODE, ZIP_NAME
from training.files.errors import InputError, first_line

WANTED = {1: (*CODE, *PART_1_FILES), 2: (*CODE, *CODE_PART_2, *PART_2_FILES), 3: PART_3_CODE}
MODULE = re.compile(r"(?:[a-z_]\w*/)*[a-z_]\w*\.py", re.IGNORECASE | re.ASCII)
OURS = {Path(name).stem.lower() for name in (*GIVEN, *WANTED[2], "data", "course")}
JUNK = ("__MACOSX", "__pycache__", "site-packages", "Thumbs.db", "desktop.ini")
MB = 1 << 20
READ = (".zip", ".py", ".csv", ".md", ".sh", ".pdf")  # endings of the files that are read
FILE, TOTAL, SOURCES = 20 * MB, 64 * MB, MB  # most bytes of a file, of all, of all Python files
NO_TEXT = f" (no text in UTF-8 of at most {FILE // MB} MB)"
# zipfile limits what it unpacks at a time for these only: 45 bytes of bzip2 can be 45 MB
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Names as Canvas and Moodle make them, and as prepare_submit.py and those who copy a zip do
ARCHIVE = re.compile(r"\.(zip|rar|7z|tar|tgz|tar\.gz)$", re.IGNORECASE)
CANVAS = re.compile(r"(?=[^_]*[^\W\d_])([^_]+_)(?:LATE_)?(\d+)_(\d{3,18})_.+")
MOODLE = re.compile(r"(.+_)(\d+)_assignsubmission_file_().*")
TEXT = "_assignsubmission_onlinetext_"  # Moodle's folder of what was written into its page
PREPARED = re.compile(rf"(.+?)(?:_part[123])*_{ZIP_NAME.removesuffix('.zip')}.*")
File = tuple[str, bytes | None]  # None: it is not asked for, or too long


def _owner(name: str) -> tuple[str, int]:
    """Whose a zip or folder is, by a platform's name or else its own; Canvas's growing number."""
    stem = ARCHIVE.sub("", unicodedata.normalize("NFC", name))
    if platform := CANVAS.fullmatch(stem) or MOODLE.fullmatch(stem):
        return platform[1] + platform[2], int(platform[3] or 0)
    prepared = PREPARED.fullmatch(stem)
    return prepared[1] if prepared else stem, 0


def student_id(name: str) -> str:
    """The id of a name: letters and digits of any script, _ and -, at most 80 and 200 bytes."""
    text = unicodedata.normalize("NFC", _owner(name)[0])
    kept = (c if c in "_-" or unicodedata.category(c)[0] in "LMN" else " " for c in text)
    short = re.sub(" +", "_", "".join(kept)).lstrip("-")[:80]
    return short.encode()[:200].decode(errors="ignore") or "_"


def find(folder: Path, ours: Iterable[Path] = ()) -> dict[str, Path]:
    """Each owner's newest zip or folder, by the owner's id; prints what does not count.

    Args:
        ours: files and folders of staff, which must not be in it.

    Raises:
        InputError: it is not a folder of submissions.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; name the one that the submissions are in")
    if inside := [path for path in ours if path.resolve().is_relative_to(folder.resolve())]:
        what = f"{folder} holds {inside[0]}, which would be taken for a submission"
        raise InputError(f"{what}; name a place outside")
    if code := [name for name in WANTED[2] if name.endswith(".py") and (folder / name).is_file()]:
        raise InputError(f"{folder} is one submission, with {code[0]}; name the folder around it")
    others, owners, found = [], defaultdict(list), {}
    for path in sorted(folder.iterdir()):
        if TEXT in path.name or not plain_name(path.name):
            continue
        if path.is_dir() or ARCHIVE.search(path.name):
            owner, number = _owner(path.name)
            owners[owner].append((number, path.lstat().st_mtime, path))
        else:
            others.append(path.name)
    if others:
        print(f"left out, neither zip nor folder: {', '.join(others)[:300]!r}")
    if not owners:
        raise InputError(f"{folder} has no submission in it: no zip and no folder")
    ids = [student_id(owner).casefold() for owner in owners]
    for owner, paths in sorted(owners.items()):
        student = student_id(owner)
        if ids.count(student.casefold()) > 1:  # names that differ in signs, or after 80 letters
            student = f"{student[:40]}-{hashlib.sha256(owner.encode()).hexdigest()[:6]}"
        found[student] = max(paths)[-1]
        if len(paths) > 1:
            newest = repr(found[student].name[:200])
            print(f"{student}: {len(paths)} submissions, the newest counts: {newest}")
    return found


def take(student: str, path: Path, part: int) -> Submission:
    """What a part asks for of a zip or a folder; OSError where this machine cannot read it."""
    taken, left, refused = {}, "", ""
    try:
        files = read_files(path)
        zips = [file for file in files if base_of(file[0]).endswith(".zip")]
        if len(zips) == 1 and not any(base_of(name).endswith(".py") for name, _ in files):
            files.remove(zips[0])  # in the folder of a learning platform
            files += read_zip(zips[0][1] or b"")
        taken, left = choose(files, part)
    except InputError as error:
        refused = f"{error}; hand in the zip that prepare_submit.py writes"
    notes = (f"left out: {left}",) if left else ()
    digest = hashlib.sha256(repr((sorted(taken.items()), notes, refused)).encode()).hexdigest()
    return Submission(student, part, taken, notes, refused, digest)


def plain_name(name: str) -> str:
    """With / between folders; "" for a hidden file, or one of a system's."""
    parts = re.split(r"[/\\]", unicodedata.normalize("NFC", name))
    kept = [part for part in parts if part not in ("", ".")]
    return "" if any(part[0] == "." or part in JUNK for part in kept) else "/".join(kept)


def base_of(name: str) -> str:
    """A file's name without its folders, in small letters."""
    return name.rpartition("/")[2].lower()


def read_files(path: Path) -> list[File]:
    """The files of a zip or a folder; OSError where this machine cannot read it."""
    if path.is_dir():
        os.listdir(path)  # an OSError where that is not allowed
        inside = (item for item in path.rglob("*") if item.is_file() and not item.is_symlink())
        return _read((str(item.relative_to(path)), partial(item.open, "rb")) for item in inside)
    if not path.is_file() or path.stat().st_size > FILE:
        raise InputError(f"not a regular file, or more than {FILE // MB} MB")
    return read_zip(path.read_bytes())


def read_zip(content: bytes) -> list[File]:
    """The files of a zip; whatever zipfile raises, which hostile zips vary, becomes InputError."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        # the other name of a file ends at a NUL
        return _read(
            (entry.orig_filename, partial(archive.open, entry))
            for entry in archive.infolist()
            if entry.compress_type in METHODS and not entry.is_dir()
        )
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"not a zip, or a damaged one ({first_line(error)})") from error


def _read(members: Iterable[tuple[str, Callable[[], IO[bytes]]]]) -> list[File]:
    files, total = [], 0
    for member, opener in members:
        name, content = plain_name(member), b""
        if is_read := base_of(name).endswith(READ):
            with opener() as file:
                content = file.read(FILE + 1)
        total += len(content)
        if total > TOTAL:
            raise InputError(f"more than {TOTAL // MB} MB unpacked")
        if name:
            files.append((name, content if is_read and len(content) <= FILE else None))
    return files


def choose(files: list[File], part: int) -> tuple[dict[str, bytes], str]:
    """The files that count, by their paths in the repository, and the names of the others.

    Own modules count from the outermost script's folder on, all else in any folder.
    """
    wanted = {base_of(name): name for name in WANTED[part]}
    files = sorted(files, key=lambda file: (file[0].count("/"), file[0]))  # the outermost first
    scripts = [name for name, _ in files if base_of(name) in wanted and base_of(name)[-3:] == ".py"]
    top = scripts[0].rpartition("/")[0] if scripts else ""
    taken, left = {}, []
    for name, content in files:
        is_code = base_of(name).endswith(".py")
        own = name.removeprefix(f"{top}/") if is_code else name.rpartition("/")[2]
        target = wanted.get(base_of(name), own)
        text = None if target in taken else _plain(target, content, part)
        if text is None:
            is_missed = target in WANTED[part] and target not in taken
            left.append(name + NO_TEXT * is_missed)
        else:
            taken[target] = text
    if taken.keys().isdisjoint(WANTED[part]):
        raise InputError(f"none of the files that part {part} asks for is in it")
    if sum(len(text) for name, text in taken.items() if name.endswith(".py")) > SOURCES:
        raise InputError(f"more than {SOURCES // MB} MB of Python files")
    return taken, ", ".join(left)[:280]


def _plain(target: str, content: bytes | None, part: int) -> bytes | None:
    """A text with plain line ends and no byte-order mark, or a PDF; None: it is not taken."""
    if part == 2 and target.lower().endswith(".pdf"):
        return content if (content or b"").startswith(b"%PDF-") else None
    is_free = target.split("/")[0].removesuffix(".py").lower() not in OURS
    if content is None or not (target in WANTED[part] or (is_free and MODULE.fullmatch(target))):
        return None
    try:
        return re.sub("\r\n?", "\n", content.decode("utf-8-sig")).encode()
    except UnicodeDecodeError:
        return None
