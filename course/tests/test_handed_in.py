"""What prepare_submit.py hands in: it fits the handout's files, and the grader takes it."""

from pathlib import Path

import pytest
from factories import ROOT

import prepare_submit
from checks.part2 import submission
from course import handout
from course.grading.intake.submissions import student_id, take


def test_what_the_handout_gives_is_not_handed_in():
    shipped = {name for name, _ in handout.files_of(ROOT, 1)}
    given = {name for name in shipped if name.endswith(".py")} - {*prepare_submit.CODE}
    assert {name.partition("/")[0] for name in given} - {"data"} == prepare_submit.GIVEN


def test_the_report_is_not_the_handouts_readme(tmp_path):
    (tmp_path / "README.md").write_bytes(handout.build(ROOT, "2").files["README.md"])
    assert len(submission.check_readme(tmp_path / "README.md")) == 1


@pytest.mark.parametrize(
    ("part", "names"), [(1, [*prepare_submit.CODE, "helper.py"]), (3, ["lessons/modern_bert.py"])]
)
def test_the_grader_takes_the_zip(tmp_path, monkeypatch, part, names):
    monkeypatch.chdir(tmp_path)
    for name in names:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("x = 1\n", encoding="utf-8-sig")  # as some editors save it
    target = Path(f"1234_us_part{part}_{prepare_submit.ZIP_NAME}")
    prepare_submit.build_zip([Path(name) for name in names], target, part)
    taken = take("1234_us", target, part)
    assert not taken.refused
    assert taken.files.keys() >= {*names}
    assert student_id(target.name) == "1234_us"
