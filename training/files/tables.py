"""Tables of tab- or comma-separated text; an error names the file, the row and a remedy.

pandas is imported where a table is read: it is a fifth of the time until --help's first line.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from training.files.errors import InputError
from training.files.texts import read_text

if TYPE_CHECKING:
    import pandas as pd

LABEL_COLUMNS = ("sentiment", "label", "is_duplicate", "similarity")
MOST_CLASSES = 1000  # that a file of texts may have


def parse_table(path: Path, separator: str | None = "\t", quoted: bool = True) -> pd.DataFrame:
    """All cells of a table as text, under the header's names in lower case.

    Args:
        separator: None for the one in the header, a tab or a comma.
        quoted: whether a quotation mark may enclose a cell, as in the course's files; in GLUE's it
            is a character like any other.
    """
    import pandas as pd

    text = read_text(path)
    separator = separator or ("\t" if "\t" in text.partition("\n")[0] else ",")
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    try:
        lines = [*csv.reader(io.StringIO(text), delimiter=separator, quoting=quoting)]
    except csv.Error as error:  # a cell that is longer than any text
        raise InputError(f"{path}: {error}; close an opening quote") from None
    header, *rows = [line for line in lines if any(line)] or [[]]
    if not header:
        raise InputError(f"{path} is empty; is it the right file?")
    names = [name.strip().lower() for name in header]
    if repeated := [name for name in names if name and names.count(name) > 1]:
        raise InputError(f"{path} has two columns {repeated[0]!r}; rename or remove one")
    for number, row in enumerate(rows, start=1):
        if any("\n" in cell for cell in row):
            remedy = "put the text into one line, or close its opening quote"
            raise InputError(f"{path}, row {number} has a line break in a text; {remedy}")
        if any(row[len(names) :]):
            count = f"has {len(row)} cells, the header {len(names)}"
            raise InputError(f"{path}, row {number} {count}; put a text with a separator in quotes")
        row[:] = (row + [""] * len(names))[: len(names)]
    return pd.DataFrame(rows, columns=[name or f"unnamed {i}" for i, name in enumerate(names)])


def read_table(path: str | Path, columns: Sequence[str], label: str | None) -> pd.DataFrame:
    """Read a course file as text, with its columns checked.

    Args:
        path: a tab-separated file with a header; upper case in the names of columns does not count.
        columns: the columns it must have, such as ("id", "sentence").
        label: a further one, renamed to "label"; without it the first of LABEL_COLUMNS will do.

    Raises:
        InputError: missing, empty, not UTF-8, without a column, an empty or repeated id.
    """
    path = Path(path)
    if not os.path.exists(path):  # False also where the name is too long for one
        fetch = "python -m data.download fetches the course files"
        raise InputError(f"no file {path}; check the path ({fetch})")
    table = parse_table(path)
    columns = list(columns)
    if label:
        columns.append(next((name for name in (label, *LABEL_COLUMNS) if name in table), label))
    if missing := [name for name in columns if name not in table]:
        present = ", ".join(name for name in table if not name.startswith("unnamed"))
        raise InputError(
            f"{path} lacks the column {', '.join(missing)} (it has: {present}); "
            "columns are separated by tabs"
        )
    if table.empty:
        raise InputError(f"{path} has a header but no rows; is it the right file?")
    table = table[columns].assign(id=checked_ids(path, table))
    return table.rename(columns={columns[-1]: "label"}) if label else table


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
        row, more = table[bad].iloc[0], int(bad.sum()) - 1
        key = f" (id {row['id'].strip() or '?'})" if "id" in table else ""
        others = f" (and {more} more rows)" if more else ""
        raise InputError(f"{path}, row {row.name + 1}{key} {what}{others}; {remedy}")


def class_labels(path: Path, table: pd.DataFrame, classes: int | None = None) -> pd.Series:
    """The labels as integers from 0 on, below ``classes`` if that is known; '1.0' is 1."""
    return _numbers(path, table, "an integer", (classes or MOST_CLASSES) - 1).astype(int)


def similarities(path: Path, table: pd.DataFrame) -> pd.Series:
    """The labels as numbers from 0 to 5."""
    return _numbers(path, table, "a number", 5).astype(float)


def _numbers(path: Path, table: pd.DataFrame, kind: str, highest: int) -> pd.Series:
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
