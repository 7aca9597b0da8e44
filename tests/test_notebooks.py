"""The notebooks are what their scripts make, and run from an empty folder, twice and restarted."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from factories import ROOT, copy_tree

nbclient = pytest.importorskip("nbclient", reason="pip install -r requirements-docs.txt")
nbformat = pytest.importorskip("nbformat", reason="pip install -r requirements-docs.txt")
pytest.importorskip("jupytext", reason="pip install -r requirements-docs.txt")
make = importlib.import_module("notebooks.make")
handout = importlib.import_module("course.handout")
write_files = importlib.import_module("course.handout_repository").write_files

NAMES = ("attention", "part1", "part2")


def test_they_are_what_their_scripts_make():
    assert tuple(path.stem for path in sorted(make.FOLDER.glob("*.ipynb"))) == NAMES
    for script in make.scripts():
        made = script.with_suffix(".ipynb").read_text(encoding="utf-8")
        assert made == make.notebook(script), "run python -m notebooks.make"
        assert "first_cell.py" not in made


@pytest.fixture(autouse=True)
def offline(tiny_data, tiny_model_folder, monkeypatch):
    """Few rows, a small model, and no network."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MINBERT_MODEL", str(tiny_model_folder))
    monkeypatch.setenv("MINBERT_DATA", str(tiny_data))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MINBERT_NOTEBOOK_FLAGS", "--epochs 1")


def git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


def bare_clone(tree: Path) -> Path:
    """A bare repository whose only commit is this folder."""
    git(tree, "init", "--quiet")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "-m", "all")
    git(tree.parent, "clone", "--quiet", "--bare", str(tree), "bare.git")
    return tree.parent / "bare.git"


@pytest.fixture(scope="module")
def solved(tmp_path_factory) -> Path:
    """A bare repository with the solution."""
    return bare_clone(copy_tree(tmp_path_factory.mktemp("solved") / "tree"))


@pytest.fixture(scope="module")
def stubs(tmp_path_factory) -> Path:
    """A bare repository of a handout for both parts, in which nothing is written yet."""
    folder = tmp_path_factory.mktemp("stubs") / "tree"
    write_files(folder, handout.build(ROOT, "all").files)
    return bare_clone(folder)


CHECKS = ("!python sanity_check.py", "!python optimizer_test.py", 'TASK = "1.1"')


def kernels(name: str, folder: Path, repository: str, times: int, **values: str):
    """What a notebook prints, run from the top ``times`` times in one kernel, and its last error.

    Where a run has been before, the checks, which take long and know nothing of the kernel, are
    left out.

    Args:
        folder: where it is opened.
        values: variables of its cells, which a person would fill in.
    """
    book = nbformat.read(make.FOLDER / f"{name}.ipynb", as_version=4)
    for cell in book.cells:
        cell.source = cell.source.replace('REPOSITORY = ""', f"REPOSITORY = {repository!r}")
        for key, value in values.items():
            cell.source = cell.source.replace(f'{key} = "ID_GROUP"', f"{key} = {value!r}")
    place = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(book, timeout=300, resources=place)
    printed, error = [], ""
    with client.setup_kernel():
        for _ in range(times):
            is_first = not any(folder.iterdir())
            try:
                for index, cell in enumerate(book.cells):
                    if not is_first and cell.source.startswith(CHECKS):
                        continue
                    client.execute_cell(cell, index)
            except nbclient.exceptions.CellExecutionError:
                error = "\n".join(book.cells[index].outputs[-1]["traceback"])
            outputs = [o for cell in book.cells for o in cell.get("outputs", ())]
            printed.append("".join(output.get("text", "") for output in outputs))
    return printed, error


WORDS = {  # what each printed run holds
    "attention": ["[CLS] looks at", "most in layer"],
    "part1": [
        "7 of 7 tasks right",
        "wrote predictions/finetune-sst-*",
        "which the grader will see as:",
    ],
    "part2": ["wrote predictions to predictions", "no zip written; faults"],
}


@pytest.mark.parametrize("name", NAMES)
def test_from_an_empty_folder_twice_and_after_a_restart(solved, tmp_path, name):
    twice, error = kernels(name, tmp_path, str(solved), 2, NAME="7_ours")
    assert not error
    again, error = kernels(name, tmp_path, str(solved), 1, NAME="7_ours")
    assert not error
    for printed in (*twice, *again):
        assert "Traceback" not in printed
        assert "no metrics yet" not in printed
        for words in WORDS[name]:
            assert words in " ".join(printed.split()), printed[-2000:]
    assert [path.name for path in tmp_path.iterdir()] == ["minbert"]
    assert not (tmp_path / "minbert" / "minbert").exists()
    zips = [path.name for path in (tmp_path / "minbert").glob("*.zip")]
    assert zips == ["7_ours_dnlp_final_project_submission.zip"] * (name == "part1")


@pytest.mark.parametrize("name", NAMES)
def test_a_stub_is_said_and_where_to_look(stubs, tmp_path, name):
    (printed,), error = kernels(name, tmp_path, str(stubs), 1)
    assert "Traceback" not in printed + error
    assert "python sanity_check.py" in printed
    if name == "attention":
        assert error.endswith("python sanity_check.py says what is missing")
        assert error.startswith("STOP: no picture")
    else:
        assert not error
        assert "says what is missing" in printed
        assert "error: --name 'ID_GROUP': put your ID and group there" in printed


FAULTS = {  # what is filled in, and what is said
    "nothing": ("", "fill in REPOSITORY above"),
    "no network": ("https://secret@127.0.0.1:9/x.git", "turn the network on, or unpack"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_cloned_is_one_line(tmp_path, fault):
    repository, words = FAULTS[fault]
    _, error = kernels("part1", tmp_path, repository, 2)
    assert error.startswith("STOP: ")
    assert words in error
    assert "\n" not in error
    assert "secret" not in error
    assert not list(tmp_path.iterdir())


def test_without_git_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    _, error = kernels("part1", tmp_path, "https://host/x.git", 1)
    assert error.startswith("STOP: git is not installed; unpack the handout into ")


def test_what_is_not_installed_is_named_and_in_a_clone_nothing_is_cloned(tmp_path):
    folder = tmp_path / "ours" / "notebooks"
    folder.mkdir(parents=True)
    (tmp_path / "ours" / "sanity_check.py").touch()
    (tmp_path / "ours" / "requirements.txt").write_text("torch==0.1\nnot-a-package==1.0\n")
    _, error = kernels("part1", folder, "/nowhere/x.git", 1)
    assert error == (
        "STOP: cannot install not-a-package==1.0; turn the network on, and run this cell again"
    )
