"""Make the notebooks from the scripts beside them, which are their source.

    python -m notebooks.make

All begin with the code of first_cell.py, which has to run before anything is cloned. A line
``# !command`` of a script is a command of the notebook. Needs jupytext (requirements-docs.txt).
"""

from __future__ import annotations

from pathlib import Path

import jupytext

from training.files.writing import write_whole

FOLDER = Path(__file__).resolve().parent
FIRST_CELL = FOLDER / "first_cell.py"
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def notebook(script: Path) -> str:
    """The notebook of a script: no outputs, and no ids, which would be others each time."""
    source = script.read_text(encoding="utf-8")
    first = FIRST_CELL.read_text(encoding="utf-8").rstrip("\n")
    made = jupytext.reads(source.replace(f"# {FIRST_CELL.name}", first), fmt="py:percent")
    made.metadata, made.nbformat_minor = KERNEL, 4
    for cell in made.cells:
        cell.pop("id", None)
        cell.metadata = {}
    return jupytext.writes(made, fmt="ipynb").rstrip("\n") + "\n"


def scripts() -> list[Path]:
    """The scripts that notebooks are made from."""
    return sorted({*FOLDER.glob("*.py")} - {FIRST_CELL, Path(__file__).resolve()})


if __name__ == "__main__":
    for script in scripts():
        write_whole(script.with_suffix(".ipynb"), notebook(script))
