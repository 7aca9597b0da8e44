"""What students' texts name is in their repository, and what a push of theirs runs works."""

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
from factories import ROOT

from checks.graded_tasks import GRADED_TASKS
from course import handout
from docs import first_screen

MADE_LATER = {"my_tests.py", "my-train.csv", "my-dev.csv", "my-test.csv", "job.sh", "metrics.json"}
MADE_LATER |= {
    "ai-usage-card.pdf",
    "sst-classifier.pt",
    "my-train-classifier.pt",
    "option-epochs-lr-multitask.pt",
}
STAFF = re.compile(r"(?<![\w/])(?:course|extensions|research|tests|\.ci)/|(?<![\w/])staff\.md")
FILE_NAME = re.compile(r"(?<![\w*}/.$-])[\w./*{},-]+\.(?:py|md|sh|toml|data|npy|csv|pdf|pt|json)\b")


def expanded(name: str) -> list[str]:
    """Shell braces: a-{b,c}.csv → a-b.csv, a-c.csv."""
    found = re.search(r"\{([^}]*)\}", name)
    if not found:
        return [name]
    before, after = name[: found.start()], name[found.end() :]
    return [one for part in found[1].split(",") for one in expanded(before + part + after)]


@pytest.mark.parametrize("part", ["1", "2", "all"])
def test_what_students_texts_name_is_in_their_repository(part):
    files = handout.build(ROOT, part).files
    later = handout.build(ROOT, "all").files  # part 1's handout also tells of part 2
    folders = {".", *(str(parent) for name in later for parent in PurePosixPath(name).parents)}
    missing = []
    for name in (name for name in files if name.endswith((".md", ".sh"))):
        text = re.sub(r"https://\S+", "", files[name].decode())
        missing += ((name, folder) for folder in STAFF.findall(text))
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
            if os.path.normpath(os.path.join(os.path.dirname(name), target)) not in files:
                missing.append((name, target))
        if name == "predictions/README.md":  # what runs will write
            continue
        for file in (file for found in FILE_NAME.findall(text) for file in expanded(found)):
            base = os.path.basename(file)
            is_own = base in MADE_LATER or base.startswith("seed-")
            is_downloaded = f"data/practice/{base}" in files
            near = [os.path.normpath(os.path.join(folder, file)) for folder in folders]
            if is_own or is_downloaded or file.startswith("predictions/"):
                continue
            if not any(fnmatch.filter(later, pattern) for pattern in near):
                missing.append((name, file))
    assert not missing


def test_a_push_of_a_student_shows_the_tasks_in_the_summary_of_the_run(tmp_path):
    """What course/check.yml runs in a handout, but for pip."""
    yaml = pytest.importorskip("yaml", reason="pip install -r requirements-dev.txt")
    handout.write_files(tmp_path / "repository", handout.build(ROOT, "all").files)
    jobs = yaml.safe_load((ROOT / "course" / "check.yml").read_text(encoding="utf-8"))["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
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
    for task in GRADED_TASKS:
        line = rf"^ +(not started|waits) +{re.escape(task.title)}"
        assert bool(re.search(line, shown, re.M)) == (task.part != 3)  # which it leaves out


def test_the_front_page_shows_what_the_check_says():
    assert first_screen.example() in (ROOT / "README.md").read_text(encoding="utf-8")
