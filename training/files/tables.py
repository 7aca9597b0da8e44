"""Tables of tab- or comma-separated text; an error names the file, the row and a remedy.

pandas is imported where a table is read: it is a fifth of the time until --help's first line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from training.files.errors import InputError
from training.files.texts import read_text

if TYPE_CHECKING:
    import pandas as pd

LABEL_COLUMNS = ("sentiment", "label", "is_duplicate", "similarity")
OTHER_NAMES = {"text": "sentence", "question1": "sentence1", "question2": "sentence2"}
OTHER_NAMES |= {"predicted_similiary": "predicted_similarity"}  # of older code
MOST_CLASSES = 1000  # that a file of texts may have

# A quotation mark opens a cell only if another one stands directly before the cell's end. Those in
# between are doubled, or have a backslash before them.
CELL = r"""
    (?: "( [^"]*+ (?: "" [^"]*+ )*+ )"
      | "( [^"\\]*+ (?: (?: \\. | "" ) [^"\\]*+ )*+ )"
      | ( [^SEPARATOR\n]* )
    ) ( [SEPARATOR\n] | \Z )
"""


def parse_table(text: str, path: str | Path) -> pd.DataFrame:
    """All cells of a table's text, under the header's names; the separator is a tab or a comma.

    Raises:
        InputError: it is empty; two columns of the same name; a row with too many cells, or with a
            separator in quotes and too few, or that could also be several rows.
    """
    import pandas as pd

    header = next(filter(str.strip, text.split("\n")), "")
    separator, name = ("\t", "tab") if "\t" in header else (",", "comma")
    lines = [line for line in split_cells(text, separator) if any(map(str.strip, line[0]))]
    if not lines:
        raise InputError(f"{path} is empty; is it the right file?")
    names = column_names(lines[0][0])
    column, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise InputError(f"{path} has two columns {column!r}; rename or remove one")
    rows = []
    for number, (cells, source) in enumerate(lines[1:], start=1):
        row, surplus = cells[: len(names)], cells[len(names) :]
        is_short = len(row) < len(names) and any(separator in cell for cell in cells)
        if any(map(str.strip, surplus)) or is_short:
            what = f"row {number} has {len(cells)} cells, the first line {len(names)} names"
            remedy = f"name all columns, and put quotation marks only around a text with a {name}"
            raise InputError(f"{path}, {what} ({' '.join(header.split())[:60]}); {remedy}")
        count = rows_without_quotes(source, separator, len(names)) if "\n" in source else 1
        if count > 1:
            what = f"one row if the quotation marks enclose a text, {count} rows if they do not"
            start = source.partition("\n")[0].strip()[:40]
            remedy = "remove the marks, or the line breaks between them"
            raise InputError(f"{path}, row {number} ({start} …) is {what}; {remedy}")
        rows.append(row + [""] * (len(names) - len(row)))
    return pd.DataFrame(rows, columns=names)


def split_cells(text: str, separator: str) -> Iterator[tuple[list[str], str]]:
    """The cells of each row, and the line or lines of the text that they come from.

    Quotation marks around a cell, and those that stand for another, are taken out.
    """
    row, start = [], 0
    pattern = CELL.replace("SEPARATOR", separator)
    for cell in re.finditer(pattern, text, re.DOTALL | re.VERBOSE):
        doubled, escaped, plain, end = cell.groups()
        if doubled is not None:
            plain = doubled.replace('""', '"')
        elif escaped is not None:
            plain = re.sub(r'\\(["\\])|""', lambda mark: mark[1] or '"', escaped)
        row.append(plain)
        if end != separator:
            yield row, text[start : cell.end()].strip("\n")
            row, start = [], cell.end()


def rows_without_quotes(source: str, separator: str, width: int) -> int:
    """How many lines of a row would be rows if quotation marks were characters like others.

    In a sentence a blank follows a comma, which therefore separates nothing.
    """
    separate = re.compile(r",(?=\S)" if separator == "," else separator)
    return sum(len(separate.split(line)) >= width for line in source.split("\n"))


def column_names(header: Sequence[str]) -> list[str]:
    """Names of columns as all scripts know them: case, blanks and some synonyms do not matter."""
    names = [name.replace("\ufeff", "").strip().lower() for name in header]
    known = {name: OTHER_NAMES.get(name, name) for name in names}
    names = [name if known[name] in names else known[name] for name in names]
    return [name or f"unnamed {i}" for i, name in enumerate(names)]


def check_columns(path: str | Path, table: pd.DataFrame, columns: Sequence[str]) -> None:
    """InputError unless a table has these columns, and rows."""
    if missing := [name for name in columns if name not in table]:
        present = ", ".join(name for name in table if not name.startswith("unnamed"))
        remedy = "name it so in the first line, with tabs or commas between the names"
        raise InputError(f"{path} lacks the column {missing[0]} (it has: {present}); {remedy}")
    if table.empty:
        raise InputError(f"{path} has a header but no rows; is it the right file?")


def read_table(
    path: str | Path, columns: Sequence[str], label: str | None, may_lack_labels: bool = False
) -> pd.DataFrame:
    """Read a file of texts: the column id, further ones, and "label"; all as text.

    Args:
        columns: the texts' columns, such as ("sentence",).
        label: the column of the labels; without it the first of LABEL_COLUMNS will do.

    Raises:
        InputError: what parse_table refuses; without a column; an empty or repeated id.
    """
    table = parse_table(read_text(path), path)
    if label:
        missing = None if may_lack_labels else label
        label = next((name for name in (label, *LABEL_COLUMNS) if name in table), missing)
    names = [*columns, label] if label else [*columns]
    check_columns(path, table, names)
    return table[names].rename(columns={label: "label"}).assign(id=checked_ids(path, table))


def checked_ids(path: str | Path, table: pd.DataFrame) -> pd.Series:
    """The ids without blanks around, or numbers; InputError where predictions cannot have one."""
    if "id" not in table:
        print(f"data: {path} has no column id; its rows are numbered from 0")
        return table.index.astype(str).to_series(table.index)
    ids = table["id"].str.strip()
    refuse(path, table, ids == "", "has no id", "every row needs one")
    odd = ids.str.contains('[,"\\t\\n]')  # predictions are id,number
    refuse(path, table, odd, "has a comma, tab, quote or line break in its id", "remove it")
    refuse(path, table, ids.duplicated(), "repeats an earlier id", "remove one of the two")
    return ids


def refuse(path: str | Path, table: pd.DataFrame, bad: pd.Series, what: str, remedy: str) -> None:
    """InputError naming the first bad row, if there is one."""
    if bad.any():
        row, more = table[bad].iloc[0], int(bad.sum()) - 1
        key = f" (id {' '.join(row['id'].split())[:60] or '?'})" if "id" in table else ""
        others = f" (and {more} more rows)" if more else ""
        raise InputError(f"{path}, row {row.name + 1}{key} {what}{others}; {remedy}")


def class_labels(path: str | Path, table: pd.DataFrame, classes: int | None = None) -> pd.Series:
    """The labels as integers from 0 on, below ``classes`` if that is known; '1.0' is 1."""
    return _numbers(path, table, "an integer", (classes or MOST_CLASSES) - 1).astype(int)


def similarities(path: str | Path, table: pd.DataFrame) -> pd.Series:
    """The labels as numbers from 0 to 5; a hint where all of them are from 0 to 1."""
    values = _numbers(path, table, "a number", 5).astype(float)
    if len(values) >= 10 and values.max() <= 1:
        print(f"hint: all similarities of {path} are at most 1; the course's go from 0 to 5")
    return values


def _numbers(path: str | Path, table: pd.DataFrame, kind: str, highest: int) -> pd.Series:
    import pandas as pd

    text = table["label"].str.strip()
    values = pd.to_numeric(text, errors="coerce")  # nan where there is no number
    bad = ~values.between(0, highest)
    if kind == "an integer":
        bad |= values != values.round()
    first = text[bad].iloc[0] if bad.any() else ""
    what = f"has the label {first[:30]!r}, not {kind} from 0 to {highest}"
    refuse(path, table, bad, what, "fix the label or remove the row")
    return values
