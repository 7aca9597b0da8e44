"""Read the files of a zip or a folder into memory, within limits; nothing is unpacked to disk."""

from __future__ import annotations

import io
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import IO

from training.files.errors import first_line

MB = 1 << 20
ZIP, CONTENTS, TOTAL = 50 * MB, 1 * MB, 64 * MB  # bytes of a zip, its table of contents, its files
ENTRIES, LETTERS = 20_000, 240  # files of a submission, and of the name of each
# zipfile limits what it unpacks at a time for these only: 45 bytes of bzip2 can be 45 MB
JUNK = ("__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini")
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
Limit = Callable[[str], int]  # the most bytes of a file with some name; 0: it is not asked for
File = tuple[str, bytes | None]  # None: it is not asked for, or cannot be taken
Unopened = tuple[str, Callable[[], IO[bytes] | None]]  # None: not a regular file


class Refused(Exception):
    """Nothing of a submission can be taken; the text is for the student."""


def read_files(path: Path, limit: Limit) -> list[File]:
    """The files of a zip or a folder; OSError where this machine cannot read it."""
    if stat.S_ISDIR(path.lstat().st_mode):
        os.listdir(path)  # an OSError where that is not allowed
        inside = (item for item in path.rglob("*") if not item.is_dir() or item.is_symlink())
        return _read(((str(p.relative_to(path)), partial(_open_regular, p)) for p in inside), limit)
    ((_, content),) = _read([(path.name, partial(_open_regular, path))], lambda name: ZIP)
    if content is None:
        raise Refused(f"not a regular file, or more than {ZIP // MB} MB")
    return read_zip(content, limit)


def read_zip(content: bytes, limit: Limit) -> list[File]:
    """The files of a zip; whatever zipfile raises, which hostile zips vary, becomes Refused."""
    try:
        source = _SmallReads(content)
        archive = zipfile.ZipFile(source)
        source.most = len(content)
        # the other name of a file ends at a NUL
        members = ((i.orig_filename, partial(_open_member, archive, i)) for i in archive.infolist())
        return _read(members, limit)
    except (Refused, MemoryError):
        raise
    except Exception as error:
        raise Refused(f"not a zip, or a damaged one ({first_line(error)})") from error


class _SmallReads(io.BytesIO):
    """A zip whose table of contents, which zipfile reads at once, cannot be huge."""

    most = CONTENTS

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if len(data) > self.most:
            raise Refused("the zip's table of contents is too long")
        return data


def plain_name(name: str) -> str:
    """With / between folders; "" for a folder, a long name, a hidden file, one of a system's."""
    *folders, base = re.split(r"[/\\]", name)
    parts = [part for part in (*folders, base) if part not in ("", ".")]
    is_junk = (
        not base or len(name) > LETTERS or any(part[0] == "." or part in JUNK for part in parts)
    )
    return "" if is_junk else "/".join(parts)


def _read(unopened: Iterable[Unopened], limit: Limit) -> list[File]:
    files, total = [], 0
    for handed_in, open_file in unopened:
        name = plain_name(handed_in)
        content, most = None, limit(name) if name else 0
        if most and (file := open_file()):
            with file:
                content = file.read(most + 1)
        if name:
            files.append((name, content if len(content or b"") <= most else None))
        total += len(content or b"")
        if total > TOTAL or len(files) > ENTRIES:
            raise Refused(f"more than {TOTAL // MB} MB unpacked, or more than {ENTRIES} files")
    return files


def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes] | None:
    is_regular = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
    return archive.open(info) if is_regular and info.compress_type in METHODS else None


def _open_regular(path: Path) -> IO[bytes] | None:
    """Open no link, no pipe, which would wait for ever, and no device."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
