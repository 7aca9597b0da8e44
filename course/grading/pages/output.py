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
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from course.templates import templates_of
from training.files.writing import atomic_write

# Colours, cursor movements (CSI), titles and links (OSC and its like) of terminals, 7 and 8 bit
ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
FORMULA = tuple("=+-@\t\r＝＋－＠")  # what a spreadsheet takes for the beginning of one
AFTER_SEMICOLON = re.compile(rf'(;[\s"]*)(?=[{re.escape("".join(FORMULA))}])')
DIGITS = {"score": 3, "points": 1, "seconds": 1, "count": 0}


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


def with_code(text: Any, limit: int = 300) -> Markup:
    """A cleaned text as HTML; what is between backticks is code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(clean(text, limit)))))


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
    # where ; separates cells, what follows one is a cell of its own
    text = AFTER_SEMICOLON.sub(r"\1'", clean(value, 1000))
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
    kind: str = "text"  # "key", "long": may wrap; of DIGITS: a number; "rank": also 2–5
    bar: bool = False  # whether the number has a bar from 0 to 1 in front
    link: str = ""  # the key of the address that its cells lead to

    @property
    def css_class(self) -> str:
        """The classes of its cells in page.css."""
        named = {"text": "", "key": "key", "long": "long", "rank": "number rank"}
        return named.get(self.kind, "number")

    def show(self, value: Any) -> str:
        """A cell's text; a dash where there is no value."""
        if value is None:
            return "–"
        return f"{value:.{DIGITS[self.kind]}f}" if self.kind in DIGITS else clean(value)

    def sort_key(self, value: Any) -> str:
        """What the page's script sorts a cell by; "" is always last."""
        if value is None or self.kind in DIGITS:
            return "" if value is None else f"{value:.12g}"
        text = clean(value)
        return text.partition("–")[0] if self.kind == "rank" else text


HERE = Path(__file__).resolve().parent
COMMON = HERE.parents[2] / "training" / "reports" / "page.css"  # what all pages look like
STYLE = "".join(file.read_text(encoding="utf-8") for file in (COMMON, HERE / "page.css"))
SCRIPT = (HERE / "page.js").read_text(encoding="utf-8")
TEMPLATES = templates_of(__file__, html=True)
TEMPLATES.filters |= {"clean": clean, "with_code": with_code}


def table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], caption: str) -> Markup:
    """A table that a click on a header sorts; None is shown as a dash."""
    template = TEMPLATES.get_template("table.html")
    return Markup(template.render(columns=columns, rows=list(rows), caption=caption))


def policy_hash(text: str) -> str:
    """How a page's policy names the one script or style that it lets in."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def page(
    title: str,
    lead: str,
    sections: Iterable[tuple[str, str, Markup]] = (),
    template: str = "page.html",
    **more: Any,
) -> str:
    """A page that needs nothing from elsewhere, and runs no script but its own.

    Args:
        title: also its first heading.
        lead: a sentence under it.
        sections: (heading, text, HTML made by ``table``); other HTML is escaped.
        template: what extends page.html, and is filled in with ``more``.
    """
    policy = (
        f"default-src 'none'; style-src {policy_hash(STYLE)}; script-src {policy_hash(SCRIPT)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return TEMPLATES.get_template(template).render(
        **more,
        title=title,
        lead=lead,
        sections=sections,
        policy=Markup(policy),
        style=Markup(STYLE),
        script=Markup(SCRIPT),
    )
