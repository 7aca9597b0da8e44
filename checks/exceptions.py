"""What an exception in a student's code probably means here, in a sentence or two.

``meaning(error)`` goes through the table exceptions.toml, and says what the failing expression was
given: "here `x` is a tensor (5, 6, 10, 7) = (B, H, L, W)". Of an unknown name or attribute it says
what Python itself suggests; nothing is guessed by spelling.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import re
import sys
import tomllib
from pathlib import Path

from checks.traces import Place, path_in, place_of

TABLE = Path(__file__).with_suffix(".toml")


@functools.cache
def table() -> dict[str, dict[str, str]]:
    """All entries by name: a pattern for "type: message", and what is said. The first that fits."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def meaning(error: BaseException) -> str:
    """What an exception in a student's code probably means; "" where that is not known."""
    return find(error)[1]


def find(error: BaseException) -> tuple[str, str]:
    """The name of the entry that knows an exception, and what is said; "" for what is not known."""
    with contextlib.suppress(Exception, SystemExit):  # whatever it answers when it is looked at
        place = place_of(error)
        name, sentence = said_of(error, place)
        known = place.here() if place and table().get(name, {}).get("here", True) else ""
        known = f"{'Here' if sentence else 'here'} {known}" if known else ""
        stop = "" if not known or not sentence or sentence.endswith("?") else "."
        return name, f"{sentence}{stop} {known}".strip()
    return "", ""


def said_of(error: BaseException, place: Place | None) -> tuple[str, str]:
    """The name of an entry and its sentence, which may follow from the line that failed."""
    if place and isinstance(error, NameError) and (sentence := known_elsewhere(error, place)):
        return "known_elsewhere", sentence
    message = f"{type(error).__name__}: {' '.join(str(error).split())}"
    for name, entry in table().items():
        if match := re.search(entry["pattern"], message):
            return name, " ".join(entry["says"].split()).format(*match.groups())
    suggested = suggestion(error)
    return ("suggestion", f"do you mean {suggested}?") if suggested else ("", "")


def known_elsewhere(error: NameError, place: Place) -> str:
    """A name without a value here that self or a dictionary has, as a group has its settings."""
    name, names = error.name, place.frame.f_locals
    for holder, value in names.items():
        if isinstance(value, dict) and name in value:
            return f"{name} has no value; {holder}['{name}'] has one"
    if path_in(names.get("self"), f"{name}") is None or isinstance(error, UnboundLocalError):
        return ""
    return f"{name} has no value; self.{name} has one"


def suggestion(error: BaseException) -> str:
    """The name that Python itself suggests when it prints an exception; builtins are none."""
    if not isinstance(error, NameError | AttributeError | ImportError):
        return ""
    with contextlib.redirect_stderr(io.StringIO()) as printed:
        sys.__excepthook__(type(error), error, error.__traceback__)
    match = re.search(r"Did you mean: '(?:self\.)?(\w+)'\?\s*$", printed.getvalue())
    return match[1] if match and match[1] not in vars(builtins) else ""
