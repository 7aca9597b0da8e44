"""From zips to pages: grade.py and viva.py as staff run them, points, marks, pages."""

import contextlib
import csv
import html
import json
import random
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from factories import ROOT
from made import GOLD, needs_sandbox
from running import MODULES, as_process, assert_refused, one_line_error, succeeded

from checks.findings import Mistake
from checks.graded_tasks import graded_task
from checks.quiz.questions import Question, numbers, questions_of, subject_of
from course import grade, settings, viva
from course.grading import batch, marks, points
from course.grading.judging.predictions import FILES as FILES_OF_PREDICTIONS
from course.grading.judging.predictions import load_gold
from course.grading.pages import output, pages
from course.grading.sandbox.context import open_context
from course.grading.types import (
    GRADED,
    NOT_COUNTED,
    REFUSED,
    RIGHT,
    STAFF_ERROR,
    WRONG,
    Result,
    Row,
    Score,
    TaskResult,
    Verdict,
)
from prepare_submit import ZIP_NAME

SETTINGS = settings.read_settings(ROOT)
FILES = {n: (ROOT / n).read_text("utf-8") for n in ("bert.py", "optimizer.py", "classifier.py")}
SCALE = " / math.sqrt(query.size(-1))"  # without it, attention has a known mistake


def predictions_of(part: int, right: float = 1.0) -> dict[str, str]:
    """A part's files of predictions: this fraction of the labels, then zeros."""
    gold, files = load_gold(*GOLD), {}
    for path, (data, split, *_) in FILES_OF_PREDICTIONS[part].items():
        labelled = gold[data, split]
        pairs = enumerate(zip(labelled.ids, labelled.labels, strict=True))
        kept = right * len(labelled.ids)
        rows = [f"{key},{label if i < kept else 0}" for i, (key, label) in pairs]
        files[path] = "\n".join([f"id,{labelled.column}", *rows]) + "\n"
    return files


def write_zip(folder: Path, name: str, files: Mapping[str, str]) -> Path:
    """A submission as prepare_submit.py names it."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}_{ZIP_NAME}"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, text in files.items():
            archive.writestr(inside, text)
    return path


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
    write_zip(folder, "1_right", FILES | predictions_of(1))
    wrong = {"bert.py": FILES["bert.py"].replace(SCALE, ""), "optimizer.py": "import nowhere\n"}
    write_zip(folder, "2_wrong", FILES | wrong | predictions_of(1, right=0.4))
    write_zip(folder, "3_stubs", stubs)
    (folder / "4_damaged.zip").write_bytes(b"PK\3\4 no zip")
    return folder


def command(folder: Path, out: Path, *more: object) -> list[object]:
    """What staff type: the script and its arguments."""
    return ["-m", "course.grade", folder, "--out", out, "--gold", *GOLD, *more]


@pytest.fixture(scope="module")
def graded(submissions, tmp_path_factory) -> Path:
    """OUT of the whole batch."""
    out = tmp_path_factory.mktemp("whole") / "out"
    done = succeeded(as_process(*command(submissions, out, "-j", 2), folder=submissions, **MODULES))
    assert "Submissions: 3 graded, 1 refused." in done.out
    return out


@needs_sandbox
def test_points_and_pages_of_a_batch(graded):
    rows = rows_in(graded / "grades.csv")
    earned = {name: float(row["points"]) for name, row in rows.items()}
    optimizer = graded_task("1.5").points
    assert 80 - optimizer <= earned.pop("2_wrong") < 100 - optimizer
    assert earned == {"1_right": 100, "3_stubs": 0, "4_damaged": 0}
    assert rows["4_damaged"]["status"] == REFUSED
    board = rows_in(graded / "leaderboard.csv")
    assert {name: row["rank"] for name, row in board.items()} == {"1_right": "1", "2_wrong": "2"}
    page = (graded / "feedback" / "2_wrong.html").read_text()
    assert "The scores are not divided by √W" in page
    assert "one known mistake" in page
    assert "No module named &#39;nowhere&#39;" in page
    assert "The scores are not divided by √W. (1)" in (graded / "staff.html").read_text()


@needs_sandbox
def test_part_2_is_scored_and_marked(tmp_path):
    code = (ROOT / "multitask_classifier.py").read_text("utf-8")
    code = code.replace(".squeeze(-1).sigmoid()", ".squeeze(-1).sigmoid().round()")
    whole = FILES | {"multitask_classifier.py": code, "README.md": "report"} | predictions_of(2)
    write_zip(tmp_path / "zips", "1_a", whole)
    words = command(tmp_path / "zips", tmp_path / "out", "--part", 2, "-j", 1)
    done = succeeded(as_process(*words, folder=tmp_path, **MODULES))
    assert "10 rows have no mark yet: fill in" in done.out
    row, best = rows_in(tmp_path / "out" / "grades.csv")["1_a"], SETTINGS["predictions"]["points"]
    assert (row["2.1"], row["predictions"], row["points"]) == ("", str(best), str(best))
    page = (tmp_path / "out" / "feedback" / "1_a.html").read_text()
    said = page[page.index("What sanity_check.py prints") :]
    assert "Task 2.3" in said
    assert "explained: Every result is a whole number." in said  # all, whatever students see first
    assert "AI-usage card" in (tmp_path / "out" / "staff.html").read_text()


@needs_sandbox
def test_a_viva_asks_about_each_groups_own_code(submissions, tmp_path):
    out = tmp_path / "viva"
    words = ["-m", "course.viva", submissions, "--seed", 7, "--questions", 2, "--out", out, "-j", 2]
    done = as_process(*words, folder=tmp_path, **MODULES)
    assert done.code == 1  # nothing can be asked about two of them
    assert "1_right: 2 questions" in done.out
    for told in (done.out, (out / "sheets" / "2_wrong.html").read_text()):
        assert "attention is left out: python sanity_check.py does not find it" in told
    keys = (out / "keys" / "1_right.html").read_text()
    sheet = (out / "sheets" / "1_right.html").read_text()
    assert keys.count('<li class="right">') == 2
    assert "class=right" not in sheet.replace('"', "")
    assert sheet.count('<ol type="a">') == 2


@pytest.fixture
def quick(monkeypatch, run_script_here):
    """A function that runs grade.py where nothing is ever started: all is right of those students
    that are in its ``right``.
    """
    right: set[str] = set()

    def judge(context, submission):
        is_right = submission.student in right
        verdict = Verdict(
            "right" if is_right else "not started", {"values": RIGHT if is_right else WRONG}
        )
        return {task.id: verdict for task in context.tasks}

    monkeypatch.setattr(batch, "verdicts_on", judge)
    monkeypatch.setattr(batch, "checks_text", lambda *given: "the checks' text")
    monkeypatch.setattr(batch, "require_safe_machine", lambda *given: None)
    monkeypatch.setattr(grade.canaries, "check", lambda context: None)

    def go(folder, out, *more):
        return run_script_here(grade, folder, "--gold", *GOLD, "--out", out, *more)

    go.right = right
    return go


def test_one_again_and_what_regrades(quick, submissions, tmp_path, monkeypatch):
    folder, out = tmp_path / "zips", tmp_path / "out"
    shutil.copytree(submissions, folder)
    quick.right.add("1_right")
    succeeded(quick(folder, out))
    before = times(out)
    quick.right.add("3_stubs")
    (out / "results" / "3_stubs.json").unlink()
    succeeded(quick(folder, out))
    after = times(out)
    assert {name for name in after if after[name] != before[name]} == {"3_stubs"}
    points_of = {name: row["points"] for name, row in rows_in(out / "grades.csv").items()}
    assert points_of == {"1_right": "100", "2_wrong": "0", "3_stubs": "100", "4_damaged": "0"}
    write_zip(folder, "2_wrong", FILES)
    succeeded(quick(folder, out))
    assert {name for name, when in times(out).items() if when != after[name]} == {"2_wrong"}
    before = times(out)
    monkeypatch.setattr(grade, "grader_digest", lambda: "another")
    succeeded(quick(folder, out))
    assert all(when != before[name] for name, when in times(out).items())


def test_an_error_of_ours_is_not_a_zero(quick, submissions, tmp_path, monkeypatch):
    take, out = grade.intake.take, tmp_path / "out"

    def broken_take(student, path, part):
        if student == "2_wrong":
            raise OSError("disk fault")
        return take(student, path, part)

    with monkeypatch.context() as patches:
        patches.setattr(grade.intake, "take", broken_take)
        done = quick(submissions, out)
    assert done.code == 1
    assert "2_wrong: staff error: OSError: disk fault" in done.out
    row = rows_in(out / "grades.csv")["2_wrong"]
    assert (row["status"], row["points"], row["1.1"]) == (STAFF_ERROR, "", "")
    page = (out / "feedback" / "2_wrong.html").read_text()
    assert "disk fault" not in page
    assert "costs you nothing" in page
    assert "broken_take" in json.loads((out / "results" / "2_wrong.json").read_text())["why"]
    before = times(out)
    succeeded(quick(submissions, out))
    assert {name for name, when in times(out).items() if when != before[name]} == {"2_wrong"}


def test_marks_are_filled_in_and_grade_nothing_again(quick, tmp_path):
    write_zip(tmp_path / "zips", "1_a", {"multitask_classifier.py": "x = 1\n"})
    out = tmp_path / "out"
    arguments, path = (tmp_path / "zips", out, "--part", 2), out / marks.NAME
    succeeded(quick(*arguments))
    before, (header, *lines) = times(out), path.read_text().splitlines()
    assert (header, lines[0], len(lines)) == ("student,row,points,comment", "1_a,2.1,,", 10)
    lines[0] = '1_a,2.1,7,"good, but long"'
    lines.remove("1_a,analysis,,")
    path.write_text("\ufeff" + "\r\n".join([header, "", *lines, "1_a,analysis,0,\r\n"]))
    kept = path.read_bytes()
    succeeded(quick(*arguments))
    assert path.read_bytes() == kept
    row = rows_in(out / "grades.csv")["1_a"]
    assert (row["points"], row["2.1"], row["analysis"], row["2.2"]) == ("7", "7", "0", "")
    assert "good, but long" in (out / "feedback" / "1_a.html").read_text()
    assert times(out) == before
    write_zip(tmp_path / "zips", "2_b", {"multitask_classifier.py": "x = 1\n"})
    succeeded(quick(*arguments))
    text = path.read_text()
    assert '1_a,2.1,7.0,"good, but long"\n' in text
    assert text.count("2_b,") == 10
    assert_refused(quick(*arguments[:2]), "holds part 2; grade part 1 into another --out")


@pytest.mark.parametrize("text", ["{", "[]", '{"part": 1}', '{"part": 1, "secret": 5}', "\xff"])
def test_a_damaged_assignment_is_one_line(tmp_path, text):
    (tmp_path / "assignment.json").write_bytes(text.encode("latin-1"))
    with one_line_error(f"{tmp_path / 'assignment.json'} is damaged", "another --out"):
        batch.secret_of(tmp_path, 1)


HEADER = "student,row,points,comment"


@pytest.mark.parametrize(
    ("lines", "fact"),
    [
        ("group,row,points,comment\n1_a,2.1,3,", "lacks the column student (it has: group, row"),
        (f"{HEADER}\n2_b,2.1,3,", "'2_b' is not a submission here"),
        (f"{HEADER}\n\n1_a,2.2,3,\n1_a,1.1,3,", "row 2: '1.1' is not a row; write one of 2.1, 2.2"),
        (f"{HEADER}\n1_a,2.1,11,", "'11' points for 2.1; write 0 to 10"),
        (f"{HEADER}\n1_a,2.1,nan,", "'nan' points"),
        (f"{HEADER}\n1_a,2.1,1,\n1_a,2.1,2,", "row 2: 1_a has 2.1 already"),
    ],
)
def test_a_fault_in_the_marks_is_one_line(tmp_path, lines, fact):
    path = tmp_path / marks.NAME
    path.write_text(lines)
    with one_line_error(str(path), fact):
        marks.read_marks(tmp_path, ["1_a"], points.marked_rows(2, SETTINGS))


def test_where_code_could_read_secrets_nothing_is_graded(
    run_script_here, submissions, tmp_path, monkeypatch
):
    monkeypatch.setattr(batch.shutil, "which", lambda name: None)
    reached = {submissions, ROOT, GOLD[0]}
    monkeypatch.setattr(grade.isolation.Bubblewrap, "reaches", lambda _, path: path in reached)
    done = run_script_here(grade, submissions, "--gold", *GOLD, "--out", tmp_path / "out")
    named = " ".join(map(str, (GOLD[0], submissions, ROOT)))
    assert_refused(
        done,
        "bubblewrap is not installed: apt install bubblewrap",
        f"{named} could be read by the code that is graded",
    )
    assert not (tmp_path / "out" / "results").exists()


ATTENTION = graded_task("1.1")  # 20 points
KNOWN = Mistake("no_scale", "The scores are not divided.", "Look at equation 1.", "Vaswani, §3")
OUTCOMES = {"values": WRONG} | dict.fromkeys(("gradients", "padding"), NOT_COUNTED)
SHARES = {"shares": {"values": 0.5, "gradients": 0.25, "padding": 0.25}}


@pytest.mark.parametrize(
    ("rows", "cost", "earned"),
    [
        (dict.fromkeys(OUTCOMES, RIGHT), None, 20),
        (OUTCOMES, None, 0),
        (OUTCOMES, 0.6, 8),
        ({"values": RIGHT, "gradients": WRONG, "padding": RIGHT}, None, 15),
    ],
)
def test_points_of_a_task(rows, cost, earned):
    verdict = Verdict("wrong", rows, ("differs",), (KNOWN,), cost)
    made = points.task_result(ATTENTION, verdict, SHARES)
    assert made.points == pytest.approx(earned)
    assert sum(row.points for row in made.rows) == pytest.approx(earned)
    assert sum(row.of for row in made.rows) == pytest.approx(20)
    assert (made.messages, made.mistakes) == (("differs",), (KNOWN,))
    if cost is None:
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
    [((0, 0.5, 0), 0), ((0.6, 0.6, 0.2), 5), ((1, 1, 1), 10), ((None, 1, 1), 0)],
)
def test_points_of_predictions_grow_from_none_to_full(values, earned):
    ends = SETTINGS | {"predictions": {"points": 10, "none": 0.5, "full": 0.7}}
    result = points.with_marks(Result("a", 2, GRADED, scores=scores(*values)), ends, {})
    assert {task.number: task.points for task in result.tasks}["predictions"] == earned


def test_a_refused_submission_has_0_in_every_row_and_a_staff_error_no_row():
    for part, rows in ((1, 7), (2, 5 + len(SETTINGS["manual"]) + 1), (3, 3)):
        refused = points.with_marks(Result("a", part, REFUSED), SETTINGS, {})
        assert {task.points for task in refused.tasks} == {0}
        assert (len(refused.tasks), refused.unmarked) == (rows, [])
        assert refused.of >= 20
        failed = points.with_marks(Result("a", part, STAFF_ERROR), SETTINGS, {})
        assert pages.submission_row(failed)["points"] is None


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("approach = 20", "approach = -1", "manual.approach is -1, not a number from 0 up"),
        ("none = 0.5\n", "none = 0.9\n", "predictions.none is not below predictions.full"),
        (
            "[manual]",
            "[points]\n[manual]",
            "has [points]; write these into checks/graded_tasks.toml",
        ),
        ("full = 0.78\n", "", "has no predictions.full"),
        ("first = 1\n", "first = true\n", "hints.first is True, not 1, 2 or 3"),
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


def shown(page: str) -> str:
    """The text of a page, in one line."""
    body = page.partition("</head>")[2]
    return " ".join(html.unescape(re.sub("<[^>]*>", "", body)).split())


def test_what_students_write_is_text_on_every_page(tmp_path):
    more = {"notes": (HOSTILE,), "checks": HOSTILE, "named": (HOSTILE,)}
    more |= {"scores": (a_score("test", None, faults=(HOSTILE,)), a_score("dev"))}
    mark = TaskResult("approach", "approach", "marked", 5, 20, messages=[HOSTILE])
    hostile = a_result("1_a", a_task(text=HOSTILE), mark, **more)
    refused = Result("2_b", 1, REFUSED, why=f"={HOSTILE}")
    files = written(tmp_path, hostile, points.with_marks(refused, SETTINGS, {}))
    assert {"feedback/1_a.html", "feedback/2_b.html", "staff.html", "grades.csv"} < {*files}
    for name, text in files.items():
        assert not set(text) & {"\x1b", "\u202e", "\x07"}, name
        if name.endswith(".html"):
            assert "<script" not in text, name
            assert "content=\"default-src 'none'; style-src" in text
            assert "{{ 7 * 7 }}" in shown(text) or name == "leaderboard.html"
    assert rows_in(tmp_path / "grades.csv")["2_b"]["why"].startswith("'=")


@pytest.mark.parametrize(
    ("value", "cell"),
    [(" \t@x", "'@x"), ('a;"=1"', 'a;"\'=1"'), ("\u202e=1", "'=1"), (-1.5, "-1.5")],
)
def test_no_cell_is_a_formula(value, cell):
    assert output.csv_cell(value) == cell


def test_feedback_says_what_is_wrong_and_why_rows_do_not_count():
    given = [TaskResult("approach", "approach", "not marked", None, 20)]
    given += [TaskResult("analysis", "analysis", "marked", 12.5, 25, messages=["fine"])]
    text = shown(pages.feedback(a_result("1_a", a_task(), *given)))
    for words in (
        "20.5 of 45 points of the rows graded so far",
        "✗ values 0 of 10",
        "– padding not counted: values wrong",
        "The scores are not divided. Look at equation 1. Read Vaswani, §3.",
        "approach – of 20 Not marked yet. analysis 12.5 of 25 fine",
    ):
        assert words in text, words


def test_the_leaderboard_orders_by_test_then_dev_and_shares_ranks():
    scored = {"d": (None, 0.9), "c": (0.4, 0.5), "b": (0.5, 0.3), "a": (0.5, 0.3), "e": ()}
    results = [
        a_result(student, scores=[a_score(s, v) for s, v in zip(("test", "dev"), of, strict=False)])
        for student, of in scored.items()
    ]
    rows = pages.standings(results, 1)
    ranks = [(row["rank"], row["student"]) for row in rows]
    assert ranks == [(1, "a"), (1, "b"), (3, "c"), (4, "d")]


def test_what_staff_should_look_at():
    good = a_result("a", scores=(a_score("test", 0.5, contents="1"),), named=("bert.py names x",))
    twin = a_result("b", scores=(a_score("test", 0.99, contents="1"),))
    bad = a_result("c", a_task("crashed"), notes=(f"{batch.NOT_HANDED_IN}: bert.py", "moved: x"))
    missing = (a_score("dev", None, faults=("fault 0",)),)
    found = pages.to_look_at(
        [good, twin, bad, replace(bad, student="d", scores=missing)], SETTINGS["look"]
    )
    file = "predictions/finetune-sst-test-out.csv"
    assert found["a"] == ["bert.py names x", f"{file}: the same predictions as b"]
    assert f"{file}: 0.990 is implausible, were test labels used?" in found["b"]
    assert found["c"] == ["not handed in: bert.py", "1.1 crashed"]
    assert found["d"] == [*found["c"], "fault 0"]
    assert pages.to_look_at([Result("e", 1, REFUSED)], SETTINGS["look"]) == {}


# ---------------------------------------------------------------------------------------------
# Viva


def subject_for(source: str) -> dict:
    """What a viva may ask about a source's attention."""
    return subject_of(graded_task("1.1"), source, random.Random(7))


def test_a_sheet_shows_hostile_code_as_text(tmp_path):
    subject = subject_for(
        FILES["bert.py"].replace("context = prob", f"x = {HOSTILE!r}; context = prob")
    )
    question = Question("bert.attention", "", "`a` <b>?", ("1", "2", HOSTILE, "4"), 2)
    sheet = viva.Sheet("1_a", [question], [HOSTILE], {"bert.attention": subject})
    viva.write_pages(tmp_path, sheet, 5)
    for path in tmp_path.rglob("*.html"):
        text = path.read_text()
        assert "<script" not in text
        assert not set(text) & {"\x1b", "\u202e"}
        assert shown(text).count("alert(1)") >= 2
        assert "1 of 5 questions." in text
    assert "Exactly one option" in (tmp_path / "sheets" / "1_a.html").read_text()


@pytest.mark.parametrize(
    ("name", "value"),
    [("0||gradients/{}", torch.ones(())), ("variables|{}", torch.ones(2, 3))],
)
def test_what_the_sandbox_sends_never_becomes_text(name, value):
    """A page can be forged by no name: text comes from the source that was parsed, and from us."""
    forged = "the key is a"
    subject = subject_for(FILES["bert.py"])
    outputs, questions = numbers(subject) | {name.format(forged): value}, []
    with contextlib.suppress(Exception):  # as viva.py: then nothing is asked about the function
        questions = list(questions_of(subject, outputs, random.Random(1)))
    assert forged not in str(questions)
