"""What lies in a zip or a folder, opened with limits.

Nothing is unpacked to disk, no link is followed, no size in a header is believed. It does not know
which files are asked for.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from training.files.errors import first_line

MB = 1 << 20
REMEDY = "hand in the zip that prepare_submit.py writes"
JUNK = {"__MACOSX", "__pycache__", ".DS_Store", "Thumbs.db", "desktop.ini"}
# zipfile bounds what it unpacks at a time for these only; 45 bytes of bzip2 can be 45 MB
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
CLOSED = "left out, not asked for"  # of a folder that is not entered
NOT_REGULAR = "left out, a link or no regular file"
METHOD = "left out, packed by a method other than deflate"


@dataclass(frozen=True)
class ArchiveLimits:
    """Sizes are bytes. What prepare_submit.py writes of the largest data set has about 7 MB."""

    archive: int = 50 * MB  # the zip itself
    contents: int = 1 * MB  # its table of contents
    entries: int = 2000
    file: int = 16 * MB  # unpacked
    total: int = 64 * MB
    source: int = MB // 2  # of one Python file
    sources: int = MB  # of all of them: each is sent to the sandbox for each task, and kept
    ratio: int = 200  # unpacked to packed, of files above 1 MB
    depth: int = 10  # folders in folders
    seconds: int = 60  # for Python's parser, in addition to its own limits


class Refused(Exception):
    """Nothing of this submission can be taken; the text is for the student."""


@dataclass(frozen=True)
class Entry:
    """A file in the submission, not opened yet."""

    name: str  # as handed in: anything
    fault: str  # why it cannot be read; "": it can
    packed: int
    open: Callable[[], IO[bytes]]


class Reader:
    """Reads entries and counts what comes out of them."""

    def __init__(self, limits: ArchiveLimits):
        self.limits = limits
        self.total = 0

    def read(self, entry: Entry) -> bytes:
        """An entry's content; Refused where it, or all of them together, is too large."""
        content = bytearray()
        most = min(self.limits.file, max(MB, self.limits.ratio * entry.packed))
        with undamaged(), entry.open() as file:
            while chunk := file.read(1 << 16):
                content += chunk
                self.total += len(chunk)
                if len(content) > most:
                    raise Refused(f"{entry.name[:60]!r} is too large when unpacked; {REMEDY}")
                if self.total > self.limits.total:
                    raise Refused(f"more than {self.limits.total // MB} MB unpacked; {REMEDY}")
        return bytes(content)


@contextmanager
def undamaged() -> Iterator[None]:
    """Refused where zipfile fails, which hostile zips make in many ways."""
    try:
        yield
    except (Refused, OSError, MemoryError):  # the latter two are troubles of this machine
        raise
    except Exception as error:
        raise Refused(f"no zip, or a damaged one ({first_line(error)}); {REMEDY}") from error


# ---------------------------------------------------------------------------------------------
# Zips


class SmallReads(io.BytesIO):
    """A zip in memory whose table of contents, which zipfile reads at once, cannot be huge."""

    def __init__(self, content: bytes, most: int):
        super().__init__(content)
        self.most = most

    def read(self, size: int | None = -1) -> bytes:
        """Read as usual."""
        data = super().read(size)
        if len(data) > self.most:
            raise Refused(f"the zip's table of contents is too long; {REMEDY}")
        return data


def zip_entries(content: bytes, limits: ArchiveLimits) -> list[Entry]:
    """The files in a zip, by its table of contents."""
    with undamaged():
        archive = zipfile.ZipFile(SmallReads(content, limits.contents))
    infos = archive.infolist()
    if len(infos) > limits.entries:
        raise Refused(f"the zip has more than {limits.entries} files; {REMEDY}")
    if any(info.flag_bits & 1 for info in infos):
        raise Refused(f"the zip is encrypted; {REMEDY}")
    return [
        # orig_filename, because the other one ends at a NUL
        Entry(info.orig_filename, _fault(info), info.compress_size, partial(archive.open, info))
        for info in infos
        if not info.orig_filename.endswith(("/", "\\"))
    ]


def _fault(info: zipfile.ZipInfo) -> str:
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        return NOT_REGULAR
    return "" if info.compress_type in METHODS else METHOD


# ---------------------------------------------------------------------------------------------
# Folders


def folder_entries(folder: Path, limits: ArchiveLimits) -> list[Entry]:
    """The files in a folder; hidden folders, Python's caches and very deep ones stay closed."""
    entries, waiting, seen = [], [PurePosixPath()], 0
    while waiting:
        here = waiting.pop()
        with os.scandir(folder / here) as items:
            for item in items:
                seen += 1
                if seen > limits.entries:
                    raise Refused(f"the folder has more than {limits.entries} files; {REMEDY}")
                name = here / item.name
                opened = partial(open_regular, folder / name)
                if item.is_file(follow_symlinks=False):
                    size = item.stat(follow_symlinks=False).st_size
                    entries.append(Entry(str(name), "", size, opened))
                elif not item.is_dir(follow_symlinks=False):
                    entries.append(Entry(str(name), NOT_REGULAR, 0, opened))
                elif item.name in JUNK or item.name[0] == "." or len(name.parts) > limits.depth:
                    entries.append(Entry(str(name), CLOSED, 0, opened))
                else:
                    waiting.append(name)
    return entries


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file: no link, no pipe, which would wait for ever, no device."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise Refused(f"{path.name[:60]!r} is a link or no regular file; {REMEDY}")
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
