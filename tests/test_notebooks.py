"""The notebooks hold no outputs, and run from an empty folder, and once more there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from factories import ROOT, copy_tree

nbclient = pytest.importorskip("nbclient", reason="pip install -r requirements-docs.txt")
nbformat = pytest.importorskip("nbformat", reason="pip install -r requirements-docs.txt")

FOLDER = ROOT / "notebooks"
NAMES = ("part1", "part2")


def test_they_hold_no_outputs_and_find_the_repository_in_the_same_way():
    books = [nbformat.read(FOLDER / f"{name}.ipynb", as_version=4) for name in NAMES]
    for book in books:
        cells = [cell for cell in book.cells if cell.cell_type == "code"]
        assert not any(cell.outputs or cell.execution_count for cell in cells)
        assert cells[0] == next(cell for cell in books[0].cells if cell.cell_type == "code")


@pytest.fixture(autouse=True)
def offline(tiny_data, tiny_model_folder, monkeypatch):
    """Few rows, a small model, and no network."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MINBERT_MODEL", str(tiny_model_folder))
    monkeypatch.setenv("MINBERT_DATA", str(tiny_data))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MINBERT_NOTEBOOK_FLAGS", "--epochs 1")


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """A repository whose only commit is this folder."""
    tree = copy_tree(tmp_path_factory.mktemp("repository") / "tree")
    for words in ("init --quiet", "add --all", "commit --quiet -m all"):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words.split()]
        subprocess.run(git, cwd=tree, check=True, capture_output=True)
    return tree


CHECKS = ("!python sanity_check.py", "!python optimizer_test.py", 'TASK = "1.1"')


def run(name: str, folder: Path, repository: str | Path = "", times: int = 1):
    """Run a notebook from the top in one kernel: → what each run prints, and the last error.

    The checks, which take long and know nothing of the kernel, run only once.

    Args:
        folder: where it is opened.
    """
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    for cell in book.cells:
        cell.source = cell.source.replace('REPOSITORY = ""', f"REPOSITORY = {str(repository)!r}")
        if repository:
            cell.source = cell.source.replace('NAME = "ID_GROUP"', 'NAME = "7_ours"')
    client = nbclient.NotebookClient(
        book, timeout=300, resources={"metadata": {"path": str(folder)}}
    )
    printed, error = [], ""
    with client.setup_kernel():
        for number in range(times):
            try:
                for index, cell in enumerate(book.cells):
                    if not (number and cell.source.startswith(CHECKS)):
                        client.execute_cell(cell, index)
            except nbclient.exceptions.CellExecutionError:
                error = "\n".join(book.cells[index].outputs[-1]["traceback"])
            outputs = [o for cell in book.cells for o in cell.get("outputs", ())]
            printed.append("".join(output.get("text", "") for output in outputs))
    return printed, error


WORDS = {  # what each printed run holds
    "part1": ["7 of 7 tasks right", "wrote predictions/attention.html", "the grader will see as:"],
    "part2": ["wrote predictions/sst-dev-output.csv", "no zip written; faults"],
}


@pytest.mark.parametrize("name", NAMES)
def test_from_an_empty_folder_twice(repository, tmp_path, name):
    twice, error = run(name, tmp_path, repository, times=2)
    assert not error
    for printed in twice:
        assert "Traceback" not in printed
        for words in WORDS[name]:
            assert words in " ".join(printed.split()), printed[-2000:]
    assert [path.name for path in tmp_path.iterdir()] == ["minbert"]
    assert not (tmp_path / "minbert" / "minbert").exists()
    zips = [path.name for path in (tmp_path / "minbert").glob("*.zip")]
    assert zips == ["7_ours_dnlp_final_project_submission.zip"] * (name == "part1")


def test_a_stub_is_said_and_where_to_look(tmp_path):
    """In a clone, in which one function is not written yet."""
    file = copy_tree(tmp_path / "tree") / "bert.py"
    text, first = file.read_text(encoding="utf-8"), "### BEGIN SOLUTION bert.attention\n"
    stub = f'{first}        raise NotImplementedError("Task 1.1 · BertSelfAttention.attention")\n'
    file.write_text(text.replace(first, stub), encoding="utf-8")
    (printed,), error = run("part1", file.parent / "notebooks")
    assert not error
    assert "Traceback" not in printed
    assert "Task 1.1" in printed
    assert "error: --name 'ID_GROUP': put your ID and group there" in printed


@pytest.mark.parametrize(
    ("repository", "words"),
    [
        ("", "fill in REPOSITORY above"),
        ("https://secret@127.0.0.1:9/x.git", "turn the network on, or unpack"),
    ],
)
def test_what_cannot_be_cloned_is_one_line(tmp_path, repository, words):
    _, error = run("part1", tmp_path, repository)
    assert error.startswith("STOP: ")
    assert words in error
    assert "\n" not in error
    assert "secret" not in error
    assert not list(tmp_path.iterdir())


def test_what_is_not_installed_is_named(tmp_path):
    (tmp_path / "sanity_check.py").touch()
    (tmp_path / "requirements.txt").write_text("torch==0.1\nnot-a-package==1.0\n")
    _, error = run("part1", tmp_path)
    assert error == (
        "STOP: cannot install not-a-package==1.0; turn the network on, and run this cell again"
    )
