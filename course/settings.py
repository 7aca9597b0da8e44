"""What a course may change (settings.toml), read and checked."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from training.files.errors import InputError

SETTINGS = "course/settings.toml"
TABLES = {  # what each must hold; other keys are the course's own
    "course": ("name", "term", "contact", "folder", "committer", "email"),
    "dates": (),
    "hints": ("first",),
    "submission": ("name", "explained"),
    "limits": (),
    "rules": ("allowed", "forbidden"),
    "look": ("sst", "cfimdb", "para", "sts"),
    "manual": (),
    "predictions": ("points", "none", "full"),
    "shares": (),
    "gradescope": ("visibility", "leaderboard"),
}
NUMBERS = ("look", "manual", "predictions", "shares")  # tables that hold nothing else


def read_toml(root: Path, name: str) -> dict[str, Any]:
    """A TOML file; InputError where it is missing or is not TOML."""
    try:
        return tomllib.loads((root / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{name} cannot be read: {error}") from error


def read_settings(root: Path) -> dict[str, Any]:
    """settings.toml; InputError names the first key that is missing or has a wrong value."""
    settings = read_toml(root, SETTINGS)
    for name, keys in TABLES.items():
        table = settings.setdefault(name, {})
        if missing := [key for key in keys if key not in table]:
            raise InputError(f"{SETTINGS} has no {name}.{missing[0]}")
        for key, value in table.items() if name in NUMBERS else ():
            if type(value) not in (int, float) or value < 0:
                raise InputError(f"{SETTINGS}: {name}.{key} is {value!r}, not a number from 0 up")
    if str(first := settings["hints"]["first"]) not in ("1", "2", "3"):
        raise InputError(f"{SETTINGS}: hints.first is {first!r}, not 1, 2 or 3")
    if "points" in settings:  # of an earlier version
        raise InputError(f"{SETTINGS} has [points]; write these into checks/graded_tasks.toml")
    if settings["predictions"]["none"] >= settings["predictions"]["full"]:
        raise InputError(f"{SETTINGS}: predictions.none is not below predictions.full")
    return settings
