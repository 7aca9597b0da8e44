"""What leaves the grader: texts, CSV files and HTML pages that no student's text can break.

Every text passes ``clean`` at the point of output, whoever wrote it. It does not know what
is shown.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from training.files import atomic_write

# Colours, cursor movements (CSI), titles and links (OSC and its like) of terminals, 7 and 8 bit
ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
FORMULA = tuple("=+-@\t\r＝＋－＠")  # what a spreadsheet takes for the beginning of one
DIGITS = {"score": 3, "points": 1, "seconds": 1, "count": 0, "rank": 0}


def clean(text: Any, limit: int = 300, lines: bool = False) -> str:
    """A text without escape codes, control characters, bidi marks and other invisible ones.

    Args:
        limit: the number of characters after which it is cut.
        lines: whether line breaks and indents stay; else all blanks become one.
    """
    shown = ESCAPES.sub("", str(text)[: 20 * limit])
    kept = []
    for character in shown.replace("\r\n", "\n").replace("\r", "\n"):
        kind = unicodedata.category(character)
        if character == "\t" or kind in ("Zl", "Zp", "Zs"):
            kept.append(" ")
        elif character == "\n":
            kept.append("\n" if lines else " ")
        elif kind not in ("Cc", "Cf", "Cs", "Co", "Cn"):
            kept.append(character)
    shown = "".join(kept)
    shown = shown.strip("\n").rstrip() if lines else " ".join(shown.split())
    return shown if len(shown) <= limit else f"{shown[: limit - 2]} …"


# ---------------------------------------------------------------------------------------------
# CSV


def csv_cell(value: Any) -> str:
    """A cell as a spreadsheet may have it: numbers as they are, text never as a formula."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return str(value)
    text = clean(value, 1000)
    return f"'{text}" if text.startswith(FORMULA) else text


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table, whole or not at all; what a row lacks stays empty."""
    with atomic_write(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow([csv_cell(row.get(column)) for column in columns])


# ---------------------------------------------------------------------------------------------
# HTML


@dataclass(frozen=True)
class Column:
    """One column of an HTML table."""

    key: str  # in the rows
    title: str
    kind: str = "text"  # "key": stays in sight on a phone; "long": may wrap; of DIGITS: a number
    bar: bool = False  # whether a bar from 0 to 1 is drawn next to the number


def table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], caption: str) -> str:
    """A table that a click on a header sorts; None is shown as a dash."""
    head = "".join(
        f'<th scope="col"{_class(column)}><button type="button">{escape(column.title)}'
        "</button></th>"
        for column in columns
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(column, row.get(column.key)) for column in columns) + "</tr>"
        for row in rows
    )
    empty = "" if body else '<p class="none">Nothing to show yet.</p>'
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>{empty}\n"
    )


def _class(column: Column) -> str:
    if column.kind == "text":
        return ""
    names = {"key": "key", "long": "long", "rank": "number rank"}.get(column.kind, "number")
    return f' class="{names}"'


def _cell(column: Column, value: Any) -> str:
    if value is None or value == "":
        return f'<td{_class(column)} data-value="">{"" if value == "" else "–"}</td>'
    if column.kind not in DIGITS:
        shown = escape(clean(value))
        return f'<td{_class(column)} data-value="{shown}">{shown}</td>'
    shown = f"{value:.{DIGITS[column.kind]}f}"
    bar = _bar(value) if column.bar else ""
    return f'<td{_class(column)} data-value="{float(value):.12g}">{bar}{shown}</td>'


def _bar(value: float) -> str:
    """An SVG, because the page's policy forbids style attributes."""
    width = round(100 * min(1.0, max(0.0, value)))
    return (
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="all" width="100" height="10"/><rect width="{width}" height="10"/></svg>'
    )


STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6573; --paper: #fbfbfa;
  --card: #ffffff; --line: #dfe3e8; --stripe: #f4f6f8; --accent: #2357a8; --bar: #cdd9ec; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7eaee; --soft: #9aa5b3; --paper: #14181d; --card: #1b2127; --line: #323a43;
    --stripe: #20272e; --accent: #8fb8f5; --bar: #2f4364; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem clamp(.75rem, 3vw, 3rem) 3rem; max-width: 96rem;
  background: var(--paper); color: var(--ink); line-height: 1.5;
  font: clamp(.95rem, .8rem + .35vw, 1.35rem)/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7em; line-height: 1.2; margin: 0 0 .2em; }
h2 { font-size: 1.2em; margin: 2em 0 .3em; }
p { max-width: 60em; margin: .4em 0; }
p.lead, p.none, footer { color: var(--soft); }
.scroll { overflow-x: auto; margin: .8em 0; background: var(--card);
  border: 1px solid var(--line); border-radius: .5em; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { padding: .4em .8em; text-align: left; white-space: nowrap; }
.long { white-space: normal; min-width: 14em; }
td { border-top: 1px solid var(--line); }
tbody tr:nth-child(even) td { background: var(--stripe); }
tbody tr:hover td { background: var(--bar); }
.number { text-align: right; }
th { font-weight: 600; }
th, .key { background: var(--card); }
.key { position: sticky; left: 0; }
th button { all: unset; cursor: pointer; color: var(--accent); }
th button:hover { text-decoration: underline; }
th button:focus-visible, .scroll:focus-visible { outline: 2px solid var(--accent); }
th[aria-sort=ascending] button::after { content: " ↑"; }
th[aria-sort=descending] button::after { content: " ↓"; }
.bar { width: 4.5em; height: .6em; margin-right: .7em; border-radius: .3em; }
.bar rect { fill: var(--accent); }
.bar rect.all { fill: var(--bar); }
@media (max-width: 40rem) { .bar { display: none; } th, td { padding: .4em .5em; } }
@media print { .scroll { overflow: visible; } }
"""
# Numbers from the largest down at the first click, ranks and texts up; what is missing stays last.
SCRIPT = """
function sortBy(head) {
  const table = head.closest("table"), body = table.tBodies[0];
  const number = head.classList.contains("number");
  const before = head.getAttribute("aria-sort");
  const upFirst = !number || head.classList.contains("rank");
  const up = before ? before === "descending" : upFirst;
  const value = row => row.cells[head.cellIndex].dataset.value;
  const order = (a, b) => number ? a - b : a.localeCompare(b, undefined, {numeric: true});
  const rows = Array.from(body.rows).sort((first, second) => {
    const a = value(first), b = value(second);
    if (a === "" || b === "") return (a === "") - (b === "");
    return up ? order(a, b) : order(b, a);
  });
  table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...rows);
}
document.querySelectorAll("th button").forEach(button =>
  button.addEventListener("click", () => sortBy(button.closest("th"))));
"""


def policy_hash(text: str) -> str:
    """How a page's policy names the one script or style that it lets in."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def page(title: str, lead: str, sections: Iterable[tuple[str, str, str]]) -> str:
    """A page that needs nothing from elsewhere, and runs no script but its own.

    Args:
        title: also its first heading.
        lead: a sentence under it.
        sections: (heading, text, HTML made by ``table``).
    """
    policy = (
        f"default-src 'none'; style-src {policy_hash(STYLE)}; script-src {policy_hash(SCRIPT)}; "
        "base-uri 'none'; form-action 'none'"
    )
    body = "".join(
        f"<section><h2>{escape(clean(heading))}</h2>\n<p>{escape(clean(text, 2000))}</p>\n{inner}"
        "</section>\n"
        for heading, text, inner in sections
    )
    shown = escape(clean(title))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="robots" content="noindex">\n'
        f"<title>{shown}</title>\n<style>{STYLE}</style></head>\n"
        f'<body><h1>{shown}</h1>\n<p class="lead">{escape(clean(lead, 2000))}</p>\n{body}'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def write_text(path: Path, text: str) -> None:
    """Write a text, whole or not at all."""
    with atomic_write(path) as file:
        file.write(text)
