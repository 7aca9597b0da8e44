"""Part 3, lessons/modern_bert.py: its handout, its checks' words, its grading."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from support import ROOT
from test_handout import built, written

from checks import jobs
from checks.graded_tasks import GRADED_TASKS
from checks.part1.references import DATA_FILES, FINGERPRINTS
from course.answers import MISTAKES, installed, read_all
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


def test_references_are_those_of_transformers(tmp_path):
    pytest.importorskip("transformers")
    stored = load_file(DATA_FILES[-1])
    command = [sys.executable, "-m", "tests.make_modern_bert", "--out", str(tmp_path / "data")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    made = load_file(tmp_path / "data")
    assert made.keys() == {name for name in stored if not name.startswith(FINGERPRINTS)}
    for name, tensor in made.items():
        torch.testing.assert_close(stored[name], tensor, rtol=1e-12, atol=1e-12)
