"""The handout: what ships, what is refused, and that a student can work in it."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Collection
from functools import cache
from pathlib import Path

import pytest
from support import ROOT

from checks.graded_tasks import GRADED_TASKS
from course import handout, table
from course.handout_checks import write_files
from training.cli import scripts
from training.files.errors import InputError

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ruff") is None, reason="no ruff: pip install -r requirements-dev.txt"
)

# Written again here, so that the generator is not judged by its own reader of markers
REGION = re.compile(r"^ *### BEGIN SOLUTION ([\w.]+)\n.*?^ *### END SOLUTION \1\n", re.M | re.S)
MARKER = re.compile(r"^ *### (?:BEGIN SOLUTION|END SOLUTION|STUB:).*\n", re.M)
GRADED = sorted({entry.file for entry in GRADED_TASKS})
TITLES = {entry.id: entry.title for entry in GRADED_TASKS}
STAFF_FOLDERS = {"course", "extensions", "research", "tests", ".ci"}
STAFF_FILES = {"pretraining/pretrain.py", "STRUCTURE.md", "requirements-dev.txt", "docs/staff.md"}


@cache
def built(part: str, solved: bool = False) -> handout.Handout:
    return handout.build(ROOT, part, solved)


def source(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def as_a_student(name: str, chosen: Collection[str] = ()) -> str:
    """A file with the chosen regions written and stubs for the others."""

    def shown(region: re.Match) -> str:
        hints = re.findall(r"^( *)### STUB: (.*\n)", region[0], re.M)
        stub = "".join(indent + hint for indent, hint in hints)
        if region[1] in chosen:
            return MARKER.sub("", region[0])
        if region[1] not in TITLES:
            return stub
        raising = f'raise NotImplementedError("{TITLES[region[1]]}")'
        return f"{hints[0][0]}### TODO\n{stub}{hints[0][0]}{raising}\n"

    return REGION.sub(shown, source(name))


def lines_of(text: str) -> list[str]:
    """The lines that are not empty: a region leaves blank ones behind."""
    return [line for line in text.split("\n") if line.strip()]


# ---------------------------------------------------------------------------------------------
# What ships


@pytest.mark.parametrize("part", ["1", "2", "all"])
def test_only_what_students_need_ships(part):
    names = set(built(part).files)
    assert not {name.split("/")[0] for name in names} & STAFF_FOLDERS
    assert not names & STAFF_FILES
    assert ("multitask_classifier.py" in names) == ("docs/part2.md" in names) == (part != "1")
    wanted = {"README.md", "docs/handout.md", "docs/gpu.md", "docs/errata.md", "README.template.md"}
    assert names > wanted | {"sanity_check.data", "optimizer_test.npy", "data/download.py"}
    readme = built(part).text("README.md")
    for name in names:
        assert not re.search("SOLUTION|course/", built(part).text(name)), name
        assert part != "1" or "](part2" not in built(part).text(name), name
        if name.endswith(".py") and "/" not in name:
            assert f"`{name}`" in readme.split("## The map")[1]
    assert ("docs/part2.md" in readme) == (part != "1")


@pytest.mark.parametrize("part", ["1", "2", "all"])
def test_tasks_and_points_agree_wherever_they_are_told(part):
    """The students' README, the assignment's text, and what the grader gives."""
    settings = table.read_settings(ROOT)
    last = 1 if part == "1" else 2
    tasks = [entry for entry in table.course_tasks(settings) if entry.part <= last]
    readme = built(part).text("README.md")
    rows = re.findall(r"^\| (\d\.\d) \|.* \| (\d+) \| \d+ \|.*$", readme, re.M)
    assert rows == [(entry.number, str(entry.points)) for entry in tasks]
    assert f"|  | together | {sum(entry.points for entry in tasks)} |" in readme
    for entry in tasks:
        line = rf"### Task {entry.number} · .*\n\n`.*` · {entry.points} points ·"
        assert re.search(line, built(part).text(entry.page))
    manual = settings["manual"]
    assert all((f"| {row} | {manual[row]} |" in readme) is (part != "1") for row in manual)


@pytest.mark.parametrize("name", GRADED)
def test_each_region_becomes_its_stub(name):
    text = built("3").text(name)
    assert lines_of(text) == lines_of(as_a_student(name))
    assert text.count("### TODO") == sum(entry.file == name for entry in GRADED_TASKS)


@pytest.mark.parametrize("part", ["1", "all"])
def test_a_push_shows_the_tasks_in_the_run_s_summary(tmp_path, part):
    """What the handout's workflow runs, but for pip."""
    yaml = pytest.importorskip("yaml")
    write_files(tmp_path / "repository", built(part).files)
    workflow = yaml.safe_load(built(part).text(handout.WORKFLOW))
    commands = [step["run"] for step in workflow["jobs"]["tasks"]["steps"] if "run" in step]
    assert commands[0] == "pip install -r requirements.txt"
    summary = tmp_path / "summary.md"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands[1]],
        cwd=tmp_path / "repository",
        env=os.environ
        | {
            "GITHUB_STEP_SUMMARY": str(summary),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 1, done.stderr  # not all tasks are right
    shown = summary.read_text(encoding="utf-8")
    assert shown.startswith("```text\n")
    assert shown.endswith("\n```\n")
    for task in GRADED_TASKS:
        row = f"  not started  {task.title}\n"
        ships = task.part <= (1 if part == "1" else 2)
        assert (row in shown) == (row in done.stdout) == ships


def test_part_2_can_bring_part_1_written():
    files = built("2", solved=True)
    for name in ("bert.py", "optimizer.py", "classifier.py"):
        assert lines_of(files.text(name)) == lines_of(MARKER.sub("", source(name)))
    assert files.text("multitask_classifier.py") == built("all").text("multitask_classifier.py")
    assert "| 1.1 |" not in files.text("README.md")
    assert "| 1.1 |" in built("2").text("README.md")


# ---------------------------------------------------------------------------------------------
# A student's work, in a process of its own

WORK = r"""
import importlib, json, runpy, sys
from pathlib import Path

states = json.load(sys.stdin)
for path in sorted(Path().glob("*.py")):
    importlib.import_module(path.stem)
runpy.run_path("data/download.py", run_name="download")
from checks import jobs
from checks.graded_tasks import GRADED_TASKS

reports = []
for files, parts in states:
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
        sys.modules.pop(Path(name).stem, None)
    importlib.invalidate_caches()
    kinds = {}
    for task in GRADED_TASKS:
        if task.number[0] in parts and Path(task.file).is_file():
            wrong = jobs.check(task)
            kinds[task.number] = wrong[0].kind if wrong else "ok"
    reports.append(kinds)
print("\n" + json.dumps(reports))
"""


def states_of(part: str) -> list[tuple[set[str], str]]:
    """Which tasks a student has written, one state after the other; which parts are checked then.

    Tasks are filled alone where their checks wait for no other one.
    """
    first = [entry.number for entry in GRADED_TASKS if entry.part == 1]
    if part == "1":
        alone = [{number} for number in first[:-1]]
        return [(set(), "1"), *((chosen, "1") for chosen in alone), ({"1.6", "1.7"}, "1")] + [
            (set(first), "1")
        ]
    second = [entry.number for entry in GRADED_TASKS if entry.part == 2]
    return [(set(), "12")] + [({*first, *second[:count]}, "2") for count in range(len(second) + 1)]


def written(part: str, numbers: set[str]) -> dict[str, str]:
    """The graded files with these tasks done, and with all that only a solution of them needs."""
    texts = {}
    for name in (name for name in GRADED if name in built(part).files):
        tasks = {entry.id: entry.number for entry in GRADED_TASKS if entry.file == name}
        chosen = {key for key, number in tasks.items() if number in numbers}
        if chosen:
            regions = {found[1] for found in REGION.finditer(source(name))}
            chosen |= regions - tasks.keys()
        texts[name] = as_a_student(name, chosen)
    return texts


@pytest.mark.parametrize("part", ["1", "all"])
def test_each_filled_stub_turns_its_own_check_green(part, tmp_path):
    """From a fresh handout, in which every file can be imported, to a finished one."""
    write_files(tmp_path, built(part).files)
    states = states_of(part)
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        cwd=tmp_path,
        input=json.dumps([[written(part, numbers), parts] for numbers, parts in states]),
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stderr
    for (numbers, parts), kinds in zip(
        states, json.loads(done.stdout.splitlines()[-1]), strict=True
    ):
        assert kinds == {
            entry.number: "ok" if entry.number in numbers else "not started"
            for entry in GRADED_TASKS
            if entry.number[0] in parts and entry.file in built(part).files
        }


LAST = "multitask_classifier.py"


@pytest.mark.parametrize(
    ("numbers", "script", "flags", "said"),
    [
        ("", "classifier.py", "", "1.1"),
        ("1.1 1.2 1.3 1.4", "classifier.py", "", "1.5"),
        ("1.1 1.2 1.3 1.4 1.5 1.6", "classifier.py", "", "1.7"),
        ("1.1 1.2 1.3 1.4 1.5", LAST, "", "2.1"),
        ("1.1 1.2 1.3 1.4 1.5 2.1 2.2 2.3", LAST, "--tasks sst,sts", "2.5"),
        ("1.1 1.2 1.3 1.4 1.5 2.1 2.2 2.3", LAST, "--tasks sst", ""),
    ],
)
def test_a_run_whose_function_is_a_stub_prints_one_line(numbers, script, flags, said, tmp_path):
    """And nothing before it; functions that the run does not call may be stubs."""
    write_files(tmp_path, built("all").files)
    write_files(tmp_path, {k: v.encode() for k, v in written("all", set(numbers.split())).items()})
    line = f"{script} --epochs 1 --batch_size 64 --lr 1e-3 --model models/books {flags}"
    done = subprocess.run(
        [sys.executable, *line.split()],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"HF_HUB_OFFLINE": "1", "MINBERT_DATA": "", "OMP_NUM_THREADS": "1"},
    )
    if not said:
        assert (done.returncode, done.stderr) == (0, "")
        return
    (title,) = (entry.title for entry in GRADED_TASKS if entry.number == said)
    line = f"error: {title} is not written yet; run python sanity_check.py --task {said}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", line)


def test_a_stub_that_an_if_leads_around_does_not_stop_a_run(tmp_path, monkeypatch):
    for name in ("bert.py", "classifier.py"):
        (tmp_path / name).touch()
    step = "def step():\n    if bias:\n        raise NotImplementedError('Task 1.5')\n"
    (tmp_path / "optimizer.py").write_text(step)
    monkeypatch.setattr(scripts, "ROOT", tmp_path)
    scripts.stop_at_stubs("classifier.py", ["forward"])
    (tmp_path / "optimizer.py").write_text(step.replace("if bias", "for p in group"))
    with pytest.raises(NotImplementedError, match=r"Task 1\.5"):
        scripts.stop_at_stubs("classifier.py", ["forward"])


def test_part_1_offers_only_what_it_holds(tmp_path):
    """--fast takes kernels that solve tasks, and tasks 2.x come with part 2."""
    write_files(tmp_path, built("1").files)

    def printed(*line: str) -> str:
        words = [sys.executable, *line]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, encoding="utf-8")
        return done.stdout + done.stderr

    assert "--lr LR" in (usage := printed("classifier.py", "--help"))
    assert "--fast" not in usage + built("1").text("docs/running.md")
    assert "there are 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7; --hunt" in printed(
        "sanity_check.py", "--task", "9"
    )


# ---------------------------------------------------------------------------------------------
# What is refused


@pytest.fixture(scope="module")
def staff_copy(tmp_path_factory):
    """What the generator reads of this repository."""
    folder = tmp_path_factory.mktemp("staff")
    names = built("all").files.keys() - {handout.WORKFLOW, handout.TESTS}
    names |= {"course/check.yml", f"course/hunt/{handout.TESTS}"}
    names |= {"course/parts.toml", "course/settings.toml"}
    names |= {"docs/translate.py", "docs/de/handout.po", "docs/de/part2.po"}
    names |= {path.name for path in ROOT.glob("*.py")} | set(GRADED)
    names |= {path.relative_to(ROOT).as_posix() for path in ROOT.glob("extensions/**/*.py")}
    names |= {path.relative_to(ROOT).as_posix() for path in ROOT.glob("training/**/*.py")}
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def staff(staff_copy, tmp_path):
    """A copy to break."""
    return shutil.copytree(staff_copy, tmp_path / "staff")


def change(root: Path, name: str, old: str, new: str) -> int:
    """Replace a text that stands there once; the line where it begins."""
    text = (root / name).read_text(encoding="utf-8")
    assert text.count(old) == 1, (name, old)
    (root / name).write_text(text.replace(old, new), encoding="utf-8")
    return text[: text.index(old)].count("\n") + 1


NORM = "        return ln_layer(input + dropout(dense_layer(output)))\n"
HINT = "# dense_layer and dropout act on the output only; ln_layer on the sum."
BEGIN = "        ### BEGIN SOLUTION bert.add_norm\n"
END = "        ### END SOLUTION bert.add_norm\n"
CONFIG, TORCH = "from config import BertConfig\n", "import torch\n"
TITLE = "# What runs write here\n"
PREDICTIONS, BATCHES = "predictions/README.md", "training/loop/batches.py"
TABLE, SETTINGS = table.PARTS, table.SETTINGS
REGION_X = "### BEGIN SOLUTION bert.x\n### END SOLUTION bert.x\n"

# One change of a file, and what is then said of which line, counted from the change
FAULTS = {
    "nested": ("bert.py", NORM, REGION_X + NORM, 0, "bert.x is nested in bert.add"),
    "a marker misspelt": ("bert.py", BEGIN, BEGIN.replace("###", "##"), 0, "stray"),
    "no end": ("bert.py", END, "", 3, "bert.layer is nested in bert.add_norm"),
    "no begin": ("bert.py", NORM + END, NORM + END + END, 2, "unmatched"),
    "another's end": ("bert.py", END, END.replace("add_", ""), 0, "bert.norm does not match"),
    "twice": ("bert.py", NORM + END, NORM + END + BEGIN + END, 2, "bert.add_norm is a duplicate"),
    "no hint": ("bert.py", f"        ### STUB: {HINT}\n", "", -1, "bert.add_norm has no STUB"),
    "code as a hint": ("bert.py", HINT, "return input", 0, "are to be comments"),
    "a line survives": ("utils.py", TORCH, f"{TORCH}# {NORM.strip()}\n", 1, "survives"),
    "broken in two": (
        PREDICTIONS,
        TITLE,
        f"{TITLE}return ln_layer(input +\ndropout(dense_layer(output)))\n",
        1,
        "survives",
    ),
    "unused import": ("bert.py", CONFIG, f"{CONFIG}from copy import deepcopy\n", 1, "F401"),
    "staff's import": (
        BATCHES,
        TORCH,
        f"{TORCH}import extensions\n",
        1,
        "extensions/__init__.py, which",
    ),
    "course named": (PREDICTIONS, TITLE, f"In ../course/gold.\n{TITLE}", 0, "to course/"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_refused_with_file_and_line(name, staff):
    file, old, new, down, message = FAULTS[name]
    line = change(staff, file, old, new)
    if name == "unused import":  # but for the solution
        change(staff, "bert.py", NORM, f"        deepcopy(input)\n{NORM}")
    with pytest.raises(InputError, match="nothing written") as refused:
        handout.build(staff, "all")
    place = rf"^  {re.escape(file)}:{line + down}: .*{message}"
    assert re.search(place, str(refused.value), re.M), refused.value


WRONG_TABLES = [
    (TABLE, '"docs/errata.md"', '"docs/none.md"', "docs/none.md, which is missing"),
    (TABLE, '"docs/errata.md"', '"extensions/model.py"', "never ships"),
    (TABLE, '"prepare_submit.py",', "", "prepare_submit.py is in no list"),
    (TABLE, '"**Test labels** are in"', '"**No such**"', "which is not there"),
    (SETTINGS, 'submission.zip"', 'submission.rar"', "not a name of a zip"),
]


@pytest.mark.parametrize(("file", "old", "new", "message"), WRONG_TABLES)
def test_wrong_tables_are_refused(file, old, new, message, staff):
    change(staff, file, old, new)
    with pytest.raises(InputError, match=re.escape(message)):
        handout.build(staff, "all")


def test_settings_reach_the_students(staff):
    before = handout.build(staff, "1").text("README.md")
    assert "each day begun" not in before  # nothing is late without a deadline
    assert "| weight decay | 0.2 |" in before
    assert "may import what `setup.sh` installs.\n" in before
    change(staff, SETTINGS, "[points]", '[points]\n"1.1" = 33')
    change(staff, SETTINGS, "packages = []", 'packages = ["nltk", "spacy"]')
    change(staff, SETTINGS, 'part1 = ""', 'part1 = "2027-05-01T23:59"')
    change(staff, SETTINGS, '"dnlp_final_project_submission.zip"', '"ours.zip"')
    change(staff, SETTINGS, 'name = "minBERT"', 'name = "Our course"')
    made = handout.build(staff, "1")
    readme = made.text("README.md")
    assert readme.startswith("# Our course, part 1\n")
    assert "- deadline of part 1: 2027-05-01T23:59" in readme
    assert "- late: each day begun costs 10 % of the points" in readme
    assert "may import what `setup.sh` installs and `nltk`, `spacy`.\n" in readme
    assert "attention` | 33 | 60 |" in readme
    assert 'ZIP_NAME = "ours.zip"\n' in made.text("prepare_submit.py")
    assert made.text("docs/handout.md").count("`bert.py` · 33 points ·") == 1
    entries = tomllib.loads(made.text("checks/graded_tasks.toml"))["task"]
    assert [entry["points"] for entry in entries] == [
        33 if entry.number == "1.1" else entry.points for entry in GRADED_TASKS if entry.part < 3
    ]


@pytest.mark.skipif(importlib.util.find_spec("polib") is None, reason="no polib")
def test_a_translation_comes_along_if_asked_for(staff, make, tmp_path):
    change(staff, SETTINGS, "[points]", '[points]\n"1.1" = 33')
    german, english = handout.build(staff, "1", language="de"), handout.build(staff, "1")
    assert german.files.keys() - english.files.keys() == {"docs/handout.de.md"}
    assert "`bert.py` · 33 Punkte ·" in german.text("docs/handout.de.md")
    assert "part2" not in german.text("docs/handout.de.md")
    assert "[the assignment](docs/handout.md).\n\n## Set up" in english.text("README.md")
    assert "). Auf Deutsch: [Teil 1](docs/handout.de.md).\n\n## Set up" in german.text("README.md")
    both = handout.build(staff, "2", language="de")
    assert "](part2.de.md)" in both.text("docs/handout.de.md")
    assert "### Aufgabe 2.1 ·" in both.text("docs/part2.de.md")
    make(tmp_path / "out", "--part", "1")
    make(tmp_path / "out", "--part", "all", "--update", "--language", "de")
    assert (tmp_path / "out" / "docs" / "handout.de.md").is_file()
    with pytest.raises(InputError, match="a language to either"):
        make(tmp_path / "out", "--part", "all", "--update")


# ---------------------------------------------------------------------------------------------
# Repositories


def run_git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A Student", "-c", "user.email=student@example.org"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, encoding="utf-8"
    ).stdout


@pytest.fixture
def make(staff):
    """A function that runs the script on the copy."""

    def make(out: Path, *flags: str) -> None:
        handout.make(handout.get_args(["--out", str(out), *flags]), staff)

    return make


def test_a_fresh_repository_and_the_same_zip_twice(make, tmp_path, staff):
    make(tmp_path / "a", "--part", "1")
    make(tmp_path / "b" / "a", "--part", "1")
    first, second = tmp_path / "a.zip", tmp_path / "b" / "a.zip"
    assert first.read_bytes() == second.read_bytes()
    assert run_git(tmp_path / "a", "rev-list", "--count", "--all").strip() == "1"
    assert not run_git(tmp_path / "a", "status", "--porcelain", "--ignored")
    tracked = run_git(tmp_path / "a", "ls-files").split("\n")[:-1]
    assert sorted(tracked) == sorted(built("1").files)
    with zipfile.ZipFile(first) as archive:
        assert archive.namelist() == [f"minbert-part1/{name}" for name in sorted(tracked)]
        for name in tracked:
            assert archive.read(f"minbert-part1/{name}") == built("1").files[name]
    with pytest.raises(InputError, match="there already"):
        make(tmp_path / "a")
    with pytest.raises(InputError, match="outside"):
        make(staff / "inside")
    change(staff, "bert.py", END, "")
    with pytest.raises(InputError, match="nothing written"):
        make(tmp_path / "c")
    assert not (tmp_path / "c").exists()
    assert not (tmp_path / "c.zip").exists()


def test_a_place_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "minbert"
    monkeypatch.setattr(sys, "argv", ["handout.py", "--part", "1", "--out", str(out)])
    with pytest.raises(InputError, match=f"{re.escape(str(out))} cannot be made: .*another --out"):
        handout.main()


def test_an_update_brings_fixes_and_keeps_filled_stubs(make, tmp_path, staff):
    out, student = tmp_path / "out", tmp_path / "student"
    make(out, "--part", "1")
    run_git(tmp_path, "clone", "--quiet", str(out), str(student))
    mine = written("1", {"1.1", "1.5"})
    for name in ("bert.py", "optimizer.py"):
        (student / name).write_text(mine[name], encoding="utf-8")
    run_git(student, "commit", "--quiet", "--all", "--message", "attention, optimizer")

    make(out, "--part", "1", "--update")  # nothing to do
    assert run_git(out, "rev-list", "--count", "HEAD").strip() == "1"
    change(
        staff, "bert.py", "class BertLayer(nn.Module):\n", "class BertLayer(nn.Module):  # fixed\n"
    )
    change(staff, "utils.py", "import torch\n", "import torch  # fixed, too\n")
    change(staff, TABLE, '"docs/gpu.md", ', "")
    make(out, "--part", "all", "--update")  # and part 2 begins
    assert run_git(out, "rev-list", "--count", "HEAD").strip() == "2"
    run_git(student, "pull", "--quiet", "--no-rebase", "--no-edit")

    bert = (student / "bert.py").read_text(encoding="utf-8")
    assert "class BertLayer(nn.Module):  # fixed\n" in bert
    assert bert.replace("  # fixed\n", "\n") == mine["bert.py"]
    assert (student / "optimizer.py").read_text(encoding="utf-8") == mine["optimizer.py"]
    assert "fixed, too" in (student / "utils.py").read_text(encoding="utf-8")
    assert (student / "multitask_classifier.py").is_file()
    assert not (student / "docs" / "gpu.md").exists()


def test_updates_that_are_refused(make, tmp_path, staff):
    out = tmp_path / "out"
    with pytest.raises(InputError, match="not a git repository"):
        make(out, "--update")
    make(out, "--part", "all")
    with pytest.raises(InputError, match="only stubs of part 2"):
        make(out, "--part", "1", "--update")
    with pytest.raises(InputError, match="only stubs of part 2"):
        make(out, "--part", "2", "--with-part1-solution", "--update")
    (out / "bert.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match="not committed"):
        make(out, "--part", "all", "--update")
    run_git(out, "checkout", "bert.py")
    line = change(staff, "bert.py", "ln_layer on the sum.", "ln_layer acts on the sum.")
    with pytest.raises(InputError, match=rf"bert\.py:{line - 1}: who has filled Task 1\.2 gets"):
        make(out, "--part", "all", "--update")
    assert run_git(out, "rev-list", "--count", "HEAD").strip() == "1"
    make(out, "--part", "all", "--update", "--allow-conflicts")
    assert "acts on the sum" in (out / "bert.py").read_text(encoding="utf-8")
    other = tmp_path / "other"
    other.mkdir()
    run_git(other, "init", "--quiet")
    run_git(other, "commit", "--quiet", "--allow-empty", "--message", "mine")
    with pytest.raises(InputError, match="did not make"):
        make(other, "--update")
