"""The one reader of prediction files: ``id,Predicted_…`` and a row an example."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from training.files.errors import InputError
from training.files.tables import column_names
from training.files.texts import read_text


def read_predictions(path: str | Path, column: str) -> dict[str, float]:
    """Read a file of predictions: {id in lower case: value}; see parse_predictions."""
    return parse_predictions(read_text(path), column, str(path))


def parse_predictions(text: str, column: str, name: str) -> dict[str, float]:
    """The predictions that a file's text holds: {id in lower case: value}.

    Also understands what older code writes: a tab in the header, spaces around commas, one at the
    end, ``4.0`` for a class, ``Predicted_Similiary``; case and order of the columns do not matter.

    Raises:
        InputError: with the file's first fault (header, value, repeated id); it calls it ``name``.
    """
    header, *lines = text.split("\n")  # splitlines() would also split inside odd ids
    columns = column_names(_cells(header))
    if sorted(columns) != sorted(["id", column.lower()]):
        raise InputError(f"{name}: header is {header!r}, not 'id,{column}'")
    values: dict[str, float] = {}
    for number, line in enumerate(lines, start=2):
        if not line.strip(", \t\r"):
            continue
        try:
            row = dict(zip(columns, _cells(line.lower()), strict=True))
            key, value = row["id"], float(row[column.lower()])
        except ValueError:
            key, value = "", math.nan
        if not key or not math.isfinite(value):
            what = f"{line.strip()[:60]!r} is not 'id,number'"
            raise InputError(f"{name}: line {number}: {what}")
        if key in values:
            raise InputError(f"{name}: line {number}: id {key} occurs twice")
        values[key] = value
    return values


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().replace("\t", ",").rstrip(", ").split(",")]


def mismatches(
    values: Mapping[str, float], ids: Iterable[str], data_file: str, classes: int | None, name: str
) -> list[str]:
    """What predictions lack, or have too much, for a data file: ids, values that are not classes.

    Args:
        classes: how many; None: any number will do.
        name: what the faults call the file of predictions.
    """
    wanted = set(ids)
    kinds = {
        f"ids of {data_file} without a prediction": wanted - values.keys(),
        f"ids that {data_file} does not have": values.keys() - wanted,
    }
    if classes:
        wrong = [f"{key}={value:g}" for key, value in values.items() if value not in range(classes)]
        kinds[f"values other than the classes 0 to {classes - 1}"] = wrong
    return [
        f"{name}: {kind}: {len(x)}, such as {', '.join(sorted(x)[:3])}"
        for kind, x in kinds.items()
        if x
    ]
