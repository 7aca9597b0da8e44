"""Every script refuses bad input in one line with the fact, exit status 2, and writes nothing.

The rows are in the files rows_*.py of this folder.
"""

import importlib
import shlex
import shutil
from pathlib import Path

import pytest
from row import Row

ROWS: list[Row] = [
    row
    for file in sorted(Path(__file__).parent.glob("rows_*.py"))
    for row in importlib.import_module(file.stem).ROWS
]


def files_in(folder: Path) -> dict[str, bytes]:
    """The files of a folder, and what is in them."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.script}: {row.fact}" for row in ROWS])
def test_bad_input_is_refused_in_one_line(
    row, run_script_here, tiny_data, tiny_model_folder, tmp_path, monkeypatch
):
    monkeypatch.delenv("MINBERT_DATA", raising=False)
    shutil.copytree(tiny_data, tmp_path / "data")
    shutil.copytree(tiny_model_folder, tmp_path / "model")
    if row.spoil:
        row.spoil(tmp_path)
    before = files_in(tmp_path)
    result = run_script_here(importlib.import_module(row.script), *shlex.split(row.command)[1:])
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert result.err.startswith("error: ")
    assert row.fact in result.err
    after = files_in(tmp_path)
    assert {name: after.get(name) for name in before} == before
    assert sorted(after.keys() - before.keys()) == sorted(row.kept)
