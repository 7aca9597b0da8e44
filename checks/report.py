"""The outcomes of checks on the screen: the verdict, what it probably is, the first wrong number.

It needs no torch.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

from checks.findings import EXPLAINING, Finding, Outcome

INDENT = " " * 8
LABELS = {"ok": "  ok   ", "wrong": "  WRONG", "waits": "  waits", "skipped": "  --   "}
LABELS["differs"] = "differs"  # a line of --trace
COLOURS = {"ok": "\033[32m", "wrong": "\033[31m", "differs": "\033[31m"}  # green, red
MOST_FACTS, MOST_PRINTED = 6, 3  # that are shown without --all


class Report:
    """Prints outcomes as they come.

    Args:
        everything: show all findings and all that was printed.
    """

    def __init__(self, everything: bool = False):
        self.everything = everything
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
        """First what it probably is, then the first that is wrong, then facts and hints."""
        wrong = [finding for finding in findings if finding.kind not in EXPLAINING]
        probable = [f for f in findings if f.kind == "named"]
        rest = [f for f in findings if f.kind in EXPLAINING and f not in probable]
        facts = rest if self.everything else rest[:MOST_FACTS]
        first = wrong if self.everything else wrong[:1]
        for finding in (*probable, *first, *facts):
            label = EXPLAINING.get(finding.kind)
            yield from wrapped(f"{label}: {finding.text}" if label else finding.text)
        if left := len(wrong) + len(rest) - len(first) - len(facts):
            yield f"{INDENT}… and {left} more (--all)"


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
