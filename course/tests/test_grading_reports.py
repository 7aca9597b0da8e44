"""What people read and what staff give: feedback, class page, gradebooks, lists of staff's
(reports.py, class_page.py, gradebooks.py, lists.py, deadlines.py, to_look_at.py, pages.py).
"""

import csv
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support import ROOT

from course import table
from course.grading.intake import deadlines, lists
from course.grading.intake.lists import Lists, Member, read_marks, read_roster, read_times
from course.grading.judging import similarity
from course.grading.pages import class_page, gradebooks, pages
from course.grading.pages.class_page import bars, class_rows, write_statistics
from course.grading.pages.reports import (
    feedback,
    feedback_page,
    manual_rows,
    totals,
    unmarked,
    write_feedback,
)
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


def result(student="a", tasks=(), **more) -> dict:
    return {
        "student": student,
        "part": 1,
        "sha256": "1",
        "status": "graded",
        "why": "",
        "notes": [],
        "layers": ["fresh interpreter"],
        "tasks": list(tasks),
        "manual": [],
        "predictions": [],
        "points": 0,
        "of": 20,
        **more,
    }


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
# Marks given by hand


def marks_file(tmp_path, *lines):
    path = tmp_path / "marks.csv"
    path.write_text("\n".join(["student,row,points,comment", *lines]) + "\n", encoding="utf-8")
    return path


def test_marks_and_rows_without_one(tmp_path):
    path = marks_file(tmp_path, 'a,approach,17.5,"clear, but ""long"""', "", "a,analysis,,", "b,")
    path.write_text(path.read_text().replace("b,\n", "b,analysis,0,none\n"))
    marks = read_marks(path, ["a", "b"], LIMITS)
    assert marks == {("a", "approach"): (17.5, 'clear, but "long"'), ("b", "analysis"): (0, "none")}
    rows = manual_rows("a", marks, LIMITS)
    assert [row["points"] for row in rows] == [17.5, None]
    one = result("a", [graded_task(points=12)], manual=rows)
    assert totals(one) == (29.5, 40, ["analysis"])
    assert unmarked([one, result("c", status="refused", manual=rows)]) == [
        "a: no mark yet for analysis"
    ]
    assert totals(result("b", manual=manual_rows("b", marks, LIMITS))) == (0, 25, ["approach"])


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("c,approach,3,", "row 3: no submission of 'c'"),
        ("a,style,3,", "row 3: no row 'style'; there are approach, analysis"),
        ("a,approach,20.5,", "row 3: '20.5' is no number from 0 to 20"),
        ("a,approach,-1,", "row 3: '-1' is no number"),
        ("a,approach,nan,", "row 3: 'nan' is no number"),
        ("a,approach,inf,", "row 3: 'inf' is no number"),
        ("a,approach,ten,", "row 3: 'ten' is no number"),
        ("a,approach,3,good, very", "row 3: 5 cells instead of 4"),
        ("a,approach", "row 3: 2 cells instead of 4"),
        ("b,approach,4,", "row 3: approach of b is there twice"),
        ('a,approach,3,"', "cannot be read"),
        ("\x1b[2J\u202e,approach,3,", "no submission of"),
    ],
)
def test_one_clear_line_names_file_and_row(tmp_path, line, word):
    path = marks_file(tmp_path, "b,approach,1,", line)
    with pytest.raises(InputError, match=re.escape(word)) as caught:
        read_marks(path, ["a", "b"], LIMITS)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("content", [b"", b"a,approach,3,\n", b"\xff\xfe\0", b"student;row\n"])
def test_no_marks_file(tmp_path, content):
    (tmp_path / "marks.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"marks\.csv"):
        read_marks(tmp_path / "marks.csv", ["a"], LIMITS)
    with pytest.raises(InputError, match="is missing"):
        read_marks(tmp_path / "none.csv", ["a"], LIMITS)


# ---------------------------------------------------------------------------------------------
# Feedback


def test_feedback_says_what_was_checked_and_what_may_be_the_matter():
    tasks = [
        graded_task(number="1.1"),
        graded_task("wrong", 4.0, "1.2", mistakes=["no_norm"], hints=["The norm is missing."]),
        graded_task("waits", 0.0, "1.3"),
    ]
    tasks[1]["messages"] = ["values differ\n  first at [0, 1]"]
    manual = manual_rows("a", {("a", "approach"): (17.5, "clear")}, LIMITS)
    text = feedback(result("a", tasks, manual=manual, notes=["left out: x.pyc"]))
    assert "**41.5 of 80 points** of the rows graded so far" in text
    assert "- analysis: not marked yet" in text
    assert "values 4 of 20." in text
    assert "```text\nvalues differ\n  first at [0, 1]\n```" in text
    assert "Looks like **no norm**. The norm is missing." in text
    assert "Right: Task 1.1 · f (20)." in text
    assert text.index("## Task 1.2") < text.index("## Task 1.3")
    assert "## Task 1.1" not in text
    assert "Read: Vaswani et al. 2017, §3.1, §5.4; `docs/handout.md`, Task 1.2." in text
    assert "could not be run, because what it needs is not right yet" in text
    assert "- left out: x.pyc" in text
    assert "- approach: 17.5 of 20. clear" in text
    assert "not marked yet" not in feedback(result("a", tasks))


def test_the_same_message_is_told_once():
    tasks = [graded_task("crashed", 0.0, number, messages=["no x"]) for number in ("1.1", "1.2")]
    for text in (feedback(result(tasks=tasks)), feedback_page(result(tasks=tasks))):
        assert text.count("no x") == 1
        assert text.count("as Task 1.1") == 1


def test_feedback_shows_of_test_the_public_half_and_only_where_it_counts():
    one = result(predictions=[prediction("dev"), prediction("test")])
    text = feedback(one)
    assert "all rows: accuracy 0.512, 95 % interval 0.489 to 0.535" in text
    assert "public half: accuracy 0.521, 95 % interval 0.491 to 0.551" in text
    assert "0.503" not in text
    one["predictions"][0]["value"] = 0.4
    for hidden in ("0.512", "0.503", "0.489"):
        assert hidden not in feedback(one).split("test-out")[1]
    text = feedback(one, show_test=False)
    assert "0.400" in text
    assert "0.521" not in text
    assert "only your first submissions count on test" in text


def test_feedback_lists_the_faults_of_predictions():
    numbers = dict.fromkeys(("value", "low", "high", "public", "public_low", "public_high"))
    one = result(predictions=[prediction("dev", **numbers, faults=["it lacks 3 ids"])])
    assert "all rows: not scored: it lacks 3 ids" in feedback(one)
    one = result(predictions=[prediction("test", **numbers, note="not scored: no labels")])
    assert "not scored: no labels" in feedback(one)


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
    one = result(tasks=tasks, notes=[EVIL], predictions=[prediction("dev", file=EVIL)])
    one["manual"] = [{"row": EVIL, "points": 1, "of": 2, "comment": EVIL}]
    one["predictions"] += [prediction("dev", value=None, faults=[EVIL])]
    text = feedback(one)
    assert all(character.isprintable() or character == "\n" for character in text)
    blocks = re.findall(r"^(`{4,})text\n(.*?)\n\1$", text, re.M | re.S)
    assert len(blocks) == 1  # the message, between longer fences than its own
    outside = re.sub(r"^(`{4,})text\n.*?\n\1$", "", text, flags=re.M | re.S)
    assert not re.search(r"(?<!\\)[<\[]|http://", outside)
    assert "\n# big" not in outside
    shown = feedback_page(one)
    assert not re.search("<script>x|<a |href", shown)
    assert shown.count("<script>") == 1


def test_feedback_is_written_a_file_a_student_and_nowhere_else(tmp_path):
    write_feedback(tmp_path, [result("a"), result("b_2")], {"a"})
    names = sorted(path.name for path in (tmp_path / "feedback").iterdir())
    assert names == ["a.html", "a.md", "b_2.html", "b_2.md"]
    for name in ("../a", "a/b", "", "a\n", ".x", "a b"):
        with pytest.raises(InputError, match="no name for a file"):
            write_feedback(tmp_path, [result(name)], ())


# ---------------------------------------------------------------------------------------------
# The class


MASK = ["The mask is missing. Look at the padding. (read Vaswani et al. 2017)"]


def class_of() -> list[dict]:
    return [
        result("a", [graded_task("wrong", 5.0, "1.10"), graded_task()]),
        result("b", [graded_task("wrong", 4.0, mistakes=["no_mask", "no_mask"], hints=MASK * 2)]),
        result("c", [graded_task("not started", 0.0)]),
        result("d", [graded_task("wrong", 0.0, mistakes=["no_mask", "=x"], hints=MASK)]),
        result("e", [graded_task("wrong", 0.0)], status="staff error", why="disk full"),
        result("f", status="refused", why="=a link"),
    ]


def test_class_statistics_count_what_was_graded():
    first, second = class_rows(class_of())
    assert (first["task"], second["task"]) == ("1.2", "1.10")
    assert [first[key] for key in ("graded", "right", "wrong", "not started")] == [4, 1, 2, 1]
    assert first["mean points"] == 6.0
    assert first["common mistakes"] == "The mask is missing. (2) =x (1)"
    assert [bar["count"] for bar in first["bars"]] == [2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]


def test_statistics_csv_and_grades_csv(tmp_path):
    write_statistics(tmp_path, class_of(), class_rows(class_of()))
    with open(tmp_path / "statistics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["task"] for row in rows] == ["1.2", "1.10", "all"]
    assert (rows[-1]["graded"], rows[-1]["of"]) == ("4", "40")
    gradebooks.write_grades(tmp_path, class_of())
    with open(tmp_path / "grades.csv", newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert (rows["a"]["points"], rows["c"]["points"]) == ("25", "0")
    assert rows["e"]["points"] == ""  # of what the grader did wrong never a zero
    assert (rows["f"]["status"], rows["f"]["points"], rows["f"]["why"]) == (
        "refused",
        "0",
        "'=a link",
    )
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
    assert "4 graded" not in text
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
    found = [result(name, predictions=given) for name, given in entries.items()]
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
# Rosters, times, deadlines


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


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("a,Bo,s1", "row 3: the id 's1' is there twice"),
        ("a,,s2", "row 3: no student; fill it in"),
        (",Bo,s2", "row 3: no group"),
        ("a,Bo", "row 3: 2 cells instead of 3"),
    ],
)
def test_a_wrong_roster_is_one_clear_line(tmp_path, line, word):
    path = csv_file(tmp_path, "group,student,id", "a,Ana,s1", line)
    with pytest.raises(InputError, match=re.escape(word)):
        read_roster(path)
    wrong = csv_file(tmp_path, "group,student,id,participant", "a,Ana,s1,x7")
    with pytest.raises(InputError, match="row 2: participant 'x7' is no number"):
        read_roster(wrong)
    with pytest.raises(InputError, match="row 1 is not the header group,student,id"):
        read_roster(csv_file(tmp_path, "group,id", "a,s1"))


def test_times_of_handing_in(tmp_path):
    path = csv_file(tmp_path, "group,time", "a,2027-02-01T12:00+01:00", "b,2027-02-01 11:00:30Z")
    noon = datetime(2027, 2, 1, 11, tzinfo=UTC).timestamp()
    assert read_times(path, ["a", "b", "c"]) == {"a": noon, "b": noon + 30}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("a,1 Feb", "row 2: '1 Feb' is no time such as 2027-02-01T23:59+01:00"),
        ("a,2027-02-30", "row 2: '2027-02-30' is no time"),
        ("a,", "row 2: '' is no time"),
        ("x,2027-02-01", "row 2: no submission of 'x'; mend the name"),
    ],
)
def test_a_wrong_time_is_one_clear_line(tmp_path, line, word):
    with pytest.raises(InputError, match=re.escape(word)):
        read_times(csv_file(tmp_path, "group,time", line), ["a"])


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


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('part1 = ""', 'part1 = "1 Feb"', "late.part1 is '1 Feb', no time as 2027-02-01T23:59"),
        ('part2 = ""', "part2 = 3", "late.part2 is 3, no time"),
        ("days = 3", "days = -1", "late.days is -1, no whole number"),
        ("cost = 10", "cost = 101", "late.cost is 101, no number from 0 to 100"),
        ("cost = 10", "cost = nan", "late.cost is nan"),
        ("cost = 10", "", "has no late.cost"),
    ],
)
def test_a_wrong_deadline_is_one_clear_line(tmp_path, old, new, word):
    text = (ROOT / table.SETTINGS).read_text(encoding="utf-8")
    assert f"\n{old}\n" in text
    (tmp_path / "course").mkdir()
    changed = text.replace(f"\n{old}\n", f"\n{new}\n")
    (tmp_path / table.SETTINGS).write_text(changed, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(word)):
        table.read_settings(tmp_path)


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
    lines = pages.write_all(tmp_path, class_of(), SETTINGS, TIMES, Lists(roster=roster()), "secret")
    assert lines == [
        "e: in no gradebook, the grader failed",
        "z: in no gradebook, no submission",
        "b: in no gradebook, the roster has no student of it",
        "c: in no gradebook, the roster has no student of it",
        "d: in no gradebook, the roster has no student of it",
    ]
    known = {"s1": "Ana", "s2": "Bo", "s3": "Eve", "s4": "Fi", "s5": "Zoe"}
    found = read_by_canvas(tmp_path / "canvas.csv", known)
    assert found == ("minBERT part 1", 20, {"Ana": 25, "Bo": 25, "Fi": 0})
    assert read_by_moodle(tmp_path / "moodle.csv", known) == {"Ana": 25, "Bo": 25, "Fi": 0}
    files = {path.name: path.read_text() for path in (tmp_path / "upload").iterdir()}
    participants = {4711: "a", 4712: "a", 4714: "f"}
    owners = {name: owner_by_moodle(name, participants) for name in files}
    assert sorted(owners.values()) == ["a", "a", "f"]
    for name, group in owners.items():
        assert files[name] == (tmp_path / "feedback" / f"{group}.html").read_text()
    pages.write_all(tmp_path, class_of(), SETTINGS, TIMES, Lists(roster=roster()[:1]), "secret")
    assert len(list((tmp_path / "upload").iterdir())) == 1


def test_without_all_marks_a_grade_is_none_yet(tmp_path):
    two = result("a", [graded_task(number="2.1")], part=2)
    given = Lists({("a", "approach"): (17.5, "")}, roster()[:1])
    lines = pages.write_all(tmp_path, [two], SETTINGS, TIMES, given, "secret")
    assert "a: in no gradebook, no mark yet for analysis" in lines
    assert read_by_canvas(tmp_path / "canvas.csv", {}) == ("minBERT part 2", 65, {})
    given.marks["a", "analysis"] = (5.0, "")
    pages.write_all(tmp_path, [two], SETTINGS, TIMES, given, "secret")
    assert read_by_canvas(tmp_path / "canvas.csv", {"s1": "Ana"})[2] == {"Ana": 42.5}


# ---------------------------------------------------------------------------------------------
# All of it


def test_late_days_are_in_feedback_and_tables(tmp_path):
    one = result("a", [graded_task()], seconds=3.5)
    due = datetime.fromisoformat(DUE).timestamp()
    times = {"a": due + 1.5 * deadlines.DAY}
    pages.write_all(tmp_path, [one], with_deadline(), times, Lists(roster=roster()[:1]), "secret")
    text = (tmp_path / "feedback" / "a.md").read_text()
    assert "**16 of 20 points**" in text
    said = "Handed in 2027-02-03 00:00, due 2027-02-01 12:00: 2 days late, 20% of the points."
    assert said in text
    assert said in (tmp_path / "feedback" / "a.html").read_text()
    with open(tmp_path / "grades.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    keys = ("points", "1.2", "days late", "lost by it", "seconds")
    assert [row[key] for key in keys] == ["16", "20", "2", "0.2", "3.5"]
    assert read_by_moodle(tmp_path / "moodle.csv", {"s1": "a"}) == {"a": 16}
    assert "Days late" in (tmp_path / "staff.html").read_text()
    given = Lists(times={"a": due})  # counts, whatever the file's time is
    pages.write_all(tmp_path, [one], with_deadline(), times, given, "secret")
    assert "**20 of 20 points**" in (tmp_path / "feedback" / "a.md").read_text()


def test_all_of_it_with_marks_and_with_the_grader_s_own_errors(tmp_path):
    error = {"student": "e", "status": "staff error", "why": "RuntimeError('x')", "trace": "…"}
    two = result("a", [graded_task(number="2.1")], part=2, predictions=[prediction("test")])
    del two["manual"]
    given = Lists({("a", "approach"): (17.5, "clear")})
    out = tmp_path / "out"
    said = pages.write_all(out, [two, error], SETTINGS, {"a": 0.0}, given, "secret")
    assert said == ["a: no mark yet for analysis"]
    text = (out / "feedback" / "a.md").read_text()
    assert "**37.5 of 40 points** of the rows graded so far" in text
    assert "0.521" in text
    assert "RuntimeError" not in (out / "feedback" / "e.md").read_text()
    assert "RuntimeError" in (out / "staff.html").read_text()
    assert "17.5" not in str(two)  # results on disk stay what the program found
    names = json.loads((out / "pseudonyms.json").read_text())
    assert f"you are *{names['a']}*" in text
    assert lists.read(["a"], LIMITS) == Lists()
