"""From zips to pages: grade.py and viva.py as staff run them, points, marks, pages."""

import csv
import fcntl
import json
import os
import random
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from factories import ROOT
from running import MODULES, as_process, assert_refused, needs_sandbox, one_line_error, succeeded

from checks.findings import Mistake
from checks.graded_tasks import graded_task
from checks.part2.submission import FILES as PART_2_FILES
from checks.quiz.questions import Question, numbers, subject_of
from course import grade, settings, viva
from course.grading import batch, cache, marks, points
from course.grading.judging.submission import Judged
from course.grading.pages import output, pages, sheets, tables
from course.grading.sandbox import protocol
from course.grading.sandbox.context import open_context
from course.grading.types import (
    GRADED,
    NOT_COUNTED,
    REFUSED,
    RIGHT,
    STAFF_ERROR,
    WRONG,
    Mark,
    Result,
    Row,
    Score,
    Submission,
    TaskResult,
    Verdict,
)
from datasets import load_data, load_pairs
from prepare_submit import PART_1_FILES, ZIP_NAME

GOLD = (ROOT / "course" / "gold", ROOT / "data" / "practice")
SETTINGS = settings.read_settings(ROOT)
FILES = {n: (ROOT / n).read_text("utf-8") for n in ("bert.py", "optimizer.py", "classifier.py")}
SCALE = " / math.sqrt(query.size(-1))"  # without it, attention has a known mistake


def labels(stem: str, split: str) -> list[tuple]:
    """The rows of a labelled file; the last cells are the label and the id."""
    name = f"{stem}-{split}.csv"
    path = next(folder / name for folder in GOLD if (folder / name).is_file())
    if "ids-" in stem:
        return load_data(path, "dev", 5)
    return load_pairs(path, "dev", "is_duplicate" if stem == "quora" else "similarity")


def sst_predictions(seed: int, right: float = 0.5) -> dict[str, str]:
    """Part 1's files of predictions for SST: so many rows right, the others by chance."""
    chance, files = random.Random(seed), {}
    for path, (name, split, classes) in PART_1_FILES.items():
        if name == "sst":
            files[path] = "id,Predicted_Sentiment\n"
            for *_, label, key in labels("ids-sst", split):
                value = label if chance.random() < right else chance.randrange(classes)
                files[path] += f"{key},{value}\n"
    return files


def part_2_predictions() -> dict[str, str]:
    """Part 2's six files, all right."""
    stems = {"sst": "ids-sst", "para": "quora", "sts": "sts"}
    heads = {"sst": "Sentiment", "para": "Is_Paraphrase", "sts": "Similarity"}
    files = {}
    for path, (data, split, *_) in PART_2_FILES.items():
        rows = "".join(f"{row[-1]},{row[-2]}\n" for row in labels(stems[data], split))
        files[path] = f"id,Predicted_{heads[data]}\n{rows}"
    return files


def write_zip(folder: Path, name: str, files: Mapping[str, str]) -> Path:
    """A submission as prepare_submit.py names it."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}_{ZIP_NAME}"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, text in files.items():
            archive.writestr(inside, text)
    return path


def new_out(folder: Path, part: int = 1) -> Path:
    """A folder for results with one secret for all tests."""
    folder.mkdir(mode=0o700)
    (folder / "assignment.json").write_text(json.dumps({"part": part, "secret": "0" * 32}))
    return folder


def rows_in(path: Path) -> dict[str, dict[str, str]]:
    """The rows of a CSV file by student."""
    with open(path, encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def times(out: Path) -> dict[str, int]:
    """When each student's result was written."""
    return {path.stem: path.stat().st_mtime_ns for path in (out / "results").glob("*.json")}


@pytest.fixture(scope="module")
def submissions(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("zips")
    with open_context(1, "0") as context:
        stubs = {name: (context.stage / "handout" / name).read_text() for name in FILES}
    assert SCALE in FILES["bert.py"]
    write_zip(folder, "1_right", FILES | sst_predictions(1))
    wrong = {"bert.py": FILES["bert.py"].replace(SCALE, "")}
    write_zip(folder, "2_wrong", FILES | wrong | sst_predictions(2, right=0.4))
    write_zip(folder, "3_stubs", stubs)
    (folder / "4_damaged.zip").write_bytes(b"PK\3\4 no zip")
    return folder


def command(folder: Path, out: Path, *more: object) -> list[object]:
    """What staff type: the script and its arguments."""
    return ["-m", "course.grade", folder, "--out", out, "--gold", *GOLD, *more]


def begun(folder: Path, out: Path) -> subprocess.Popen:
    """A batch that is not waited for."""
    words = [sys.executable, *map(str, command(folder, out, "-j", 1))]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def graded(submissions, tmp_path_factory) -> Path:
    """OUT of the whole batch."""
    out = new_out(tmp_path_factory.mktemp("whole") / "out")
    done = succeeded(as_process(*command(submissions, out, "-j", 2), folder=submissions, **MODULES))
    assert "Submissions: 3 graded, 1 refused." in done.out
    return out


@needs_sandbox
def test_points_and_pages_of_a_batch(graded):
    rows = rows_in(graded / "grades.csv")
    earned = {name: float(row["points"]) for name, row in rows.items()}
    assert 80 <= earned.pop("2_wrong") < 100
    assert earned == {"1_right": 100, "3_stubs": 0, "4_damaged": 0}
    assert rows["4_damaged"]["status"] == REFUSED
    board = rows_in(graded / "leaderboard.csv")
    assert [(row["rank"], name) for name, row in board.items()] == [
        ("1", "1_right"),
        ("2", "2_wrong"),
    ]
    page = (graded / "feedback" / "2_wrong.html").read_text()
    assert "The scores are not divided by √W" in page
    assert "one known mistake" in page
    assert "What sanity_check.py prints" in page
    assert "The scores are not divided by √W. (1)" in (graded / "staff.html").read_text()


@needs_sandbox
def test_killed_and_resumed_it_writes_the_same_tables(graded, submissions, tmp_path):
    out = new_out(tmp_path / "out")
    process = begun(submissions, out)
    deadline = time.monotonic() + 300
    while not times(out) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate()
    before = times(out)
    assert 1 <= len(before) < 4
    done = succeeded(as_process(*command(submissions, out, "-j", 3), folder=tmp_path, **MODULES))
    assert done.out.count(" s)\n") == 4 - len(before)
    assert {name: when for name, when in times(out).items() if name in before} == before
    for name in ("grades.csv", "leaderboard.csv", "staff.html", "leaderboard.html"):
        assert (out / name).read_bytes() == (graded / name).read_bytes(), name


@needs_sandbox
def test_asked_to_end_it_leaves_nothing(submissions, tmp_path, monkeypatch):
    """SIGTERM, when a sandbox has started."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = begun(submissions, new_out(tmp_path / "out"))
    children = Path(f"/proc/{process.pid}/task")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if any(path.read_text() for path in children.glob("*/children")):
            break
        time.sleep(0.1)
    time.sleep(1)
    process.terminate()
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 1, printed.decode()
    assert printed.decode().splitlines()[-1] == "interrupted"
    assert not [*tmp_path.glob("minbert-grading-*")]


@needs_sandbox
def test_part_2_is_scored_and_marked(tmp_path):
    code = (ROOT / "multitask_classifier.py").read_text("utf-8")
    whole = FILES | {"multitask_classifier.py": code, "README.md": "report"} | part_2_predictions()
    write_zip(tmp_path / "zips", "1_a", whole)
    given = tmp_path / "given.csv"
    given.write_text("student,row,points,comment\n1_a,2.1,8.5,clear\n1_a,approach,,\n")
    words = command(tmp_path / "zips", tmp_path / "out", "--part", 2, "-j", 1, "--marks", given)
    done = succeeded(as_process(*words, folder=tmp_path, **MODULES))
    assert "9 rows have no mark yet" in done.out
    row, best = rows_in(tmp_path / "out" / "grades.csv")["1_a"], SETTINGS["predictions"]["points"]
    assert (row["2.1"], row["approach"], row["predictions"]) == ("8.5", "", str(best))
    assert float(row["points"]) == 8.5 + best
    page = (tmp_path / "out" / "feedback" / "1_a.html").read_text()
    assert "Task 2.3" in page[page.index("What sanity_check.py prints") :]
    assert "AI-usage card" in (tmp_path / "out" / "staff.html").read_text()


@needs_sandbox
def test_a_viva_asks_about_each_groups_own_code(submissions, tmp_path):
    out = tmp_path / "viva"
    words = ["-m", "course.viva", submissions, "--seed", 7, "--questions", 2, "--out", out, "-j", 2]
    done = as_process(*words, folder=tmp_path, **MODULES)
    assert done.code == 1  # nothing can be asked about two of them
    assert "1_right: 2 questions" in done.out
    assert "it is not written yet" in done.out
    keys = (out / "keys" / "1_right.html").read_text()
    sheet = (out / "sheets" / "1_right.html").read_text()
    assert keys.count('<li class="right">') == 2
    assert "class=right" not in sheet.replace('"', "")
    assert sheet.count('<ol type="a">') == 2
    assert_refused(
        as_process(*words, folder=tmp_path, **MODULES),
        "is there already: name a new folder",
    )


@pytest.mark.parametrize(("name", "is_told"), [("card.pdf", 0), ("Card.PDF", 0), ("card.txt", 1)])
def test_an_ai_card_that_is_missing_is_told(name, is_told):
    told = " ".join(batch.missing_files(Submission("a", 2, {name: b"%PDF-"})))
    assert told.count("AI-usage card (PDF)") == is_told


@pytest.fixture
def quick(monkeypatch, run_script_here):
    """A function that runs grade.py where nothing is ever started: all is right of those students
    that are in its ``right``, an error of ours of those in its ``failing``.
    """
    right: set[str] = set()
    failing: set[str] = set()

    def judge(context, submission):
        if submission.student in failing:
            raise ZeroDivisionError("a bug of ours")
        is_right = submission.student in right
        verdict = Verdict(
            "right" if is_right else "not started", {"values": RIGHT if is_right else WRONG}
        )
        tasks = context.tasks if context.part != 2 else ()
        return Judged({task.id: verdict for task in tasks}, (), "the checks' text")

    monkeypatch.setattr(batch, "grade_submission", judge)
    monkeypatch.setattr(batch, "require_safe_machine", lambda *given: None)
    monkeypatch.setattr(grade.canaries, "check", lambda context: None)

    def go(folder, out, *more):
        return run_script_here(grade, folder, "--gold", *GOLD, "--out", out, *more)

    go.right, go.failing = right, failing
    return go


def test_one_again_and_what_regrades(quick, submissions, tmp_path, monkeypatch):
    folder, out = tmp_path / "zips", tmp_path / "out"
    shutil.copytree(submissions, folder)
    quick.right.add("1_right")
    succeeded(quick(folder, out))
    before = times(out)
    quick.right.add("3_stubs")
    succeeded(quick(folder, out, "--only", "3_stubs"))
    after = times(out)
    assert {name for name in after if after[name] != before[name]} == {"3_stubs"}
    points_of = {name: row["points"] for name, row in rows_in(out / "grades.csv").items()}
    assert points_of == {"1_right": "100", "2_wrong": "0", "3_stubs": "100", "4_damaged": "0"}
    write_zip(folder, "2_wrong", FILES)
    succeeded(quick(folder, out))
    assert {name for name, when in times(out).items() if when != after[name]} == {"2_wrong"}
    before = times(out)
    monkeypatch.setattr(cache, "grader_digest", lambda: "another")
    succeeded(quick(folder, out))
    assert all(when != before[name] for name, when in times(out).items())


def test_an_error_of_ours_is_not_a_zero(quick, submissions, tmp_path, monkeypatch):
    """Of the disk, or of our own code."""
    take, out = grade.intake.take, tmp_path / "out"

    def broken_take(student, path, part):
        if student == "1_right":
            raise OSError("disk fault")
        return take(student, path, part)

    quick.failing.add("2_wrong")
    with monkeypatch.context() as patches:
        patches.setattr(grade.intake, "take", broken_take)
        done = quick(submissions, out)
    assert done.code == 1
    assert "2_wrong: staff error: ZeroDivisionError: a bug of ours" in done.out
    assert "1_right: staff error: OSError: disk fault" in done.out
    row = rows_in(out / "grades.csv")["2_wrong"]
    assert (row["status"], row["points"], row["1.1"]) == (STAFF_ERROR, "", "")
    page = (out / "feedback" / "2_wrong.html").read_text()
    assert "ZeroDivision" not in page
    assert "costs you nothing" in page
    assert "judge" in json.loads((out / "results" / "2_wrong.json").read_text())["why"]
    before = times(out)
    quick.failing.clear()
    succeeded(quick(submissions, out))
    changed = {name for name, when in times(out).items() if when != before[name]}
    assert changed == {"1_right", "2_wrong"}


def test_marks_are_kept_and_grade_nothing_again(quick, tmp_path):
    write_zip(tmp_path / "zips", "1_a", {"multitask_classifier.py": "x = 1\n"})
    out, given = tmp_path / "out", tmp_path / "given.csv"
    arguments = (tmp_path / "zips", out, "--part", 2)
    succeeded(quick(*arguments))
    before, template = times(out), (out / marks.TEMPLATE).read_text().splitlines()
    assert template[0] == "student,row,points,comment"
    assert template[1] == "1_a,2.1,,"
    given.write_text('student,row,points,comment\n1_a,2.1,7,"good, but long"\n1_a,analysis,0,\n')
    succeeded(quick(*arguments, "--marks", given))
    given.unlink()
    succeeded(quick(*arguments))
    row = rows_in(out / "grades.csv")["1_a"]
    assert (row["points"], row["2.1"], row["analysis"], row["2.2"]) == ("7", "7", "0", "")
    assert "good, but long" in (out / "feedback" / "1_a.html").read_text()
    assert "1_a,2.1,," not in (out / marks.TEMPLATE).read_text()
    assert times(out) == before


@pytest.mark.parametrize(
    ("lines", "fact"),
    [
        ("group,row,points,comment", "row 1 is not student,row,points,comment"),
        ("", "row 1 is not student,row,points,comment"),
        ("student,row,points,comment\n1_a,2.1,3", "row 2: 3 cells instead of 4"),
        ("student,row,points,comment\n2_b,2.1,3,", "row 2: no submission is called '2_b'"),
        ("student,row,points,comment\n\n1_a,1.1,3,", "row 3: '1.1' is not a row; write one of 2.1"),
        ("student,row,points,comment\n1_a,2.1,11,", "'11' is not a number from 0 to 10"),
        ("student,row,points,comment\n1_a,2.1,nan,", "'nan' is not a number"),
        ("student,row,points,comment\n1_a,2.1,-1,", "'-1' is not a number from 0 to 10"),
        ("student,row,points,comment\n1_a,2.1,x\x1b[31m,", "'x\\x1b[31m' is not a number"),
        ("student,row,points,comment\n1_a,2.1,1,\n1_a,2.1,2,", "row 3: 1_a, 2.1 has two lines"),
        ("student,row,points,comment\n1_a,2.1,1,\xff", "cannot be read"),
        ('student,row,points,comment\n1_a,2.1,1,"a', "cannot be read"),
    ],
)
def test_a_fault_in_the_marks_is_one_line(tmp_path, lines, fact):
    path = tmp_path / "given.csv"
    path.write_bytes(lines.encode("latin-1"))
    rows = points.marked_rows(2, SETTINGS)
    with one_line_error(str(path), fact):
        marks.read_marks(tmp_path, path, ["1_a"], rows)
    assert not (tmp_path / marks.KEPT).exists()


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (("--only", "nobody"), "--only nobody: no such submission"),
        (("--marks", "x.csv"), "--marks is for part 2"),
        (("--part", "2", "--marks", "no.csv"), "no.csv cannot be read"),
    ],
)
def test_a_wrong_command_line_is_one_line(quick, submissions, tmp_path, arguments, fact):
    assert_refused(quick(submissions, tmp_path / "out", *arguments), fact)


def test_one_grading_at_a_time_and_one_part_in_a_folder(quick, submissions, tmp_path):
    out = new_out(tmp_path / "out", part=2)
    assert_refused(quick(submissions, out), "holds part 2; grade part 1 into another --out")
    number = os.open(out, os.O_RDONLY)
    fcntl.flock(number, fcntl.LOCK_EX)
    assert_refused(quick(submissions, out), "another grading writes into")
    os.close(number)


def test_secrets_that_could_be_read_are_refused(
    run_script_here, submissions, tmp_path, monkeypatch
):
    reached = {submissions, ROOT, GOLD[0]}
    monkeypatch.setattr(grade.isolation.Bubblewrap, "reaches", lambda _, path: path in reached)
    done = run_script_here(grade, submissions, "--gold", *GOLD, "--out", tmp_path / "out")
    named = " ".join(map(str, (GOLD[0], submissions, ROOT)))
    assert_refused(done, f"{named} could be read by the code that is graded")
    assert not (tmp_path / "out" / "results").exists()


ATTENTION = graded_task("1.1")  # 20 points
KNOWN = Mistake("no_scale", "The scores are not divided.", "Look at equation 1.", "Vaswani, §3")
OUTCOMES = {"values": WRONG} | dict.fromkeys(("gradients", "padding"), NOT_COUNTED)
GRADING = {"whole_tasks": False, "shares": {"values": 0.5, "gradients": 0.25, "padding": 0.25}}


@pytest.mark.parametrize(
    ("rows", "cost", "whole", "earned"),
    [
        (dict.fromkeys(OUTCOMES, RIGHT), None, False, 20),
        (dict.fromkeys(OUTCOMES, RIGHT), None, True, 20),
        (OUTCOMES, None, False, 0),
        (OUTCOMES, 0.6, False, 8),
        (OUTCOMES, 0.6, True, 0),
        ({"values": RIGHT, "gradients": WRONG, "padding": RIGHT}, None, False, 15),
        ({"values": RIGHT, "gradients": WRONG, "padding": RIGHT}, None, True, 0),
    ],
)
def test_points_of_a_task(rows, cost, whole, earned):
    verdict = Verdict("wrong", rows, ("differs",), (KNOWN,), cost)
    made = points.task_result(ATTENTION, verdict, {"grading": GRADING | {"whole_tasks": whole}})
    assert made.points == pytest.approx(earned)
    assert sum(row.points for row in made.rows) == pytest.approx(earned)
    assert sum(row.of for row in made.rows) == pytest.approx(20)
    assert (made.messages, made.mistakes) == (("differs",), (KNOWN,))
    if cost is None and not whole:
        assert {row.what: row.outcome for row in made.rows} == rows


def scores(sst: float | None, para: float, sts: float) -> tuple[Score, ...]:
    """Part 2's scores on test."""
    values = {"sst": sst, "para": para, "sts": sts}
    return tuple(
        Score(f"predictions/{data}-test-output.csv", data, "test", "", "accuracy", value)
        for data, value in values.items()
    )


@pytest.mark.parametrize(
    ("values", "earned"),
    [
        ((0, 0.5, 0), 0),
        ((0.6, 0.6, 0.2), 5),
        ((0.7, 0.7, 0.4), 10),
        ((1, 1, 1), 10),
        ((None, 1, 1), 0),
    ],
)
def test_points_of_predictions_grow_from_none_to_full(values, earned):
    ends = SETTINGS | {"predictions": {"points": 10, "none": 0.5, "full": 0.7}}
    result = points.with_marks(Result("a", 2, GRADED, scores=scores(*values)), ends, {})
    assert {mark.row: mark.points for mark in result.marks}["predictions"] == earned


def test_a_refused_submission_has_0_in_every_row_and_a_staff_error_no_row():
    for part, rows in ((1, 7), (2, 5 + len(SETTINGS["manual"]) + 1), (3, 3)):
        refused = points.with_marks(Result("a", part, REFUSED), SETTINGS, {})
        assert len(tables.points_of(refused)) == rows
        assert (refused.points, refused.unmarked) == (0, ())
        assert refused.of >= 20
        failed = points.with_marks(Result("a", part, STAFF_ERROR), SETTINGS, {})
        assert tables.submission_row(failed)["points"] is None


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("approach = 20", "approach = -1", "manual.approach is -1, not a number from 0 up"),
        ("whole_tasks = false", 'whole_tasks = "no"', "neither true nor false"),
        ("[points]", '[points]\n"9.9" = 3', "gives points to 9.9, which is not a task"),
        ("full = 0.78\n", "", "has no predictions.full"),
        ('visibility = "visible"', 'visibility = "often"', "visibility is 'often'; write"),
    ],
)
def test_a_fault_in_the_settings_is_one_line(tmp_path, old, new, fact):
    text = (ROOT / settings.SETTINGS).read_text(encoding="utf-8")
    assert text.count(old) == 1
    (tmp_path / "course").mkdir()
    (tmp_path / settings.SETTINGS).write_text(text.replace(old, new))
    with one_line_error(fact):
        settings.read_settings(tmp_path)


HOSTILE = (
    "<script>alert(1)</script> \x1b[31mred\x1b]8;;http://x\x07 \u202eevil {{ 7 * 7 }} `</pre>`"
)


def a_task(status: str = "wrong", earned: float = 8.0, text: str = "differs") -> TaskResult:
    """Task 1.1 as a result has it."""
    rows = (Row("values", WRONG, 0, 10), Row("padding", NOT_COUNTED, 0, 10))
    return TaskResult("1.1", ATTENTION.title, status, earned, 20, rows, (text,), (KNOWN,))


def a_score(split: str, value: float | None = 0.5, **more) -> Score:
    """A score of SST, finetune."""
    path = f"predictions/finetune-sst-{split}-out.csv"
    return Score(path, "sst", split, "finetune", "accuracy", value, **more)


def a_result(student: str, *of: TaskResult, **more) -> Result:
    """A graded submission of part 1."""
    return Result(student, 1, GRADED, tasks=of or (a_task(),), **more)


def written(tmp_path: Path, *results: Result) -> dict[str, str]:
    """The text of each file that is written of some results."""
    pages.write_all(tmp_path, results, SETTINGS)
    return {str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.rglob("*") if p.is_file()}


class Shown(HTMLParser):
    """The tags of a page, and its text without styles and scripts."""

    def __init__(self, page: str):
        super().__init__()
        self.tags, self.text, self.inside = [], "", ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = tag
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs)

    def handle_data(self, data):
        self.text += data if self.inside not in ("script", "style") else ""


def test_what_students_write_is_text_on_every_page(tmp_path):
    more = {"notes": (HOSTILE,), "checks": HOSTILE, "calls": (HOSTILE,)}
    more |= {"scores": (a_score("test", None, faults=(HOSTILE,)), a_score("dev"))}
    more |= {"marks": (Mark("approach", 20, 5, HOSTILE),)}
    hostile = a_result("1_a", a_task(text=HOSTILE), **more)
    refused = Result("2_b", 1, REFUSED, why=f"={HOSTILE}")
    files = written(tmp_path, hostile, points.with_marks(refused, SETTINGS, {}))
    assert {"feedback/1_a.html", "feedback/2_b.html", "staff.html", "grades.csv"} < {*files}
    for name, text in files.items():
        assert not set(text) & {"\x1b", "\u202e", "\x07"}, name
        if name.endswith(".html"):
            page = Shown(text)
            assert "script" not in page.tags, name
            assert "content=\"default-src 'none'; style-src" in text
            assert "{{ 7 * 7 }}" in page.text or name == "leaderboard.html"
    assert rows_in(tmp_path / "grades.csv")["2_b"]["why"].startswith("'=")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        (" \t@x", "'@x"),
        ("a;=1+1", "a;'=1+1"),
        ('a;"=1"', 'a;"\'=1"'),
        ("\u202e=1", "'=1"),
        (-1.5, "-1.5"),
        (None, ""),
        (3, "3"),
    ],
)
def test_no_cell_is_a_formula(value, cell):
    assert output.csv_cell(value) == cell


def test_feedback_says_what_is_wrong_and_why_rows_do_not_count():
    marks = (Mark("approach", 20), Mark("analysis", 25, 12.5, "fine"))
    text = Shown(pages.feedback(a_result("1_a", scores=(a_score("test"),), marks=marks))).text
    for words in (
        "20.5 of 45 points of the rows graded so far",
        "✗ values 0 of 10",
        "– padding not counted: values wrong",
        "The scores are not divided. Look at equation 1. Read Vaswani, §3.",
        "approach: not marked yet",
    ):
        assert words in " ".join(text.split()), words


def test_the_leaderboard_orders_by_test_then_dev_and_shares_ranks():
    scored = {"d": (None, 0.9), "c": (0.4, 0.5), "b": (0.5, 0.3), "a": (0.5, 0.3), "e": ()}
    results = [
        a_result(student, scores=[a_score(s, v) for s, v in zip(("test", "dev"), of, strict=False)])
        for student, of in scored.items()
    ]
    rows = tables.standings(results, 1)
    assert [(row["rank"], row["student"]) for row in rows] == [
        (1, "a"),
        (1, "b"),
        (3, "c"),
        (4, "d"),
    ]


def test_what_staff_should_look_at():
    good = a_result("a", scores=(a_score("test", 0.5, contents="1"),), calls=("Task 1.1 ran x",))
    twin = a_result("b", scores=(a_score("test", 0.99, contents="1"),))
    bad = a_result("c", a_task("crashed"), notes=(f"{batch.NOT_HANDED_IN}: bert.py", "moved: x"))
    missing = (a_score("dev", None, faults=("fault 0",)),)
    found = tables.to_look_at(
        [good, twin, bad, replace(bad, student="d", scores=missing)], SETTINGS["look"]
    )
    file = "predictions/finetune-sst-test-out.csv"
    assert found["a"] == ["Task 1.1 ran x", f"{file}: the same predictions as b"]
    assert f"{file}: 0.990 is implausible, were test labels used?" in found["b"]
    assert found["c"] == ["not handed in: bert.py", "1.1 crashed"]
    assert found["d"] == [*found["c"], "fault 0"]
    assert tables.to_look_at([Result("e", 1, REFUSED)], SETTINGS["look"]) == {}


def test_the_staffs_page_counts_mistakes_and_leaves_failures_out(tmp_path):
    failed = Result("c", 1, STAFF_ERROR, why="Traceback\n  x\nValueError: no")
    staff = written(tmp_path, a_result("a"), a_result("b", a_task("right", 20)), failed)[
        "staff.html"
    ]
    text = " ".join(Shown(staff).text.split())
    assert "Submissions: 2 graded, 1 staff error." in text
    assert "14 20 1 wrong, 1 right The scores are not divided. (2)" in text
    assert "c – – staff error – ValueError: no" in text


# ---------------------------------------------------------------------------------------------
# Viva


def subject_for(source: str) -> dict:
    """What a viva may ask about a source's attention."""
    return subject_of(graded_task("1.1"), source, random.Random(7))


SOURCE = (ROOT / "bert.py").read_text(encoding="utf-8")


def test_a_sheet_shows_hostile_code_as_text(tmp_path):
    subject = subject_for(SOURCE.replace("context = prob", f"x = {HOSTILE!r}; context = prob"))
    question = Question("bert.attention", "", "`a` <b>?", ("1", "2", HOSTILE, "4"), ("",) * 4, 2)
    sheet = sheets.Sheet(Submission("1_a", 1), {"bert.attention": subject}, [question], [HOSTILE])
    sheets.write_pages(tmp_path, sheet, 5)
    for path in tmp_path.rglob("*.html"):
        page = Shown(path.read_text())
        assert "script" not in page.tags
        assert not set(path.read_text()) & {"\x1b", "\u202e"}
        assert page.text.count("alert(1)") >= 2
        assert "1 of 5 questions." in page.text
    assert "Exactly one option" in (tmp_path / "sheets" / "1_a.html").read_text()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("0||gradients/{}", torch.ones(())),
        ("0||values/context|{}", torch.ones(2, 3)),
        ("0||values/context|scores", torch.ones(1, 2, 1, 2, 1, 2, 1, 2, 1, 2)),
        ("{}", torch.ones(())),
        ("99||values/context", torch.ones(2)),
        ("stored|values/context", torch.ones(1)),
        ("0||values/context", torch.ones(2, dtype=torch.bool)),
    ],
)
def test_what_the_sandbox_sends_never_becomes_text(name, value):
    """A page can be forged by no name: text comes from the source that was parsed, and from us."""
    forged = "the key is a"
    subject = subject_for(SOURCE)
    reply = protocol.Reply("ran", numbers(subject) | {name.format(forged): value})
    for question in viva.asked_of(subject, reply, random.Random(1)):
        assert forged not in str(question)
    assert viva.asked_of(subject, protocol.Reply("ran", {}), random.Random(1)) == []
