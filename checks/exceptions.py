"""What an exception in a student's code probably means here, in a sentence or two.

``meaning(error)`` goes through the table checks/exceptions.toml. Of an exception that no entry
knows, it says what the failing expression was given. It does not know how any task is solved.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from checks import call_errors, name_errors, shape_errors
from checks.graded_tasks import GRADED_TASKS
from checks.traces import Place, place_of, quoted

TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Entry:
    """One kind of exception: how it is recognised, and what is said."""

    name: str
    types: list[str]
    pattern: str
    says: str = ""  # "" where a function says it
    operands: bool = False  # whether it follows what the failing expression was given

    def sentence(self, place: Place) -> str:
        """What it says of an exception; "" where it does not know this one, or its line."""
        message = " ".join(str(place.error).split())
        types = tuple(getattr(builtins, name) for name in self.types)
        match = re.search(self.pattern, message) if isinstance(place.error, types) else None
        with contextlib.suppress(Exception, SystemExit):
            if match and self.says:
                names = {"function": place.frame.f_code.co_name, "line": quoted(place.node)}
                sentence = self.says.format(*match.groups(), **names)
                known = place.here() if self.operands else ""
                end = "" if sentence.endswith("?") else "."
                return f"{sentence}{end} Here {known}" if known else sentence
            if match:
                modules = (call_errors, name_errors, shape_errors)
                (says,) = {vars(m)[self.name] for m in modules if self.name in vars(m)}
                return says(place, match)
        return ""


@functools.cache
def table() -> tuple[Entry, ...]:
    """All entries; the first that has something to say is heard."""
    return tuple(Entry(**row) for row in tomllib.loads(TABLE.read_text(encoding="utf-8"))["entry"])


def meaning(error: BaseException) -> str:
    """What an exception in a student's code probably means; "" where that is not known."""
    return find(error)[1]


def find(error: BaseException) -> tuple[str, str]:
    """The name of the entry that knows an exception, and what it says; two empty texts without."""
    # whatever a student's exception answers when it is looked at
    with contextlib.suppress(Exception, SystemExit):
        # gradients are computed elsewhere, where no line of the student's is in the traceback
        place = place_of(error) or Place(error, error.__traceback__.tb_frame)
        for entry in table():
            if sentence := entry.sentence(place):
                return entry.name, sentence
        if sentence := raised_on_purpose(place):
            return "operands", sentence
        if known := place.here():
            return "operands", f"here {known}"
    return "", ""


def raised_on_purpose(place: Place) -> str:
    """Who raises it of a raise, or what does not hold, of an assertion."""
    if not isinstance(place.statement, ast.Raise | ast.Assert):
        return ""
    if isinstance(place.statement, ast.Assert):
        return f"the assertion {quoted(place.statement.test)} does not hold"
    file = Path(place.frame.f_code.co_filename).name
    whose = "a line of yours" if file in {Path(entry.file).name for entry in GRADED_TASKS} else file
    return f"{whose} raises this"
