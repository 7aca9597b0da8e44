"""Tables of tab- or comma-separated text; an error names the file, the row and a remedy.

pandas is imported where a table is read: it is a fifth of the time until --help's first line.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from training.files.course_files import COURSE_STEMS
from training.files.errors import InputError
from training.files.texts import read_text

if TYPE_CHECKING:
    import pandas as pd

LABEL_COLUMNS = ("sentiment", "label", "is_duplicate", "similarity")
MOST_CLASSES = 1000  # that a file of texts may have


def parse_table(path: Path, separator: str | None = "\t", quoted: bool = True) -> pd.DataFrame:
    """All cells of a table as text; InputError if it cannot be read as one.

    Blanks around the names of columns and tabs at the ends of rows do not count.

    Args:
        separator: None for the one in the header, a tab or a comma.
        quoted: whether a quotation mark may enclose a cell, as in the course's files; in GLUE's it
            is a character like any other.
    """
    import pandas as pd

    text = re.sub(r"\t+$", "", read_text(path), flags=re.MULTILINE).lstrip("\n")
    header = text.partition("\n")[0]
    separator = separator or ("\t" if "\t" in header else ",")
    names = [name.strip(' "') for name in header.split(separator)]
    lower = [name.lower() for name in names]
    if not header:
        raise InputError(f"{path} is empty; is it the right file?")
    for name in filter(None, lower):
        if lower.count(name) > 1:
            raise InputError(f"{path} has two columns {name!r}; rename or remove one")
    options = {"delimiter": separator, "quoting": csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE}
    try:
        rows = [row for row in csv.reader(io.StringIO(text), **options) if row][1:]
    except csv.Error as error:  # a cell that is longer than any text
        raise InputError(f"{path}: {error}; close an opening quote") from None
    for number, row in enumerate(rows, start=1):
        if any("\n" in cell for cell in row):
            remedy = "put the text into one line, or close its opening quote"
            raise InputError(f"{path}, row {number} has a line break in a text; {remedy}")
        if len(row) > len(names):
            kind = "tab" if separator == "\t" else "comma"
            count = f"has {len(row)} cells, the header {len(names)}"
            raise InputError(f"{path}, row {number} {count}: a {kind} in a text? put it in quotes")
        row += [""] * (len(names) - len(row))
    return pd.DataFrame(rows, columns=[name or f"unnamed {i}" for i, name in enumerate(names)])


def read_table(path: str | Path, columns: Sequence[str], label: str | None) -> pd.DataFrame:
    """Read a course file as text, with its columns checked.

    Args:
        path: a tab-separated file with a header; upper case in the names of columns does not count.
        columns: the columns it must have, such as ("id", "sentence").
        label: a further one, renamed to "label" in the result; any of LABEL_COLUMNS will do.

    Raises:
        InputError: missing, empty, not UTF-8, without a column, an empty or repeated id.
    """
    path = Path(path)
    if not os.path.exists(path):  # False also where the name is too long for one
        is_ours = path.name.startswith((*COURSE_STEMS.values(), "ids-cfimdb"))
        fetch = " (python data/download.py fetches the course files)" if is_ours else ""
        raise InputError(f"no file {path}; check the path{fetch}")
    table = parse_table(path).rename(columns=str.lower)
    if label:
        present = [name for name in dict.fromkeys((label, *LABEL_COLUMNS)) if name in table]
        if len(present) > 1:
            both = " and ".join(present[:2])
            raise InputError(f"{path} has labels in {both}; remove or rename one of these columns")
        table = table.rename(columns=dict.fromkeys(present, "label"))
        columns = (*columns, "label")
    if missing := [name for name in columns if name not in table]:
        expected = ", ".join(label if name == "label" else name for name in missing)
        present = ", ".join(name for name in table if not name.startswith("unnamed"))
        raise InputError(
            f"{path} lacks the column {expected} (it has: {present}); columns are separated by tabs"
        )
    if table.empty:
        raise InputError(f"{path} has a header but no rows; is it the right file?")
    table["id"] = checked_ids(path, table)
    return table[list(columns)]


def checked_ids(path: Path, table: pd.DataFrame) -> pd.Series:
    """The ids without blanks around; InputError where one could not stand in predictions."""
    ids = table["id"].str.strip()
    refuse(path, table, ids == "", "has no id", "every row needs one")
    odd = ids.str.contains('[,"\\t]')  # predictions are id,number
    refuse(path, table, odd, "has a comma or a quote in its id", "remove it")
    refuse(path, table, ids.duplicated(), "repeats an earlier id", "remove one of the two")
    return ids


def refuse(path: Path, table: pd.DataFrame, bad: pd.Series, what: str, remedy: str) -> None:
    """InputError naming the first bad row, if there is one."""
    if bad.any():
        number, more = int(bad.to_numpy().argmax()), int(bad.sum()) - 1
        others = f" (and {more} more rows)" if more else ""
        key = f" (id {' '.join(table['id'].iloc[number].split()) or '?'})" if "id" in table else ""
        raise InputError(f"{path}, row {table.index[number] + 1}{key} {what}{others}; {remedy}")


def class_labels(path: Path, table: pd.DataFrame, classes: int | None = None) -> pd.Series:
    """The labels as integers from 0 on, below ``classes`` if that is known; '1.0' is 1."""
    return _numbers(path, table, "an integer", (classes or MOST_CLASSES) - 1).astype(int)


def similarities(path: Path, table: pd.DataFrame) -> pd.Series:
    """The labels as numbers from 0 to 5."""
    return _numbers(path, table, "a number", 5).astype(float)


def _numbers(path: Path, table: pd.DataFrame, kind: str, highest: int) -> pd.Series:
    import pandas as pd

    text = table["label"].str.strip()
    refuse(path, table, text == "", "has an empty label", "fill it in or remove the row")
    values = pd.to_numeric(text, errors="coerce")
    bad = values.isna() | (values.abs() == float("inf"))
    if kind == "an integer":
        bad |= values != values.round()
    beyond = (values < 0) | (values > highest)
    for wrong, what in ((bad, f"not {kind}"), (beyond, f"out of range 0 to {highest}")):
        first = text[wrong].iloc[0] if wrong.any() else ""
        refuse(path, table, wrong, f"has the label {first[:30]!r}, {what}", "fix the label")
    return values
