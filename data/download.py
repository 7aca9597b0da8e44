"""Fetch the real course files: ``python data/download.py [--out data] [--only NAME ...]``.

What is already there and right is left alone, what is there and wrong is never overwritten, a
broken transfer is resumed. It does not know what the files contain; data/README.md does.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
# Python puts the folder of the script (data/) on its path, and utils.py is one folder above.
sys.path.insert(0, str(ROOT))

from training.cli.flags import OneLineParser  # noqa: E402
from training.cli.scripts import run_script  # noqa: E402
from training.files.errors import InputError  # noqa: E402
from training.files.writing import check_writable, sha256_of  # noqa: E402

BASE_URL = "https://raw.githubusercontent.com/gpoesia/minbert-default-final-project/main/data/"
CONNECT_SECONDS = 5  # to connect, and for each wait for more bytes
CONTACT_SECONDS = 8  # for the first answer in all: looking a name up knows no timeout of its own
ATTEMPTS = 3
RETRY_SECONDS = 0.5  # before the second attempt, twice that before the third
CHUNK = 1 << 16
LARGEST = 200 * 1024 * 1024  # no course file is near it, so more than this is some other thing


@dataclass(frozen=True)
class CourseFile:
    """A file of the course and what identifies this release of it."""

    name: str
    size: int | None = None  # in bytes; None where it is not known
    sha256: str = ""
    blob_sha1: str = ""  # what git calls the content: sha1 of "blob SIZE\0" and the bytes

    def difference(self, path: Path) -> str:
        """What about the file at ``path`` is not this release; '' if nothing is."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            return f"it has {size:,} bytes instead of {self.size:,}"
        if self.sha256 and sha256_of(path) != self.sha256:
            return "its sha256 differs"
        if self.blob_sha1 and git_blob_sha1(path) != self.blob_sha1:
            return "its git blob sha1 differs"
        return ""


FILES = tuple(
    CourseFile(**entry)
    for entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["file"]
)


class Unreachable(Exception):
    """The server cannot be talked to; its text is the reason."""


class Interrupted(Exception):
    """A transfer ended early; another attempt may resume it."""


def git_blob_sha1(path: Path) -> str:
    """What ``git hash-object`` prints for a file: here an identity, not a protection."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def main() -> None:
    """Fetch what is missing; InputError lists every file that is not there in the end."""
    args = get_args()
    base = checked_base(args.url)
    wanted = [file for file in FILES if not args.only or file.name in args.only]
    check_writable(args.out)
    missing, troubles = [], []
    for file in wanted:
        trouble = wrong_file(file, args.out, base)
        if trouble:
            troubles.append(trouble)
        elif not (args.out / file.name).exists():
            missing.append(file)
    try:
        if missing:
            reach(base + missing[0].name)
        for file in missing:
            try:
                fetch(file, args.out, base)
            except InputError as error:  # of this one file: the others may be had
                troubles.append(str(error))
    except Unreachable as reason:
        troubles.append(offline_line(str(reason), args.out, base))
    if troubles:
        raise InputError("\nerror: ".join(troubles))
    print(f"{args.out}: {len(wanted)} of {len(wanted)} files are there and right")


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=ROOT / "data", help="folder to put them in (default: data)"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=[file.name for file in FILES],
        help="fetch only these files",
    )
    parser.add_argument("--url", default=BASE_URL, help="base address (default: %(default)s)")
    return parser.parse_args()


def checked_base(url: str) -> str:
    """The base address with one slash at its end; InputError if it is not one of the web."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"--url {url} is not an http:// or https:// address")
    return url.rstrip("/") + "/"


def wrong_file(file: CourseFile, out: Path, base: str) -> str:
    """One line about a file that is in ``out`` but is not the course's; '' if all is well."""
    path = out / file.name
    if path.is_dir():
        return f"{path} is a folder; remove it and run this again"
    difference = file.difference(path) if path.exists() else ""
    if not difference:
        return ""
    return (
        f"{path} is not this course's file: {difference} (another fork's, or Windows line ends?); "
        f"delete it and run this again to fetch it from {base}"
    )


def offline_line(reason: str, out: Path, base: str) -> str:
    """What to do without a network."""
    return (
        f"cannot fetch from {base} ({reason}): work on the practice set in data/practice, or "
        f"copy the files (at that address + NAME) to {out} by hand; this command then checks them"
    )


def reach(url: str) -> None:
    """Ask the server for anything at all; Unreachable if nothing answers within seconds.

    The question is put in a thread, because a name server that never answers cannot be timed out.
    """
    reasons: list[str] = []

    def ask() -> None:
        try:
            open_url(url, method="HEAD").close()
        except urllib.error.HTTPError:
            pass  # "not found" is an answer too; fetch() will say so of the file concerned
        except (OSError, http.client.HTTPException) as error:
            reasons.append(describe(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(CONTACT_SECONDS)
    if thread.is_alive():
        raise Unreachable(f"no answer within {CONTACT_SECONDS} seconds")
    if reasons:
        raise Unreachable(reasons[0])


def open_url(url: str, method: str = "GET", start: int = 0) -> http.client.HTTPResponse:
    """Open ``url``, from byte ``start`` on if the server can do that."""
    request = urllib.request.Request(url, method=method)
    if start:
        request.add_header("Range", f"bytes={start}-")
    return urllib.request.urlopen(request, timeout=CONNECT_SECONDS)


def describe(error: Exception) -> str:
    """The reason inside an exception of urllib, as a few words."""
    reason = getattr(error, "reason", None) or error
    text = str(getattr(reason, "strerror", None) or reason)
    return text.splitlines()[0] if text else type(reason).__name__


def fetch(file: CourseFile, out: Path, base: str) -> None:
    """Bring one file to ``out``: first as NAME.part, renamed once size and hash are right.

    InputError if what the server has is not the course's file, Unreachable if the transfer does
    not get through.
    """
    part = out / f"{file.name}.part"
    resumed = part.exists() and part.stat().st_size > 0
    transfer(file, part, base)
    if resumed and file.difference(part):  # what lay there before may have been another file's
        print(f"{file.name}: the partial file was bad, starting again")
        part.unlink()
        transfer(file, part, base)
    difference = file.difference(part)
    if difference:
        part.unlink()
        raise InputError(
            f"{file.name} from {base} is not this course's file: {difference}; "
            f"nothing was kept, give --url another fork's address"
        )
    part.replace(out / file.name)
    print(f"{file.name}: fetched")


def transfer(file: CourseFile, part: Path, base: str) -> None:
    """Fill ``part`` to its end, resuming after interruptions, ATTEMPTS times at most."""
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(RETRY_SECONDS * attempt)
        try:
            return receive(file, part, base + file.name)
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"the server says {error.code} {error.reason}"
            if error.code < 500 and error.code != 429:  # asking again would not change it
                raise InputError(f"{file.name}: {reason} at {base + file.name}") from error
        except (OSError, http.client.HTTPException, Interrupted) as error:
            reason = describe(error)
    raise Unreachable(f"{file.name}: {reason}, {ATTEMPTS} times; run this again to resume")


def receive(file: CourseFile, part: Path, url: str) -> None:
    """One attempt: append to ``part`` what it lacks, or begin it again."""
    start = part.stat().st_size if part.exists() else 0
    if start and not file.difference(part):
        return  # complete, only never renamed
    try:
        response = open_url(url, start=start)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        error.close()
        start = 0  # nothing of the file lies behind what we have: begin again
        response = open_url(url)
    with response:
        if response.status != 206:
            start = 0  # the server ignored Range and sends the whole file
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            part.unlink()
            raise Interrupted("the server sent another range of bytes than was asked for")
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        if total is not None and not (file.size or 1) <= total <= (file.size or LARGEST):
            raise InputError(
                f"{url} is not this course's file: {total:,} bytes instead of "
                f"{file.size or LARGEST:,}{'' if file.size else ' at most'}; "
                f"give --url another fork's address"
            )
        copy_bytes(file, response, part, start, total)
    if total is not None and part.stat().st_size < total:
        raise Interrupted("the transfer was cut off")


def copy_bytes(
    file: CourseFile,
    response: http.client.HTTPResponse,
    part: Path,
    start: int,
    total: int | None,
) -> None:
    """Write the body to ``part`` from ``start`` on, no further than the file can be long."""
    room = (LARGEST if file.size is None else file.size) - start
    bar = tqdm(desc=file.name, initial=start, total=total, unit="B", unit_scale=True, disable=None)
    with writing(part):
        sink = open(part, "ab" if start else "wb")
    with bar, sink:
        while room >= 0:  # one byte too many is enough for the check of the size to see it
            chunk = response.read(min(CHUNK, room + 1))
            if not chunk:
                return
            with writing(part):
                sink.write(chunk)
                sink.flush()
            bar.update(len(chunk))
            room -= len(chunk)


@contextmanager
def writing(part: Path) -> Iterator[None]:
    """Tell trouble with the disk, which no retry mends, from trouble with the network."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write {part}: {error.strerror}; make room or give --out another folder"
        ) from error


if __name__ == "__main__":
    run_script(main)
