"""The handout: what ships, what is refused, and that a student can work in it, and run it."""

import json
import re
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from factories import ROOT, copy_tree
from made import built, written
from running import as_process

import prepare_submit
from checks.graded_tasks import GRADED_TASKS
from checks.part2 import submission
from course import handout, regions
from training.files.errors import InputError

LAST_PARTS = {"1": 1, "2": 2, "all": 3}
NOT_SHIPPED = {"course", "extensions", "research", "tests", ".ci", "STRUCTURE.md", "CHANGELOG.md"}
ALONE = {"HF_HUB_OFFLINE": "1", "MINBERT_DATA": "", "PYTHONPATH": ""}  # nothing of this repository
for_each_part = pytest.mark.parametrize("part", LAST_PARTS)


@for_each_part
def test_only_what_students_need_ships(part):
    names, readme = set(built(part).files), built(part).text("README.md")
    assert not {name.split("/")[0] for name in names} & NOT_SHIPPED
    wanted = {"README.md", "docs/handout.md", "docs/running.md", "README.template.md"}
    assert names > wanted | {"sanity_check.data", "optimizer_test.npy", "data/download.py"}
    later = {"multitask_classifier.py": 2, "docs/part2.md": 2, "lessons/modern_bert.py": 3}
    for name, first in (later | {"docs/modern-bert.md": 3, "checks/part3/runs.py": 3}).items():
        assert (name in names) == (LAST_PARTS[part] >= first)
    for name in names:
        if name.endswith(".py") and "/" not in name:
            assert f"`{name}`" in readme.split("## The map")[1]


@for_each_part
def test_the_readme_lists_the_tasks_and_points_that_the_grader_gives(part):
    tasks = [task for task in GRADED_TASKS if task.part <= LAST_PARTS[part]]
    readme = built(part).text("README.md")
    rows = re.findall(r"^\| (\d\.\d) \|.* \| (\d+) \| \d+ \|.*$", readme, re.M)
    assert rows == [(task.number, str(task.points)) for task in tasks]
    assert f"|  | together | {sum(task.points for task in tasks)} |" in readme


@for_each_part
def test_stubs_are_formatted_and_import_nothing_in_vain(part, tmp_path):
    pytest.importorskip("ruff", reason="pip install -r requirements-dev.txt")
    handout.write_files(tmp_path, built(part).files)
    for words in ("check --no-cache .", "format --no-cache --check ."):
        done = as_process("-m", "ruff", *words.split(), folder=tmp_path)
        assert done.code == 0, done.out


def test_what_is_for_staff_or_a_later_part_is_cut():
    tables = [
        tomllib.loads(built(part).text("checks/graded_tasks.toml"))["task"] for part in LAST_PARTS
    ]
    assert [entries[-1]["number"][0] for entries in tables] == ["2", "2", "3"]
    text = "a<!-- staff --> x<!-- /staff -->\n\n<!-- part 2 -->\nb\n<!-- /part 2 -->\n\n"
    assert regions.without_passages(f"{text}# staff\nc\n# /staff\n", 1) == "a\n"
    assert regions.without_passages(f"{text}# staff\nc\n# /staff\n", 2) == "a\n\nb\n"


WORK = r"""
import importlib, json, multiprocessing, runpy, sys
from pathlib import Path

states = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
for path in sorted(Path().rglob("*.py")):  # of packages and scripts
    runpy.run_path(str(path), run_name="read")
from checks import jobs
from checks.findings import faulty
from checks.graded_tasks import GRADED_TASKS

def report(state):
    files, parts = state
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
        sys.modules.pop(name.removesuffix(".py").replace("/", "."), None)
    importlib.invalidate_caches()
    tasks = [task for task in GRADED_TASKS if task.number[0] in parts and Path(task.file).is_file()]
    found = {task.number: faulty(jobs.examine(task)) for task in tasks}
    return {number: wrong[0].kind if wrong else "ok" for number, wrong in found.items()}

fork = multiprocessing.get_context("fork")
with fork.Pool(1, maxtasksperchild=1) as pool:  # a process for each state
    print("\n" + json.dumps(pool.map(report, states, chunksize=1)))
"""


def states_of(part: str) -> list[tuple[set[str], str]]:
    """Which tasks a student has written, one state after the other; which parts are checked then.

    Tasks are filled alone where their checks wait for no other one.
    """
    first, second, third = (
        [task.number for task in GRADED_TASKS if task.part == number] for number in (1, 2, 3)
    )
    if part == "1":
        alone = [{number} for number in first[:-1]]
        return [(numbers, "1") for numbers in (set(), *alone, {"1.6", "1.7"}, {*first})]
    twos = [({*first, *second[:count]}, "2") for count in range(len(second) + 1)]
    return [(set(), "123"), *twos, *(({number}, "3") for number in third), ({*third}, "3")]


@pytest.mark.parametrize("part", ["1", "all"])
def test_each_filled_stub_turns_its_own_check_green(part, tmp_path):
    """From a fresh handout, in which every Python file can be read, to a finished one."""
    files = built(part).files
    handout.write_files(tmp_path, files)
    states = states_of(part)
    texts = [
        {name: content.decode() for name, content in written(numbers).items() if name in files}
        for numbers, _ in states
    ]
    rows = [[text, parts] for text, (_, parts) in zip(texts, states, strict=True)]
    (tmp_path / "states.json").write_text(json.dumps(rows))
    done = as_process("-c", WORK, "states.json", folder=tmp_path, **ALONE)
    assert done.code == 0, done.err
    reports = json.loads(done.out.splitlines()[-1])
    for (numbers, parts), kinds in zip(states, reports, strict=True):
        wanted = {
            task.number: "ok" if task.number in numbers else "not started"
            for task in GRADED_TASKS
            if task.number[0] in parts and task.file in files
        }
        if "1.6" not in numbers and "1.7" in wanted:
            wanted["1.7"] = "waits"  # forward, for __init__
        assert kinds == wanted


@pytest.mark.parametrize(
    ("numbers", "line", "stub"),
    [
        ("", "classifier.py", "1.6"),
        ("1.1 1.2 1.3 1.4 1.6 1.7", "classifier.py --only sst", "1.5"),
        ("1.1 1.2 1.3 1.4 1.5 2.1 2.2 2.3", "multitask_classifier.py --tasks sst,sts", "2.5"),
        ("1.1 1.2 1.3 1.4 1.5 2.1 2.2 2.3", "multitask_classifier.py --tasks sst", ""),
    ],
)
def test_a_run_ends_at_a_stub_that_it_calls_and_names_it(numbers, line, stub, tmp_path):
    handout.write_files(tmp_path, built("all").files | written(set(numbers.split())))
    line += " --epochs 1 --batch_size 64 --lr 1e-3 --model models/books"
    done = as_process(*line.split(), folder=tmp_path, HF_HUB_OFFLINE="1", MINBERT_DATA="")
    titles = [task.title for task in GRADED_TASKS if task.number == stub]
    check = "python sanity_check.py says where to begin\n"
    assert done.err == "".join(f"error: {title} is not written yet; {check}" for title in titles)
    assert done.code == len(titles)


def test_what_the_handout_gives_is_not_handed_in():
    shipped = {name for name, _ in handout.files_of(ROOT, 2)}
    code = {*prepare_submit.CODE, *submission.CODE}
    given = {name for name in shipped if name.endswith(".py")} - code
    assert {name.partition("/")[0] for name in given} - {"data"} == prepare_submit.GIVEN


def test_the_report_is_not_the_handouts_readme(tmp_path):
    (tmp_path / "README.md").write_bytes(built("2").files["README.md"])
    with pytest.raises(InputError, match="is the course's"):
        submission.check_readme(tmp_path / "README.md")


@pytest.fixture
def staff(tmp_path):
    """A copy of this repository to break."""
    return copy_tree(tmp_path / "staff")


def change(root: Path, name: str, old: str, new: str) -> None:
    """Replace a text that a file has once."""
    text = (root / name).read_text(encoding="utf-8")
    assert text.count(old) == 1, (name, old)
    (root / name).write_text(text.replace(old, new), encoding="utf-8")


NORM = "        return ln_layer(input + dropout(dense_layer(output)))\n"
HINT = "# dense_layer and dropout act on the output only; ln_layer on the sum."
STUB = f"        ### STUB: {HINT}\n"
BEGIN = "        ### BEGIN SOLUTION bert.add_norm\n"
END = "        ### END SOLUTION bert.add_norm\n"
TORCH, TITLE = "import torch\n", "# What runs write here\n"
IN_TWO = f"{TITLE}return ln_layer(input +\ndropout(dense_layer(output)))\n"
TEXT, SETTINGS = "predictions/README.md", "course/settings.toml"
STRAY, ONE = "a stray marker", "regions bert.add_norm instead of one"
FAULTS = {  # one change of a file, and what is then said of it
    "a marker misspelt": ("bert.py", BEGIN, BEGIN.replace("###", "##"), STRAY),
    "no end": ("bert.py", END, "", f"0 {ONE}"),
    "twice": ("bert.py", NORM + END, NORM + END + BEGIN + END, f"2 {ONE}"),
    "no hint": ("bert.py", STUB, "", "bert.add_norm needs STUB lines"),
    "a line survives": ("utils.py", TORCH, f"{TORCH}# {NORM.strip()}\n", "survives"),
    "broken in two": (TEXT, TITLE, IN_TWO, "survives"),
    "half a passage": (TEXT, TITLE, f"{TITLE}<!-- staff -->\n", STRAY),
    "a file is missing": ("course/parts.toml", "docs/faq.md", "docs/none.md", "is missing"),
    "no points": (
        "docs/handout.md",
        "### Task 1.1 ·",
        "### Task 1.1:",
        "no place for the number 20",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_with_its_file_and_nothing_is_written(name, staff):
    file, old, new, message = FAULTS[name]
    change(staff, file, old, new)
    with pytest.raises(InputError, match=rf"{re.escape(file)}\b.*{re.escape(message)}"):
        handout.build(staff, "all")


def test_settings_reach_the_students(staff, tmp_path, monkeypatch):
    assert "| weight decay | 0.2 |" in built("1").text("README.md")
    tasks = [replace(GRADED_TASKS[0], points=33), *GRADED_TASKS[1:]]
    monkeypatch.setattr(handout, "GRADED_TASKS", tasks)
    change(staff, SETTINGS, "first = 1", "first = 2")
    change(staff, SETTINGS, 'name = "minBERT"', 'name = "Our course"')
    made = handout.build(staff, "1")
    assert made.text("README.md").startswith("# Our course, part 1\n")
    assert "attention` | 33 | 60 |" in made.text("README.md")
    assert made.text("docs/handout.md").count("`bert.py` · 33 points ·") == 1
    handout.write_files(tmp_path / "students", made.files)
    stub = 'raise NotImplementedError("Task 1.1 · BertSelfAttention.attention")'
    change(tmp_path / "students", "bert.py", stub, "return value.transpose(1, 2).flatten(2)")
    words = ("sanity_check.py", "--task", "1.1")
    done = as_process(*words, folder=tmp_path / "students", COLUMNS="200", **ALONE)
    assert "        does not hold: If only the values at padding differ from 0," in done.out
    assert "        --hints all says what it probably is\n" in done.out


def run_git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=A Student", "-c", "user.email=student@example.org")
    return handout.git(folder, *who, *arguments)


@pytest.fixture
def make(staff):
    """A function that runs the script on the copy."""

    def make(out: Path, *flags: str) -> None:
        handout.make(handout.get_args(["--out", str(out), *flags]), staff)

    return make


def test_a_fresh_repository_and_its_zip(make, tmp_path, staff):
    make(tmp_path / "a", "--part", "1")
    assert run_git(tmp_path / "a", "rev-list", "--count", "--all").strip() == "1"
    assert not run_git(tmp_path / "a", "status", "--porcelain", "--ignored")
    tracked = run_git(tmp_path / "a", "ls-files").split("\n")[:-1]
    assert sorted(tracked) == sorted(built("1").files)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        names = [name for name in archive.namelist() if name[-1] != "/"]
        assert names == [f"minbert-part1/{name}" for name in sorted(tracked)]
        for name in tracked:
            assert archive.read(f"minbert-part1/{name}") == built("1").files[name]
    with pytest.raises(InputError, match="outside"):
        make(staff / "inside")
    change(staff, "bert.py", END, "")
    with pytest.raises(InputError, match="nothing written"):
        make(tmp_path / "c")
    assert not [*tmp_path.glob("c*")]


def test_an_update_brings_fixes_and_keeps_filled_stubs(make, tmp_path, staff, capsys):
    out, student = tmp_path / "out", tmp_path / "student"
    make(out, "--part", "1")
    run_git(tmp_path, "clone", "--quiet", str(out), str(student))
    mine = written({"1.1", "1.5"})
    handout.write_files(student, {name: mine[name] for name in ("bert.py", "optimizer.py")})
    run_git(student, "commit", "--quiet", "--all", "--message", "attention, optimizer")
    make(out)  # nothing to do: it keeps its part
    assert run_git(out, "rev-list", "--count", "HEAD").strip() == "1"

    layer = "class BertLayer(nn.Module):"
    change(staff, "bert.py", f"{layer}\n", f"{layer}  # fixed\n")
    change(staff, "utils.py", TORCH, "import torch  # fixed, too\n")
    change(staff, "course/parts.toml", '"docs/running.md", ', "")
    (out / "ours.md").write_text("Monday's lecture is on Tuesday.\n")
    run_git(out, "add", "ours.md")
    run_git(out, "commit", "--quiet", "--message", "The staff's own file")
    make(out, "--part", "2")
    assert run_git(out, "rev-list", "--count", "HEAD").strip() == "3"
    assert "commit 3; git show HEAD~1:FILE shows what it replaced" in capsys.readouterr().out
    run_git(student, "pull", "--quiet", "--no-rebase", "--no-edit")
    assert (student / "bert.py").read_bytes().replace(b"  # fixed\n", b"\n") == mine["bert.py"]
    assert (student / "optimizer.py").read_bytes() == mine["optimizer.py"]
    assert "fixed, too" in (student / "utils.py").read_text(encoding="utf-8")
    assert (student / "multitask_classifier.py").is_file()
    assert (student / "ours.md").is_file()
    assert not (student / "docs" / "running.md").exists()
    with pytest.raises(InputError, match="holds part 2, which students would lose"):
        make(out, "--part", "1")
    (out / "bert.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match="not committed"):
        make(out)
