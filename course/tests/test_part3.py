"""Part 3, lessons/modern_bert.py: its handout, its checks' words, its grading."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from support import ROOT, needs_sandbox
from test_handout import built, written

from checks import jobs
from checks.graded_tasks import GRADED_TASKS
from checks.part1.references import DATA_FILES, FINGERPRINTS
from course import table
from course.answers import MARKER, MISTAKES, installed, put, read, read_all
from course.grading.intake import intake
from course.grading.judging.submission import grade_tasks, task_result
from course.grading.judging.types import Submission
from course.grading.sandbox.context import open_context
from course.handout_checks import write_files

FILE = "lessons/modern_bert.py"
needs_ruff = pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="no ruff")
TASKS = [entry for entry in GRADED_TASKS if entry.part == 3]
OF_PART_3 = {FILE, "docs/modern-bert.md", "pretraining/modern_config.py", "checks/part3/tasks.py"}


def test_a_mask_s_numbers_are_called_true_and_false():
    (answer,) = (a for a in read_all(MISTAKES, "modern.local_mask") if a.named == "off_by_one")
    with installed(answer, next(iter(answer.versions))):
        texts = [finding.text for finding in jobs.examine(answer.task)]
    assert any(text.endswith(": got False, expected True") for text in texts)


def test_ten_mistakes_of_each():
    assert all(len(read_all(MISTAKES, task.id)) >= 10 for task in TASKS)


@needs_ruff
@pytest.mark.parametrize("part", ["1", "2", "all"])
def test_other_handouts_have_nothing_of_it(part):
    handout = built(part)
    assert not handout.files.keys() & OF_PART_3
    told = handout.text("README.md") + handout.text("checks/graded_tasks.toml")
    assert not any(task.id in told or task.function in told for task in TASKS)
    assert not any(name.startswith("checks/part3") for name in handout.files)


@needs_ruff
def test_its_handout_adds_stubs_to_those_of_part_2():
    handout, before = built("3"), built("2")
    assert before.files.keys() < handout.files.keys() > OF_PART_3
    text = handout.text(FILE)
    for task in TASKS:
        assert text.count(f'raise NotImplementedError("{task.title}")') == 1
        assert f"| {task.number} | `{FILE}` `{task.function}` | {task.points} |" in handout.text(
            "README.md"
        )
        line = rf"### Task {task.number} · .*\n\n`.*` · {task.points} points ·"
        assert re.search(line, handout.text(task.page))
    assert built("3", solved=True).text("bert.py") == built("2", solved=True).text("bert.py")


@needs_ruff
@pytest.mark.parametrize("filled", [set(), {"3.1", "3.3"}, {"3.1", "3.2", "3.3"}])
def test_each_filled_stub_turns_its_own_check_green(filled, tmp_path):
    write_files(tmp_path, built("3").files)
    (tmp_path / FILE).write_text(written("3", filled)[FILE], encoding="utf-8")
    command = [sys.executable, "sanity_check.py", "--part", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8")
    lines = done.stdout.splitlines()
    for task, line in zip(TASKS, lines, strict=False):
        sign = "ok" if task.number in filled else "not started"
        assert re.match(rf"  {sign} +{re.escape(task.title)}", line), done.stdout + done.stderr
    assert done.returncode == (len(filled) < 3)


@needs_ruff
def test_without_its_handout_a_line_says_so(tmp_path):
    write_files(tmp_path, built("2").files)
    command = [sys.executable, "sanity_check.py", "--part", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert "invalid choice: 3 (choose from 1, 2)" in done.stderr


def source_with(*mistakes: str) -> str:
    """Our file without markers, with these mistakes in it."""
    text = MARKER.sub("", (ROOT / FILE).read_text(encoding="utf-8"))
    for name in mistakes:
        text = put(read(MISTAKES, name), source=text)
    return text


@pytest.mark.parametrize("name", [FILE, "modern_bert.py", f"group/{FILE}"])
def test_a_submission_is_its_file_wherever_it_lies(tmp_path, name):
    path = tmp_path / "submission" / name
    path.parent.mkdir(parents=True)
    path.write_text(source_with())
    taken = intake.take("student", tmp_path / "submission", 3)
    assert taken.files == {FILE: source_with().encode()}
    assert not taken.refused


@needs_sandbox
def test_grading_as_part_1_s():
    settings = table.read_settings(ROOT)
    wrong = (
        "modern.rotary/positions_from_one",
        "modern.local_mask/off_by_one",
        "modern.geglu/silu",
    )
    with open_context(3, "secret") as context:

        def graded(text: str) -> dict[str, dict]:
            submission = Submission("student", 3, {FILE: text.encode()}, sha256="0")
            verdicts = grade_tasks(context, submission)
            return {t.number: task_result(t, verdicts[t.id], settings) for t in context.tasks}

        right, mistaken = graded(source_with()), graded(source_with(*wrong))
        stubs = graded(built("3").text(FILE))
    assert [task["points"] for task in right.values()] == [task.points for task in TASKS]
    assert [task["mistakes"] for task in mistaken.values()] == [[w.split("/")[1]] for w in wrong]
    lost = {number: task["rows"][0]["points"] for number, task in mistaken.items()}
    assert lost == {"3.1": 0, "3.2": 0, "3.3": 0}
    dropout = {row["what"]: row["points"] for row in mistaken["3.3"]["rows"]}["dropout"]
    assert dropout > 0  # it acts as it should but for the one known mistake
    assert {task["status"] for task in stubs.values()} == {"not started"}


def test_references_are_those_of_transformers(tmp_path):
    pytest.importorskip("transformers")
    stored = load_file(DATA_FILES[-1])
    command = [sys.executable, "-m", "tests.make_modern_bert", "--out", str(tmp_path / "data")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    made = load_file(tmp_path / "data")
    assert made.keys() == {name for name in stored if not name.startswith(FINGERPRINTS)}
    for name, tensor in made.items():
        torch.testing.assert_close(stored[name], tensor, rtol=1e-12, atol=1e-12)
