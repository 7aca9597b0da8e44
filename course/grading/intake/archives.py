"""Read the files of a zip or a folder into memory, within limits; nothing is unpacked to disk."""

from __future__ import annotations

import io
import os
import re
import stat
import unicodedata
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from training.files.errors import first_line

MB = 1 << 20
LIMITS = {"zip": 50 * MB, "py": MB // 2}  # bytes of a file that is read, by its suffix
LIMITS |= dict.fromkeys(("csv", "md", "sh", "pdf"), 8 * MB)
CONTENTS, TOTAL = 1 * MB, 64 * MB  # bytes of a zip's table of contents, and of all its files
ENTRIES, LETTERS = 20_000, 240  # files of a submission, and of the name of each
JUNK = ("__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini")
# zipfile limits what it unpacks at a time for these only: 45 bytes of bzip2 can be 45 MB
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
File = tuple[str, bytes | None]  # None: it is not asked for, or cannot be taken


class Refused(Exception):
    """Nothing of a submission can be taken; the text is for the student."""


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
    parts = re.split(r"[/\\]", unicodedata.normalize("NFC", name))
    kept = [part for part in parts if part not in ("", ".")]
    is_junk = any(part[0] == "." or part in JUNK for part in kept)
    return "" if is_junk or parts[-1] == "" or len(name) > LETTERS else "/".join(kept)


def read_files(path: Path) -> list[File]:
    """The files of a zip or a folder; OSError where this machine cannot read it."""
    if stat.S_ISDIR(path.lstat().st_mode):
        os.listdir(path)  # an OSError where that is not allowed
        inside = (item for item in path.rglob("*") if not item.is_dir())
        return _read(((str(item.relative_to(path)), item) for item in inside), open_regular)
    ((_, content),) = _read([("a.zip", path)], open_regular)
    if content is None:
        raise Refused(f"not a regular file, or more than {LIMITS['zip'] // MB} MB")
    return read_zip(content)


def read_zip(content: bytes) -> list[File]:
    """The files of a zip; whatever zipfile raises, which hostile zips vary, becomes Refused."""

    def open_member(info: zipfile.ZipInfo) -> IO[bytes] | None:
        is_regular = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
        return archive.open(info) if is_regular and info.compress_type in METHODS else None

    try:
        source = _SmallReads(content)
        archive = zipfile.ZipFile(source)
        source.most = len(content)
        # the other name of a file ends at a NUL
        return _read(((info.orig_filename, info) for info in archive.infolist()), open_member)
    except (Refused, MemoryError):
        raise
    except Exception as error:
        raise Refused(f"not a zip, or a damaged one ({first_line(error)})") from error


def open_regular(path: Path) -> IO[bytes] | None:
    """Open no link, no pipe, which would wait for ever, and no device."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def _read(members: Iterable[tuple[str, Any]], open_it: Callable) -> list[File]:
    files, total = [], 0
    for name, member in ((plain_name(name), member) for name, member in members):
        content, most = b"", LIMITS.get(name.lower().rpartition(".")[2], 0)
        file = open_it(member) if most else None
        if file:
            with file:
                content = file.read(most + 1)
        files.append((name, content if file and len(content) <= most else None))
        total += len(content)
        if total > TOTAL or len(files) > ENTRIES:
            raise Refused(f"more than {TOTAL // MB} MB unpacked, or more than {ENTRIES} files")
    return [file for file in files if file[0]]
