"""The notebooks are what their scripts make, and run from the first cell to the last."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from support import copy_tree

nbclient = pytest.importorskip("nbclient", reason="pip install -r requirements-docs.txt")
nbformat = pytest.importorskip("nbformat", reason="pip install -r requirements-docs.txt")
pytest.importorskip("jupytext", reason="pip install -r requirements-docs.txt")
make = importlib.import_module("notebooks.make")

NAMES = ("attention", "part1", "part2")


def test_they_are_what_their_scripts_make():
    assert tuple(path.stem for path in sorted(make.FOLDER.glob("*.ipynb"))) == NAMES
    for script in make.scripts():
        made = script.with_suffix(".ipynb").read_text(encoding="utf-8")
        assert made == make.notebook(script), "run python notebooks/make.py"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of this repository, with its solution, for runs to write into."""
    return copy_tree(tmp_path_factory.mktemp("notebooks") / "tree")


@pytest.fixture
def printed(tree, tiny_data, tiny_model_folder, monkeypatch):
    """A function that runs a notebook and returns all it prints."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MINBERT_MODEL", str(tiny_model_folder))
    monkeypatch.setenv("MINBERT_DATA", str(tiny_data))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # no network
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MINBERT_NOTEBOOK_FLAGS", "--epochs 1")

    def run(name: str) -> str:
        cells = nbformat.read(tree / "notebooks" / f"{name}.ipynb", as_version=4)
        place = {"metadata": {"path": str(tree / "notebooks")}}
        ran = nbclient.NotebookClient(cells, timeout=600, resources=place).execute()
        outputs = (output for cell in ran.cells for output in cell.get("outputs", ()))
        return "".join(output.get("text", "") for output in outputs)

    return run


def test_part_1_ends_with_a_submission(printed, tree):
    said = printed("part1")
    assert said.count("  ok ") >= 7
    assert "Traceback" not in said
    assert said.count("error: ") == said.count("error: cannot fetch")
    assert list(tree.glob("*.zip")), said[-2000:]


def test_part_2_trains_and_says_what_is_missing(printed, tree):
    (tree / "README.md").unlink()
    said = printed("part2")
    assert "Traceback" not in said
    assert said.count("wrote predictions to predictions") == 2
    assert "README.md is missing" in said


def test_attention_is_drawn_and_told(printed, tree):
    said = printed("attention")
    assert "[CLS] looks at" in said.replace("  ", "")
    assert "most in layer" in said
