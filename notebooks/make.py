"""Make the notebooks from the scripts beside them, which are their source.

    python notebooks/make.py            write each .ipynb
    python notebooks/make.py --check    say which is not what its script makes

A line ``# !command`` of a script is a command of the notebook. Needs jupytext
(requirements-docs.txt).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jupytext

from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import atomic_write

FOLDER = Path(__file__).resolve().parent
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def notebook(script: Path) -> str:
    """The notebook of a script: no outputs, and no ids, which would be others each time."""
    made = jupytext.read(script)
    made.metadata, made.nbformat_minor = KERNEL, 4
    for cell in made.cells:
        cell.pop("id", None)
        cell.metadata = {}
    return jupytext.writes(made, fmt="ipynb").rstrip("\n") + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all notebooks, or check what is there."""
    parser = argparse.ArgumentParser(description="Make the notebooks.")
    parser.add_argument("--check", action="store_true", help="write nothing, say what has changed")
    check = parser.parse_args(arguments).check
    scripts = [path for path in sorted(FOLDER.glob("*.py")) if path.name != Path(__file__).name]
    changed = []
    for script in scripts:
        path, made = script.with_suffix(".ipynb"), notebook(script)
        if path.is_file() and path.read_text(encoding="utf-8") == made:
            continue
        changed.append(path.name)
        if not check:
            with atomic_write(path) as file:
                file.write(made)
    if check and changed:
        raise InputError(f"{', '.join(changed)}: run python notebooks/make.py")
    print(f"{len(scripts)} notebooks, {len(changed)} of them new")


if __name__ == "__main__":
    run_script(main)
