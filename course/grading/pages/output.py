"""What leaves the grader: texts, CSV files and HTML pages that no student's text can break.

Every text passes ``clean`` at the point of output, whoever wrote it.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from training.files.writing import atomic_write

FORMULA = tuple("=+-@\t\r＝＋－＠")  # what a spreadsheet takes for the beginning of one
AFTER_SEMICOLON = re.compile(rf'(;[\s"]*)(?=[{re.escape("".join(FORMULA))}])')


def clean(text: Any, limit: int = 300, lines: bool = False) -> str:
    """A text without control characters, bidi marks and other invisible ones.

    Args:
        limit: the number of characters after which it is cut.
        lines: whether line breaks and indents stay; else all blanks become one.
    """

    def shown(character: str) -> str:
        kind = unicodedata.category(character)[0]
        if character == "\t" or kind == "Z":
            return " "
        return character if character == "\n" or kind != "C" else ""

    plain = str(text)[: 20 * limit].replace("\r\n", "\n").replace("\r", "\n")
    kept = "".join(map(shown, plain))
    kept = kept.strip("\n").rstrip() if lines else " ".join(kept.split())
    return kept if len(kept) <= limit else f"{kept[: limit - 2]} …"


def with_code(text: Any, limit: int = 300) -> Markup:
    """A cleaned text as HTML; what is between backticks is code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(clean(text, limit)))))


def csv_cell(value: Any) -> str:
    """A cell as a spreadsheet may have it: numbers as they are, text never as a formula."""
    if value is None:
        return ""
    if isinstance(value, (int, float)):
        return f"{value:.6g}"
    # where ; separates cells, what follows one is a cell of its own
    text = AFTER_SEMICOLON.sub(r"\1'", clean(value, 1000))
    return f"'{text}" if text.startswith(FORMULA) else text


def columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns of a table: the keys of its rows, in order."""
    return list(dict.fromkeys(key for row in rows for key in row))


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table, whole or not at all; what a row lacks stays empty."""
    with atomic_write(path) as file:
        writer, keys = csv.writer(file, lineterminator="\n"), columns(rows)
        writer.writerow(keys)
        writer.writerows([csv_cell(row.get(key)) for key in keys] for row in rows)


def cell(value: Any) -> str:
    """A cell of a table; a dash where there is no value."""
    if isinstance(value, float):
        return f"{round(value, 3):g}"
    return "–" if value is None else with_code(value, 2000)


HERE = Path(__file__).resolve().parent
COMMON = HERE.parents[2] / "training" / "reports" / "page.css"  # what all pages look like
STYLE = "".join(file.read_text(encoding="utf-8") for file in (COMMON, HERE / "page.css"))
TEMPLATES = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
TEMPLATES.filters |= {"clean": clean, "with_code": with_code, "cell": cell, "columns": columns}


def page(template: str, title: str, lead: str = "", **more: Any) -> str:
    """A page that needs nothing from elsewhere, and runs no script.

    Args:
        template: a file here that extends page.html, and is filled in with ``more``.
        title: also its first heading, with ``lead`` under it.
    """
    more |= {"title": title, "lead": lead, "style": Markup(STYLE)}
    return TEMPLATES.get_template(template).render(more)


def body(template: str, **more: Any) -> str:
    """What such a page shows under its heading, for a page of somebody else's."""
    made = TEMPLATES.get_template(template)
    return "".join(made.blocks["body"](made.new_context(more)))
