"""What prepare_submit.py hands in: it fits the handout's files, and the grader takes it."""

import pytest
from factories import ROOT

import prepare_submit
from checks.part2 import submission
from course import handout, parts
from course.grading.intake.submissions import student_id, take


def test_what_the_handout_gives_is_not_handed_in():
    shipped = {name for name, _ in parts.files_of(ROOT, 1)}
    given = {name for name in shipped if name.endswith(".py")} - {*prepare_submit.CODE}
    assert {name.partition("/")[0] for name in given} - {"data"} == prepare_submit.GIVEN


def test_the_report_is_not_the_handouts_readme(tmp_path):
    (tmp_path / "README.md").write_bytes(handout.build(ROOT, "2").files["README.md"])
    assert len(submission.check_readme(tmp_path / "README.md")) == 1


@pytest.mark.parametrize("part", [1, 3])
def test_the_grader_takes_the_zip(tmp_path, part):
    own = tmp_path / "lessons" / "modern_bert.py" if part == 3 else tmp_path / "helper.py"
    own.parent.mkdir(exist_ok=True)
    own.write_text("x = 1\n", encoding="utf-8-sig")  # as some editors save it
    files = [own] if part == 3 else [own, *(tmp_path / name for name in prepare_submit.CODE)]
    for file in files:
        file.write_text("x = 1\n", encoding="utf-8-sig")
    names = [file.relative_to(tmp_path) for file in files]
    target = tmp_path / f"1234_us_part{part}_{prepare_submit.ZIP_NAME}"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        prepare_submit.build_zip(names, target, part)
    taken = take("1234_us", target, part)
    assert not taken.refused
    assert taken.files.keys() >= {name.as_posix() for name in names}
    assert student_id(target.name) == "1234_us"
