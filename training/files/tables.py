"""Tables of tab- or comma-separated text; an error names the file, the row and a remedy.

pandas is imported where a table is read or written, here and elsewhere: it is a fifth of the time
until the first line of --help, or of a prediction.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from training.files.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

LABEL_COLUMNS = ("sentiment", "label", "is_duplicate", "similarity")


def parse_table(path: Path, separator: str = "\t", quoted: bool = True) -> pd.DataFrame:
    """All cells of a table as text; InputError if it cannot be read as one.

    Args:
        quoted: whether a quotation mark may enclose a cell, as in the course's files; in GLUE's it
            is a character like any other.
    """
    import pandas as pd

    try:
        with warnings.catch_warnings():
            # pandas would cut the cells that stand beyond the header, and only warn
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(
                path,
                sep=separator,
                quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
                dtype=str,
                keep_default_na=False,
                encoding="utf-8-sig",
                index_col=False,
            )
    except (ValueError, OSError, EOFError, pd.errors.ParserWarning) as error:
        reason = str(error).strip().splitlines()[-1]
        kind = "tab" if separator == "\t" else "comma"
        raise InputError(
            f"{path} cannot be read as a {kind}-separated table in UTF-8 ({reason}); fix it, or "
            "fetch it again"
        ) from None
    table = table.fillna("")
    for column in table.columns if separator == "\t" else ():
        swallowed = table[column].str.contains("\n.*\t", regex=True)
        refuse(path, table, swallowed, "runs on over the next row", 'close its opening "')
    return table


def read_table(path: str | Path, columns: Sequence[str], label: str | None) -> pd.DataFrame:
    """Read a course file as text, with its columns checked.

    Args:
        path: a tab-separated file with a header.
        columns: the columns it must have, such as ("id", "sentence").
        label: a further one, renamed to "label" in the result; any of LABEL_COLUMNS will do.

    Raises:
        InputError: missing, empty, not UTF-8, without a column, an empty or repeated id.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"no file {path}; python data/download.py fetches the course files")
    table = parse_table(path)
    if label:
        first = [name for name in (label, *LABEL_COLUMNS) if name in table.columns][:1]
        table = table.rename(columns=dict.fromkeys(first, "label"))
        columns = (*columns, "label")
    missing = [name for name in columns if name not in table.columns]
    if missing:
        expected = ", ".join(label if name == "label" else name for name in missing)
        present = ", ".join(name for name in table.columns if not name.startswith("Unnamed"))
        raise InputError(
            f"{path} lacks the column {expected} (it has: {present}); columns are separated by tabs"
        )
    if table.empty:
        raise InputError(f"{path} has a header but no rows; fetch it again")
    table["id"] = table["id"].str.strip()
    refuse(path, table, table["id"] == "", "has no id", "every row needs one")
    odd = table["id"].str.contains('[,"]')  # predictions are id,number
    refuse(path, table, odd, "has a comma or a quote in its id", "remove it")
    refuse(path, table, table["id"].duplicated(), "repeats an earlier id", "remove one of the two")
    return table[list(columns)]


def refuse(path: Path, table: pd.DataFrame, bad: pd.Series, what: str, remedy: str) -> None:
    """InputError naming the first bad row, if there is one."""
    if bad.any():
        number = int(bad.to_numpy().argmax())
        more = int(bad.sum()) - 1
        others = f" (and {more} more rows)" if more else ""
        key = f" (id {table['id'].iloc[number] or '?'})" if "id" in table else ""
        row = f"row {table.index[number] + 1}{key}"
        raise InputError(f"{path}, {row} {what}{others}; {remedy}")


def numbers(path: Path, table: pd.DataFrame, whole: bool) -> pd.Series:
    """The labels as numbers; '1.0' is read as the class 1."""
    import pandas as pd

    text = table["label"].str.strip()
    refuse(path, table, text == "", "has an empty label", "fill it in or remove the row")
    values = pd.to_numeric(text, errors="coerce")
    kind = "an integer" if whole else "a number"
    bad = values.isna() | (values.abs() == float("inf"))
    if whole:
        bad |= values != values.round()
    first = text[bad].iloc[0] if bad.any() else ""
    refuse(path, table, bad, f"has the label {first[:30]!r}, not {kind}", "fix the label")
    return values


def in_range(
    path: Path, table: pd.DataFrame, values: pd.Series, lowest: float, highest: float
) -> None:
    """InputError naming the first label that is not from ``lowest`` to ``highest``."""
    bad = (values < lowest) | (values > highest)
    shown = f"{values[bad].iloc[0]:g}" if bad.any() else ""
    what = f"has the label {shown}, out of range {lowest:g} to {highest:g}"
    refuse(path, table, bad, what, "fix the label")
