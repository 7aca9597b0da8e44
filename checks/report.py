"""The outcomes of checks on the screen, in three levels.

First the verdict and the first wrong number, then the property that does not hold, then what it
probably is. It needs no torch.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

from checks.findings import ALL, EXPLAINING, Finding, Outcome, faulty, is_unknown

INDENT = " " * 8
LABELS = {"ok": "  ok   ", "wrong": "  WRONG", "waits": "  waits", "skipped": "  --   "}
LABELS |= {"not started": "  not started ", "differs": "differs"}  # the latter in --trace
COLOURS = {"ok": "\033[32m", "wrong": "\033[31m", "differs": "\033[31m"}  # green, red
MOST_FACTS, MOST_PRINTED = 7, 3  # that are shown without --all
MORE = {  # the kind of what is not shown: how to see it
    "property": "--hint says which property does not hold",
    "fact": "--hint says what was measured",
    "named": "--hints all says what it probably is",
}


class Report:
    """Prints outcomes as they come.

    Args:
        everything: show all findings of the level and all that was printed.
        level: how much is said, from 1.
    """

    def __init__(self, everything: bool = False, level: int = ALL):
        self.everything, self.level = everything, level
        self.causes: list[Finding] = []  # that were said

    def end(self, outcome: Outcome, printed: Sequence[str] = ()) -> None:
        """Print an outcome, and what the student's code has printed meanwhile."""
        waits = outcome.status == "waits"
        if waits and (causes := [f for f in outcome.findings if f not in self.causes]):  # once
            self.causes += causes
            print(*(f"{label_of('wrong')} {cause.text}" for cause in causes), sep="\n")
        about = f": {outcome.about}" if outcome.about and outcome.status != "not started" else ""
        print(f"{label_of(outcome.status)} {outcome.title}{about}")
        for line in () if waits else self.details(outcome.findings):
            print(line)
        shown = printed if self.everything else printed[:MOST_PRINTED]
        for line in shown:
            print(f"{INDENT}your code printed: {line}")
        if len(shown) < len(printed):
            print(f"{INDENT}… and {len(printed) - len(shown)} more lines (--all)")
        sys.stdout.flush()

    def details(self, findings: Sequence[Finding]) -> Iterator[str]:
        """The first that is wrong, then what explains it as far as the level says."""
        wrong = [finding.text for finding in faulty(findings)]
        said = [
            (kind, level, f"{label}: {finding.text}")
            for kind, (label, level) in EXPLAINING.items()
            for finding in findings
            if finding.kind == kind
        ]
        facts = [text for _, level, text in said if level <= self.level]
        shown = [*wrong, *facts] if self.everything else [*wrong[:1], *facts[:MOST_FACTS]]
        yield from (line for text in shown for line in wrapped(text))
        if left := len(wrong) + len(facts) - len(shown):
            yield f"{INDENT}… and {left} more (--all)"
        if self.level >= ALL and is_unknown(findings):
            yield f"{INDENT}no known mistake computes this"
        if hidden := [kind for kind, level, _ in said if level > self.level]:
            yield INDENT + MORE.get(hidden[0], MORE["named"])


def label_of(status: str) -> str:
    """The verdict, in colour on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    is_plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.name == "nt"
    colour = "" if is_plain else COLOURS.get(status, "")
    return f"{colour}{LABELS[status]}\033[0m" if colour else LABELS[status]


def wrapped(text: str) -> list[str]:
    """A text in lines as wide as the terminal, indented."""
    width = max(60, shutil.get_terminal_size((100, 24)).columns)
    style = {"initial_indent": INDENT, "subsequent_indent": f"{INDENT}  "}
    return textwrap.wrap(text, width, **style, break_long_words=False)
