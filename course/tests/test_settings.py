"""What a course may change (course/settings.toml): every fault is one line that names the key."""

import re

import pytest
from support import ROOT

from course.grading.judging import extra
from course.table import SETTINGS, read_settings
from training.files.errors import InputError


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("[points]", '[points]\n"9.1" = 2', "gives points to 9.1"),
        ("[points]", '[points]\n"1.1" = "many"', "points.1.1 is 'many', not a whole number"),
        ("[points]", "[point]", "unknown table point"),
        ("[points]", "[points", "cannot be read"),
        ("attempts = 1", "attempts = -1", "leaderboard.attempts is -1"),
        ("attempts = 1", "attempts = true", "leaderboard.attempts is True"),
        ("attempts = 1", "", "has no leaderboard.attempts"),
        ("exceptions = {}", "exceptions = {a = 1.5}", "leaderboard.exceptions.a is 1.5"),
        ("approach = 20", "approach = nan", "manual.approach is nan"),
        ("packages = []", 'packages = "nltk"', "sandbox.packages is 'nltk', not a list of names"),
        ("[extra]", "[extra]\nx = 3", "extra.x is 3, not a table of part, points and title"),
        ("[extra]", '[extra]\nx = {part = 1, points = -1, title = ""}', "extra.x.points is -1"),
        ('part1 = ""', 'part1 = "1 Feb"', "late.part1 is '1 Feb', not a time such as 2027-02-01T"),
        ('part2 = ""', "part2 = 3", "late.part2 is 3, not a time"),
        ("days = 3", "days = -1", "late.days is -1, not a whole number"),
        ("cost = 10", "cost = 101", "late.cost is 101, not a number from 0 to 100"),
        ('visibility = "visible"', 'visibility = "red"', "gradescope.visibility is 'red'"),
        ("values = 0.5", "values = 0", "grading.shares.values is 0, not a number above 0"),
    ],
)
def test_wrong_settings_are_one_line(tmp_path, old, new, fault):
    text = (ROOT / SETTINGS).read_text(encoding="utf-8")
    place = rf"^{re.escape(old)}(?=\s|$)"
    assert len(re.findall(place, text, re.M)) == 1
    (tmp_path / "course").mkdir()
    (tmp_path / SETTINGS).write_text(re.sub(place, new, text, flags=re.M), encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(fault)) as caught:
        read_settings(tmp_path)
    assert "\n" not in str(caught.value)


def test_extra_points_need_a_function():
    row = {"part": 1, "points": 2, "title": "a figure"}
    with pytest.raises(InputError, match=r"has no function for extra\.of_no_such_name"):
        extra.functions_of(1, {"extra": {"of_no_such_name": row}})
    assert extra.functions_of(2, {"extra": {"of_no_such_name": row}}) == {}
