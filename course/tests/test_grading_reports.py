"""Points, feedback, the class page, gradebooks, and the lists that staff give."""

import html
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_results import prediction, rows_in, task
from made_results import result as raw_result
from support import ROOT, one_line_error

from course import table
from course.gradescope import results as gradescope
from course.grading.intake import deadlines
from course.grading.intake.lists import Lists, Member, read_marks, read_roster, read_times
from course.grading.judging import extra, similarity
from course.grading.judging.predictions import load_gold
from course.grading.judging.types import Submission
from course.grading.pages import class_page, gradebooks, pages
from course.grading.pages.class_page import class_rows
from course.grading.pages.reports import feedback, feedback_page, write_feedback
from course.grading.pages.review import to_look_at
from training.files.errors import InputError

LIMITS = {"approach": 20, "analysis": 25}
COURSE = {"name": "minBERT", "term": "Winter"}
SETTINGS = table.read_settings(ROOT)
SETTINGS |= {"course": SETTINGS["course"] | COURSE, "manual": LIMITS}
TIMES = dict.fromkeys("abcdef", 0.0)
ROSTER = [
    Member("a", "Ana Çelik", "s1", "4711"),
    Member("a", "=Bo_Lin/../x", "s2", "4712"),
    Member("e", "Eve", "s3", "4713"),
    Member("f", "Fi", "s4", "4714"),
    Member("z", "Zoe", "s5", "4715"),
]
SCORES = {"public": 0.521, "private": 0.503}


def result(student="a", tasks=(), marks=None, settings=SETTINGS, **more) -> dict:
    """A result with its sheet of points."""
    raw = raw_result(student, tasks, **more)
    return pages.completed(raw, settings, {}, Lists(marks=marks or {}), {})


@pytest.fixture
def written(tmp_path):
    """Write all pages of some results; what was printed, the rows of a CSV, a text."""

    def write(results, settings=SETTINGS, file_times=TIMES, gold=None, **lists):
        given = Lists(**lists)
        return pages.write_all(tmp_path, results, settings, file_times, given, "secret", gold)

    write.rows = lambda name: rows_in(tmp_path / f"{name}.csv")
    write.text = lambda name: (tmp_path / name).read_text()
    return write


# ---------------------------------------------------------------------------------------------
# Feedback


def test_feedback_says_what_was_checked_and_what_may_be_the_matter():
    wrong = task("1.2", "wrong", 4.0, mistakes=["no_norm"], hints=["The norm is missing."])
    wrong["messages"] = ["values differ\n  first at [0, 1]"]
    wrong["rows"] = [{"what": "values", "points": 0.0, "of": 10}]
    crashed = [task(number, "crashed", 0.0, messages=["no x"]) for number in ("1.3", "1.4")]
    marks = {("a", "approach"): (17.5, "clear")}
    tasks = [task("1.1"), wrong, *crashed]
    graded = result("a", tasks, marks, part=2, notes=["left out: x.pyc"])
    text = feedback(graded)
    for line in (
        "**41.5 of 100 points** of the rows graded so far",
        "- analysis: not marked yet",
        "- approach: 17.5 of 20. clear",
        "```text\nvalues differ\n  first at [0, 1]\n```",
        "Looks like **no norm**. The norm is missing.",
        "\n- ✗ values 0 of 10; expected: the results in evaluation mode are those of the",
        "Right:\n\n- Task 1.1 · f (20)\n",
        "Fix first: **Task 1.3 · f** (20 points lost), then **Task 1.4 · f** (20 points lost), then"
        " **Task 1.2 · f** (16 points lost).",
        "Read: Vaswani et al. 2017, §3.1, §5.4; `docs/handout.md`, Task 1.2.",
        "as Task 1.3",
        "- left out: x.pyc",
    ):
        assert line in text
    assert "## Task 1.1" not in text
    assert "Fix first" not in feedback(result("a", [task("1.1")], part=2))
    assert text.count("no x") == feedback_page(graded).count("no x") == 1


@pytest.mark.parametrize(("number", "page"), [("1.2", "handout"), ("2.4", "part2")])
def test_feedback_names_the_page_that_explains_the_task(number, page):
    wrong = task(number, "wrong", 4.0, mistakes=["no_norm"], hints=["The norm is missing."])
    graded = result("a", [wrong], part=int(number[0]))
    assert f"; `docs/{page}.md`, Task {number}." in feedback(graded)
    assert f"; docs/{page}.md, Task {number}." in feedback_page(graded)


def test_cases_of_an_optimizer_are_one_message_and_backticks_are_code():
    messages = ["wrong: eps 0.01", "no `x` here", "wrong: 40 steps"]
    hints = {"mistakes": ["no_eps"], "hints": ["`eps` is <added>."]}
    graded = result("a", [task("1.5", "wrong", 12.0, messages=messages, **hints)])
    assert "\ntried, with a wrong result: eps 0.01; 40 steps\n" in feedback(graded)
    page = feedback_page(graded)
    assert "<code>eps</code> is &lt;added&gt;." in page
    assert "no `x` here" in page  # a message is shown as it was printed


def test_feedback_shows_of_test_the_public_half_and_only_where_it_counts():
    faulty = prediction("dev", None, faults=["it lacks 3 ids"])
    scores = [prediction("dev", **SCORES), faulty, prediction("test", **SCORES)]
    graded = result(predictions=scores)
    text = feedback(graded)
    assert "all rows: accuracy 0.512, 95 % interval 0.489 to 0.535" in text
    assert "all rows: not scored: it lacks 3 ids" in text
    assert "public half: accuracy 0.521, 95 % interval 0.491 to 0.551" in text
    assert "0.503" not in text
    assert not re.search("0.512|0.489", text.split("test-out")[1])
    text = feedback(graded, show_test=False)
    assert "0.512" in text
    assert "0.521" not in text
    assert "only your first submissions count on test" in text


@pytest.mark.parametrize("status", ["refused", "staff error"])
def test_who_was_not_graded_reads_why_and_no_points(status):
    text = feedback(result(status=status, why="a link inside", tasks=[task()]))
    assert ("a link inside" in text) == (status == "refused")
    assert ("costs you nothing" in text) == (status == "staff error")
    assert "points" not in text


EVIL = "\x1b[31m\x1b]0;t\x07\u202e```\n# big\n<script>x</script> [a](http://evil) | `c`"


def test_no_text_of_a_student_acts_in_feedback():
    evil = task("1.2", "wrong", 0.0, messages=[EVIL], mistakes=[EVIL], hints=[EVIL])
    evil |= {"title": EVIL, "rows": [{"what": EVIL, "points": 0, "of": 1}]}
    settings = SETTINGS | {"manual": {EVIL: 2}}
    scores = [prediction("dev", file=EVIL), prediction("dev", None, faults=[EVIL])]
    marks = {("a", EVIL): (1, EVIL)}
    graded = result("a", [evil], marks, settings, part=2, notes=[EVIL], predictions=scores)
    text = feedback(graded)
    assert all(character.isprintable() or character == "\n" for character in text)
    blocks = re.findall(r"^(`{4,})text\n(.*?)\n\1$", text, re.M | re.S)
    assert len(blocks) == 1  # the message, between longer fences than its own
    outside = re.sub(r"^(`{4,})text\n.*?\n\1$", "", text, flags=re.M | re.S)
    assert not re.search(r"(?<!\\)[<\[]|http://", outside)
    assert "\n# big" not in outside
    shown = feedback_page(graded)
    assert not re.search("<script>x|<a |href", shown)
    assert shown.count("<script>") == 1


@pytest.mark.parametrize("name", ["समूह_1", "กลุ่มที่_1", "مُحَمَّد", "x\u0323y"])
def test_feedback_for_names_with_combining_marks(tmp_path, name):
    pages = write_feedback(tmp_path, [result(name), result("zoe")], ())
    assert set(pages) == {name, "zoe"}
    assert {path.name for path in (tmp_path / "feedback").iterdir()} == {
        f"{student}.{end}" for student in pages for end in ("md", "html")
    }
    assert name in (tmp_path / "feedback" / f"{name}.html").read_text(encoding="utf-8")
    member = Member("g", name.replace("_1", ""), "7", "12")
    assert gradebooks.file_name(member).startswith(f"{name.replace('_1', '')}_12_assign")
    long = Member("g", "मू" * 90, "7", "12")
    (tmp_path / gradebooks.file_name(long)).touch()


@pytest.mark.parametrize("name", ["../a", "a/b", "", "a\n", ".x", "a b"])
def test_feedback_is_written_nowhere_else(tmp_path, name):
    with pytest.raises(InputError, match="not a name for a file"):
        write_feedback(tmp_path, [result(name)], ())
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------------------
# The class


MASK = ["The mask is missing. Look at the padding. (read Vaswani et al. 2017)"]


def raw_class() -> list[dict]:
    mask = {"mistakes": ["no_mask", "no_mask"], "hints": MASK * 2}
    return [
        raw_result("a", [task(), task("1.10", "wrong", 5.0)]),
        raw_result("b", [task("1.2", "wrong", 4.0, **mask)]),
        raw_result("c", [task("1.2", "not started", 0.0)]),
        raw_result("d", [task("1.2", "wrong", 0.0, mistakes=["no_mask", "=x"], hints=MASK)]),
        raw_result("e", [task("1.2", "wrong", 0.0)], status="staff error", why="disk full"),
        raw_result("f", status="refused", why="=a link"),
    ]


def test_class_statistics_and_the_staff_s_page(tmp_path):
    results = [pages.completed(raw, SETTINGS, {}, Lists(), {}) for raw in raw_class()]
    first, second = class_rows(results)
    assert (first["task"], second["task"]) == ("1.2", "1.10")
    assert [first[key] for key in ("graded", "right", "wrong", "not started")] == [4, 1, 2, 1]
    assert first["mean points"] == 6.0
    assert first["common mistakes"] == "The mask is missing. (2) =x (1)"
    assert [bar["count"] for bar in first["bars"]] == [2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    evil = result("g", status="refused", why="<script>1</script>")
    alike = similarity.section([similarity.Pair("a", "b", 0.9, 30, "bert.py:1 <i>", "bert.py:2")])
    class_page.write(tmp_path, [*results, evil], COURSE, {"a": ["<u>odd"]}, [alike])
    text = (tmp_path / "staff.html").read_text()
    headings = ["Tasks", "To look at", "Submissions", "Similar code"]
    assert re.findall("<h2>(.*?)</h2>", text) == headings
    assert "4 graded, 2 refused, 1 staff error" in text
    assert '<a href="feedback/a.html">a</a>' in text
    assert "&lt;u&gt;odd" in text
    assert not re.search("<script>1|<i>|<u>", text)
    assert [row["task"] for row in rows_in(tmp_path / "statistics.csv")] == ["1.2", "1.10", "all"]


def test_what_staff_should_look_at():
    none = {"value": None, "faults": ["it is missing"], "sha256": ""}
    entries = {
        "a": [prediction("dev", sha256="1"), prediction("test", sha256="2", value=0.7)],
        "b": [prediction("dev", sha256="1"), prediction("test", sha256="3")],
        "c": [prediction("dev", **none), prediction("test", **none)],
        "d": [prediction("dev", **none), prediction("test", sha256="4", odd=["too round"])],
    }
    results = [result(name, predictions=scores) for name, scores in entries.items()]
    crashed = [task(n, "crashed", 0.0, messages=["No module named 'x'"]) for n in ("1.1", "1.2")]
    results.append(result("g", crashed, flags=["calls a kernel"]))
    results.append(result("i", notes=["not in it: README.md", "left out: y"]))
    lacking = [prediction("test", None, sha256="5", faults=["it lacks 51 ids of ids-sst-test.csv"])]
    results.append(result("j", predictions=lacking))
    results.append(result("h", status="refused", predictions=entries["c"]))
    dev, test = (prediction(split)["file"] for split in ("dev", "test"))
    assert to_look_at(results, {"sst": 0.6}) == {
        "a": [
            f"{dev}: the same predictions as of b",
            "better than believed possible; were test labels used? finetune-sst-test-out 0.700",
        ],
        "b": [f"{dev}: the same predictions as of a"],
        "c": ["no predictions handed in"],
        "d": [f"no {dev}", f"{test}: too round"],
        "g": ["crashed: 1.1, 1.2 No module named 'x'", "calls a kernel"],
        "i": ["not in it: README.md"],
        "j": ["not scored: it lacks 51 ids of ids-sst-test.csv"],
    }


@pytest.mark.parametrize(("practice", "shown"), [(False, True), (True, False)])
def test_how_good_is_too_good_depends_on_the_labels(written, tmp_path, practice, shown):
    labels = tmp_path / "labels"
    labels.mkdir()
    text = (ROOT / "course" / "gold" / "ids-sst-test.csv").read_text()
    (labels / "ids-sst-test.csv").write_text(text if practice else text.replace("\t0\n", "\t1\n"))
    gold = load_gold(labels, secret="s")
    known = raw_result("a", predictions=[prediction("test", value=0.68, predicted=None)])
    written([known], gold=gold)
    assert ("were test labels used?" in written.text("staff.html")) == shown


# ---------------------------------------------------------------------------------------------
# Lists that staff give, deadlines


def csv_file(tmp_path, *lines) -> Path:
    path = tmp_path / "list.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    return path


MARKS, WHEN = "student,row,points,comment", "group,time"
STUDENTS, PARTICIPANTS = "group,student,id", "group,student,id,participant"


def test_lists_that_staff_give(tmp_path):
    lines = ['a,approach,17.5,"clear, but ""long"""', "", "a,analysis,,", "b,analysis,0,none"]
    marks = read_marks(csv_file(tmp_path, MARKS, *lines), ["a", "b"], LIMITS)
    assert marks == {("a", "approach"): (17.5, 'clear, but "long"'), ("b", "analysis"): (0, "none")}
    path = csv_file(tmp_path, "Group,Student,ID", '12_a,"Çelik, Ana",s1', "9 absent,Bo,=s2")
    members = [Member("12_a", "Çelik, Ana", "s1"), Member("9_absent", "Bo", "=s2")]
    assert read_roster(path) == members
    (member,) = read_roster(csv_file(tmp_path, PARTICIPANTS, "12_a,Ana,s1,4711"))
    assert member.participant == "4711"
    path = csv_file(tmp_path, WHEN, "a,2027-02-01T12:00+01:00", "b,2027-02-01 11:00:30Z")
    noon = datetime(2027, 2, 1, 11, tzinfo=UTC).timestamp()
    assert read_times(path, ["a", "b", "c"]) == {"a": noon, "b": noon + 30}


@pytest.mark.parametrize(
    ("head", "lines", "fault"),
    [
        (MARKS, ["c,approach,3,"], "row 2: no submission of 'c'; correct the name"),
        (MARKS, ["a,style,3,"], "row 2: no row 'style'; there are approach, analysis"),
        *(
            (MARKS, [f"a,approach,{points},"], f"row 2: '{points}' is not a number from 0 to 20")
            for points in ("20.5", "-1", "nan", "inf", "ten")
        ),
        (MARKS, ["a,approach"], "row 2: 2 cells instead of 4"),
        ("student;row", [], "row 1 is not the header"),
        (MARKS, ["b,approach,1,", "b,approach,4,"], "row 3: b, approach is there twice"),
        (MARKS, ['a,approach,3,"'], "cannot be read"),
        (STUDENTS, ["a,Ana,s1", "a,Bo,s1"], "row 3: s1 is there twice"),
        (STUDENTS, ["a,,s2"], "row 2: no student; fill it in"),
        (STUDENTS, [",Bo,s2"], "row 2: no group; fill it in"),
        (STUDENTS, ["a,Bo"], "row 2: 2 cells instead of 3"),
        (PARTICIPANTS, ["a,Ana,s1,x7"], "row 2: participant 'x7' is not a number"),
        (PARTICIPANTS, ["a,Ana,s1,7", "a,Bo,s2,7"], "row 3: participant 7 is Ana; correct one"),
        (WHEN, ["a,1 Feb"], "row 2: '1 Feb' is not a time such as 2027-02-01T23:59+01:00"),
        (WHEN, ["x,2027-02-01"], "row 2: no submission of 'x'; correct the name"),
    ],
)
def test_one_clear_line_names_file_and_row(tmp_path, head, lines, fault):
    path = csv_file(tmp_path, head, *lines)
    with one_line_error(str(path), fault):
        if head == WHEN:
            read_times(path, ["a"])
        elif head in (STUDENTS, PARTICIPANTS):
            read_roster(path)
        else:
            read_marks(path, ["a", "b"], LIMITS)


DUE = "2027-02-01T12:00+01:00"
NOON = datetime.fromisoformat(DUE).timestamp()


def with_deadline(**late) -> dict:
    return SETTINGS | {"late": {"part1": DUE, "part2": "", "days": 3, "cost": 10, **late}}


@pytest.mark.parametrize(
    ("hours", "days", "lost", "why"),
    [
        (-30, 0, 0, ""),
        (0, 0, 0, ""),
        (0.01, 1, 0.1, "1 day late, 10% of the points"),
        (24, 1, 0.1, "1 day late, 10% of the points"),
        (70, 3, 0.3, "3 days late, 30% of the points"),
        (73, 4, 1, "4 days late; after 3 nothing counts"),
    ],
)
def test_each_day_begun_costs(hours, days, lost, why):
    late = deadlines.lateness(with_deadline(), 1, NOON + 3600 * hours)
    assert (late["days"], late["lost"], late["why"]) == (days, pytest.approx(lost), why)
    assert late["deadline"] == "2027-02-01 12:00"
    assert deadlines.lateness(with_deadline(), 2, NOON) is None
    assert deadlines.lateness(with_deadline(cost=60), 1, NOON + 2 * deadlines.DAY)["lost"] == 1


# ---------------------------------------------------------------------------------------------
# All of it


def test_extra_points_reach_all_that_shows_points(written, monkeypatch):
    """A row of [extra] and its function are all that it takes."""
    row = {"part": 1, "points": 2, "title": "README"}
    settings = SETTINGS | {"extra": {"readme": row, "other": row | {"part": 2}}}
    monkeypatch.setitem(
        extra.FUNCTIONS, "readme", lambda _, s: ("README.md" in s.files, "no images")
    )
    settings["extra"]["nothing"] = row | {"points": 0}
    context = SimpleNamespace(settings=settings)
    awarded = extra.award(context, Submission("a", 1, {"README.md": b""}))
    assert awarded == {"readme": (2, "no images")}
    with_extra = raw_result(tasks=[task()], extra=awarded)
    written([with_extra], settings, roster=ROSTER[:1])
    text = written.text("feedback/a.md")
    assert "**22 of 22 points**" in text
    assert "- README: 2 of 2. no images" in text
    assert "README" in written.text("feedback/a.html")
    (grades,) = written.rows("grades")
    assert (grades["readme"], grades["points"]) == ("2", "22")
    assert written.rows("moodle")[0]["minBERT part 1"] == "22"
    tests = gradescope.of_result(with_extra, settings, {})["tests"]
    assert [(test["score"], test["max_score"]) for test in tests] == [(20, 20), (2, 2)]


def test_gradebooks_by_student_and_feedback_to_upload(written, tmp_path):
    """Canvas finds students by SIS ids, Moodle by ID number, its feedback by participant."""
    *lines, overview = written(raw_class(), roster=ROSTER)
    assert "Mean of the points" in overview
    assert overview in html.unescape(written.text("staff.html"))
    assert lines == [
        "e: in no gradebook, the grader failed",
        "z: in no gradebook, no submission",
        *(f"{name}: in no gradebook, the roster has no student of it" for name in "bcd"),
    ]
    title = "minBERT part 1"
    possible, *canvas = written.rows("canvas")
    assert [*possible] == [*gradebooks.CANVAS, title]
    assert (possible["Student"], possible[title]) == ("Points Possible", "100")
    points = {"s1": "25", "s2": "25", "s4": "0"}
    for key in ("SIS User ID", "SIS Login ID"):
        assert {row[key]: row[title] for row in canvas} == points
    assert not any(row["ID"] for row in canvas)  # a number there would be Canvas's own
    assert {row["ID number"]: row[title] for row in written.rows("moodle")} == points
    groups = {"4711": "a", "4712": "a", "4714": "f"}
    for path in (tmp_path / "upload").iterdir():
        name, number, kind, plugin, _ = path.name.split("_", 4)
        assert (name[0].isalnum(), kind, plugin) == (True, "assignfeedback", "file")
        assert path.read_text() == written.text(f"feedback/{groups.pop(number)}.html")
    assert not groups
    rows = {row["student"]: row for row in written.rows("grades")}
    assert [rows[name]["points"] for name in "acef"] == ["25", "0", "", "0"]
    assert (rows["f"]["why"], rows["a"]["1.10"], rows["b"]["1.10"]) == ("'=a link", "5", "")
    unnumbered = [replace(member, participant="") for member in ROSTER[:2]]
    *_, line, _ = written(raw_class(), roster=[*unnumbered, ROSTER[3]])
    assert line == "upload/: no file for 2 without participant: Ana Çelik, =Bo_Lin/../x"
    assert [path.name[:8] for path in (tmp_path / "upload").iterdir()] == ["Fi_4714_"]
    assert len(written.rows("moodle")) == 3


def test_late_days_are_in_feedback_and_tables(written):
    graded = raw_result("a", [task()], seconds=3.5)
    times = {"a": NOON + 1.5 * deadlines.DAY}
    written([graded], with_deadline(), times, roster=ROSTER[:1])
    assert "**16 of 20 points**" in written.text("feedback/a.md")
    line = "Handed in 2027-02-03 00:00, due 2027-02-01 12:00: 2 days late, 20% of the points."
    assert all(line in written.text(f"feedback/a.{kind}") for kind in ("md", "html"))
    (row,) = written.rows("grades")
    keys = ("points", "1.2", "late", "days late", "seconds")
    assert [row[key] for key in keys] == ["16", "20", "-4", "2", "3.5"]
    assert written.rows("moodle")[0]["minBERT part 1"] == "16"
    written([graded], with_deadline(), times, times={"a": NOON})  # counts, whatever the file's is
    assert "**20 of 20 points**" in written.text("feedback/a.md")


def test_marks_and_the_grader_s_own_errors(written):
    error = {"student": "e", "status": "staff error", "why": "RuntimeError('x')", "trace": "…"}
    two = raw_result("a", [task("2.1")], [prediction("test")], part=2)
    marks = {("a", "approach"): (17.5, "clear")}
    lines = written([two, error], marks=marks, roster=ROSTER[:1])
    assert "a: no mark yet for analysis" in lines
    assert "a: in no gradebook, no mark yet for analysis" in lines
    assert len(written.rows("canvas")) == 1  # the line of points possible alone
    text = written.text("feedback/a.md")
    assert "**37.5 of 40 points** of the rows graded so far" in text
    assert "RuntimeError" not in written.text("feedback/e.md")
    assert "RuntimeError" in written.text("staff.html")
    assert f"you are *{json.loads(written.text('pseudonyms.json'))['a']}*" in text
    written([two], marks=marks | {("a", "analysis"): (5.0, "")}, roster=ROSTER[:1])
    assert written.rows("canvas")[1]["minBERT part 2"] == "42.5"
