"""Fetch the real course files: ``python -m data.download [--out data] [--only NAME ...]``.

A file that is there and right is left alone, one that is there and wrong is never overwritten.
"""

from __future__ import annotations

import hashlib
import http.client
import tomllib
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import check_writable, write_whole

BASE_URL = "https://raw.githubusercontent.com/gpoesia/minbert-default-final-project/main/data/"
HERE = Path(__file__).resolve().parent
SECONDS = 8  # to connect, and for each wait for more bytes
CHUNK = 1 << 16


@dataclass(frozen=True)
class CourseFile:
    """A file of the course and what identifies this release of it."""

    name: str
    size: int | None = None  # in bytes; None where it is not known
    sha256: str = ""
    blob_sha1: str = ""  # what git calls the content: sha1 of "blob SIZE\0" and the bytes

    def difference(self, content: bytes) -> str:
        """What about these bytes is not this release; '' if nothing is."""
        if self.size is not None and len(content) != self.size:
            return f"it has {len(content):,} bytes instead of {self.size:,}"
        if self.sha256 and hashlib.sha256(content).hexdigest() != self.sha256:
            return "its sha256 differs"
        blob = b"blob %d\0" % len(content) + content
        if (
            self.blob_sha1
            and hashlib.sha1(blob, usedforsecurity=False).hexdigest() != self.blob_sha1
        ):
            return "its git blob sha1 differs"
        return ""


FILES = tuple(
    CourseFile(**entry)
    for entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["file"]
)


def main() -> None:
    """Fetch what is missing; InputError lists every file that is not there in the end."""
    parser = OneLineParser(description=__doc__.splitlines()[0])
    add, names = parser.add_argument, [file.name for file in FILES]
    add("--out", type=Path, default=HERE, help="folder to put them in (default: data)")
    add("--only", nargs="+", metavar="NAME", choices=names, help="fetch only these files")
    add("--url", default=BASE_URL, help="base address (default: %(default)s)")
    args = parser.parse_args()
    base = args.url.rstrip("/") + "/"
    if not base.startswith(("http://", "https://")):
        raise InputError(f"--url {args.url} is not an http:// or https:// address")
    check_writable(args.out)
    wanted = [file for file in FILES if not args.only or file.name in args.only]
    faults = []
    for file in wanted:
        path = args.out / file.name
        try:
            if not path.exists():
                fetch(file, args.out, base)
            elif difference := file.difference(path.read_bytes()):
                faults.append(
                    f"{path} is not this course's file: {difference} (another fork's, or Windows "
                    f"line ends?); delete it and run this again to fetch it from {base}"
                )
        except InputError as error:  # of this one file: the others may be available
            faults.append(str(error))
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            faults.append(
                f"cannot fetch {file.name} from {base} ({reason}): work on the practice set in "
                f"data/practice, or copy the files to {args.out} by hand and run this to check them"
            )
            break
    if faults:
        raise InputError("\nerror: ".join(faults))
    print(f"{args.out}: {len(wanted)} of {len(wanted)} files are there and right")


def fetch(file: CourseFile, out: Path, base: str) -> None:
    """Bring one file to ``out``, once its size and hash are right; else InputError or OSError."""
    content = b""
    try:
        with urllib.request.urlopen(base + file.name, timeout=SECONDS) as response:
            length = int(response.headers.get("Content-Length", 0)) or None
            with tqdm(desc=file.name, total=length, unit="B", unit_scale=True, disable=None) as bar:
                while chunk := response.read(CHUNK):
                    content += chunk
                    bar.update(len(chunk))
    except urllib.error.HTTPError as error:
        what = f"the server says {error.code} {error.reason} at {base + file.name}"
        raise InputError(f"{file.name}: {what}; check --url, or try again later") from error
    if difference := file.difference(content):
        raise InputError(
            f"{file.name} from {base} is not this course's file: {difference}; "
            "run this again, or give --url another fork's address"
        )
    write_whole(out / file.name, content)
    print(f"{file.name}: fetched")


if __name__ == "__main__":
    run_script(main)
