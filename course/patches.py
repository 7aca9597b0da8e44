"""Small changes to a method's source, as a file of mistakes has them.

    old → new          a piece of a line; the old one is there once in the method
    - line             a line that goes
    + line             a line that comes, after the one above it here
      line             a line that stays: it says where, or which of several equal ones is meant

A line that goes or stays is looked for right after the one above it here; where it is not, it has
to be the only one in the method. Indents count only among the lines of one patch. Everything is
looked for in the method as it was, so the order of changes is free. It does not know what a method
computes, nor where patches come from.
"""

from __future__ import annotations

from collections.abc import Sequence

from training.files.errors import InputError

ARROW = " → "


def patched(source: str, patch: Sequence[str]) -> str:
    """A method with all changes made.

    Raises:
        InputError: a change does not fit the source, or two of them touch the same place.
    """
    edits = sorted(_edits(source, patch), key=lambda edit: edit[:2])
    made, end = [], 0
    for start, stop, new in edits:
        if start < end:
            raise InputError(f"two changes at the same place: {new.strip() or 'a line goes'!r}")
        made += [source[end:start], new]
        end = stop
    return "".join([*made, source[end:]])


def _edits(source: str, patch: Sequence[str]) -> list[tuple[int, int, str]]:
    """Where each change begins and ends, and what comes there instead."""
    lines = source.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
    edits, at, shift = [], -1, 0  # at: the line found last; shift: its indent there less that here
    for line in patch:
        mark, text = line[:2], line[2:]
        if mark in ("- ", "  "):
            at = _find(lines, text.strip(), at + 1)
            shift = _indent(lines[at]) - _indent(text)
            if mark == "- ":
                edits.append((starts[at], starts[at + 1], ""))
        elif mark == "+ ":
            if at < 0:
                raise InputError(f"{line!r}: no line above it says after which one it comes")
            indent = " " * (_indent(text) + shift)
            edits.append((starts[at + 1], starts[at + 1], f"{indent}{text.strip()}\n"))
        elif ARROW in line:
            old, new = line.split(ARROW, 1)
            start = source.find(old)
            _once(source.count(old), old)
            edits.append((start, start + len(old), new))
        else:
            raise InputError(f"{line!r}: a change begins with '- ', '+ ' or two spaces, or has '→'")
    return edits


def _find(lines: Sequence[str], text: str, following: int) -> int:
    """The number of the line with this text: the following one, or the only one."""
    found = [number for number, line in enumerate(lines) if line.strip() == text]
    if following in found:
        return following
    _once(len(found), text)
    return found[0]


def _once(count: int, text: str) -> None:
    if count != 1:
        raise InputError(f"{text!r} is there {count} times, not once")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
