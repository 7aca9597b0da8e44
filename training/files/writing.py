"""Files that are never half written, and their checksums."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from training.files.errors import InputError


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[Any]:
    """Write to a file beside ``path`` and rename it at the end, so no reader sees half of it.

    Under torchrun only the process of rank 0 writes; what others write is thrown away.

    Raises InputError where the folder is not writable or the disk is full; the file that was at
    ``path`` before is then still there.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "0") != "0":
        with open(os.devnull, mode) as nowhere:
            yield nowhere
        return
    path = Path(path)
    part = path.with_name(f".{path.name}.part")
    # a file's name that is not UTF-8 is written with backslashes
    text = {"encoding": "utf-8", "newline": "\n", "errors": "backslashreplace"}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, mode, **({} if "b" in mode else text)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}; choose another place or free space"
        ) from error
    finally:
        if part.exists():
            part.unlink()


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
