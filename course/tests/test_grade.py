"""A batch of submissions (course/grade.py): the same results whatever happens on the way."""

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from made_results import rows_in
from support import ROOT, as_process, assert_refused, needs_sandbox, succeeded

from course import grade, handout
from course import table as table_of_course
from course.answers import MISTAKES, VARIANTS, installed_source, put, read, read_all
from course.grading.judging import canaries, hidden, judge, partial
from course.grading.judging.submission import grade_tasks, task_result
from course.grading.judging.types import Submission
from course.grading.sandbox import isolation, protocol, runs
from course.grading.sandbox.context import GradingContext, open_context
from research.benchmarks.grader import GOLD, predictions, solution, write_zip
from training.files.errors import InputError


def ask_here(
    context: GradingContext, jobs: list[dict], tensors: Mapping[str, torch.Tensor]
) -> dict[str, protocol.Reply]:
    """As protocol.ask, without a sandbox: for code that we know."""
    answers = {}
    for job in jobs:
        with contextlib.ExitStack() as opened:
            for file, source in job["files"].items():
                opened.enter_context(installed_source(file, source))
            outputs = getattr(runs, job["run"])(dict(tensors), **job["arguments"])
        kept = {k: v.detach() if isinstance(v, torch.Tensor) else v for k, v in outputs.items()}
        answers[job["name"]] = protocol.Reply("ran", kept)
    return answers


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


def batch_of(folder: Path, out: Path, *more: object) -> list[object]:
    """What staff type: the script and its arguments."""
    return [ROOT / "course" / "grade.py", folder, "--out", out, "--gold", *GOLD, *more]


def run(folder: Path, out: Path, *more: object) -> SimpleNamespace:
    """Grade a folder as staff do."""
    return as_process(*batch_of(folder, out, *more), folder=folder)


def begun(folder: Path, out: Path) -> subprocess.Popen:
    """The same, not waited for."""
    words = [sys.executable, *map(str, batch_of(folder, out, "-j", "2"))]
    return subprocess.Popen(words, stderr=subprocess.PIPE, start_new_session=True)


def new_out(folder: Path) -> Path:
    """A folder for results with one secret for all batches."""
    folder.mkdir(mode=0o700)
    (folder / "assignment.json").write_text(json.dumps({"part": 1, "secret": "0" * 32}))
    return folder


def results(out: Path) -> dict[str, dict]:
    """All results of a batch by the students' names, without the seconds that they took."""
    paths = sorted((out / "results").glob("*.json"))
    read = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    return {student: result | {"seconds": 0} for student, result in read.items()}


def grades(out: Path) -> dict[str, dict[str, str]]:
    """The rows of grades.csv by the students' names, without the seconds."""
    return {row["student"]: row | {"seconds": ""} for row in rows_in(out / "grades.csv")}


def times(out: Path) -> dict[str, int]:
    """When each student's result was written."""
    return {path.stem: path.stat().st_mtime_ns for path in (out / "results").glob("*.json")}


@pytest.fixture(scope="module")
def alone(submissions, tmp_path_factory):
    """OUT of the batch with -j 1, and what was printed."""
    out = new_out(tmp_path_factory.mktemp("alone") / "out")
    return out, succeeded(run(submissions, out, "-j", 1)).out


@needs_sandbox
def test_points_of_a_batch(alone):
    out, printed = alone
    graded = results(out)
    points = {student: result["points"] for student, result in graded.items()}
    assert points["1_solution"] == points["2_variant"] == 100
    assert 80 <= points["3_mistake"] < 100
    assert points["4_stubs"] == points["5_hostile"] == 0
    assert {graded[name]["status"] for name in ("6_empty", "7_damaged")} == {"refused"}
    assert "no_scale" in graded["3_mistake"]["tasks"][0]["mistakes"]
    assert "5 graded" in printed
    assert "2 refused" in printed


@needs_sandbox
def test_the_same_results_whether_killed_or_several_at_a_time(alone, submissions, tmp_path):
    folder, out = tmp_path / "submissions", new_out(tmp_path / "out")
    folder.mkdir()
    students = ("1_solution", "2_variant", "3_mistake", "7_damaged")
    for path in submissions.iterdir():
        if path.name.startswith(students):
            shutil.copy(path, folder)
    batch = begun(folder, out)
    deadline = time.monotonic() + 300
    while not list((out / "results").glob("*.json")) and time.monotonic() < deadline:
        assert batch.poll() is None
        time.sleep(0.01)
    batch.kill()
    batch.wait()
    before = times(out)
    assert 1 <= len(before) < len(students)
    done = succeeded(run(folder, out, "-j", 3))
    wanted = results(alone[0])
    assert results(out) == {student: wanted[student] for student in students}
    assert {name: when for name, when in times(out).items() if name in before} == before
    again = [line for line in done.out.splitlines() if line.endswith(" s)")]
    assert len(again) == len(students) - len(before)
    assert grades(out) == {student: grades(alone[0])[student] for student in students}


@needs_sandbox
def test_asked_to_end_it_leaves_nothing(submissions, tmp_path, monkeypatch):
    """SIGTERM, when a sandbox has started."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    batch = begun(submissions, new_out(tmp_path / "out"))
    children = Path(f"/proc/{batch.pid}/task")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if any(path.read_text() for path in children.glob("*/children")):
            break
        time.sleep(0.1)
    time.sleep(1)
    batch.terminate()
    _, printed = batch.communicate(timeout=60)
    assert batch.returncode == 1, printed.decode()
    assert printed.decode().splitlines()[-1] == "interrupted"
    assert not [*tmp_path.glob("minbert-grading-*")]


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
        return {entry.id: verdict(entry, submission.student) for entry in context.tasks}

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
    succeeded(quick(folder, out))
    before = times(out)
    quick.right.clear()
    quick.right.add("3_mistake")
    write_zip(folder, "3_mistake", solution() | predictions(3))
    succeeded(quick(folder, out, "--only", "3_mistake"))
    after = times(out)
    assert after.pop("3_mistake") > before.pop("3_mistake")
    assert after == before
    points = {student: row["points"] for student, row in grades(out).items()}
    assert (points["3_mistake"], points["1_solution"], points["4_stubs"]) == ("100", "100", "0")
    assert len(points) == 7


def test_an_older_hand_in_replaces_no_later_one(quick, tmp_path, monkeypatch):
    folder, out = tmp_path / "submissions", tmp_path / "out"
    folder.mkdir()
    write_zip(folder, "1_a", solution())
    quick.right.add("1_a")
    succeeded(quick(folder, out))
    quick.right.clear()
    path = write_zip(folder, "1_a", solution() | {"README.md": "an earlier one"})
    os.utime(path, (10**9, 10**9))
    assert "1_a: older than what was graded before" in quick(folder, out).out
    assert grades(out)["1_a"]["points"] == "100"
    monkeypatch.setattr(grade.table, "read_settings", late)
    assert "1_a: older than what was graded before" in quick(folder, out).out
    assert grades(out)["1_a"]["days late"] == "1"  # the later one's, as its points are
    succeeded(quick(folder, out, "--only", "1_a"))
    assert grades(out)["1_a"]["points"] == "0"
    assert grades(out)["1_a"]["days late"] == "0"


def test_an_earlier_time_that_staff_give_makes_no_other_hand_in(quick, tmp_path, monkeypatch):
    """It is the very one that was graded: another grader grades it again."""
    folder, when = tmp_path / "submissions", tmp_path / "times.csv"
    folder.mkdir()
    write_zip(folder, "1_a", solution())
    succeeded(quick(folder, tmp_path / "out"))
    when.write_text("group,time\n1_a,2020-02-01T12:00Z\n")
    monkeypatch.setattr(grade, "grader_digest", lambda: "another")
    quick.right.add("1_a")
    assert "older" not in succeeded(quick(folder, tmp_path / "out", "--times", when)).out
    assert grades(tmp_path / "out")["1_a"]["points"] == "100"


def late(root, read=table_of_course.read_settings):
    """The settings, with a deadline of one hour ago."""
    due = datetime.fromtimestamp(time.time() - 3600, UTC).isoformat(timespec="minutes")
    settings = read(root)
    return settings | {"late": {"part1": due, "part2": "", "cost": 10, "days": 7}}


@pytest.mark.parametrize("inside", [None, "1_a/handed in.zip"])
def test_times_that_whoever_packed_it_wrote_do_not_count(quick, tmp_path, monkeypatch, inside):
    folder, out, when = tmp_path / "submissions", tmp_path / "out", tmp_path / "times.csv"
    (folder / "1_a").mkdir(parents=True)
    (folder / "1_a" / "optimizer.py").write_text("x = 1")
    if inside:
        write_zip(tmp_path, "1_a", solution()).rename(folder / inside)
        (folder / "1_a" / "optimizer.py").unlink()
    for path in (*(folder / "1_a").iterdir(), folder / "1_a"):
        os.utime(path, (10**9, 10**9))
    assert succeeded(quick(folder, out))  # without a deadline
    monkeypatch.setattr(grade.table, "read_settings", late)
    assert_refused(quick(folder, out), "1_a; give --times")
    when.write_text("group,time\n1_a,2020-02-01T12:00Z\n")
    succeeded(quick(folder, out, "--times", when))
    assert grades(out)["1_a"]["days late"] == "0"


def test_two_submissions_of_one_name_stop_nobody_else(quick, submissions, tmp_path):
    folder, out, when = tmp_path / "submissions", tmp_path / "out", tmp_path / "times.csv"
    folder.mkdir()
    for name in ("1_solution", "3_mistake"):
        write_zip(folder, name, solution())
    shutil.copy(write_zip(folder, "3_mistake", solution()), folder / "3 mistake.zip")
    when.write_text("group,time\n3_mistake,2027-02-01T12:00Z\n")
    quick.right |= {"1_solution", "3_mistake"}
    done = quick(folder, out, "--times", when)
    assert done.code == 1
    (line,) = [line for line in done.out.splitlines() if line.startswith("3_mistake: ")]
    assert "'3 mistake.zip' and '3_mistake_" in line
    assert "rename one of them" in line
    points = {student: row["points"] for student, row in grades(out).items()}
    assert points == {"1_solution": "100", "3_mistake": ""}
    (folder / "3 mistake.zip").unlink()
    succeeded(quick(folder, out, "--times", when))
    assert grades(out)["3_mistake"]["points"] == "100"


def test_an_error_of_ours_is_no_zero(quick, submissions, tmp_path, monkeypatch):
    """Of the disk, of our own code, or of a result that cannot be written."""
    take, grade_here, out = grade.intake.take, grade.grade, tmp_path / "out"

    def broken_take(student, path, part):
        if student == "1_solution":
            raise OSError("disk fault")
        return take(student, path, part)

    def broken_grade(context, submission, gold):
        result = grade_here(context, submission, gold)
        return result | ({"notes": [object()]} if submission.student == "4_stubs" else {})

    quick.failing.add("2_variant")
    with monkeypatch.context() as patches:
        patches.setattr(grade.intake, "take", broken_take)
        patches.setattr(grade, "grade", broken_grade)
        done = quick(submissions, out)
    assert done.code == 1
    assert "2_variant: staff error: ZeroDivisionError('a bug of ours')" in done.out
    assert "1_solution: staff error: OSError('disk fault')" in done.out
    assert "4_stubs: staff error: TypeError" in done.out
    statuses = {student: result["status"] for student, result in results(out).items()}
    failed = {student for student, status in statuses.items() if status == "staff error"}
    assert failed == {"1_solution", "2_variant", "4_stubs"}
    assert set(statuses.values()) == {"graded", "refused", "staff error"}
    assert grades(out)["2_variant"]["points"] == ""
    assert "ZeroDivision" not in (out / "feedback" / "2_variant.md").read_text()
    assert "2_variant" not in (out / "leaderboard.csv").read_text()
    before = times(out)
    quick.failing.clear()
    succeeded(quick(submissions, out))
    changed = [name for name, when in times(out).items() if when != before[name]]
    assert set(changed) == failed


@pytest.mark.parametrize("what", ["out", "TMPDIR"])
def test_a_place_that_takes_no_files_is_told_in_one_line(
    quick, submissions, tmp_path, monkeypatch, what
):
    (tmp_path / "file").write_text("")
    out = tmp_path / "out"
    if what == "out":
        out = tmp_path / "file" / "out"
    else:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    assert_refused(quick(submissions, out), "choose another --out or TMPDIR")


def test_hidden_inputs_are_new_for_each_hand_in():
    with open_context(1, "secret") as context:
        first = context.seed("1_a", "one digest")
        assert first == context.seed("1_a", "one digest")
        others = [context.seed("1_a", "another"), context.seed("1_b", "one digest")]
        assert first not in others
        asked = []
        with mock.patch.object(protocol, "ask", lambda *given: asked.append(given) or {}):
            for digest in ("x", "y", "x"):
                files = {name: text.encode() for name, text in solution().items()}
                grade_tasks(context, Submission("1_a", 1, files, sha256=digest))
    seeds = [jobs[-1]["arguments"].get("seed") for _, jobs, _ in asked]
    inputs = [tensors["together/bert.attention/inputs/query"] for _, _, tensors in asked]
    assert torch.equal(inputs[0], inputs[2])
    assert not torch.equal(inputs[0], inputs[1])
    assert seeds[0] == seeds[2]


def test_a_roster_and_times(quick, submissions, tmp_path):
    roster, when, out = tmp_path / "roster.csv", tmp_path / "times.csv", tmp_path / "out"
    roster.write_text("group,student,id\n1_solution,Ana,s1\n6_empty,Bo,s2\n")
    when.write_text("group,time\n1_solution,2027-02-01T12:00Z\n")
    quick.right.add("1_solution")
    done = succeeded(quick(submissions, out, "--roster", roster, "--times", when))
    assert "2_variant: in no gradebook, the roster has no student of it" in done.out
    assert (out / "moodle.csv").read_text().splitlines()[1:] == ["s1,Ana,100", "s2,Bo,0"]
    history = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    hours = {entry["student"]: entry["time"] for entry in history}
    assert hours["1_solution"] == "2027-02-01T12:00:00+00:00"


def test_marks_by_hand(quick, tmp_path):
    folder, out, marks = tmp_path / "submissions", tmp_path / "out", tmp_path / "marks.csv"
    folder.mkdir()
    write_zip(folder, "1_a", {"README.md": "a report"})
    marks.write_text("student,row,points,comment\n1_a,approach,15,=cmd()\n")
    done = succeeded(quick(folder, out, "--part", "2", "--marks", marks))
    assert "1_a: no mark yet for experiments, analysis" in done.out
    assert grades(out)["1_a"]["points"] == "15"
    assert "=cmd()" in (out / "feedback" / "1_a.md").read_text()
    before = times(out)
    write_zip(folder, "1_a", {"README.md": "a later report"})
    marks.write_text("student,row,points,comment\n1_a,approach,99,\n")
    assert_refused(quick(folder, out, "--part", "2", "--marks", marks), "row 2")
    assert times(out) == before  # told before anything is graded
    succeeded(quick(folder, out, "--part", "2"))
    assert grades(out)["1_a"]["points"] == "15"  # the marks of the run before
    done = quick(folder, out, "--part", "1")
    assert_refused(done, f"{out} holds part 2; grade part 1 into another --out")


def test_feedback_goes_back_to_canvas_under_its_names(quick, tmp_path):
    name = "linana_LATE_4711_98766_12_a_dnlp_final_project_submission-1"
    longest = f"linbo_4712_98767_{'b' * 234}"  # with .zip as long as a name may be
    (tmp_path / "submissions").mkdir()
    for each in (name, longest):
        (tmp_path / "submissions" / f"{each}.zip").write_bytes(b"PK\3\4 no zip")
    out = tmp_path / "out"
    succeeded(quick(tmp_path / "submissions", out))
    pages = {page.name: page.read_text() for page in (out / "canvas").iterdir()}
    assert pages[f"{name}.html"] == (out / "feedback" / "12_a.html").read_text()
    assert len(pages) == 2


def test_corrections_stay_between_runs(quick, tmp_path):
    folder, out, file = tmp_path / "submissions", tmp_path / "out", tmp_path / "corrections.csv"
    folder.mkdir()
    for name in ("1_a", "2_b", "3_c"):
        write_zip(folder, name, solution())
    (folder / "4_damaged.zip").write_bytes(b"PK\3\4 no zip")
    quick.right |= {"1_a", "2_b"}
    head = "student,row,points,reason\n"
    file.write_text(
        f"{head}1_a,1.5,-12.5,=our mistake\n1_a,1.1,2,the check erred\n2_b,all,-100,copied\n"
        "3_c,1.1,-5,nothing is there\n4_damaged,1.2,3,shown in office hours\n"
    )
    succeeded(quick(folder, out, "--corrections", file))
    file.unlink()
    shutil.rmtree(out / "feedback")
    assert grades(out)["2_b"]["points"] == "0"
    for path in folder.glob("2_b*"):
        path.unlink()
    succeeded(quick(folder, out))  # without the file, and without one of its groups
    rows = grades(out)
    assert {name: row["points"] for name, row in rows.items()} == {
        "1_a": "89.5",
        "3_c": "0",
        "4_damaged": "3",
    }
    assert (rows["1_a"]["correction 1.5"], rows["1_a"]["correction 1.1"]) == ("-12.5", "2")
    for end in ("md", "html"):
        text = (out / "feedback" / f"1_a.{end}").read_text()
        assert "Correction of 1.5 by staff: -12.5. =our mistake" in text
        assert "shown in office hours" in (out / "feedback" / f"4_damaged.{end}").read_text()
    for line, fault in (
        ("1_a,1.5,-20.5,x", "'-20.5' is not a number from -20 to 20, for 1.5"),
        ("1_a,1.5,-3,", "no reason; the student reads it"),
        ("1_a,2.1,-3,x", "no row '2.1'; there are 1.1, 1.2"),
        ("9_x,1.5,-3,x", "no submission of '9_x'"),
    ):
        file.write_text(f"{head}{line}\n")
        assert_refused(quick(folder, out, "--corrections", file), f"row 2: {fault}")
    file.write_text(head)
    succeeded(quick(folder, out, "--corrections", file))  # takes them back
    assert grades(out)["1_a"]["points"] == "100"


def test_a_batch_on_two_machines(quick, submissions, tmp_path):
    """Two folders with the same secret: their results are those of one batch."""
    quick.right |= {"1_solution", "3_mistake"}
    whole, *places = (new_out(tmp_path / name) for name in ("whole", "one", "two"))
    succeeded(quick(submissions, whole))
    with grade.alone_in(places[0], shared=True):
        for number, student in enumerate(results(whole)):
            succeeded(quick(submissions, places[number % 2], "--results-only", "--only", student))
        assert_refused(quick(submissions, places[0]), f"another grading writes into {places[0]}")
    assert not [*places[0].glob("*.csv")]
    assert {*results(places[0])} & {*results(places[1])} == set()
    for path in (places[1] / "results").iterdir():
        shutil.copy(path, places[0] / "results")
    before = times(places[0])
    succeeded(quick(submissions, places[0]))
    assert times(places[0]) == before  # nothing is graded again
    assert results(places[0]) == results(whole)
    assert grades(places[0]) == grades(whole)


# ---------------------------------------------------------------------------------------------
# Where nothing is graded


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (("-j", "0"), "-j"),
        (("--only", "nobody"), "--only nobody: no such submission"),
        (("--marks", "x.csv"), "--marks is for part 2"),
        (("--roster", "no.csv"), "no.csv is missing"),
        (("--times", "no.csv"), "no.csv is missing"),
    ],
)
def test_a_wrong_command_line_is_one_line(quick, submissions, tmp_path, arguments, fact):
    assert_refused(quick(submissions, tmp_path / "out", *arguments), fact)


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
    assert_refused(done, f"{path} could be read by the code that is graded")
    assert not (out / "results").exists()


@needs_sandbox
def test_no_grading_where_the_solution_fails(submissions, tmp_path):
    """Here for lack of time; whatever it is, it would cost every honest submission its points."""
    out = new_out(tmp_path / "out")
    done = run(submissions, out, "--seconds", 0.01)
    assert_refused(done, "in this sandbox our own solution gets 0 of 100")
    assert done.out.startswith("isolation: fresh interpreter")
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


def test_one_task_loses_points(context):
    files, dropout = solution(), "nn.Dropout(config.hidden_dropout_prob)"
    # forward is judged with an __init__ that is put right
    answers = read_all(MISTAKES, "classifier.init")
    # a mask made twice adds -10,000 to all scores, which only float64 can take away again
    answers.append(read(MISTAKES, "bert.layer/mask_made_again"))
    for answer in answers:
        assert loses(context, files | {answer.task.file: put(answer)}) == [answer.task.id]
    # what a right __init__ has beside the head, and forward uses, is forward's mistake
    assert dropout in files["classifier.py"]
    changed = files["classifier.py"].replace(dropout, f"nn.Sequential(nn.ReLU(), {dropout})")
    assert loses(context, files | {"classifier.py": changed}) == ["classifier.forward"]


def loses(context, files: dict[str, str]) -> list[str]:
    """The tasks of part 1 in which a submission loses points."""
    given = Submission("1_a", 1, {name: text.encode() for name, text in files.items()})
    with mock.patch.object(protocol, "ask", ask_here):
        verdicts = grade_tasks(context, given)
    return [entry.id for entry in context.tasks if not all(verdicts[entry.id].rows.values())]


def rows_of(context, task_id: str, files: dict[str, str]) -> dict[str, float]:
    """The points of each row of one task."""
    (entry,) = (entry for entry in context.tasks if entry.id == task_id)
    given = Submission("1_a", 1, {name: text.encode() for name, text in files.items()})
    with mock.patch.object(protocol, "ask", ask_here):
        verdicts = grade_tasks(replace(context, tasks=(entry,)), given)
    rows = task_result(entry, verdicts[task_id], context.settings)["rows"]
    return {row["what"]: row["points"] for row in rows if row["points"]}


FACTOR = {"padding": 2, "dropout": 4, "inputs": 2}
ATTENTION = """
given = BertSelfAttention.attention

def attention(self, key, query, value, attention_mask):
    batch, heads, length, width = value.shape
    merged = value.transpose(1, 2).reshape(batch, length, heads * width)
    return {}

BertSelfAttention.attention = attention
"""


@pytest.mark.parametrize(
    ("answer", "rows"),
    [
        ("bert.attention/no_scale", FACTOR),
        ("bert.attention/no_mask", {"dropout": 4, "inputs": 2}),
        ("bert.attention/dropout_in_evaluation", {"padding": 2, "inputs": 2}),
        ("bert.attention/value_not_used", {}),
        ("bert.add_norm/residual_twice", {"dropout": 2.22, "inputs": 1.11}),
        ("bert.layer/relu", {"padding": 1.5, "dropout": 3, "inputs": 1.5}),
        ("bert.embed/norm_of_words", {"padding": 1.5, "dropout": 3, "inputs": 1.5}),
        ("3 * given(self, key, query, value, attention_mask)", FACTOR),
        ("given(self, key, query, value, attention_mask) / 7", FACTOR),
        ("merged * 0 + 1", {}),
        ("self.dropout(merged)", {}),
        ("self.dropout(torch.zeros_like(merged) + key.sum() * 0 + query.sum() * 0)", {}),
        ("torch.full_like(merged, torch.nan)", {}),
    ],
)
def test_rows_of_a_known_mistake_or_a_wrong_factor_count(context, answer, rows):
    files, task_id = solution(), answer.partition("/")[0]
    if "(" in answer or "*" in answer:
        files["bert.py"], task_id = files["bert.py"] + ATTENTION.format(answer), "bert.attention"
    else:
        files["bert.py"] = put(read(MISTAKES, answer))
    assert rows_of(context, task_id, files) == rows


LOST = {  # of each known mistake in AdamW.step, the one row that it costs; "": all of them
    "": "nothing_moves update_thrown_away",
    "the update": """betas_swapped correction_without_power correction_without_root
        eps_beside_corrected_root eps_in_code eps_inside_root first_moment_corrected_only
        gradient_ascent moments_are_sums moments_not_kept moments_shared no_bias_correction
        correct_bias_inverted no_eps no_momentum no_root no_square nothing_kept
        second_moment_corrected_only square_of_the_moment step_count_shared step_from_zero
        corrected_moments_kept corrected_twice correction_upside_down half_for_root
        lr_changed_in_place moments_before_the_step return_in_the_loop average_weights_swapped
        correction_without_brackets corrections_swapped eps_inside_corrected_root
        eps_outside_fraction first_step_skipped moments_of_the_first_step no_lr no_second_moment
        one_beta_for_both one_tensor_for_both square_averaged steps_from_two value_for_square""",
    "weight decay": """coupled_and_decoupled coupled_decay coupled_decay_in_place decay_grows
        decay_in_the_update decay_with_corrected_lr decay_without_lr decay_without_parameter
        no_decay decay_of_the_gradient decay_twice decay_with_lr_squared""",
    "correct_bias=False": "correct_bias_crash correct_bias_half_ignored correct_bias_ignored",
    "parameter groups, schedules": """betas_in_code first_group_for_all
        hyper_parameters_from_defaults lr_from_defaults""",
    "parameters without gradients": """missing_gradient_crashes missing_gradient_is_zero
        missing_gradient_resets step_count_of_the_group""",
    "resuming": "state_not_saved",
    "gradients left as they are": "gradient_changed",
}
UNKNOWN = {  # of each row, mistakes that are not known: what is changed in the plain answer
    "weight decay": [("lr * weight_decay", "3 * lr * weight_decay")],
    "the update": [("alpha = lr", "alpha = 2 * lr"), ("root + eps", "root + eps / 2")],
}


def test_the_table_has_all_known_mistakes_of_adamw():
    names = [answer.name for answer in read_all(MISTAKES, "optimizer.step")]
    assert sorted(names) == sorted(" ".join(LOST.values()).split())


@pytest.mark.parametrize("row", LOST)
def test_a_mistake_in_adamw_costs_its_own_row(context, row):
    points = {what: 8 if what == "the update" else 4 if "decay" in what else 1.6 for what in LOST}
    kept = {what: of for what, of in points.items() if row and what not in ("", row)}
    sources = {n: put(read(MISTAKES, f"optimizer.step/{n}")) for n in LOST[row].split()}
    for old, new in UNKNOWN.get(row, ()):
        plain = put(read(VARIANTS, "optimizer.step/plain"))
        assert old in plain
        sources[new] = plain.replace(old, new)
    for name, source in sources.items():
        assert rows_of(context, "optimizer.step", {"optimizer.py": source}) == kept, name


STEP = """
def step(self, closure=None):
    for group in self.param_groups:
        for p in (p for p in group["params"] if p.grad is not None):
            {}

AdamW.step = step
"""
DECAYING = "p.data.mul_(1 - group['lr'] * group['weight_decay'])"


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("pass", {}),
        ("p.data.zero_()", {}),
        ("p.data.fill_(float('nan'))", {}),
        (DECAYING, {}),
        ("p.data.sub_(group['lr'] * p.grad)", {}),
        ("p.data.sub_(group['lr'] * p.grad.sign())", {}),
        (
            f"p.data.sub_(group['lr'] * p.grad); {DECAYING}",
            {"weight decay": 4, "gradients left as they are": 1.6},
        ),
    ],
)
def test_what_is_not_adamw_earns_no_more_than_it_does(context, line, kept):
    source = solution()["optimizer.py"] + STEP.format(line)
    assert rows_of(context, "optimizer.step", {"optimizer.py": source}) == kept


@needs_sandbox
def test_a_file_that_cannot_be_imported_counts_as_crashed(context):
    files = dict.fromkeys(("bert.py", "optimizer.py"), b"import nothing_there\n")
    verdicts = grade_tasks(context, Submission("1_a", 1, files))
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
