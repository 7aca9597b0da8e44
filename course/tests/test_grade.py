"""A batch of submissions (course/grade.py): the same results whatever happens on the way."""

import contextlib
import csv
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch
from support import needs_sandbox

from course import grade, handout
from course.answers import MISTAKES, VARIANTS, put, read, read_all
from course.grading.judging import canaries, hidden, judge, partial
from course.grading.judging.submission import grade_tasks, task_result
from course.grading.judging.types import Submission
from course.grading.sandbox import isolation, protocol
from course.grading.sandbox.context import open_context
from research.benchmarks.grader import GOLD, ask_here, loses, predictions, solution, write_zip
from training.files.errors import InputError

ROOT = Path(__file__).resolve().parent.parent.parent


def answered(folder: Path, name: str) -> dict[str, str]:
    """The solution with one other answer in it."""
    answer = read(folder, name)
    return solution() | {answer.task.file: put(answer)}


@pytest.fixture(scope="module")
def submissions(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("submissions")
    stubs = {n: handout.build(ROOT, "1").files[n].decode() for n in solution()}
    hostile = {n: f"{text}\nimport os\nos._exit(0)\n" for n, text in solution().items()}
    for name, files in {
        "1_solution": solution() | predictions(1),
        "2_variant": answered(VARIANTS, "optimizer.step/decay_before"),
        "3_mistake": answered(MISTAKES, "bert.attention/no_scale") | predictions(3),
        "4_stubs": stubs,
        "5_hostile": hostile,
        "6_empty": {"README.md": "nothing yet"},
    }.items():
        write_zip(folder, name, files)
    (folder / "7_damaged.zip").write_bytes(b"PK\3\4 no zip")
    return folder


def command(folder: Path, out: Path, *more: str) -> list[str]:
    """The command that staff type."""
    words = [ROOT / "course" / "grade.py", folder, "--out", out, "--gold", *GOLD, *more]
    return [sys.executable, *map(str, words)]


def run(folder: Path, out: Path, *more: str) -> subprocess.CompletedProcess:
    """Grade a folder."""
    words = command(folder, out, *more)
    return subprocess.run(words, capture_output=True, text=True, check=False)


def new_out(folder: Path, secret: str = "5" * 32) -> Path:
    """A folder for results with a given secret: other secrets make other hidden inputs."""
    folder.mkdir(mode=0o700)
    (folder / "assignment.json").write_text(json.dumps({"part": 1, "secret": secret}))
    return folder


def results(out: Path) -> dict[str, str]:
    """All results, without the seconds that they took."""
    found = {}
    for path in sorted((out / "results").glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        assert result.pop("seconds", 1) >= 0
        found[path.name] = json.dumps(result)
    return found


def grades(out: Path) -> dict[str, dict[str, str]]:
    with open(out / "grades.csv", newline="") as file:
        return {row["student"]: {**row, "seconds": ""} for row in csv.DictReader(file)}


def times(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "results").glob("*.json")}


@pytest.fixture(scope="module")
def alone(submissions, tmp_path_factory):
    """OUT of the batch with -j 1, and what was printed."""
    out = new_out(tmp_path_factory.mktemp("alone") / "out")
    done = run(submissions, out, "-j", "1")
    assert done.returncode == 0, done.stderr
    return out, done.stdout


@needs_sandbox
def test_points_of_a_batch(alone):
    out, said = alone
    found = {name: json.loads(text) for name, text in results(out).items()}
    points = {name.removesuffix(".json"): result["points"] for name, result in found.items()}
    assert points["1_solution"] == points["2_variant"] == 100
    assert 80 <= points["3_mistake"] < 100
    assert points["4_stubs"] == points["5_hostile"] == 0
    assert {found[f"{name}.json"]["status"] for name in ("6_empty", "7_damaged")} == {"refused"}
    assert "no_scale" in found["3_mistake.json"]["tasks"][0]["mistakes"]
    assert "5 graded" in said
    assert "2 refused" in said


@needs_sandbox
def test_the_same_results_whether_killed_or_several_at_a_time(alone, submissions, tmp_path):
    folder, out = tmp_path / "submissions", new_out(tmp_path / "out")
    folder.mkdir()
    students = ("1_solution", "2_variant", "3_mistake", "7_damaged")
    for path in submissions.iterdir():
        if path.name.startswith(students):
            shutil.copy(path, folder)
    printed = tmp_path / "printed"
    with open(printed, "wb") as output:
        batch = subprocess.Popen(
            command(folder, out, "-j", "2"),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + 300
    while not list((out / "results").glob("*.json")) and time.monotonic() < deadline:
        assert batch.poll() is None, printed.read_text()
        time.sleep(0.01)
    os.kill(batch.pid, signal.SIGKILL)
    batch.wait()
    before = times(out)
    assert 1 <= len(before) < len(students), printed.read_text()
    done = run(folder, out, "-j", "3")
    assert done.returncode == 0, done.stderr
    wanted = results(alone[0])
    assert results(out) == {f"{student}.json": wanted[f"{student}.json"] for student in students}
    assert {name: when for name, when in times(out).items() if name in before} == before
    said = [line for line in done.stdout.splitlines() if line.endswith(" s)")]
    assert len(said) == len(students) - len(before)
    wanted = grades(alone[0])
    assert grades(out) == {student: wanted[student] for student in students}


# ---------------------------------------------------------------------------------------------
# In this process, without a sandbox


@pytest.fixture(scope="module", autouse=True)
def one_handout():
    """What is graded here makes the handout, which does not change, once and not for each batch."""
    with mock.patch.object(handout, "build", functools.cache(handout.build)):
        yield


@pytest.fixture
def quick(monkeypatch, run_script_here):
    """A function that runs grade.py where nothing is ever started: all is right of those students
    that are in its ``right``, an error of ours of those in its ``failing``.
    """
    right: set[str] = set()
    failing: set[str] = set()

    def verdict(entry, student):
        if student in right:
            return judge.Verdict("right", dict.fromkeys(judge.rows_of(entry), True))
        return judge.nothing(entry, "not started")

    def grade_tasks(context, submission):
        if submission.student in failing:
            raise ZeroDivisionError("a bug of ours")
        return {entry.id: verdict(entry, submission.student) for entry in context.tasks}, ["none"]

    monkeypatch.setattr(grade, "grade_tasks", grade_tasks)
    monkeypatch.setattr(grade, "refuse", lambda *given: None)
    monkeypatch.setattr(grade.canaries, "check", lambda context, at_a_time: None)

    def go(folder, out, *more):
        return run_script_here(grade, folder, "--gold", *GOLD, "--out", out, *more)

    go.right, go.failing = right, failing
    return go


def test_one_student_anew(quick, submissions, tmp_path):
    folder, out = tmp_path / "submissions", tmp_path / "out"
    shutil.copytree(submissions, folder)
    quick.right.add("1_solution")
    assert quick(folder, out).code == 0
    before = times(out)
    quick.right.clear()
    quick.right.add("3_mistake")
    write_zip(folder, "3_mistake", solution() | predictions(3))
    assert quick(folder, out, "--only", "3_mistake").code == 0
    after = times(out)
    assert after.pop("3_mistake.json") > before.pop("3_mistake.json")
    assert after == before
    points = {student: row["points"] for student, row in grades(out).items()}
    assert (points["3_mistake"], points["1_solution"], points["4_stubs"]) == ("100", "100", "0")
    assert len(points) == 7


def test_an_error_of_ours_is_no_zero(quick, submissions, tmp_path, monkeypatch):
    take = grade.intake.take

    def broken(student, path, part):
        if student == "1_solution":
            raise OSError("disk fault")
        return take(student, path, part)

    out = tmp_path / "out"
    quick.failing.add("2_variant")
    with monkeypatch.context() as patches:
        patches.setattr(grade.intake, "take", broken)
        done = quick(submissions, out)
    assert done.code == 1
    assert "2_variant: staff error: ZeroDivisionError('a bug of ours')" in done.out
    assert "1_solution: staff error: OSError('disk fault')" in done.out
    found = {name: json.loads(text)["status"] for name, text in results(out).items()}
    for name in ("1_solution.json", "2_variant.json"):
        assert found.pop(name) == "staff error"
    assert set(found.values()) == {"graded", "refused"}
    rows = grades(out)
    assert rows["2_variant"]["points"] == ""
    assert "ZeroDivision" not in (out / "feedback" / "2_variant.md").read_text()
    assert "2_variant" not in (out / "leaderboard.csv").read_text()
    before = times(out)
    quick.failing.clear()
    done = quick(submissions, out)
    assert done.code == 0
    changed = [name for name, when in times(out).items() if when != before[name]]
    assert changed == ["1_solution.json", "2_variant.json"]


def test_a_roster_and_times(quick, submissions, tmp_path):
    roster, when, out = tmp_path / "roster.csv", tmp_path / "times.csv", tmp_path / "out"
    roster.write_text("group,student,id\n1_solution,Ana,s1\n6_empty,Bo,s2\n")
    when.write_text("group,time\n1_solution,2027-02-01T12:00Z\n")
    quick.right.add("1_solution")
    done = quick(submissions, out, "--roster", roster, "--times", when)
    assert done.code == 0, done.err
    assert "2_variant: in no gradebook, the roster has no student of it" in done.out
    text = (out / "moodle.csv").read_text()
    assert text.splitlines()[1:] == ["s1,Ana,100", "s2,Bo,0"]
    history = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    hours = {entry["student"]: entry["time"] for entry in history}
    assert hours["1_solution"] == "2027-02-01T12:00:00+00:00"


@pytest.mark.parametrize("secret", ["gold", "marks", "the solution"])
def test_secrets_that_could_be_read_are_refused(
    run_script_here, submissions, tmp_path, monkeypatch, secret
):
    (tmp_path / "marks").write_text("student,row,points,comment\n")
    path = {"gold": GOLD[0], "marks": tmp_path / "marks", "the solution": ROOT}[secret]
    monkeypatch.setattr(isolation.Bubblewrap, "reaches", lambda kind, other: other == path)
    options = ["--part", "2", "--marks", tmp_path / "marks"] if secret == "marks" else []
    out = tmp_path / "out"
    done = run_script_here(grade, submissions, "--gold", *GOLD, "--out", out, *options)
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert f"{path} could be read by the code that is graded" in done.err
    assert not (out / "results").exists()


@needs_sandbox
def test_asked_to_end_it_leaves_nothing(submissions, tmp_path, monkeypatch):
    """SIGTERM, when a sandbox has started."""
    out = new_out(tmp_path / "out")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    batch = subprocess.Popen(
        command(submissions, out, "-j", "2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    children = f"/proc/{batch.pid}/task"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if any(path.read_text() for path in Path(children).glob("*/children")):
            break
        time.sleep(0.1)
    time.sleep(1)
    batch.terminate()
    _, printed = batch.communicate(timeout=60)
    assert batch.returncode == 1, printed.decode()
    assert printed.decode().splitlines()[-1] == "interrupted"
    assert not [*tmp_path.glob("minbert-grading-*")]


def test_an_older_hand_in_replaces_no_later_one(quick, submissions, tmp_path):
    folder, out = tmp_path / "submissions", tmp_path / "out"
    folder.mkdir()
    path = write_zip(folder, "1_a", solution())
    quick.right.add("1_a")
    assert quick(folder, out).code == 0
    quick.right.clear()
    path = write_zip(folder, "1_a", solution() | {"README.md": "an earlier one"})
    os.utime(path, (10**9, 10**9))
    done = quick(folder, out)
    assert "1_a: older than what was graded before" in done.out
    assert grades(out)["1_a"]["points"] == "100"
    assert quick(folder, out, "--only", "1_a").code == 0
    assert grades(out)["1_a"]["points"] == "0"


def test_marks_by_hand(quick, tmp_path):
    folder, out, marks = tmp_path / "submissions", tmp_path / "out", tmp_path / "marks.csv"
    folder.mkdir()
    write_zip(folder, "1_a", {"README.md": "a report"})
    marks.write_text("student,row,points,comment\n1_a,approach,15,=cmd()\n")
    done = quick(folder, out, "--part", "2", "--marks", marks)
    assert done.code == 0, done.err
    assert "1_a: no mark yet for experiments, analysis" in done.out
    assert grades(out)["1_a"]["points"] == "15"
    assert "=cmd()" in (out / "feedback" / "1_a.md").read_text()
    before = times(out)
    write_zip(folder, "1_a", {"README.md": "a later report"})
    marks.write_text("student,row,points,comment\n1_a,approach,99,\n")
    done = quick(folder, out, "--part", "2", "--marks", marks)
    assert (done.code, done.out) == (1, "")
    assert "row 2" in done.err
    assert times(out) == before  # told before anything is graded
    done = quick(folder, out, "--part", "1")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert f"{out} holds part 2; grade part 1 into another --out" in done.err


def test_a_batch_on_two_machines(quick, submissions, tmp_path):
    """Two folders with the same secret: their results are those of one batch."""
    quick.right |= {"1_solution", "3_mistake"}
    whole, *places = (new_out(tmp_path / name) for name in ("whole", "one", "two"))
    assert quick(submissions, whole).code == 0
    with grade.alone_in(places[0], shared=True):
        for number, name in enumerate(results(whole)):
            only = ("--results-only", "--only", name.removesuffix(".json"))
            assert quick(submissions, places[number % 2], *only).code == 0
        assert f"another grading writes into {places[0]}" in quick(submissions, places[0]).err
    assert not [*places[0].glob("*.csv")]
    assert {*results(places[0])} & {*results(places[1])} == set()
    for path in results(places[1]):
        shutil.copy(places[1] / "results" / path, places[0] / "results")
    before = times(places[0])
    assert quick(submissions, places[0]).code == 0
    assert times(places[0]) == before  # nothing is graded again
    assert results(places[0]) == results(whole)
    assert grades(places[0]) == grades(whole)


# ---------------------------------------------------------------------------------------------
# Canaries


@needs_sandbox
def test_no_grading_where_the_solution_fails(submissions, tmp_path):
    """Here for lack of time; whatever it is, it would cost every honest submission its points."""
    out = new_out(tmp_path / "out")
    done = run(submissions, out, "--seconds", "0.01")
    assert done.returncode == 1
    assert done.stdout.startswith("isolation: fresh interpreter")
    assert len(done.stderr.splitlines()) == 1
    assert "grading does not begin: in this sandbox our own solution gets 0 of 100" in done.stderr
    assert not (out / "results").exists()


@pytest.fixture(params=[1, 2])
def canary_context(request):
    with open_context(request.param, "0") as context, mock.patch.object(protocol, "ask", ask_here):
        yield context


@pytest.mark.parametrize(
    ("first", "second", "fault"),
    [
        (0, 1, None),
        (1, 1, r"our own solution gets [\d.]+ of \d+ points \(Task [12]"),
        (0, 0, r"the known mistake \w+ is not found in task"),
    ],
)
def test_a_canary_that_comes_out_otherwise_stops_grading(
    canary_context, monkeypatch, first, second, fault
):
    made = canaries.submissions(canary_context)
    monkeypatch.setattr(canaries, "submissions", lambda _: (made[first], made[second]))
    with pytest.raises(InputError, match=fault) if fault else contextlib.nullcontext():
        canaries.check(canary_context, 1)


# ---------------------------------------------------------------------------------------------
# Tasks


@pytest.fixture(scope="module")
def context():
    with open_context(1, "0") as context:
        yield context


def test_a_mistake_in_init_costs_there_only(context):
    """Forward is judged with an __init__ that is put right."""
    for answer in read_all(MISTAKES, "classifier.init"):
        assert loses(context, solution() | {"classifier.py": put(answer)}) == [answer.task.id]


def test_a_right_init_is_not_put_right(context):
    """What it has beside the head, and forward uses, is forward's mistake."""
    dropout = "self.dropout = nn.Dropout(config.hidden_dropout_prob)"
    both = f"self.dropout = nn.Sequential(nn.ReLU(), {dropout.partition(' = ')[2]})"
    files = solution()
    files["classifier.py"] = files["classifier.py"].replace(dropout, both)
    assert both in files["classifier.py"]
    assert loses(context, files) == ["classifier.forward"]


def test_float32_counts(context):
    """A mask made twice adds −10,000 to all scores, which only float64 can take away again."""
    answer = read(MISTAKES, "bert.layer/mask_made_again")
    assert loses(context, solution() | {"bert.py": put(answer)}) == ["bert.layer"]


def rows_of(context, task_id: str, files: dict[str, str]) -> dict[str, float]:
    """The points of each row of one task."""
    (entry,) = (entry for entry in context.tasks if entry.id == task_id)
    given = Submission("1_a", 1, {name: text.encode() for name, text in files.items()})
    with mock.patch.object(protocol, "ask", ask_here):
        verdicts, _ = grade_tasks(replace(context, tasks=(entry,)), given)
    rows = task_result(entry, verdicts[task_id], context.settings)["rows"]
    return {row["what"]: row["points"] for row in rows if row["points"]}


FACTOR = {"padding": 2, "dropout": 4, "inputs": 2}


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("bert.attention/no_scale", FACTOR),
        ("bert.attention/no_mask", {"dropout": 4, "inputs": 2}),
        ("bert.attention/dropout_in_evaluation", {"padding": 2, "inputs": 2}),
        ("bert.attention/value_not_used", {}),
        ("bert.add_norm/residual_twice", {"dropout": 2, "inputs": 1}),
        ("bert.layer/relu", {"padding": 1.5, "dropout": 3, "inputs": 1.5}),
    ],
)
def test_what_one_known_mistake_leaves_right_counts(context, name, rows):
    answer = read(MISTAKES, name)
    files = solution() | {answer.task.file: put(answer)}
    assert rows_of(context, answer.task.id, files) == rows


ATTENTION = """
given = BertSelfAttention.attention

def attention(self, key, query, value, attention_mask):
    batch, heads, length, width = value.shape
    merged = value.transpose(1, 2).reshape(batch, length, heads * width)
    {}

BertSelfAttention.attention = attention
"""


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("return 3 * given(self, key, query, value, attention_mask)", FACTOR),
        ("return given(self, key, query, value, attention_mask) / 7", FACTOR),
        ("return merged * 0 + 1", {}),
        ("return self.dropout(merged)", {}),
        ("return self.dropout(torch.zeros_like(merged) + key.sum() * 0 + query.sum() * 0)", {}),
        ("return torch.full_like(merged, torch.nan)", {}),
    ],
)
def test_only_a_wrong_factor_leaves_the_other_rows_right(context, line, rows):
    source = solution()["bert.py"] + ATTENTION.format(line)
    assert rows_of(context, "bert.attention", solution() | {"bert.py": source}) == rows


@needs_sandbox
def test_a_file_that_cannot_be_imported_counts_as_crashed(context):
    files = dict.fromkeys(("bert.py", "optimizer.py"), b"import nothing_there\n")
    verdicts, _ = grade_tasks(context, Submission("1_a", 1, files))
    for entry in (entry for entry in context.tasks if entry.file in files):
        verdict = verdicts[entry.id]
        assert (verdict.status, any(verdict.rows.values())) == ("crashed", False)
        assert "No module named 'nothing_there'" in verdict.messages[0]


def test_values_that_no_known_mistake_computes_earn_nothing(context):
    """Whose values on hidden inputs are made up gets nothing for the other rows."""
    (entry,) = (entry for entry in context.tasks if entry.id == "bert.attention")
    sets = hidden.make(5)
    together = sets[hidden.TOGETHER]
    answer = read(MISTAKES, "bert.attention/no_scale")
    made = partial.outputs_of(entry, put(answer), together.inputs)
    made |= {
        name.removeprefix(f"{entry.id}/"): tensor
        for name, tensor in together.expected.items()
        if name.startswith(f"{entry.id}/inputs/")
    }

    def rows(outputs, mistakes=(answer.mistake,)) -> set[str]:
        nothing = dict.fromkeys(judge.rows_of(entry), False)
        verdict = judge.Verdict("wrong", nothing, [], [*mistakes])
        partial.add(entry, verdict, {f"{partial.RUN}|{n}": v for n, v in outputs.items()}, sets)
        return {row for row, right in verdict.rows.items() if right}

    assert rows(made) == {"padding", "dropout", "inputs"}
    assert rows(made, mistakes=()) == set()
    wrong = made["values/context"].clone()
    wrong[0, 0, 0] += 0.01
    for odd in (wrong, None, torch.tensor(torch.nan), torch.ones(2), wrong.half()):
        assert rows(made | {"values/context": odd}) == set()
        assert "inputs" not in rows(made | {"inputs/key": odd})
    for kind in ("padding", "dropout"):
        for odd in (made[f"{kind}/context"] + 0.01, "a text"):
            assert kind not in rows(made | {f"{kind}/context": odd})


def test_hidden_cases_do_not_depend_on_what_other_threads_do():
    """One thread computes in float64 while another one makes the optimizer's cases."""
    before = hidden.make_cases(11)
    torch.set_default_dtype(torch.float64)
    try:
        assert hidden.make_cases(11) == before
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-j", "0"), "-j"),
        (("--only", "nobody"), "--only nobody: no such submission"),
        (("--marks", "x.csv"), "--marks is for part 2"),
        (("--roster", "no.csv"), "no.csv is missing"),
        (("--times", "no.csv"), "no.csv is missing"),
    ],
)
def test_a_wrong_command_line_is_one_line(quick, submissions, tmp_path, arguments, says):
    done = quick(submissions, tmp_path / "out", *arguments)
    assert done.code != 0
    assert says in done.err
    assert len(done.err.splitlines()) == 1
