"""A script's command line: types of arguments, and errors that take one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from training.errors import InputError


def run_script(main: Callable[[], Any]) -> None:
    """Run a script's ``main``: an InputError becomes one line on stderr and exit status 1."""
    from training.processes import first_process, leave_processes  # here: with it comes torch

    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a console without UTF-8 shows ? for ·
    try:
        main()
        leave_processes()
    except InputError as error:  # the same one in all processes, if there are several
        leave_processes(f"error: {error}")
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted" if first_process() else 1)


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, exit status 2."""

    def error(self, message: str):
        """Say what is wrong in one line and leave."""
        self.exit(2, f"error: {message} (see python {self.prog} --help)\n")


def check_seed(parser: argparse.ArgumentParser, seed: int) -> None:
    """Leave with an error where NumPy would refuse the seed, after minutes of reading perhaps."""
    if not 0 <= seed < 2**32:
        parser.error("--seed must be at least 0 and below 2**32, as NumPy wants it")


def positive_int(text: str) -> int:
    """An argparse type: 1, 2, 3 …"""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return value


def positive_float(text: str) -> float:
    """An argparse type: a finite number above zero."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} must be a finite number above 0")
    return value


def probability(text: str) -> float:
    """An argparse type: a dropout probability, 0 ≤ p < 1."""
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 0 and below 1")
    return value


def given_lines(given: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts on the command line, or lines of standard input, where a tab separates a pair."""
    if given and list(given) != ["-"]:
        yield given
        return
    try:
        yield from (line.rstrip("\n").split("\t")[:2] for line in sys.stdin)
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 ({error}); convert it") from None
