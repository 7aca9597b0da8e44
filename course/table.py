"""What ships (parts.toml) and what a course may change (settings.toml), read and checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from checks.graded_tasks import GRADED_TASKS, GradedTask
from training.files.errors import InputError

PARTS, SETTINGS = "course/parts.toml", "course/settings.toml"
TABLES = {  # of settings.toml, and what each must hold; other keys are the course's own
    "course": ("name", "term", "contact", "folder", "committer", "email"),
    "dates": (),
    "points": (),
    "submission": ("file", "name", "explained"),
    "limits": (),
    "rules": ("allowed", "forbidden"),
    "late": ("part1", "part2", "part3", "days", "cost"),
    "leaderboard": ("attempts", "exceptions", "pseudonyms"),
    "look": ("sst", "cfimdb", "para", "sts", "practice"),
    "manual": (),
    "extra": (),
    "grading": ("whole_tasks", "shares"),
    "sandbox": ("packages",),
    "gradescope": ("visibility", "leaderboard"),
}
EXAMPLE = "2027-02-01T23:59+01:00"  # of a point in time
VISIBLE = ("visible", "hidden", "after_due_date", "after_published")  # Gradescope's words


@dataclass(frozen=True)
class Table:
    """parts.toml."""

    files: Mapping[int, list[str]]  # of each part, patterns
    never: set[str]  # names at the root
    common_lines: list[str]  # without blanks


def read_toml(root: Path, name: str) -> dict[str, Any]:
    """A TOML file; InputError where it is missing or no TOML."""
    try:
        return tomllib.loads((root / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{name} cannot be read: {error}") from error


def read_table(root: Path) -> Table:
    """parts.toml; InputError where something is missing."""
    parts = read_toml(root, PARTS)
    try:
        return Table(
            {part: parts[f"part{part}"]["files"] for part in (1, 2, 3)},
            set(parts["never"]),
            ["".join(line.split()) for line in parts["common_lines"]],
        )
    except KeyError as error:
        raise InputError(f"{PARTS} has no {error}") from error


def files_of(root: Path, table: Table, part: int) -> Iterator[tuple[str, Path]]:
    """Name in the handout and place of every file that ships with a part, patterns resolved."""
    patterns = [pattern for number in range(1, part + 1) for pattern in table.files[number]]
    named = {pattern for part_files in table.files.values() for pattern in part_files}
    for pattern in patterns:
        paths = sorted(path for path in root.glob(pattern) if path.is_file())
        if not paths:
            raise InputError(f"{PARTS} lists {pattern}, which is missing")
        for path in paths:
            name = path.relative_to(root).as_posix()
            if "*" in pattern and name in named:
                continue  # another line decides about this one
            if {name, name.partition("/")[0]} & table.never:
                raise InputError(f"{PARTS} lists {name}, and also that it never ships")
            yield name, path
    for path in sorted(root.glob("*.py")):
        if path.name not in named and path.name not in table.never:
            raise InputError(f"{path.name} is in no list of {PARTS}: does it ship, or never?")


# ---------------------------------------------------------------------------------------------
# Settings


def is_number(value: Any) -> bool:
    """Whether a value is a number from 0 up; true and false are not."""
    return type(value) in (int, float) and value >= 0


def moment(text: Any) -> datetime | None:
    """A point in time, in this machine's zone where the text has no offset; None: not a time."""
    try:
        when = datetime.fromisoformat(text)
        return when if when.tzinfo else when.astimezone()
    except (TypeError, ValueError, OverflowError, OSError):
        return None


ROW = {"part", "points", "title"}  # of [extra]
Rule = tuple[str, Callable[[Any], bool], str]  # of keys that match, what their values are


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number from 0 up."""
    return type(value) is int and value >= 0


RULES: tuple[Rule, ...] = (
    (
        r"points\..+|manual\..+|late\.days|leaderboard\.(attempts|exceptions\..+)"
        r"|extra\.[^.]+\.(part|points)",
        is_whole,
        "a whole number",
    ),
    (r"leaderboard\.exceptions", lambda value: isinstance(value, dict), "a table"),
    (r"late\.part[123]", lambda text: text == "" or moment(text), f"a time such as {EXAMPLE}"),
    (r"look\.practice", lambda value: isinstance(value, dict), "a table"),
    (r"look\.(practice\.)?(sst|cfimdb|para|sts)", is_number, "a number from 0 up"),
    (r"late\.cost", lambda n: is_number(n) and n <= 100, "a number from 0 to 100"),
    (r"grading\.shares\..+", lambda n: is_number(n) and n > 0, "a number above 0"),
    (r"gradescope\.visibility", VISIBLE.__contains__, f"one of {', '.join(VISIBLE)}"),
    (
        r"sandbox\.packages",
        lambda names: isinstance(names, list) and all(isinstance(n, str) and n for n in names),
        "a list of names",
    ),
    (
        r"extra\.[^.]+",
        lambda row: isinstance(row, dict) and row.keys() == ROW,
        "a table of part, points and title",
    ),
)


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
    return settings


def with_keys(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its key, as late.cost; tables, too."""
    for name, value in settings.items():
        yield f"{before}{name}", value
        if isinstance(value, dict):
            yield from with_keys(value, f"{before}{name}.")


def course_tasks(settings: Mapping[str, Any]) -> list[GradedTask]:
    """The table of tasks with the course's points."""
    points = settings["points"]
    return [replace(task, points=points.get(task.number, task.points)) for task in GRADED_TASKS]
