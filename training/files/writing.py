"""Files that are never half written, and their checksums."""

import hashlib
import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from training.files.errors import trouble_in_one_line


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[Any]:
    """Write to a file beside ``path`` and rename it at the end, so no reader sees half of it.

    Of a link, the file that it leads to is replaced, with the same permissions. What is no regular
    file (a device, a pipe), or is this process's own stdout, is written into as it is.
    Under torchrun only the process of rank 0 writes; what others write is thrown away.

    Raises InputError where the folder is not writable or the disk is full; the file that was at
    ``path`` before is then still there.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "0") != "0":
        path = os.devnull
    # a file's name that is not UTF-8 is written with backslashes
    text = {"encoding": "utf-8", "newline": "\n", "errors": "backslashreplace"}
    options = {} if "b" in mode else text
    with trouble_in_one_line("choose another place or free space", f"cannot write {path}: "):
        if stream := stream_at(path):
            sys.stdout.flush()  # what was printed before comes first
            with open(stream, mode, **options) as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        try:
            with open(part, mode, **options) as file:
                if target.exists():
                    shutil.copymode(target, part)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, target)
        finally:
            with suppress(OSError):
                part.unlink()


def stream_at(path: str | Path) -> str | int | None:
    """What to open instead of replacing it: a path that is no regular file, or stdout's number."""
    with suppress(FileNotFoundError):
        there = os.stat(path)
        with suppress(OSError):  # it is closed
            if os.path.samestat(there, os.fstat(1)):
                return os.dup(1)
        if not stat.S_ISREG(there.st_mode):
            return os.fspath(path)
    return None


def check_writable(folder: str | Path) -> None:
    """InputError now, rather than after an hour of training, if ``folder`` takes no files."""
    write_whole(Path(folder) / ".writable", "")
    (Path(folder) / ".writable").unlink(missing_ok=True)


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write a text or bytes, atomically."""
    with atomic_write(path, "w" if isinstance(content, str) else "wb") as file:
        file.write(content)


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as indented JSON, atomically."""
    write_whole(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file as 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
