"""The one reader of prediction files: ``id,Predicted_…`` and a row an example."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from training.files.errors import InputError
from training.files.tables import checked_ids, column_names, parse_table, refuse
from training.files.texts import read_text

MOST = sys.float_info.max  # any finite number will do


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
    import pandas as pd

    header, _, rows = text.lower().replace("\t", ",").partition("\n")
    columns = column_names(header.rstrip(", ").split(","))
    if sorted(columns) != sorted(["id", column.lower()]):
        raise InputError(f"{name}: header is {header[:60]!r}, not 'id,{column}'")
    table = parse_table(f"{','.join(columns)}\n{rows}", name)
    ids = checked_ids(name, table)
    values = pd.to_numeric(table[column.lower()].str.strip(), errors="coerce").astype(float)
    bad = ~values.between(-MOST, MOST)
    refuse(name, table, bad, "is not 'id,number'", "each needs a finite number")
    return dict(zip(ids, values, strict=True))


def in_order(
    values: Mapping[str, float], ids: Sequence[str], data_file: str, classes: int | None, name: str
) -> list[float]:
    """The predictions in the order of a data file's ids.

    Args:
        classes: how many; None: any number will do.
        name: what the faults call the file of predictions.

    Raises:
        InputError: with ids that predictions lack, or have too much; and values that are no class.
    """
    kinds = {
        f"ids of {data_file} without a prediction": {*ids} - values.keys(),
        f"ids that {data_file} does not have": values.keys() - {*ids},
    }
    if classes:
        wrong = [f"{key}={value:g}" for key, value in values.items() if value not in range(classes)]
        kinds[f"values other than the classes 0 to {classes - 1}"] = wrong
    faults = [
        f"{kind}: {len(x)}, such as {', '.join(sorted(x)[:3])}" for kind, x in kinds.items() if x
    ]
    if faults:
        raise InputError(f"{name}: {'; '.join(faults)}")
    return [values[key] for key in ids]
