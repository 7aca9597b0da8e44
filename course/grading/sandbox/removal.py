"""Remove a folder that somebody else has filled: of any depth, with any names and modes.

It runs inside the sandbox, between tasks, and outside, as root. No link is followed, and nothing
recurses: folders may lie deeper than Python goes, and their paths be longer than the system takes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def remove(path: Path) -> None:
    """Remove a file, or a folder and all in it; nothing where there is nothing.

    Each folder in it goes after the folders that lie there were moved up.

    Raises:
        OSError: it cannot be removed.
    """
    try:
        if _unlinked(os.fspath(path), None):
            return
    except FileNotFoundError:
        return
    top = _opened(os.fspath(path), None)
    try:
        while names := os.listdir(top):
            for name in names:
                if not _unlinked(name, top):
                    _move_up(name, top)
                    os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)


def _move_up(name: str, top: int) -> None:
    """Remove the files in a folder; its folders come to the top, under names of ours."""
    here = _opened(name, top)
    try:
        for inside in os.listdir(here):
            if not _unlinked(inside, here):
                os.close(_opened(inside, here))  # who may not write in a folder cannot move it
                os.rename(inside, secrets.token_hex(16), src_dir_fd=here, dst_dir_fd=top)
    finally:
        os.close(here)


def _unlinked(name: str, folder: int | None) -> bool:
    """Remove what is no folder; whether it was none."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        return False
    return True


def _opened(name: str, folder: int | None) -> int:
    """A descriptor of a folder, which its owner may read and write from now on."""
    number = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        same = f"/proc/self/fd/{number}"  # fchmod refuses a descriptor made with O_PATH
        with contextlib.suppress(PermissionError):  # another's, which may be open all the same
            os.chmod(same, 0o700)
        return os.open(same, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(number)
