"""Points, feedback, the class page, gradebooks, and the lists that staff give."""

import csv
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support import ROOT

from course import table
from course.gradescope import results as gradescope
from course.grading.intake import deadlines, lists
from course.grading.intake.lists import Lists, Member, read_marks, read_roster, read_times
from course.grading.judging import extra, similarity
from course.grading.judging.types import Submission
from course.grading.pages import class_page, gradebooks, pages
from course.grading.pages.class_page import bars, class_rows, write_statistics
from course.grading.pages.reports import feedback, feedback_page, unmarked, write_feedback
from course.grading.pages.review import to_look_at
from training.files.errors import InputError

LIMITS = {"approach": 20, "analysis": 25}
COURSE = {"name": "minBERT", "term": "Winter"}
SETTINGS = table.read_settings(ROOT)
SETTINGS |= {"course": SETTINGS["course"] | COURSE, "manual": LIMITS}


def graded_task(status="right", points=20.0, number="1.2", **more) -> dict:
    return {
        "number": number,
        "title": f"Task {number} · f",
        "status": status,
        "points": points,
        "of": 20,
        "rows": [{"what": "values", "points": points, "of": 20}],
        "messages": [],
        "mistakes": [],
        "hints": [],
        **more,
    }


def raw_result(student="a", tasks=(), **more) -> dict:
    """A result as it is on disk."""
    return {
        "student": student,
        "part": 1,
        "sha256": "1",
        "status": "graded",
        "why": "",
        "notes": [],
        "layers": ["fresh interpreter"],
        "tasks": list(tasks),
        "extra": {},
        "predictions": [],
        **more,
    }


def result(student="a", tasks=(), marks=None, settings=SETTINGS, **more) -> dict:
    """A result with its sheet of points."""
    given = lists.Lists(marks=marks or {})
    return pages.completed(raw_result(student, tasks, **more), settings, {}, given, {})


def prediction(split, **more) -> dict:
    return {
        "file": f"predictions/finetune-sst-{split}-out.csv",
        "data": "sst",
        "split": split,
        "option": "finetune",
        "metric": "accuracy",
        "value": 0.512,
        "low": 0.489,
        "high": 0.535,
        "public": 0.521,
        "public_low": 0.491,
        "public_high": 0.551,
        "private": 0.503,
        "faults": [],
        "note": "",
        **more,
    }


# ---------------------------------------------------------------------------------------------
# Rows of points


def test_manual_marks_and_rows_without_one(tmp_path):
    lines = ['a,approach,17.5,"clear, but ""long"""', "", "a,analysis,,", "b,analysis,0,none"]
    path = csv_file(tmp_path, "student,row,points,comment", *lines)
    marks = read_marks(path, ["a", "b"], LIMITS)
    assert marks == {("a", "approach"): (17.5, 'clear, but "long"'), ("b", "analysis"): (0, "none")}
    first = result("a", [graded_task(points=12)], marks, part=2)
    assert (first["sheet"].total, first["sheet"].maximum) == (29.5, 40)
    assert first["sheet"].unmarked == ["analysis"]
    refused = result("c", status="refused", part=2)
    assert unmarked([first, refused]) == ["a: no mark yet for analysis"]
    assert (refused["sheet"].total, refused["sheet"].maximum) == (0, 145)
    assert result(status="staff error")["sheet"] is None


def test_extra_points_reach_all_that_shows_points(tmp_path, monkeypatch):
    """A row of [extra] and its function are all that it takes."""
    row = {"part": 1, "points": 2, "title": "README"}
    settings = SETTINGS | {"extra": {"readme": row, "other": row | {"part": 2}}}
    monkeypatch.setitem(extra.FUNCTIONS, "readme", lambda s: ("README.md" in s.files, "no images"))
    awarded = extra.award(Submission("a", 1, {"README.md": b""}), settings)
    assert awarded == {"readme": (2, "no images")}
    with_extra = raw_result(tasks=[graded_task()], extra=awarded)
    given = Lists(roster=roster()[:1])
    pages.write_all(tmp_path, [with_extra], settings, {"a": 0.0}, given, "secret")
    text = (tmp_path / "feedback" / "a.md").read_text()
    assert "**22 of 22 points**" in text
    assert "- README: 2 of 2. no images" in text
    assert "README" in (tmp_path / "feedback" / "a.html").read_text()
    assert "README" in (tmp_path / "staff.html").read_text()
    (grades,) = csv.DictReader((tmp_path / "grades.csv").read_text().splitlines())
    assert (grades["readme"], grades["points"]) == ("2", "22")
    statistics = (tmp_path / "statistics.csv").read_text()
    assert "readme,README,1" in statistics
    assert read_by_moodle(tmp_path / "moodle.csv", {"s1": "Ana"}) == {"Ana": 22}
    tests = gradescope.of_result(with_extra | {"notes": []}, settings, {})["tests"]
    assert [(test["name"], test["score"], test["max_score"]) for test in tests] == [
        ("Task 1.2 · f", 20, 20),
        ("README", 2, 2),
    ]
    assert gradescope.skeleton(1, settings)["tests"][-1]["max_score"] == 2


# ---------------------------------------------------------------------------------------------
# Feedback


def test_feedback_says_what_was_checked_and_what_may_be_the_matter():
    tasks = [
        graded_task(number="1.1"),
        graded_task("wrong", 4.0, "1.2", mistakes=["no_norm"], hints=["The norm is missing."]),
        graded_task("waits", 0.0, "1.3"),
    ]
    tasks[1]["messages"] = ["values differ\n  first at [0, 1]"]
    marks = {("a", "approach"): (17.5, "clear")}
    text = feedback(result("a", tasks, marks, part=2, notes=["left out: x.pyc"]))
    for line in (
        "**41.5 of 80 points** of the rows graded so far",
        "- analysis: not marked yet",
        "- approach: 17.5 of 20. clear",
        "values 4 of 20.",
        "```text\nvalues differ\n  first at [0, 1]\n```",
        "Looks like **no norm**. The norm is missing.",
        "Right: Task 1.1 · f (20).",
        "Read: Vaswani et al. 2017, §3.1, §5.4; `docs/handout.md`, Task 1.2.",
        "could not be run, because what it needs is not right yet",
        "- left out: x.pyc",
    ):
        assert line in text
    assert text.index("## Task 1.2") < text.index("## Task 1.3")
    assert "## Task 1.1" not in text
    assert "not marked yet" not in feedback(result("a", tasks))


def test_the_same_message_is_told_once():
    tasks = [graded_task("crashed", 0.0, number, messages=["no x"]) for number in ("1.1", "1.2")]
    for text in (feedback(result(tasks=tasks)), feedback_page(result(tasks=tasks))):
        assert text.count("no x") == 1
        assert text.count("as Task 1.1") == 1


def test_feedback_shows_of_test_the_public_half_and_only_where_it_counts():
    graded = result(predictions=[prediction("dev"), prediction("test")])
    text = feedback(graded)
    assert "all rows: accuracy 0.512, 95 % interval 0.489 to 0.535" in text
    assert "public half: accuracy 0.521, 95 % interval 0.491 to 0.551" in text
    assert "0.503" not in text
    for hidden in ("0.512", "0.503", "0.489"):
        assert hidden not in text.split("test-out")[1]
    text = feedback(graded, show_test=False)
    assert "0.512" in text
    assert "0.521" not in text
    assert "only your first submissions count on test" in text


def test_feedback_lists_the_faults_of_predictions():
    numbers = dict.fromkeys(("value", "low", "high", "public", "public_low", "public_high"))
    faulty = prediction("dev", **numbers, faults=["it lacks 3 ids"])
    assert "all rows: not scored: it lacks 3 ids" in feedback(result(predictions=[faulty]))
    unlabelled = prediction("test", **numbers, note="not scored: no labels")
    assert "not scored: no labels" in feedback(result(predictions=[unlabelled]))


@pytest.mark.parametrize("status", ["refused", "staff error"])
def test_who_was_not_graded_reads_why_and_no_points(status):
    text = feedback(result(status=status, why="a link inside", tasks=[graded_task()]))
    assert ("a link inside" in text) == (status == "refused")
    assert ("costs you nothing" in text) == (status == "staff error")
    assert "points" not in text


EVIL = "\x1b[31m\x1b]0;t\x07\u202e```\n# big\n<script>x</script> [a](http://evil) | `c`"


def test_no_text_of_a_student_acts_in_feedback():
    tasks = [graded_task("wrong", 0.0, messages=[EVIL], mistakes=[EVIL], hints=[EVIL])]
    tasks[0] |= {"title": EVIL, "rows": [{"what": EVIL, "points": 0, "of": 1}]}
    settings = SETTINGS | {"manual": {EVIL: 2}}
    scores = [prediction("dev", file=EVIL), prediction("dev", value=None, faults=[EVIL])]
    marks = {("a", EVIL): (1, EVIL)}
    graded = result("a", tasks, marks, settings, part=2, notes=[EVIL], predictions=scores)
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


def test_feedback_is_written_a_file_a_student_and_nowhere_else(tmp_path):
    write_feedback(tmp_path, [result("a"), result("b_2")], {"a"})
    names = sorted(path.name for path in (tmp_path / "feedback").iterdir())
    assert names == ["a.html", "a.md", "b_2.html", "b_2.md"]
    for name in ("../a", "a/b", "", "a\n", ".x", "a b"):
        with pytest.raises(InputError, match="not a name for a file"):
            write_feedback(tmp_path, [result(name)], ())


# ---------------------------------------------------------------------------------------------
# The class


MASK = ["The mask is missing. Look at the padding. (read Vaswani et al. 2017)"]


def raw_class() -> list[dict]:
    mask = {"mistakes": ["no_mask", "no_mask"], "hints": MASK * 2}
    return [
        raw_result("a", [graded_task(), graded_task("wrong", 5.0, "1.10")]),
        raw_result("b", [graded_task("wrong", 4.0, **mask)]),
        raw_result("c", [graded_task("not started", 0.0)]),
        raw_result("d", [graded_task("wrong", 0.0, mistakes=["no_mask", "=x"], hints=MASK)]),
        raw_result("e", [graded_task("wrong", 0.0)], status="staff error", why="disk full"),
        raw_result("f", status="refused", why="=a link"),
    ]


def class_of() -> list[dict]:
    return [pages.completed(raw, SETTINGS, {}, Lists(), {}) for raw in raw_class()]


def test_class_statistics_count_what_was_graded(tmp_path):
    first, second = class_rows(class_of())
    assert (first["task"], second["task"]) == ("1.2", "1.10")
    assert [first[key] for key in ("graded", "right", "wrong", "not started")] == [4, 1, 2, 1]
    assert first["mean points"] == 6.0
    assert first["common mistakes"] == "The mask is missing. (2) =x (1)"
    assert [bar["count"] for bar in first["bars"]] == [2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    write_statistics(tmp_path, class_of(), class_rows(class_of()))
    with open(tmp_path / "statistics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["task"] for row in rows] == ["1.2", "1.10", "all"]
    assert (rows[-1]["graded"], rows[-1]["of"]) == ("4", "40")


def test_grades_csv(tmp_path):
    gradebooks.write_grades(tmp_path, class_of())
    with open(tmp_path / "grades.csv", newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert (rows["a"]["points"], rows["c"]["points"]) == ("25", "0")
    assert rows["e"]["points"] == ""  # of what the grader did wrong never a zero
    refused = [rows["f"][key] for key in ("status", "points", "1.2", "why")]
    assert refused == ["refused", "0", "0", "'=a link"]
    assert (rows["a"]["1.10"], rows["a"]["1.2"], rows["b"]["1.10"]) == ("5", "20", "")


@pytest.mark.parametrize(
    ("points", "most", "full"), [([0, 0.1, 9.99, 10], 10, 1), ([0, 0], 0, 2), ([], 5, 0)]
)
def test_a_histogram_counts_everybody_once(points, most, full):
    found = bars(points, most)
    assert sum(bar["count"] for bar in found) == len(points)
    assert found[-1]["count"] == full
    assert max((bar["height"] for bar in found), default=0) == (class_page.HIGH if points else 0)


def test_the_staff_s_page_has_every_section(tmp_path):
    evil = result("g", notes=["x"], why="<script>1</script>", layers=["<b>"])
    found = similarity.section([similarity.Pair("a", "b", 0.9, 30, "bert.py:1 <i>", "bert.py:2")])
    class_page.write(tmp_path, [*class_of(), evil], COURSE, {"a": ["<u>odd"]}, [found])
    text = (tmp_path / "staff.html").read_text()
    headings = ["Tasks", "To look at", "Submissions", "Similar code"]
    assert re.findall("<h2>(.*?)</h2>", text) == headings
    assert "5 graded, 1 staff error, 1 refused" in text
    assert "The mask is missing. (2)" in text
    assert '<a href="feedback/a.html">a</a>' in text
    assert "&lt;u&gt;odd" in text
    assert not re.search("<script>1|<b>(?!\\d)|<i>|<u>", text)
    class_page.write(tmp_path, [], COURSE)
    assert "0 submissions: none." in (tmp_path / "staff.html").read_text()


def test_what_staff_should_look_at():
    none = {"value": None, "faults": ["it is missing"], "sha256": ""}
    entries = {
        "a": [prediction("dev", sha256="1"), prediction("test", sha256="2", value=0.7)],
        "b": [prediction("dev", sha256="1"), prediction("test", sha256="3")],
        "c": [prediction("dev", **none), prediction("test", **none)],
        "d": [prediction("dev", **none), prediction("test", sha256="4", odd=["too round"])],
        "e": [prediction("dev", sha256="6"), prediction("test", sha256="5")],
        "f": [prediction("dev", sha256="7"), prediction("test", sha256="8", file="z.csv")],
    }
    entries["f"].append(prediction("test", sha256="8", file="y.csv"))
    found = [result(name, predictions=scores) for name, scores in entries.items()]
    found.append(result("g", [graded_task("crashed", 0.0)], flags=["calls a kernel"]))
    found.append(result("h", status="refused", predictions=entries["c"]))
    dev, test = (prediction(split)["file"] for split in ("dev", "test"))
    assert to_look_at(found, {"sst": 0.6}) == {
        "a": [
            f"{dev}: byte for byte as of b",
            "are the public test labels in it? finetune-sst-test-out 0.700",
        ],
        "b": [f"{dev}: byte for byte as of a"],
        "c": ["no predictions handed in"],
        "d": [f"no {dev}", f"{test}: too round"],
        "f": ["z.csv: byte for byte as y.csv"],
        "g": ["crashed: 1.2", "calls a kernel"],
    }


# ---------------------------------------------------------------------------------------------
# Lists that staff give, deadlines


def csv_file(tmp_path, *lines) -> Path:
    path = tmp_path / "list.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    return path


def test_a_roster_has_every_student_and_perhaps_their_number(tmp_path):
    path = csv_file(tmp_path, "Group,Student,ID", '12_a,"Çelik, Ana",s1', "9_absent,Bo,=s2")
    members = [Member("12_a", "Çelik, Ana", "s1"), Member("9_absent", "Bo", "=s2")]
    assert read_roster(path) == members
    path = csv_file(tmp_path, "group,student,id,participant", "12_a,Ana,s1,4711", "12_a,Bo,s2,")
    assert [member.participant for member in read_roster(path)] == ["4711", ""]


def test_times_of_handing_in(tmp_path):
    path = csv_file(tmp_path, "group,time", "a,2027-02-01T12:00+01:00", "b,2027-02-01 11:00:30Z")
    noon = datetime(2027, 2, 1, 11, tzinfo=UTC).timestamp()
    assert read_times(path, ["a", "b", "c"]) == {"a": noon, "b": noon + 30}


READERS = {
    "student,row,points,comment": lambda path: read_marks(path, ["a", "b"], LIMITS),
    "group,student,id": read_roster,
    "group,student,id,participant": read_roster,
    "group,time": lambda path: read_times(path, ["a"]),
}
MARKS, ROSTER, PARTICIPANTS, WHEN = READERS


@pytest.mark.parametrize(
    ("head", "lines", "fault"),
    [
        (MARKS, ["c,approach,3,"], "row 2: no submission of 'c'; correct the name"),
        (MARKS, ["a,style,3,"], "row 2: no row 'style'; there are approach, analysis"),
        *(
            (MARKS, [f"a,approach,{points},"], f"row 2: '{points}' is not a number from 0 to 20")
            for points in ("20.5", "-1", "nan", "inf", "ten")
        ),
        (MARKS, ["a,approach,3,good, very"], "row 2: 5 cells instead of 4"),
        (MARKS, ["a,approach"], "row 2: 2 cells instead of 4"),
        (MARKS, ["b,approach,1,", "b,approach,4,"], "row 3: approach of b is there twice"),
        (MARKS, ['a,approach,3,"'], "cannot be read"),
        (MARKS, ["\x1b[2J\u202e,approach,3,"], "no submission of"),
        (ROSTER, ["a,Ana,s1", "a,Bo,s1"], "row 3: the id 's1' is there twice"),
        (ROSTER, ["a,,s2"], "row 2: no student; fill it in"),
        (ROSTER, [",Bo,s2"], "row 2: no group"),
        (ROSTER, ["a,Bo"], "row 2: 2 cells instead of 3"),
        (PARTICIPANTS, ["a,Ana,s1,x7"], "row 2: participant 'x7' is not a number"),
        (WHEN, ["a,1 Feb"], "row 2: '1 Feb' is not a time such as 2027-02-01T23:59+01:00"),
        (WHEN, ["a,2027-02-30"], "row 2: '2027-02-30' is not a time"),
        (WHEN, ["a,"], "row 2: '' is not a time"),
        (WHEN, ["x,2027-02-01"], "row 2: no submission of 'x'; correct the name"),
    ],
)
def test_one_clear_line_names_file_and_row(tmp_path, head, lines, fault):
    path = csv_file(tmp_path, head, *lines)
    with pytest.raises(InputError, match=re.escape(fault)) as caught:
        READERS[head](path)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("content", [b"", b"a,approach,3,\n", b"\xff\xfe\0", b"student;row\n"])
def test_no_marks_file(tmp_path, content):
    (tmp_path / "marks.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"marks\.csv"):
        read_marks(tmp_path / "marks.csv", ["a"], LIMITS)
    with pytest.raises(InputError, match="is missing"):
        read_marks(tmp_path / "none.csv", ["a"], LIMITS)


DUE = "2027-02-01T12:00+01:00"


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
    due = datetime.fromisoformat(DUE).timestamp()
    found = deadlines.lateness(with_deadline(), 1, due + 3600 * hours)
    assert (found["days"], found["lost"], found["why"]) == (days, pytest.approx(lost), why)
    assert found["deadline"] == "2027-02-01 12:00"
    assert deadlines.lateness(with_deadline(), 2, due) is None
    assert deadlines.lateness(with_deadline(cost=60), 1, due + 2 * deadlines.DAY)["lost"] == 1


# ---------------------------------------------------------------------------------------------
# Gradebooks, read as Canvas and Moodle read them


def read_by_canvas(path: Path, known: dict[str, str]) -> tuple[str, float, dict[str, float]]:
    """(title, points possible, points by student) by the rules of Canvas's importer.

    Args:
        known: the course's students: SIS id or login → student.
    """
    with open(path, encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert len(head) > 3
    assert "Student" in head[0]
    assert "ID" in head[1]
    info = 3
    if re.search(r"SIS\s+Login\s+ID", head[2]):
        info = 4
    elif re.search(r"SIS\s+User\s+ID", head[2]) and re.search(r"SIS\s+Login\s+ID", head[3]):
        info = 5
    assert "Section" in head[info - 1]
    (title,) = head[info:]
    possible, points = 0.0, {}
    for row in rows:
        assert len(row) == len(head)
        if "Points Possible" in row[0]:
            possible = float(row[info])
            continue
        assert not row[1]  # a number there would be Canvas's own
        points[known.get(row[2]) or known[row[3]]] = float(row[info])
    return title, possible, points


def read_by_moodle(path: Path, known: dict[str, str]) -> dict[str, float]:
    """Points by student where staff map "ID number" and the last column; an unknown id ends it."""
    with open(path, encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    at = [name.strip() for name in head].index("ID number")
    return {known[row[at]]: float(row[-1]) for row in rows}


def owner_by_moodle(name: str, participants: dict[int, str]) -> str:
    """Whose a file of a feedback zip is: fullname_participant_plugintype_pluginname_file."""
    assert name[0] not in ".~"
    _, number, kind, plugin, rest = name.split("_", 4)
    assert (kind, plugin) == ("assignfeedback", "file")
    assert rest
    return participants[int(number)]


TIMES = dict.fromkeys("abcdef", 0.0)


def roster() -> list[Member]:
    return [
        Member("a", "Ana Çelik", "s1", "4711"),
        Member("a", "=Bo_Lin/../x", "s2", "4712"),
        Member("e", "Eve", "s3", "4713"),
        Member("f", "Fi", "s4", "4714"),
        Member("z", "Zoe", "s5", "4715"),
    ]


def test_gradebooks_by_student_and_feedback_to_upload(tmp_path):
    lines = pages.write_all(
        tmp_path, raw_class(), SETTINGS, TIMES, Lists(roster=roster()), "secret"
    )
    assert lines == [
        "e: in no gradebook, the grader failed",
        "z: in no gradebook, no submission",
        "b: in no gradebook, the roster has no student of it",
        "c: in no gradebook, the roster has no student of it",
        "d: in no gradebook, the roster has no student of it",
    ]
    known = {"s1": "Ana", "s2": "Bo", "s3": "Eve", "s4": "Fi", "s5": "Zoe"}
    found = read_by_canvas(tmp_path / "canvas.csv", known)
    assert found == ("minBERT part 1", 100, {"Ana": 25, "Bo": 25, "Fi": 0})
    assert read_by_moodle(tmp_path / "moodle.csv", known) == {"Ana": 25, "Bo": 25, "Fi": 0}
    files = {path.name: path.read_text() for path in (tmp_path / "upload").iterdir()}
    participants = {4711: "a", 4712: "a", 4714: "f"}
    owners = {name: owner_by_moodle(name, participants) for name in files}
    assert sorted(owners.values()) == ["a", "a", "f"]
    for name, group in owners.items():
        assert files[name] == (tmp_path / "feedback" / f"{group}.html").read_text()
    pages.write_all(tmp_path, raw_class(), SETTINGS, TIMES, Lists(roster=roster()[:1]), "secret")
    assert len(list((tmp_path / "upload").iterdir())) == 1


def test_without_all_marks_a_grade_is_none_yet(tmp_path):
    two = raw_result("a", [graded_task(number="2.1")], part=2)
    given = Lists({("a", "approach"): (17.5, "")}, roster()[:1])
    lines = pages.write_all(tmp_path, [two], SETTINGS, TIMES, given, "secret")
    assert "a: in no gradebook, no mark yet for analysis" in lines
    assert read_by_canvas(tmp_path / "canvas.csv", {}) == ("minBERT part 2", 145, {})
    given.marks["a", "analysis"] = (5.0, "")
    pages.write_all(tmp_path, [two], SETTINGS, TIMES, given, "secret")
    assert read_by_canvas(tmp_path / "canvas.csv", {"s1": "Ana"})[2] == {"Ana": 42.5}


# ---------------------------------------------------------------------------------------------
# All of it


def test_late_days_are_in_feedback_and_tables(tmp_path):
    graded = raw_result("a", [graded_task()], seconds=3.5)
    due = datetime.fromisoformat(DUE).timestamp()
    times = {"a": due + 1.5 * deadlines.DAY}
    pages.write_all(
        tmp_path, [graded], with_deadline(), times, Lists(roster=roster()[:1]), "secret"
    )
    text = (tmp_path / "feedback" / "a.md").read_text()
    assert "**16 of 20 points**" in text
    line = "Handed in 2027-02-03 00:00, due 2027-02-01 12:00: 2 days late, 20% of the points."
    assert line in text
    assert line in (tmp_path / "feedback" / "a.html").read_text()
    with open(tmp_path / "grades.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    keys = ("points", "1.2", "late", "days late", "seconds")
    assert [row[key] for key in keys] == ["16", "20", "-4", "2", "3.5"]
    assert read_by_moodle(tmp_path / "moodle.csv", {"s1": "a"}) == {"a": 16}
    assert "Days late" in (tmp_path / "staff.html").read_text()
    given = Lists(times={"a": due})  # counts, whatever the file's time is
    pages.write_all(tmp_path, [graded], with_deadline(), times, given, "secret")
    assert "**20 of 20 points**" in (tmp_path / "feedback" / "a.md").read_text()


def test_all_of_it_with_marks_and_with_the_grader_s_own_errors(tmp_path):
    error = {"student": "e", "status": "staff error", "why": "RuntimeError('x')", "trace": "…"}
    two = raw_result("a", [graded_task(number="2.1")], part=2, predictions=[prediction("test")])
    given = Lists({("a", "approach"): (17.5, "clear")})
    out = tmp_path / "out"
    lines = pages.write_all(out, [two, error], SETTINGS, {"a": 0.0}, given, "secret")
    assert lines == ["a: no mark yet for analysis"]
    text = (out / "feedback" / "a.md").read_text()
    assert "**37.5 of 40 points** of the rows graded so far" in text
    assert "0.521" in text
    assert "RuntimeError" not in (out / "feedback" / "e.md").read_text()
    assert "RuntimeError" in (out / "staff.html").read_text()
    assert "17.5" not in str(two)  # results on disk stay what the program found
    names = json.loads((out / "pseudonyms.json").read_text())
    assert f"you are *{names['a']}*" in text
    assert lists.read(["a"], LIMITS) == Lists()
