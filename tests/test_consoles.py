"""No script stumbles on a console that is not UTF-8, or on a reader that has seen enough."""

import io
import os
import runpy
import shutil
import subprocess
import sys

import pytest
from factories import ROOT
from running import MODULES, as_process

STUDENTS = ("classifier", "multitask_classifier", "prepare_submit", "sanity_check", "data/download")
LESSONS = tuple(
    path.relative_to(ROOT).with_suffix("").as_posix()
    for path in sorted((ROOT / "lessons").glob("*.py"))
    if "run_script(main)" in path.read_text(encoding="utf-8")
)


@pytest.fixture
def say(monkeypatch, tmp_path):
    """A function that runs a script, in ``tmp_path``, on such a console; → what is seen there."""
    monkeypatch.chdir(tmp_path)

    def run(script: str, *line: object) -> str:
        console = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
        monkeypatch.setattr(sys, "argv", [f"{script}.py", *map(str, line)])
        monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", console)
            patch.setattr(sys, "stderr", console)
            try:
                runpy.run_path(str(ROOT / f"{script}.py"), run_name="__main__")
            except SystemExit as leaving:
                if isinstance(leaving.code, str):
                    print(leaving.code, file=sys.stderr)
            console.flush()
        return console.buffer.getvalue().decode("ascii")

    return run


@pytest.mark.parametrize("script", [*STUDENTS, *LESSONS])
def test_help(say, script):
    assert "usage: " in say(script, "--help")


def test_training(say, sst_line):
    assert "loss" in say("classifier", *sst_line, "--epochs", 1)


@pytest.mark.parametrize(
    ("script", "text", "last"),
    [
        ("classifier.py", "x = (1,\ny = 2\n", "error: bert.py, line 1: '(' was never closed"),
        ("multitask_classifier.py", "x = y", "python sanity_check.py checks every function"),
        ("classifier.py", "", "python sanity_check.py checks every function"),
        ("classifier.py", "import nowhere", "ModuleNotFoundError"),
    ],
)
def test_the_last_line_about_an_error_in_a_students_file(script, text, last, tmp_path):
    shutil.copy(ROOT / script, tmp_path)
    (tmp_path / "bert.py").write_text(text)
    result = as_process(script, folder=tmp_path, **MODULES)
    assert result.err.splitlines()[-1].startswith(last)
    assert result.code == (1 if "Traceback" in result.err else 2)


@pytest.mark.skipif(os.name == "nt", reason="a closed pipe is another error on Windows")
@pytest.mark.parametrize(
    ("line", "unbuffered"),
    [
        (["sanity_check.py", "--task", "1.5"], "1"),
        (["-m", "lessons.numpy_bert", "--model", "books", "--text", "a word"], ""),
    ],
    ids=["unbuffered", "buffered"],
)
def test_a_reader_that_has_left(line, unbuffered):
    reading, writing = os.pipe()
    os.close(reading)
    script = subprocess.run(
        [sys.executable, *line],
        cwd=ROOT,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert (script.returncode, script.stderr) == (1, "")
