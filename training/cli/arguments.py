"""A script's command line: types of arguments, and errors that take one line. No torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from training.files.errors import InputError


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


def given_lines(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts on the command line, or lines of standard input, where a tab separates a pair."""
    if texts and list(texts) != ["-"]:
        yield texts
        return
    yield from (line.split("\t")[:2] for line in standard_input())


def standard_input() -> Iterator[str]:
    """The lines of standard input, without their ends; InputError if it is not UTF-8."""
    try:
        yield from (line.rstrip("\n") for line in sys.stdin)
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 ({error}); convert it") from None
