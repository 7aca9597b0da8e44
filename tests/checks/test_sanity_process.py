"""sanity_check.py on code that hangs, crashes, prints, or cannot be imported; its report."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from factories import ROOT, copy_part1
from running import as_process

from checks.findings import Finding, Outcome
from checks.graded_tasks import graded_task
from checks.report import Report, label_of

HANG = "while True: pass"


@pytest.fixture
def folder(tmp_path):
    """A copy of what part 1 needs, in a folder whose name is not ASCII."""
    folder = copy_part1(tmp_path / "Prüfung")
    (folder / "multitask_classifier.py").unlink()
    return folder


def begin_function(folder, task_id: str, line: str) -> int:
    """Put a line at the beginning of what is written for a task; its number."""
    file = folder / graded_task(task_id).file
    before, marker, after = file.read_text("utf-8").partition(f"### BEGIN SOLUTION {task_id}\n")
    indent = before.rpartition("\n")[2]
    file.write_text(f"{before}{marker}{indent}{line}\n{after}", encoding="utf-8")
    return before.count("\n") + 2


def replace(file, old: str, new: str) -> None:
    """Change a file."""
    source = file.read_text(encoding="utf-8")
    assert old in source
    file.write_text(source.replace(old, new, 1), encoding="utf-8")


def checked(folder, *arguments: str, script="sanity_check.py"):
    """What the script says as a student starts it; it ends with exit status 1 and no traceback."""
    done = as_process(script, *arguments, folder=folder, COLUMNS="200", PYTHONPATH="")
    assert done.code == 1
    assert "Traceback" not in done.err
    return done


def test_a_hang_a_crash_and_prints_are_told_and_the_rest_is_checked(folder):
    line = begin_function(folder, "bert.attention", HANG)
    begin_function(folder, "bert.add_norm", "import os; os._exit(7)")
    native = "import itertools; sum(itertools.repeat(0))"
    native_line = begin_function(folder, "bert.layer", native)
    prints = "for i in range(5): print('row', i)"
    begin_function(folder, "bert.embed", prints)
    said = checked(folder, "--part", "1", "--limit", "12").out
    assert f"        not done after 12 seconds at bert.py:{line}, in attention" in said
    assert f"not done after 12 seconds at bert.py:{native_line}, in forward" in said
    assert "WRONG Task 1.2 · BertLayer.add_norm\n        Python itself ended, with status 7" in said
    assert said.count("        your code printed: row 0") == 1  # the others are behind --all
    assert "  ok    Task 1.7 · BertSentimentClassifier.forward: values, gradients" in said


def test_files_that_cannot_be_imported_and_a_model_that_cannot_be_made(folder):
    before = (folder / "optimizer.py").read_text(encoding="utf-8").partition("def step(")[0]
    replace(folder / "optimizer.py", "def step(", "def step((")
    replace(folder / "classifier.py", "import torch\n", "import einops\n")
    replace(folder / "bert.py", "super().__init__(config)", "self.width = config.width")
    said = checked(folder, "--part", "1").out
    assert "  WRONG optimizer.py cannot be imported: SyntaxError: " in said
    assert f" (optimizer.py:{before.count(chr(10)) + 1}): `def step((self" in said
    assert "WRONG classifier.py cannot be imported: ModuleNotFoundError: No module named" in said
    assert said.count("cannot be imported: ") == 2
    assert "waits Task 1.6 · BertSentimentClassifier.__init__: until classifier.py can be" in said
    assert "WRONG BertModel(config) cannot be made: AttributeError: 'BertConfig' object" in said
    assert said.count("waits Task 1.1") == 1
    assert said.endswith("\nnext: correct what is WRONG above, which the rest waits for\n")


@pytest.mark.skipif(os.name == "nt", reason="a signal of Ctrl-C is sent otherwise there")
def test_ctrl_c_says_where(folder):
    begin_function(folder, "optimizer.step", HANG)
    line = begin_function(folder, "optimizer.step", "open('begun', 'w').close()")
    process = subprocess.Popen(
        [sys.executable, "optimizer_test.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
        # a shell starts what runs in its background with SIGINT ignored, these tests perhaps, too
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (folder / "begun").exists():
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    said, errors = process.communicate(timeout=20)
    assert f"interrupted: Task 1.5 · AdamW.step at optimizer.py:{line + 1}, in step\n" in said
    assert (process.returncode, errors) == (1, "")


def test_the_script_of_the_optimizer_checks_the_optimizer_alone(folder):
    replace(folder / "optimizer.py", "value=-step_size", "value=step_size")
    done = checked(folder, script="optimizer_test.py")
    assert (done.out.count("Task "), done.err) == (2, "")  # the verdict, and what is next
    assert done.out.startswith("  WRONG Task 1.5 · AdamW.step\n")


def test_a_damaged_file_of_the_course_is_one_line(folder):
    (folder / "sanity_check.data").write_bytes(b"\xff" * 100)
    done = checked(folder, "--task", "1.1")
    assert done.err.startswith("error: sanity_check.data cannot be read ")
    assert (done.out, done.err.count("\n")) == ("", 1)


def test_the_parent_imports_no_torch():
    code = "import sanity_check, optimizer_test, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_without_all_the_rest_is_short(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "70")
    texts = {"values": "first", "gradients": "gradients: second", "named": "word " * 20}
    findings = [Finding(kind, text) for kind, text in (texts | {"fact": "fact 0"}).items()]
    outcome = Outcome("Task", "wrong", findings=(*findings, *[Finding("hint", "look")] * 7))
    Report().end(outcome)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["first", "measured:", "probably:", "word"]
    assert (len(lines), lines[-1]) == (11, "        … and 3 more (--all)")
    assert max(map(len, lines)) <= 70
    Report(everything=True).end(outcome)
    assert capsys.readouterr().out.count("\n") == 13


@pytest.mark.skipif(os.name == "nt", reason="no colour there")
def test_verdicts_have_colour_on_a_terminal_that_wants_it(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert label_of("ok") == "  ok   "
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: True))
    assert label_of("ok") == "\033[32m  ok   \033[0m"
    assert label_of("wrong")[:5] == label_of("differs")[:5] == "\033[31m"
    assert label_of("waits") == "  waits"
    monkeypatch.setenv("NO_COLOR", "1")
    assert label_of("wrong") == "  WRONG"
