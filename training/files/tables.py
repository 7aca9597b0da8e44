"""Tables of tab- or comma-separated text; an error names the file, the row and a remedy.

pandas is imported where a table is read or written, here and elsewhere: it is a fifth of the time
until the first line of --help, or of a prediction.
"""

from __future__ import annotations

import csv
import io
import os
import re
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from training.files.course_files import COURSE_STEMS
from training.files.errors import InputError
from training.files.texts import read_text

if TYPE_CHECKING:
    import pandas as pd

LABEL_COLUMNS = ("sentiment", "label", "is_duplicate", "similarity")
MOST_CLASSES = 1000  # that a file of texts may have
NUMBER = re.compile(r"-?\d+\.?\d*")
CELL_END = re.compile(r"(?<!\d),(?!\s)|,(?![\s\d])")  # a comma that is not one of a sentence


def parse_table(path: Path, separator: str | None = "\t", quoted: bool = True) -> pd.DataFrame:
    """All cells of a table as text; InputError if it cannot be read as one.

    Blanks around the names of columns and tabs at the ends of rows do not count.

    Args:
        separator: None for the one in the header, a tab or a comma.
        quoted: whether a quotation mark may enclose a cell, as in the course's files; in GLUE's it
            is a character like any other.
    """
    import pandas as pd

    text = re.sub(r"\t+$", "", read_text(path), flags=re.MULTILINE)
    header = text.lstrip("\n").partition("\n")[0]
    separator = separator or ("\t" if "\t" in header else ",")
    names = [name.strip(' "').lower() for name in header.split(separator)]
    if not header:
        raise InputError(f"{path} is empty; is it the right file?")
    for name in names:
        if name and names.count(name) > 1:
            raise InputError(f"{path} has two columns {name!r}; rename or remove one")
    try:
        with warnings.catch_warnings():
            # pandas would cut the cells that stand beyond the header, and only warn
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(
                io.StringIO(text),
                sep=separator,
                quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
                dtype=str,
                keep_default_na=False,
                index_col=False,
            )
    except (ValueError, pd.errors.ParserWarning) as error:
        reason = str(error).strip().splitlines()[-1]
        kind = "tab" if separator == "\t" else "comma"
        if "loss of data" in reason:
            reason = f"its rows have more cells than the header, {names}"
        if cells := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", reason):
            reason = f"line {cells[2]} has {cells[3]} cells, not {cells[1]}: a {kind} in a text?"
        raise InputError(
            f"{path} is not a {kind}-separated table ({reason}); fix it, or fetch it again"
        ) from None
    table = table.fillna("").rename(columns=str.strip)
    for column in table.columns:
        swallowed = table[column].map(partial(_holds_rows, table.columns, column, separator))
        refuse(path, table, swallowed, "runs on over the next row", 'close its opening "')
    return table


def _holds_rows(columns: Sequence[str], column: str, separator: str, cell: str) -> bool:
    """Whether a quotation mark has swallowed rows: whole ones stand in this column's cell.

    A tab in a later line is enough. Commas are frequent in texts: there have to be as many as in
    rows, and a number where a label is, or without labels no blank or number around the commas.
    """
    begin, _, end = cell.rpartition("\n")
    if separator == "\t":
        return bool(begin) and "\t" in cell.partition("\n")[2]
    place = list(columns).index(column)
    before, after = columns[:place], columns[place + 1 :]
    first, last = begin.partition("\n")[0].split(separator), end.split(separator)
    if not begin or len(first) <= len(after) or len(last) <= len(before):
        return False
    pieces = {
        **dict(zip(before, last, strict=False)),
        **dict(zip(after[::-1], first[::-1], strict=False)),
    }
    labels = [text for name, text in pieces.items() if name in LABEL_COLUMNS]
    if labels:
        return all(NUMBER.fullmatch(text.strip()) for text in labels)
    if not pieces or " " in pieces.get("id", "").strip():
        return False
    lines = cell.split("\n")
    wanted = [len(after), *[len(columns) - 1] * (len(lines) - 2), len(before)]
    return all(len(CELL_END.findall(line)) >= n for line, n in zip(lines, wanted, strict=True))


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
    missing = [name for name in columns if name not in table.columns]
    if missing:
        expected = ", ".join(label if name == "label" else name for name in missing)
        present = ", ".join(name for name in table.columns if not name.startswith("unnamed"))
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
    odd = ids.str.contains('[,"\\t\\n]')  # predictions are id,number
    refuse(path, table, odd, "has a comma, a quote or a line break in its id", "remove it")
    refuse(path, table, ids.duplicated(), "repeats an earlier id", "remove one of the two")
    return ids


def refuse(path: Path, table: pd.DataFrame, bad: pd.Series, what: str, remedy: str) -> None:
    """InputError naming the first bad row, if there is one."""
    if bad.any():
        number = int(bad.to_numpy().argmax())
        more = int(bad.sum()) - 1
        others = f" (and {more} more rows)" if more else ""
        key = f" (id {' '.join(table['id'].iloc[number].split()) or '?'})" if "id" in table else ""
        row = f"row {table.index[number] + 1}{key}"
        raise InputError(f"{path}, {row} {what}{others}; {remedy}")


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
    for wrong, what in (
        (bad, f"not {kind}"),
        ((values < 0) | (values > highest), f"out of range 0 to {highest}"),
    ):
        first = text[wrong].iloc[0] if wrong.any() else ""
        refuse(path, table, wrong, f"has the label {first[:30]!r}, {what}", "fix the label")
    return values
