"""What an exception in a student's code probably means here, in a sentence or two.

``meaning(error)`` goes through a table: checks/exceptions.toml has what the words of a message tell
alone; call_errors.py, name_errors.py and shape_errors.py there have functions that look at the
line which failed, too. Of an exception that no entry knows, it says what the failing expression was
given. It does not know how any task is solved.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

from checks import call_errors, name_errors, shape_errors
from checks.graded_tasks import GRADED_TASKS
from checks.traces import Case, Entry, Place, marked, place_of, quoted

WORDS = Path(__file__).with_suffix(".toml")
SYNTAX = {  # what is in the message → the remedy
    "was never closed": "the bracket that closes it is missing",
    "unmatched": "a bracket is closed that was not opened",
    "expected ':'": "the colon at the end of the line is missing",
    "expected an indented block": "what belongs below has to be indented",
    "indent": "indent each line like the ones around it, by spaces only",
    "Maybe you meant": "= assigns, == compares",
    "unterminated string": "the quotation mark that closes the text is missing",
    "invalid syntax": "often something is missing just before the mark, or in the line above",
}


def meaning(error: BaseException) -> str:
    """What an exception in a student's code probably means; "" where that is not known."""
    return find(error)[1]


def find(error: BaseException) -> tuple[str, str]:
    """The name of the entry that knows an exception, and what it says; two empty texts without."""
    try:
        if isinstance(error, SyntaxError):
            return "syntax", syntax(error)
        place, message = place_of(error), " ".join(str(error).split())
        for entry in table():
            match = re.search(entry.pattern, message) if isinstance(error, entry.types) else None
            if match and (
                sentence := sentence_of(entry, Case(error, match, place or nowhere(error)))
            ):
                return entry.name, sentence
        return ("operands", sentence) if place and (sentence := operands(place)) else ("", "")
    except Exception:  # whatever a student's exception answers when it is looked at
        pass
    return "", ""


def sentence_of(entry: Entry, case: Case) -> str:
    """What an entry says; "" where it does not get along with what it finds in the line."""
    try:
        return entry.says(case)
    except Exception:
        return ""


def operands(place: Place) -> str:
    """What the expression that failed was given, as far as it can be looked up."""
    if isinstance(place.statement, ast.Raise | ast.Assert):
        file = Path(place.frame.f_code.co_filename).name
        whose = "a line of yours" if file in {entry.file for entry in GRADED_TASKS} else file
        return f"{whose} raises this, so the condition for it was met"
    parts = {quoted(part): part for part in place.operands()}
    known = [f"{name} is {brief}" for name, part in parts.items() if (brief := place.brief(part))]
    return f"here {', '.join(known)}" if known else ""


def nowhere(error: BaseException) -> Place:
    """In place of a student's line, where none is in the traceback: gradients run elsewhere."""
    return Place(error.__traceback__.tb_frame, 0, None, None, None)


@functools.cache
def table() -> tuple[Entry, ...]:
    """All entries; the first that has something to say is heard."""
    looking = [
        entry
        for module in (call_errors, name_errors, shape_errors)
        for entry in vars(module).values()
        if isinstance(entry, Entry)
    ]
    rows = tomllib.loads(WORDS.read_text(encoding="utf-8"))["entry"]
    reading = [
        Entry(
            entry["name"],
            tuple(getattr(builtins, name) for name in entry["types"]),
            entry["pattern"],
            plainly(entry["says"]),
        )
        for entry in rows
    ]
    return (*looking, *reading)


def plainly(sentence: str) -> Callable[[Case], str]:
    """Say a sentence with what the pattern's groups found."""
    return lambda case: sentence.format(*case.match.groups())


def syntax(error: SyntaxError) -> str:
    """The line that Python cannot read, a mark below it, and the remedy."""
    remedy = next((says for words, says in SYNTAX.items() if words in (error.msg or "")), "")
    line = error.text or ""
    if not line.strip():
        return remedy
    shown = marked(line, (error.offset or 1) - 1)
    return f"\n{' ' * 12}".join([remedy or "Python cannot read this line", *shown])
