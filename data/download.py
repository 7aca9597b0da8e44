"""Fetch the real course files: ``python -m data.download [--out data] [--only NAME ...]``.

A file that is there and right is left alone, one that is there and wrong is never overwritten.
"""

from __future__ import annotations

import hashlib
import http.client
import tomllib
import urllib.request
from pathlib import Path

from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import check_writable, write_whole

BASE_URL = "https://raw.githubusercontent.com/gpoesia/minbert-default-final-project/main/data/"
HERE = Path(__file__).resolve().parent
SECONDS = 8  # to connect, and for each wait for more bytes


FILES: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def git_name(content: bytes) -> str:
    """What git calls a file's content, in 40 hexadecimal digits."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def main() -> None:
    """Fetch what is missing; InputError where a file is wrong or not available."""
    parser = OneLineParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--out", type=Path, default=HERE, help="folder to put them in (default: data)")
    add("--only", nargs="+", metavar="NAME", choices=[*FILES], help="fetch only these files")
    add("--url", default=BASE_URL, help="base address (default: %(default)s)")
    args = parser.parse_args()
    base = args.url.rstrip("/") + "/"
    if not base.startswith(("http://", "https://")):
        raise InputError(f"--url {args.url} is not an http:// or https:// address")
    check_writable(args.out)
    wanted = args.only or [*FILES]
    for name in wanted:
        path = args.out / name
        if not path.exists():
            fetch(name, path, base)
        elif git_name(path.read_bytes()) != FILES[name]:
            what = f"{path} is not this course's file (another fork's, or Windows line ends?)"
            raise InputError(f"{what}; delete it and run this again to fetch it from {base}")
    print(f"{args.out}: {len(wanted)} of {len(wanted)} files are there and right")


def fetch(name: str, path: Path, base: str) -> None:
    """Bring one file to ``path``; InputError unless it comes and its content is right."""
    try:
        with urllib.request.urlopen(base + name, timeout=SECONDS) as response:
            content = response.read()
    except (OSError, http.client.HTTPException) as error:
        remedy = f"take the practice set in data/practice, or copy files to {path.parent} by hand"
        raise InputError(f"cannot fetch {name} from {base} ({error}); {remedy}") from error
    if git_name(content) != FILES[name]:
        remedy = "give --url another fork's address"
        raise InputError(f"{name} from {base} is not this course's file; {remedy}")
    write_whole(path, content)
    print(f"{name}: fetched")


if __name__ == "__main__":
    run_script(main)
