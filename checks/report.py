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

from checks.findings import ALL, EXPLAINING, LEVELS, Finding, Outcome, faulty

INDENT = " " * 8
LABELS = {"ok": "  ok   ", "wrong": "  WRONG", "waits": "  waits", "skipped": "  --   "}
LABELS["differs"] = "differs"  # a line of --trace
COLOURS = {"ok": "\033[32m", "wrong": "\033[31m", "differs": "\033[31m"}  # green, red
MOST_FACTS, MOST_PRINTED = 7, 3  # that are shown without --all
MORE = {  # the level of what is not shown: how to see it
    2: "--hint says which property does not hold",
    3: "--hints all says what it probably is",
}


class Report:
    """Prints outcomes as they come.

    Args:
        everything: show all findings of the level and all that was printed.
        level: how much is said, from 1.
    """

    def __init__(self, everything: bool = False, level: int = ALL):
        self.everything, self.level = everything, level
        self.causes: set[Finding] = set()  # that were said

    def end(self, outcome: Outcome, printed: Sequence[str] = ()) -> None:
        """Print an outcome, and what the student's code has printed meanwhile."""
        if outcome.status == "waits":  # the cause, once
            for finding in outcome.findings:
                if finding not in self.causes:
                    self.causes.add(finding)
                    print(f"{label_of('wrong')} {finding.text}")
        for line in self.lines(outcome, printed):
            print(line, flush=True)

    def lines(self, outcome: Outcome, printed: Sequence[str]) -> Iterator[str]:
        """What is printed of an outcome."""
        if outcome.status == "not started":
            yield f"  not started  {outcome.title}"
        else:
            about = f": {outcome.about}" if outcome.about else ""
            yield f"{label_of(outcome.status)} {outcome.title}{about}"
        if outcome.status != "waits":
            yield from self.details(outcome.findings)
        shown = printed if self.everything else printed[:MOST_PRINTED]
        yield from (f"{INDENT}your code printed: {line}" for line in shown)
        if len(shown) < len(printed):
            yield f"{INDENT}… and {len(printed) - len(shown)} more lines (--all)"

    def details(self, findings: Sequence[Finding]) -> Iterator[str]:
        """The first that is wrong, then what explains it as far as the level says."""
        wrong = faulty(findings)
        explaining = [f for kind in EXPLAINING for f in findings if f.kind == kind]
        rest = [f for f in explaining if LEVELS.get(f.kind, 1) <= self.level]
        facts = rest if self.everything else rest[:MOST_FACTS]
        first = wrong if self.everything else wrong[:1]
        for finding in (*first, *facts):
            label = EXPLAINING.get(finding.kind)
            yield from wrapped(f"{label}: {finding.text}" if label else finding.text)
        if left := len(wrong) + len(rest) - len(first) - len(facts):
            yield f"{INDENT}… and {left} more (--all)"
        kinds = [f.kind for f in explaining]
        if self.level >= ALL and "property" in kinds and ALL not in map(LEVELS.get, kinds):
            yield f"{INDENT}no known mistake computes this"
        if len(rest) < len(explaining):
            yield INDENT + MORE[min(LEVELS[f.kind] for f in explaining if f not in rest)]


def label_of(status: str) -> str:
    """The verdict, in colour on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    is_plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.name == "nt"
    colour = "" if is_plain else COLOURS.get(status, "")
    return f"{colour}{LABELS[status]}\033[0m" if colour else LABELS[status]


def wrapped(text: str) -> list[str]:
    """A text in lines as wide as the terminal, indented."""
    width = max(60, shutil.get_terminal_size((100, 24)).columns)
    hanging = INDENT + "  "
    return textwrap.wrap(
        text, width, initial_indent=INDENT, subsequent_indent=hanging, break_long_words=False
    )
