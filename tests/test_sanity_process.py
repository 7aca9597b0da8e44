"""sanity_check.py on code that hangs, crashes, prints, or cannot be imported."""

import ast
import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from factories import ROOT

import sanity_check
from checks import child
from checks.child import Child
from checks.findings import Finding, Outcome
from checks.report import Report
from training.files.errors import InputError


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of what part 1 needs, in a folder whose name is not ASCII."""
    folder = tmp_path_factory.mktemp("Prüfung") / "minBERT"
    folder.mkdir()
    for file in (*ROOT.glob("*.py"), ROOT / "sanity_check.data", ROOT / "optimizer_test.npy"):
        shutil.copy(file, folder)
    for name in ("training", "checks"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "multitask_classifier.py").unlink()
    return folder


@pytest.fixture
def folder(copy):
    """The copy, with our files in it again afterwards."""
    yield copy
    for name in ("bert.py", "optimizer.py", "classifier.py"):
        shutil.copy(ROOT / name, copy)


def begin_function(file, owner: str, name: str, line: str) -> int:
    """Put a line at the beginning of a method's body; its number."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    (body,) = (n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == owner)
    (function,) = (n for n in body if isinstance(n, ast.FunctionDef) and n.name == name)
    lines = file.read_text(encoding="utf-8").splitlines()
    lines.insert(function.body[0].end_lineno, f"        {line}")  # after the docstring
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return function.body[0].end_lineno + 1


def run(folder, *arguments: str, script="sanity_check.py") -> subprocess.CompletedProcess:
    """The script in a folder, as a student starts it."""
    return subprocess.run(
        [sys.executable, script, *arguments],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200", "PYTHONPATH": ""},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )


def test_a_hang_a_crash_and_prints_are_told_and_the_rest_is_checked(folder):
    hang = "while True: pass"
    line = begin_function(folder / "bert.py", "BertSelfAttention", "attention", hang)
    native = "import itertools; sum(itertools.repeat(0))"
    native_line = begin_function(folder / "optimizer.py", "AdamW", "step", native)
    begin_function(folder / "bert.py", "BertLayer", "add_norm", "import os; os._exit(7)")
    prints = "for i in range(5): print('row', i)"
    begin_function(folder / "bert.py", "BertModel", "embed", prints)
    done = run(folder, "--part", "1", "--limit", "4")
    assert (done.returncode, done.stderr) == (1, "")
    said = done.stdout.splitlines()
    assert (
        f"        not done after 4 seconds at bert.py:{line}, in attention: {hang}" in done.stdout
    )
    text = f"not done after 4 seconds at optimizer.py:{native_line}, in step: {native}"
    assert text in done.stdout
    assert "  WRONG Task 1.2 · BertLayer.add_norm" in said
    assert "        Python itself ended, with status 7" in said
    assert said.count("        your code printed: row 0") == 1  # the others are behind --all
    assert "  ok    Task 1.3 · BertLayer.forward: values, gradients, mask, dropout" in said
    assert any(s.startswith("  ok    Task 1.7 · BertSentimentClassifier.forward") for s in said)


def test_a_file_that_cannot_be_imported_is_told_once_with_its_line(folder):
    source = (folder / "bert.py").read_text(encoding="utf-8")
    (folder / "bert.py").write_text(source.replace("def attention(", "def attention(("), "utf-8")
    done = run(folder, "--part", "1")
    line = source[: source.index("def attention(")].count("\n") + 1
    message = (
        f"  WRONG bert.py cannot be imported: SyntaxError: '(' was never closed (bert.py:{line})"
    )
    said = done.stdout.splitlines()
    assert said[:3] == [message, f"{' ' * 12}def attention((", f"{' ' * 25}^"]
    assert done.stdout.count("cannot be imported: ") == 1
    assert "  waits Task 1.6 · BertSentimentClassifier.__init__: until classifier.py can be" in (
        done.stdout
    )
    assert any(text.startswith("  ok    Task 1.5 · AdamW.step") for text in said)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_missing_package_and_a_model_that_cannot_be_made(folder):
    classifier = folder / "classifier.py"
    source = classifier.read_text(encoding="utf-8")
    classifier.write_text(source.replace("import torch\n", "import einops\n", 1), encoding="utf-8")
    begin_function(folder / "bert.py", "BertModel", "__init__", "self.width = config.width")
    said = run(folder, "--part", "1").stdout
    assert "WRONG BertModel(config) cannot be made: AttributeError: 'BertConfig' object" in said
    assert "WRONG classifier.py cannot be imported: ModuleNotFoundError: No module named" in said
    assert said.count("waits Task 1.1") == 1


@pytest.mark.skipif(os.name == "nt", reason="a signal of Ctrl-C is sent otherwise there")
def test_ctrl_c_says_where(folder):
    line = begin_function(folder / "optimizer.py", "AdamW", "step", "while True: pass")
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
    time.sleep(8)
    os.killpg(process.pid, signal.SIGINT)
    said, errors = process.communicate(timeout=20)
    assert f"interrupted: Task 1.5 · AdamW.step at optimizer.py:{line}, in step: while True" in said
    assert (process.returncode, errors) == (1, "")


def test_the_script_of_the_optimizer(folder):
    done = run(folder, script="optimizer_test.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("  ok    Task 1.5 · AdamW.step: ")
    source = (folder / "optimizer.py").read_text(encoding="utf-8")
    (folder / "optimizer.py").write_text(
        source.replace("value=-step_size", "value=step_size"), encoding="utf-8"
    )
    done = run(folder, script="optimizer_test.py")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("  WRONG Task 1.5 · AdamW.step\n")
    assert done.stdout.count("\n") < 15


def test_the_parent_imports_no_torch():
    code = "import sanity_check, optimizer_test, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_checks_that_cannot_start_are_one_line(monkeypatch):
    monkeypatch.setattr(child, "JOBS", "checks.no_such_module")
    with Child(5) as broken, pytest.raises(InputError, match=r"^the checks cannot start: .*checks"):
        broken.run("bert.embed", "a task")


def test_a_damaged_file_of_the_course_is_one_line(folder):
    (folder / "sanity_check.data").write_bytes(b"\xff" * 100)
    try:
        done = run(folder, "--task", "1.1")
    finally:
        shutil.copy(ROOT / "sanity_check.data", folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"error: sanity_check\.data cannot be read .*restore it.*\n", done.stderr)


# ---------------------------------------------------------------------------------------------
# The report


def report_of(*outcomes: Outcome, everything: bool = False) -> list[str]:
    report = Report(everything)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for outcome in outcomes:
            report.end(outcome)
    return out.getvalue().splitlines()


def test_without_all_the_rest_is_short_and_a_cause_is_said_once(monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    texts = {
        "values": "first",
        "gradients": "gradients: second",
        "named": "word " * 20,
        "fact": "fact 0",
    }
    findings = [Finding(kind, text) for kind, text in texts.items()]
    outcome = Outcome("Task", "wrong", findings=(*findings, *[Finding("hint", "look")] * 7))
    lines = report_of(outcome)
    assert [line.split()[0] for line in lines[1:5]] == ["probably:", "word", "first", "measured:"]
    assert (len(lines), lines[-1]) == (11, "        … and 3 more (--all): gradients")
    assert len(report_of(outcome, everything=True)) == 13
    assert max(map(len, lines)) <= 70
    waiting = [Outcome(f"Task {i}", "waits", "until", (Finding("error", "why"),)) for i in "01"]
    assert report_of(*waiting) == ["  WRONG why", "  waits Task 0: until", "  waits Task 1: until"]


@pytest.mark.parametrize("job", ["bert.attention", "part 2"])
def test_ctrl_c_ends_any_job_in_one_line(job, monkeypatch, capsys):
    class Interrupted:
        def run(self, job, title):
            raise KeyboardInterrupt

        def interrupted(self):
            return ""

    session = sanity_check.Session(Interrupted(), Report())
    with pytest.raises(SystemExit) as ended:
        session.ask(job, "this job")
    assert (ended.value.code, capsys.readouterr().out) == (1, "\ninterrupted: this job\n")


def test_ctrl_c_in_the_quiz_and_the_hunt_is_no_traceback(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    for name in ("quiz", "hunt"):
        monkeypatch.setattr(sanity_check, name, interrupted)
        with pytest.raises(SystemExit) as ended:
            sanity_check.main([f"--{name}", "--task", "1.2"])
        assert ended.value.code == "\ninterrupted"
