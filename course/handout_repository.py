"""A git repository of given files, made or updated by one commit."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from training.files.errors import InputError

BROUGHT = "Handout: "  # begins the message of each commit that a handout made


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write every file under its name."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; its output. InputError with git's own words if it fails."""
    command = ["git", "-c", "commit.gpgsign=false", "-c", "core.autocrlf=false", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise InputError(f"git in {folder} failed: {done.stderr.strip()}")
    return done.stdout


def commit(out: Path, files: Mapping[str, bytes], course: Mapping[str, str]) -> bool:
    """The first commit of a new repository, or one more if anything has changed since the last one.

    What earlier handouts brought is replaced or removed; other files stay.

    Args:
        course: [course] of settings.toml: name, committer and email.

    Returns:
        Whether there is a new commit.
    """
    if out.exists() and not (out / ".git").is_dir():
        raise InputError(f"{out} is there and is not a git repository; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    git(out, "init", "--quiet", "--initial-branch=main")  # changes nothing where there is one
    if git(out, "status", "--porcelain"):
        raise InputError(f"{out} has changes that are not committed; commit or undo them first")
    earlier = git(out, "log", "--all", "--format=", "--name-only", f"--grep=^{BROUGHT}").split()
    for name in sorted({*earlier} - files.keys()):
        git(out, "rm", "--quiet", "--ignore-unmatch", "--", name)
    write_files(out, files)
    git(out, "add", "--force", "--", *files)  # also those that .gitignore names
    has_changed = bool(git(out, "status", "--porcelain"))
    if has_changed:
        who = ("-c", f"user.name={course['committer']}", "-c", f"user.email={course['email']}")
        git(out, *who, "commit", "--quiet", "-m", f"{BROUGHT}{course['name']}")
    return has_changed
