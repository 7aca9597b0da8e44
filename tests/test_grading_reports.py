"""Feedback, class statistics, marks given by hand (reports.py)."""

import csv
import re

import pytest

from course.grading import reports, similarity
from course.grading.reports import (
    class_rows,
    feedback,
    manual_rows,
    read_manual,
    totals,
    unmarked,
    write_feedback,
    write_grades,
    write_staff_page,
    write_statistics,
)
from training.errors import InputError

LIMITS = {"approach": 20, "analysis": 25}
COURSE = {"name": "minBERT", "term": "Winter"}


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
    marks = read_manual(path, ["a", "b"], LIMITS)
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
        read_manual(path, ["a", "b"], LIMITS)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("content", [b"", b"a,approach,3,\n", b"\xff\xfe\0", b"student;row\n"])
def test_no_marks_file(tmp_path, content):
    (tmp_path / "marks.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"marks\.csv"):
        read_manual(tmp_path / "marks.csv", ["a"], LIMITS)
    with pytest.raises(InputError, match="is missing"):
        read_manual(tmp_path / "none.csv", ["a"], LIMITS)


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
    assert "| analysis | by staff | not marked yet |" in text
    assert "- values: 4 of 20" in text
    assert "```text\nvalues differ\n  first at [0, 1]\n```" in text
    assert "Looks like **no\\_norm**. The norm is missing." in text
    assert "Read: Vaswani et al. 2017, §3.1, §5.4; `docs/handout.md`, Task 1.2." in text
    assert "could not be run, because what it needs is not right yet" in text
    assert "- left out: x.pyc" in text
    assert "- approach: clear" in text
    assert "not marked yet" not in feedback(result("a", tasks))


def test_feedback_shows_of_test_the_public_half_and_only_where_it_counts():
    one = result(predictions=[prediction("dev"), prediction("test")])
    text = feedback(one)
    assert "| all | accuracy | 0.512 | 0.489 to 0.535 |" in text
    assert "| public half | accuracy | 0.521 | 0.491 to 0.551 |" in text
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
    assert "not scored: see below" in feedback(one)
    assert "it lacks 3 ids" in feedback(one)
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
    assert len(blocks) == 2  # the message and the fault, each between longer fences than its own
    outside = re.sub(r"^(`{4,})text\n.*?\n\1$", "", text, flags=re.M | re.S)
    assert not re.search(r"(?<!\\)[<\[]|http://", outside)
    assert "\n# big" not in outside


def test_feedback_is_written_a_file_a_student_and_nowhere_else(tmp_path):
    write_feedback(tmp_path, [result("a"), result("b_2")], {"a"})
    assert sorted(path.name for path in (tmp_path / "feedback").iterdir()) == ["a.md", "b_2.md"]
    for name in ("../a", "a/b", "", "a\n", ".x"):
        with pytest.raises(InputError, match="no name for a file"):
            write_feedback(tmp_path, [result(name)], ())


# ---------------------------------------------------------------------------------------------
# The class


def class_of() -> list[dict]:
    return [
        result("a", [graded_task("wrong", 5.0, "1.10"), graded_task()]),
        result("b", [graded_task("wrong", 4.0, mistakes=["no_mask", "no_mask"])]),
        result("c", [graded_task("not started", 0.0)]),
        result("d", [graded_task("wrong", 0.0, mistakes=["no_mask", "=x"])]),
        result("e", [graded_task("wrong", 0.0)], status="staff error", why="disk full"),
        result("f", status="refused", why="=a link"),
    ]


def test_class_statistics_count_what_was_graded():
    first, second = class_rows(class_of())
    assert (first["task"], second["task"]) == ("1.2", "1.10")
    assert [first[key] for key in ("graded", "right", "wrong", "not started")] == [4, 1, 2, 1]
    assert first["mean points"] == 6.0
    assert first["common mistakes"] == "no_mask (2), =x (1)"


def test_statistics_csv_and_grades_csv(tmp_path):
    write_statistics(tmp_path, class_of())
    with open(tmp_path / "statistics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["task"] for row in rows] == ["1.2", "1.10", "all"]
    assert (rows[-1]["graded"], rows[-1]["of"]) == ("4", "40")
    write_grades(tmp_path, class_of())
    with open(tmp_path / "grades.csv", newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert (rows["a"]["points"], rows["c"]["points"]) == ("25", "0")
    assert (rows["e"]["points"], rows["f"]["points"]) == ("", "")  # never a zero
    assert rows["f"]["why"] == "'=a link"


def test_the_staff_s_page_has_every_section(tmp_path):
    evil = result("g", notes=["x"], why="<script>1</script>", layers=["<b>"])
    found = similarity.section([similarity.Pair("a", "b", 0.9, 30, "bert.py:1 <i>", "bert.py:2")])
    write_staff_page(tmp_path, [*class_of(), evil], COURSE, [found])
    text = (tmp_path / "staff.html").read_text()
    assert re.findall("<h2>(.*?)</h2>", text) == ["Tasks", "Submissions", "Similar code"]
    assert "4 graded" not in text
    assert "5 graded, 1 staff error, 1 refused" in text
    assert "no_mask (2), =x (1)" in text
    assert not re.search("<script>1|<b>|<i>", text)
    write_staff_page(tmp_path, [], COURSE)
    assert "0 submissions: none." in (tmp_path / "staff.html").read_text()


def test_all_of_it_with_marks_and_with_the_grader_s_own_errors(tmp_path):
    error = {"student": "e", "status": "staff error", "why": "RuntimeError('x')", "trace": "…"}
    two = result("a", [graded_task(number="2.1")], part=2, predictions=[prediction("test")])
    del two["manual"]
    settings = {"course": COURSE, "manual": LIMITS}
    marks = marks_file(tmp_path, "a,approach,17.5,clear")
    said = reports.write_all(tmp_path / "out", [two, error], settings, marks, {"a"})
    assert said == ["a: no mark yet for analysis"]
    text = (tmp_path / "out" / "feedback" / "a.md").read_text()
    assert "**37.5 of 40 points** of the rows graded so far" in text
    assert "0.521" in text
    assert "RuntimeError" not in (tmp_path / "out" / "feedback" / "e.md").read_text()
    assert "RuntimeError" in (tmp_path / "out" / "staff.html").read_text()
    assert "17.5" not in str(two)  # results on disk stay what the program found
    with pytest.raises(InputError, match="no submission of 'a'"):  # people mark part 2 only
        reports.write_all(tmp_path / "out", [result()], settings, marks)
    reports.write_all(tmp_path / "out", [result()], settings)
    assert "**0 of 0 points**" in (tmp_path / "out" / "feedback" / "a.md").read_text()
