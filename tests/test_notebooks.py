"""The notebooks are what their scripts make, and run from an empty folder, twice and restarted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from factories import copy_tree

nbclient = pytest.importorskip("nbclient", reason="pip install -r requirements-docs.txt")
nbformat = pytest.importorskip("nbformat", reason="pip install -r requirements-docs.txt")
make = pytest.importorskip("notebooks.make", reason="pip install -r requirements-docs.txt")

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
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MINBERT_NOTEBOOK_FLAGS", "--epochs 1")


def bare_repository(tree: Path) -> Path:
    """A bare repository whose only commit is this folder."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in ("init --quiet", "add --all", "commit --quiet -m all"):
        subprocess.run([*git, *words.split()], cwd=tree, check=True, capture_output=True)
    bare = tree.with_suffix(".git")
    subprocess.run([*git, "clone", "--quiet", "--bare", str(tree), str(bare)], check=True)
    return bare


@pytest.fixture(scope="module")
def solved(tmp_path_factory) -> Path:
    return bare_repository(copy_tree(tmp_path_factory.mktemp("solved") / "tree"))


@pytest.fixture(scope="module")
def unsolved(tmp_path_factory) -> Path:
    """A bare repository in which one function is not written yet."""
    tree = copy_tree(tmp_path_factory.mktemp("unsolved") / "tree")
    text = (tree / "bert.py").read_text(encoding="utf-8")
    first = "### BEGIN SOLUTION bert.attention\n"
    stub = f'{first}        raise NotImplementedError("Task 1.1 · BertSelfAttention.attention")\n'
    (tree / "bert.py").write_text(text.replace(first, stub), encoding="utf-8")
    return bare_repository(tree)


CHECKS = ("!python sanity_check.py", "!python optimizer_test.py", 'TASK = "1.1"')


def kernels(name: str, folder: Path, repository: str | Path, times: int, **values: str):
    """What a notebook prints, run from the top ``times`` times in one kernel, and its last error.

    Where a run has been before, the checks, which take long and know nothing of the kernel, are
    left out.

    Args:
        folder: where it is opened.
        values: variables of its cells, which a person would fill in.
    """
    book = nbformat.read(make.FOLDER / f"{name}.ipynb", as_version=4)
    for cell in book.cells:
        cell.source = cell.source.replace('REPOSITORY = ""', f"REPOSITORY = {str(repository)!r}")
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
    "part1": ["7 of 7 tasks right", "wrote predictions/finetune-sst-*", "the grader will see as:"],
    "part2": ["wrote predictions to predictions", "no zip written; faults"],
}


@pytest.mark.parametrize("name", NAMES)
def test_from_an_empty_folder_twice_and_after_a_restart(solved, tmp_path, name):
    twice, error = kernels(name, tmp_path, solved, 2, NAME="7_ours")
    assert not error
    again, error = kernels(name, tmp_path, solved, 1, NAME="7_ours")
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


@pytest.mark.parametrize("name", ["attention", "part1"])
def test_a_stub_is_said_and_where_to_look(unsolved, tmp_path, name):
    (printed,), error = kernels(name, tmp_path, unsolved, 1)
    assert "Traceback" not in printed + error
    if name == "attention":
        assert error.startswith("STOP: no page")
        assert error.endswith("python sanity_check.py says what is missing")
    else:
        assert not error
        assert "no report yet: train first; python sanity_check.py" in printed
        assert "error: --name 'ID_GROUP': put your ID and group there" in printed


@pytest.mark.parametrize(
    ("repository", "path", "words"),
    [
        ("", None, "fill in REPOSITORY above"),
        ("https://secret@127.0.0.1:9/x.git", None, "turn the network on, or unpack"),
        ("https://host/x.git", "nothing", "git is not installed; unpack the handout into "),
    ],
)
def test_what_cannot_be_cloned_is_one_line(tmp_path, monkeypatch, repository, path, words):
    if path:
        monkeypatch.setenv("PATH", str(tmp_path / path))
    _, error = kernels("part1", tmp_path, repository, 2)
    assert error.startswith("STOP: ")
    assert words in error
    assert "\n" not in error
    assert "secret" not in error
    assert not list(tmp_path.iterdir())


def test_what_is_not_installed_is_named_and_in_a_clone_nothing_is_cloned(tmp_path):
    folder = tmp_path / "ours" / "notebooks"
    folder.mkdir(parents=True)
    (tmp_path / "ours" / "sanity_check.py").touch()
    (tmp_path / "ours" / "requirements.txt").write_text("torch==0.1\nnot-a-package==1.0\n")
    _, error = kernels("part1", folder, "/nowhere/x.git", 1)
    assert error == (
        "STOP: cannot install not-a-package==1.0; turn the network on, and run this cell again"
    )
