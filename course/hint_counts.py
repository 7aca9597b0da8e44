"""How much the checks tell about a wrong function: what hint_table.py and mutations.py count."""

from __future__ import annotations

import re
from collections.abc import Sequence

from checks.findings import EXPLAINING, Finding, faulty

# The best that is told of a fault, best first, and its heading in a table.
HEADINGS = {
    "named": "named",
    "facts": "facts only",
    "explained": "exception explained",
    "numbers": "first wrong number only",
    "bare": "bare exception",
}
RAISED = re.compile(r"\b\w*(Error|Exception|Exit|Interrupt|Iteration)\b: ")
# Python's own words and the place, and nothing after them: "TypeError: … (bert.py:57)"
BARE = re.compile(RAISED.pattern + r".*\((\S+:\d+|in the backward pass)\)$")


def best_told(findings: Sequence[Finding]) -> str:
    """The best that findings tell about a fault: a key of HEADINGS."""
    if any(finding.name for finding in findings):
        return "named"
    if any(finding.kind in EXPLAINING for finding in findings):
        return "facts"
    texts = [finding.text for finding in faulty(list(findings))]
    if any(BARE.search(text) for text in texts):
        return "bare"
    return "explained" if any(RAISED.search(text) for text in texts) else "numbers"
