"""A git repository of given files, made or updated by one commit, and a zip of them.

What a handout holds is not decided here.
"""

from __future__ import annotations

import io
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from prepare_submit import FIXED_DATE
from training.files.errors import InputError

BROUGHT = "Handout: "  # begins the message of each commit that a handout made


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write every file under its name."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip of files, the same bytes each time: order, dates and rights are fixed.

    It is not compressed: compressed bytes depend on the version of zlib.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, FIXED_DATE)
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, data)
    return content.getvalue()


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; its output. InputError with git's own words if it fails."""
    command = ["git", "-c", "commit.gpgsign=false", "-c", "core.autocrlf=false", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise InputError(f"git in {folder} failed: {done.stderr.strip()}")
    return done.stdout


def commit(folder: Path, files: Mapping[str, bytes], course: Mapping[str, str]) -> bool:
    """Commit files, also those that .gitignore names; False if nothing has changed."""
    who = ("-c", f"user.name={course['committer']}", "-c", f"user.email={course['email']}")
    git(folder, "add", "--force", "--", *files)
    changed = bool(git(folder, "status", "--porcelain"))
    if changed:
        git(folder, *who, "commit", "--quiet", "-m", f"{BROUGHT}{course['name']}")
    return changed


def write_repository(out: Path, files: Mapping[str, bytes], course: Mapping[str, str]) -> None:
    """A new repository with one commit, put in place when it is whole.

    Args:
        course: [course] of settings.toml: name, committer and email.
    """
    if out.exists():
        raise InputError(f"{out} is there already; --update adds a commit, or choose another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as folder:
        made = Path(folder) / out.name
        write_files(made, files)
        git(made, "init", "--quiet", "--initial-branch=main")
        commit(made, files, course)
        made.rename(out)


def update_repository(out: Path, files: Mapping[str, bytes], course: Mapping[str, str]) -> bool:
    """One more commit with what has changed; False if nothing has. Other files stay."""
    if not (out / ".git").is_dir():
        raise InputError(f"{out} is not a git repository; leave out --update to make one")
    brought = git(out, "log", "--format=", "--name-only", f"--grep=^{BROUGHT}").split()
    if not brought:
        raise InputError(f"{out} is a repository that this script did not make")
    if git(out, "status", "--porcelain"):
        raise InputError(f"{out} has changes that are not committed; commit or undo them first")
    write_files(out, files)
    for name in sorted(set(brought) - files.keys()):
        git(out, "rm", "--quiet", "--ignore-unmatch", "--", name)
    return commit(out, files, course)
