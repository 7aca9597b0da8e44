"""The autograder for Gradescope (course/gradescope): its zip, its results, a run in its folders."""

import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from unittest import mock

import pytest
from made_results import prediction, result, task
from support import ROOT, succeeded

from course import table
from course.answers import MARKER, MISTAKES, put, read
from course.gradescope import build, results
from course.grading.sandbox.isolation import ChangeOfUser
from course.handout_checks import write_files
from course.handout_repository import zipped
from research.benchmarks.grader import GOLD, predictions, solution

SETTINGS = table.read_settings(ROOT)
MADE = {"part": 1, "secret": "5" * 32}


@pytest.fixture(scope="module")
def files():
    return build.all_files(1, GOLD, MADE, "--no-input")


# ---------------------------------------------------------------------------------------------
# The zip


def test_the_zip_has_what_gradescope_asks_for(files):
    assert {"setup.sh", "run_autograder", "skeleton.json", "assignment.json"} <= files.keys()
    for name in ("setup.sh", "run_autograder"):
        assert files[name].startswith(b"#!/usr/bin/env bash\n")
        done = subprocess.run(["bash", "-n"], input=files[name], check=False)
        assert done.returncode == 0
    assert files["requirements.txt"].startswith(b"--no-input\ntorch==")
    assert {"gold/ids-sst-test.csv", "gold/ids-sst-dev.csv"} <= files.keys()
    stage = {name: text for name, text in files.items() if name.startswith("stage/")}
    assert b"NotImplementedError" in stage["stage/handout/bert.py"]
    secret = re.compile("gold|-test.csv|assignment|/judge")
    assert not [name for name in stage if secret.search(name)]
    empty = json.loads(files["skeleton.json"])
    assert sum(t["score"] for t in empty["tests"]) == 0
    assert sum(t["max_score"] for t in empty["tests"]) == 100
    assert "says nothing about your code" in empty["output"]


def test_the_zip_has_all_that_the_grader_imports(files, tmp_path):
    write_files(tmp_path, files)
    line = [sys.executable, "-c", "import course.gradescope.harness"]
    done = subprocess.run(line, cwd=tmp_path / "repo", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_zip_is_private_and_the_same_each_time(files, tmp_path, run_script_here):
    small = {name: files[name] for name in ("setup.sh", "run_autograder", "assignment.json")}
    made = []
    with mock.patch.object(build, "all_files", return_value=small):
        for _ in range(2):
            succeeded(run_script_here(build, "--gold", *GOLD, "--out", tmp_path / "out"))
            made.append((tmp_path / "out" / "autograder.zip").read_bytes())
    assert made[0] == made[1]
    with zipfile.ZipFile(io.BytesIO(made[0])) as archive:
        modes = {i.filename: stat.S_IMODE(i.external_attr >> 16) for i in archive.infolist()}
    assert modes == {"setup.sh": 0o700, "run_autograder": 0o700, "assignment.json": 0o600}


# ---------------------------------------------------------------------------------------------
# results.json


def graded(**more):
    tasks = [task("1.1", "wrong", 12.0), task("1.2")]
    scores = [prediction("dev", 0.5, public=0.4), prediction("test", 0.6, public=0.7)]
    return result("7", tasks, scores) | more


def previous(day, **kept):
    time = f"2026-11-{day:02}T10:00:00.000000-08:00"
    return {"submission_time": time, "results": {"extra_data": kept}}


NOW = {"created_at": "2026-11-20T10:00:00.000000-08:00", "users": [{"id": 9}, {"id": 7}]}


def test_tests_add_up_and_texts_are_cleaned():
    messages = ["\x1b[31mred\u202e\x00 <b>", "x" * 5000]
    bad = task("1.1", "wrong", 12.0, messages=messages, mistakes=["a\nb"], hints=["\x07"])
    made = results.of_result(graded(tasks=[bad, task("1.2")]), SETTINGS, NOW)
    assert "score" not in made
    assert made["stdout_visibility"] == "hidden"
    shown = [(t["score"], t["max_score"], t.get("status")) for t in made["tests"]]
    assert shown == [(12, 20, "failed"), (20, 20, "passed"), (0, 0, None)]
    assert made["tests"][0]["number"] == "1.1"
    assert {(t["visibility"], t["output_format"]) for t in made["tests"]} == {("visible", "text")}
    text = made["tests"][0]["output"]
    assert "red <b>" in text
    assert not {"\x1b", "\u202e", "\x00", "\x07"} & set(text)
    assert len(text) <= 4000
    refused = results.refused(graded(status="refused", why="a link\x1b[31m inside"), SETTINGS)
    assert refused["output"] == "Nothing could be graded: a link inside"
    assert {t["score"] for t in refused["tests"]} == {0}


def test_only_the_first_submissions_count_on_test():
    first = results.of_result(graded(), SETTINGS, NOW)
    rows = {row["name"]: row["value"] for row in first["leaderboard"]}
    assert rows == {"SST, finetune (test, public half)": 0.7, "SST, finetune (dev)": 0.5}
    assert "public half: accuracy 0.700" in first["tests"][-1]["output"]
    later = NOW | {"previous_submissions": [previous(19, **first["extra_data"])]}
    scores = [prediction(split, 0.9, private=0.125) for split in ("dev", "test")]
    second = results.of_result(graded(predictions=scores), SETTINGS, later)
    assert second["extra_data"]["on test"] is False
    rows = {row["name"]: row["value"] for row in second["leaderboard"]}
    assert rows == {"SST, finetune (test, public half)": 0.7, "SST, finetune (dev)": 0.9}
    assert "only your first submissions count on test" in second["tests"][-1]["output"]
    assert "public half: accuracy" not in second["tests"][-1]["output"]
    assert "0.125" not in json.dumps(second)  # the private half


@pytest.mark.parametrize(
    "metadata",
    [
        {},  # one that counted, later than this one; then an earlier one that did not
        NOW | {"previous_submissions": [previous(21, **{"on test": True, "rows": []})]},
        NOW | {"previous_submissions": [previous(19, **{"on test": False, "rows": []})]},
        {"users": [None], "previous_submissions": [None, {"results": 3, "submission_time": "x"}]},
        NOW | {"previous_submissions": [previous(1) | {"results": None}]},
    ],
)
def test_metadata_with_which_a_submission_counts(metadata):
    assert results.of_result(graded(), SETTINGS, metadata)["extra_data"]["on test"]
    assert results.student_of(metadata) in ("nobody", "7-9")


# ---------------------------------------------------------------------------------------------
# In folders like Gradescope's


@pytest.fixture
def container(files, tmp_path):
    """A function that lays out /autograder with a submission and runs it; results and output."""

    def go(submission, python=sys.prefix, seconds=560, spoil=None, files=files):
        base = tmp_path / "autograder"
        shutil.rmtree(base, ignore_errors=True)
        everything = {f"source/{name}": content for name, content in files.items()}
        everything |= {f"submission/{name}": content for name, content in submission.items()}
        everything["submission_metadata.json"] = json.dumps(NOW)
        for name, content in everything.items():
            path = base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        shutil.copy(base / "source" / "run_autograder", base)
        if spoil:
            spoil(base)
        environment = {"AUTOGRADER": str(base), "GRADER_PYTHON": str(python)}
        done = subprocess.run(
            ["bash", str(base / "run_autograder")],
            env=environment | {"PATH": os.environ["PATH"], "GRADER_SECONDS": str(seconds)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0
        assert stat.S_IMODE(base.stat().st_mode) == 0o700
        made = json.loads((base / "results" / "results.json").read_text())
        return made, done.stdout + done.stderr

    return go


def without_canaries(base):
    path = base / "source" / "repo" / "course" / "grading" / "judging" / "canaries.py"
    path.write_text(f"{path.read_text()}\n\ndef submissions(desk):\n    raise InputError('none')\n")


as_at_gradescope = pytest.mark.skipif(
    os.geteuid() != 0 or not ChangeOfUser().reaches(Path(sys.base_prefix)),
    reason="only root can become another user, who has to be able to enter Python's folder",
)


@as_at_gradescope
def test_the_solution_in_a_zip_in_a_zip(container):
    files = {name: text.encode() for name, text in (solution() | predictions(1)).items()}
    packed = {"dnlp_final_project_submission.zip": zipped(files)}
    made, printed = container(packed, spoil=without_canaries)  # not asked: nothing is lost
    assert sum(t["score"] for t in made["tests"]) == 100, printed
    assert made["leaderboard"]
    assert "graded: 100" in printed


@as_at_gradescope
def test_part_3(container):
    """It has no predictions and no rows of the leaderboard."""
    name = "lessons/modern_bert.py"
    files = build.all_files(3, GOLD, MADE | {"part": 3}, "")
    right = MARKER.sub("", (ROOT / name).read_text(encoding="utf-8"))
    wrong = put(read(MISTAKES, "modern.local_mask/off_by_one"), source=right)
    for text, points in ((right, 25), (wrong, 20)):
        made, printed = container({name: text}, files=files)
        assert sum(t["score"] for t in made["tests"]) == points, printed
        assert made["leaderboard"] == []


def stopped(base):
    harness = base / "source" / "repo" / "course" / "gradescope" / "harness.py"
    harness.write_text("import time\ntime.sleep(60)\n")


def failing(base):
    (base / "source" / "gold" / "ids-sst-test.csv").write_text("no data file\n")


@pytest.mark.parametrize(
    "how", [{"python": "/nowhere"}, {"seconds": 1, "spoil": stopped}, {"spoil": failing}]
)
def test_a_failure_of_ours_is_said_to_be_none_of_theirs(container, how):
    made, _ = container(solution(), **how)
    assert made["output"] == results.NOT_GRADED
    assert made["stdout_visibility"] == "hidden"


HOSTILE = """
import glob, os, socket
got = []
for path in (*glob.glob("/tmp/*/*/*/autograder/*"), *sys.path):
    if "autograder" in path and os.access(path, os.R_OK):
        got.append(path)
try:
    socket.socket()
    got.append("a socket")
except OSError:
    pass
raise Exception(f"user {os.getuid()}, got {got}")
"""


@as_at_gradescope
def test_submitted_code_is_another_user_s(container):
    """It reads nothing of ours; points are lost only where the solution loses none."""
    made, printed = container({"bert.py": "import sys, torch\n" + HOSTILE})
    assert sum(t["score"] for t in made["tests"]) == 0
    assert f"user {ChangeOfUser.user}, got []" in json.dumps(made), printed
    assert "output" not in made
    made, printed = container({"bert.py": "import torch\n"}, spoil=without_canaries)
    assert made["output"] == results.NOT_GRADED
    assert "InputError: none" in printed
