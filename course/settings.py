"""What a course may change (settings.toml), read and checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.graded_tasks import GRADED_TASKS, GradedTask
from training.files.errors import InputError

SETTINGS = "course/settings.toml"
TABLES = {  # what each must hold; other keys are the course's own
    "course": ("name", "term", "contact", "folder", "committer", "email"),
    "dates": (),
    "points": (),
    "submission": ("file", "name", "explained"),
    "limits": (),
    "rules": ("allowed", "forbidden"),
    "look": ("sst", "cfimdb", "para", "sts"),
    "manual": (),
    "predictions": ("points", "none", "full"),
    "grading": ("whole_tasks", "shares"),
    "gradescope": ("visibility", "leaderboard"),
}
VISIBLE = ("visible", "hidden", "after_due_date", "after_published")  # Gradescope's words


def is_number(value: Any) -> bool:
    """Whether a value is a number from 0 up; true and false are not."""
    return type(value) in (int, float) and value >= 0


RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (  # of keys: what values fit
    (
        r"points\..+|manual\..+|predictions\.points",
        lambda value: type(value) is int and value >= 0,
        "a whole number",
    ),
    (r"look\..+|predictions\.(none|full)", is_number, "a number from 0 up"),
    (r"grading\.shares\..+", lambda n: is_number(n) and n > 0, "a number above 0"),
    (r"grading\.whole_tasks", lambda value: isinstance(value, bool), "true or false"),
    (r"gradescope\.visibility", VISIBLE.__contains__, f"one of {', '.join(VISIBLE)}"),
)


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
        for key in keys:
            if key not in settings.get(name, {}):
                raise InputError(f"{SETTINGS} has no {name}.{key}")
        settings.setdefault(name, {})
    if unknown := sorted(settings.keys() - TABLES.keys()):
        raise InputError(f"{SETTINGS} has an unknown table {unknown[0]}")
    if unknown := sorted(settings["points"].keys() - {task.number for task in GRADED_TASKS}):
        raise InputError(f"{SETTINGS} gives points to {unknown[0]}, which is not a task")
    for key, value in with_keys(settings):
        for pattern, fits, kind in RULES:
            if re.fullmatch(pattern, key) and not fits(value):
                raise InputError(f"{SETTINGS}: {key} is {value!r}, not {kind}")
    if settings["predictions"]["none"] >= settings["predictions"]["full"]:
        raise InputError(f"{SETTINGS}: predictions.none is not below predictions.full")
    return settings


def with_keys(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its key, as look.sst; tables, too."""
    for name, value in settings.items():
        yield f"{before}{name}", value
        if isinstance(value, dict):
            yield from with_keys(value, f"{before}{name}.")


def course_tasks(settings: Mapping[str, Any]) -> list[GradedTask]:
    """The table of tasks with the course's points."""
    points = settings["points"]
    return [replace(task, points=points.get(task.number, task.points)) for task in GRADED_TASKS]
