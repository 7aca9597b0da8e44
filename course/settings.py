"""What a course may change (settings.toml), read and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
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
NUMBERS = ("points", "look", "manual", "predictions")  # tables that hold nothing else
VISIBLE = ("visible", "hidden", "after_due_date", "after_published")  # Gradescope's words


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
    numbers = [(f"{table}.{key}", v) for table in NUMBERS for key, v in settings[table].items()]
    numbers += [(f"grading.shares.{row}", v) for row, v in settings["grading"]["shares"].items()]
    for key, value in numbers:
        if type(value) not in (int, float) or value < 0:
            raise InputError(f"{SETTINGS}: {key} is {value!r}, not a number from 0 up")
    if type(settings["grading"]["whole_tasks"]) is not bool:
        raise InputError(f"{SETTINGS}: grading.whole_tasks is neither true nor false")
    if (shown := settings["gradescope"]["visibility"]) not in VISIBLE:
        raise InputError(f"{SETTINGS}: gradescope.visibility is {shown!r}; write {VISIBLE}")
    if settings["predictions"]["none"] >= settings["predictions"]["full"]:
        raise InputError(f"{SETTINGS}: predictions.none is not below predictions.full")
    return settings


def course_tasks(settings: Mapping[str, Any]) -> list[GradedTask]:
    """The table of tasks with the course's points."""
    points = settings["points"]
    return [replace(task, points=points.get(task.number, task.points)) for task in GRADED_TASKS]
