"""Which installed modules no submission needs: all that requirements.txt does not lead to."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements.txt"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def normal(requirement: str) -> str:
    """The name of the package that a line asks for, as all spellings of it become."""
    return re.sub(r"[-_.]+", "-", NAME.match(requirement.strip()).group()).lower()


@cache
def needed() -> frozenset[str]:
    """The packages of requirements.txt, and what they need in turn."""
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    found = [normal(line) for line in lines if NAME.match(line.strip())]
    for name in found:  # the list grows while it is read
        try:
            more = [normal(line) for line in requires(name) or () if "extra ==" not in line]
        except PackageNotFoundError:  # of another system
            continue
        found += [one for one in more if one not in found]
    return frozenset(found)


@cache
def hidden() -> tuple[str, ...]:
    """Names of modules that can be imported here, and that only other packages bring."""
    return tuple(
        sorted(
            module
            for module, packages in packages_distributions().items()
            if not needed() & set(map(normal, packages))
        )
    )
