"""Which installed modules submissions may not import: all that nothing they may use leads to.

They may use what requirements.txt lists, and the packages that the course's settings allow besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

REQUIREMENTS = Path(__file__).resolve().parents[3] / "requirements.txt"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def normal(requirement: str) -> str:
    """The name of the package that a line asks for, as all spellings of it become."""
    return re.sub(r"[-_.]+", "-", NAME.match(requirement.strip()).group()).lower()


@cache
def hidden(allowed: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Names of modules that can be imported here, and that only other packages bring.

    Args:
        allowed: packages besides those of requirements.txt.
    """
    lines = [*REQUIREMENTS.read_text(encoding="utf-8").splitlines(), *allowed]
    needed = [normal(line) for line in lines if NAME.match(line.strip())]
    for name in needed:  # the list grows while it is read
        if is_installed(name):
            more = [line for line in metadata.requires(name) or () if "extra ==" not in line]
            needed += [package for package in map(normal, more) if package not in needed]
    brought = metadata.packages_distributions().items()
    return tuple(sorted(m for m, packages in brought if not {*needed} & {*map(normal, packages)}))


def allowed_by(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """What the course's settings allow besides requirements.txt."""
    return tuple(settings["sandbox"]["packages"])


def not_installed(allowed: Iterable[str]) -> list[str]:
    """Those packages that this machine does not have."""
    return [name for name in allowed if not is_installed(name)]


def is_installed(name: str) -> bool:
    """Whether this environment has a package of that name."""
    try:
        return bool(metadata.distribution(name))
    except (metadata.PackageNotFoundError, ValueError):
        return False
