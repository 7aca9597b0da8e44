"""The one kind of error that a user can mend. Nothing here needs torch."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input from outside (a file, a flag, a download): its text is one line with a remedy."""


class Stopped(InputError):
    """A run that was asked to stop, and has; its text says how to go on."""


def first_line(error: Exception) -> str:
    """The first line of an error's text, or the error's name where it says nothing."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:150]
