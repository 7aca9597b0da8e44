"""What runs on GitHub: the README's commands, and nothing but official actions."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from factories import ROOT

from checks.graded_tasks import GRADED_TASKS
from course import handout
from course.handout_repository import write_files

yaml = pytest.importorskip("yaml", reason="pip install -r requirements-dev.txt")

WORKFLOWS = sorted([*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / "course" / "check.yml"])


def steps_of(path: Path) -> list[dict]:
    """The steps of all jobs."""
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


def lines_of(name: str) -> list[str]:
    """The shell's lines of a workflow."""
    steps = steps_of(ROOT / ".github" / "workflows" / name)
    return [line for step in steps for line in step.get("run", "").splitlines()]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_takes_official_actions_and_few_rights(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    for job in workflow["jobs"].values():
        assert job["steps"][0]["uses"].startswith("actions/checkout@v")
    used = [step["uses"] for step in steps_of(path) if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in used)
    assert workflow["permissions"]["contents"] == "read"


def test_what_the_readme_says_is_what_is_run():
    start = re.split("^## ", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M)
    (start,) = [section for section in start if section.startswith("Start\n")]
    commands = [
        line
        for block in re.findall(r"```bash\n(.*?)```", start, re.S)
        for line in block.splitlines()
    ]
    assert len(commands) >= 3
    assert lines_of("tests.yml")[: len(commands)] == commands


def test_the_tests_of_the_grader_run_weekly_and_by_hand_with_a_sandbox():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    events = workflow[True]  # which is what YAML reads "on" as
    assert {"schedule", "workflow_dispatch"} < events.keys()
    assert re.fullmatch(r"\d+ \d+ \* \* \d", events["schedule"][0]["cron"])
    job = workflow["jobs"]["staff"]
    assert set(re.findall(r"'(\w+)'", job["if"])) == {"schedule", "workflow_dispatch"}
    commands = "\n".join(step.get("run", "") for step in job["steps"])
    assert "apt-get install --yes --no-install-recommends bubblewrap\n" in commands
    (line,) = [line for line in commands.splitlines() if "pytest" in line]
    assert {folder for folder in line.split() if (ROOT / folder).is_dir()} == {
        "course/tests",
        "research/tests",
    }


def test_the_site_is_built_as_its_test_builds_it_and_never_of_a_private_copy():
    assert "mkdocs build --strict" in lines_of("site.yml")
    text = (ROOT / ".github" / "workflows" / "site.yml").read_text(encoding="utf-8")
    job = yaml.safe_load(text)["jobs"]["site"]
    assert job["if"] == "${{ !github.event.repository.private }}"
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (upload,) = [step for step in job["steps"] if "upload-pages" in step.get("uses", "")]
    assert f"\nsite_dir: {upload['with']['path']}\n" in config


@pytest.mark.parametrize("part", ["1", "all"])
def test_a_student_s_push_shows_the_tasks_in_the_run_s_summary(tmp_path, part):
    """What course/check.yml runs in a handout, but for pip."""
    write_files(tmp_path / "repository", handout.build(ROOT, part).files)
    commands = [step["run"] for step in steps_of(ROOT / "course" / "check.yml") if "run" in step]
    assert commands[0] == "pip install -r requirements.txt"
    summary, here = tmp_path / "summary.md", Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands[1]],
        cwd=tmp_path / "repository",
        env=os.environ | {"GITHUB_STEP_SUMMARY": f"{summary}", "PATH": f"{here}:/usr/bin:/bin"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 1, done.stderr  # not all tasks are right
    shown = summary.read_text(encoding="utf-8")
    assert re.fullmatch(r"```text\n.*\n```\n", shown, re.S)
    for task in GRADED_TASKS:
        ships = task.part <= (1 if part == "1" else 2)  # the workflow leaves part 3 out
        assert (f"  not started  {task.title}\n" in shown) == ships
