"""The one kind of error that a user can fix, and a stop that a user asked for. No torch."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """Bad input from outside (a file, a flag, a download): its text is one line with a remedy."""


class Stopped(InputError):
    """A run that was asked to stop, and has; its text says how to go on."""


def first_line(error: Exception) -> str:
    """The first line of an error's text, or the error's name where it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0][:150]


@contextmanager
def values_of(what: str, remedy: str = "fetch it again") -> Iterator[None]:
    """Wrong types, names or values of something read are an InputError: "WHAT (why); remedy"."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
        raise InputError(f"{what} ({why}); {remedy}") from error


@contextmanager
def trouble_in_one_line(remedy: str, what: str = "") -> Iterator[None]:
    """InputError where a file cannot be read or written: no such folder, read-only, a full disk."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        why = (what and error.strerror) or error  # which names the file, as ``what`` does
        raise InputError(f"{what}{why}; {remedy}") from error


def output_fault() -> str | None:
    """Why stdout takes no more: '' if its reader left, as ``| head`` does; None if it still does.

    After a fault stdout leads nowhere, because Python's end flushes it, too.
    """
    try:
        print(flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        left = isinstance(error, BrokenPipeError)
        return "" if left else f"error: cannot print: {error.strerror}; free space and run again"
    return None
