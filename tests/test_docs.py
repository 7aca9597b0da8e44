"""The course's texts keep what they promise: registered tasks, files that exist, no solutions."""

import csv
import fnmatch
import os
import re
from dataclasses import fields
from pathlib import PurePosixPath

import pytest
from factories import ROOT

import classifier
import multitask_classifier
import prepare_submit
from checks.graded_tasks import GRADED_TASKS, PAGES
from checks.part2 import submission
from course import handout
from course.grading.judging.judge import CAN_BE_FORGED

HANDOUT = ROOT / "docs" / "handout.md"
PART2 = ROOT / "docs" / "part2.md"
STAFF = ROOT / "docs" / "staff.md"
FOR_STUDENTS = (
    HANDOUT,
    PART2,
    *(ROOT / "docs" / f"{name}.md" for name in ("running", "gpu", "errata", "attention-maps")),
)
TEMPLATE = ROOT / "README.template.md"
DOCS = (*sorted((ROOT / "docs").rglob("*.md")), TEMPLATE, ROOT / "README.md")
STUDENTS_OWN = {
    "my_tests.py",
    "my-train.csv",
    "my-dev.csv",
    "my-test.csv",
    "job.sh",
    "ai-usage-card.pdf",
    "sst-classifier.pt",
    "metrics.json",
    "option-epochs-lr-multitask.pt",
}  # made later
# What course/grade.py writes into OUT
GRADES = {"results/GROUP.json", "results/ID.json", "results.json", "assignment.json"}
GRADES |= {"leaderboard.csv", "grades.csv", "marks.csv", "marks-template.csv"}
FILE_NAME = re.compile(r"(?<![\w*}/.$-])[\w./*{},-]+\.(?:py|md|sh|toml|data|npy|csv|pdf|pt|json)\b")
REGION = re.compile(r"### BEGIN SOLUTION [\w.]+\n(.*?)### END SOLUTION", re.DOTALL)
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
FLAGS_OF_OTHERS = {"--gpus", "--gres", "--me", "--signal", "--array", "--standalone"}
FLAGS_OF_OTHERS |= {"--nproc_per_node", "--job-name", "--partition", "--cpus-per-task", "--mem"}
FLAGS_OF_OTHERS |= {
    "--time",
    "--output",
    "--logdir",
    "--name",
    "--part",
    "--task",
    "--all",
    "--hunt",
}


def name_of(path):
    return path.name


def read(path):
    return path.read_text(encoding="utf-8")


def headings(text):
    """Headings outside code blocks, as [(level, text)]."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [(len(a), b.replace("\\", "")) for a, b in re.findall(r"^(#+) (.+)$", text, re.M)]


def anchor(heading):
    """The name that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def expanded(name):
    """Shell braces: a-{b,c}.csv → a-b.csv, a-c.csv."""
    found = re.search(r"\{([^}]*)\}", name)
    if not found:
        return [name]
    before, after = name[: found.start()], name[found.end() :]
    return [one for part in found[1].split(",") for one in expanded(before + part + after)]


def regions():
    for path in ROOT.glob("*.py"):
        yield from ((path, found) for found in REGION.findall(read(path)))


# ---------------------------------------------------------------------------------------------
# The registry


@pytest.mark.parametrize("part", PAGES)
def test_every_task_has_its_heading_in_working_order(part):
    found = [text for _, text in headings(read(ROOT / PAGES[part])) if re.match(r"Task \d", text)]
    assert found == [task.title for task in GRADED_TASKS if task.part == part]


@pytest.mark.parametrize("task", GRADED_TASKS, ids=lambda task: task.number)
def test_under_a_heading_stands_what_the_registry_says(task):
    wanted = (
        f"`{task.file}` · {task.points} points · about {task.minutes} minutes · {task.paper} · "
        f"check: `{task.check}`"
    )
    section = read(ROOT / task.page).replace("\\", "").split(f"### {task.title}\n\n")[1]
    assert section.splitlines()[0] == wanted


# ---------------------------------------------------------------------------------------------
# Links, files, flags, numbers


@pytest.mark.parametrize("path", DOCS, ids=name_of)
def test_local_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)]+)\)", read(path)):
        file, _, place = target.partition("#")
        if file.startswith("https://") or file in STUDENTS_OWN:
            continue
        aim = (path.parent / file).resolve() if file else path
        assert aim.is_file(), f"{path.name}: {target}"
        if place:
            assert place in [anchor(text) for _, text in headings(read(aim))], target


@pytest.mark.parametrize("path", [path for path in DOCS if path.stem != "flags"], ids=name_of)
def test_files_that_a_text_names_exist(path):
    predictions = {
        wanted.path
        for wanted in (
            *prepare_submit.predictions_of(1, str(ROOT / "data" / "practice")),
            *prepare_submit.predictions_of(2, str(ROOT / "data" / "practice")),
        )
    }
    text = re.sub(r"https://\S+", "", read(path))
    for found in FILE_NAME.finditer(text):
        for name in expanded(found[0]):
            known = name in STUDENTS_OWN or name in predictions or name.startswith("seed-")
            known |= path not in FOR_STUDENTS and name.removeprefix("GRADES/") in GRADES
            practice = ROOT / "data" / "practice" / name.removeprefix("data/")
            known |= practice.is_file()  # data/download.py fetches the course's file of that name
            own = ROOT / path.stem  # a page about a folder names its files from there
            folders = (ROOT, path.parent, own, ROOT / "data/practice", ROOT / "course/gold")
            assert known or any(any(folder.glob(name)) for folder in folders), found[0]


@pytest.mark.parametrize("part", ["1", "2", "all"])
def test_what_students_texts_name_is_in_their_repository(part):
    files = handout.build(ROOT, part).files
    missing = []
    later = handout.build(ROOT, "all").files  # part 1's handout also tells of part 2
    folders = {str(parent) for name in later for parent in PurePosixPath(name).parents}
    for name in (name for name in files if name.endswith((".md", ".sh"))):
        text = re.sub(r"https://\S+", "", files[name].decode())
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
            aim = os.path.normpath(os.path.join(os.path.dirname(name), target))
            if aim not in files:
                missing.append((name, target))
        if name == "predictions/README.md":  # what runs will write
            continue
        for one in (one for found in FILE_NAME.findall(text) for one in expanded(found)):
            base = os.path.basename(one)
            near = [os.path.normpath(os.path.join(folder, one)) for folder in (".", *folders)]
            own = base in STUDENTS_OWN or base.startswith("seed-") or one.startswith("predictions/")
            downloaded = f"data/practice/{base}" in files
            if not own and not downloaded and not any(fnmatch.filter(later, p) for p in near):
                missing.append((name, one))
    assert not missing


def test_students_are_told_of_all_files_they_hand_in():
    text = read(HANDOUT) + read(PART2)
    named = {name for found in FILE_NAME.findall(text) for name in expanded(found)}
    assert {*prepare_submit.CODE, *submission.CODE} <= named
    data = str(ROOT / "data" / "practice")
    files = [*prepare_submit.predictions_of(1, data), *prepare_submit.predictions_of(2, data)]
    assert {wanted.path for wanted in files if wanted.required} <= named


def test_flags_in_texts_exist_in_what_students_get():
    kinds = (classifier.ClassifierFlags, multitask_classifier.MultitaskFlags)
    ours = {f"--{one.name}" for kind in kinds for one in fields(kind) if "options" in one.metadata}
    ours |= {*re.findall(r'"(--\w+)"', read(ROOT / "lessons" / "attention_maps.py"))}
    for path in (*FOR_STUDENTS, TEMPLATE):
        text = re.sub(r"`git [^`]*`|<!--|-->|\|[-|]+\|", "", read(path))
        for flag in FLAG.findall(text):
            assert flag in ours | FLAGS_OF_OTHERS, f"{path.name}: {flag}"


def test_sizes_are_those_of_the_practice_set():
    text = read(ROOT / "data" / "README.md")
    for name in ("ids-sst", "ids-cfimdb", "quora", "sts"):
        sizes = []
        for split in ("train", "dev", "test-student"):
            file = ROOT / "data" / "practice" / f"{name}-{split}.csv"
            with file.open(encoding="utf-8", newline="") as lines:
                sizes.append(f"{sum(1 for _ in csv.reader(lines, delimiter=chr(9))) - 1:,}")
        (row,) = re.findall(rf"^\| `{name}-\*\.csv` .*$", text, re.MULTILINE)
        assert f"| {' / '.join(sizes)} |" in row


# ---------------------------------------------------------------------------------------------
# What must not be there


@pytest.mark.parametrize("path", DOCS, ids=name_of)
def test_no_line_of_a_solution_stands_in_a_text(path):
    text = " ".join(read(path).split())
    looked_for = 0
    for source, region in regions():
        for line in region.splitlines():
            line = " ".join(line.split())
            if len(line) > 25 and not line.startswith("### STUB:"):
                looked_for += 1
                assert line not in text, f"{path.name} quotes {source.name}: {line}"
    assert looked_for > 50


@pytest.mark.parametrize("path", [*FOR_STUDENTS, TEMPLATE], ids=name_of)
def test_texts_for_students_name_nothing_of_the_staff(path):
    text = read(path)
    for name in ("course/", "extensions/", "research/", "tests/", ".ci/", STAFF.name):
        assert not re.search(rf"(?<![\w/]){re.escape(name)}", text), f"{path.name} names {name}"


def test_examples_by_hand_are_right(capsys):
    """The numbers that the text gives for tasks 1.1 and 1.5 come out of its own lines."""
    attention, adamw = re.findall(r"^```python\n(.*?)^```", read(HANDOUT), re.DOTALL | re.MULTILINE)
    exec(attention, {})
    printed = [float(number) for number in re.findall(r"\d\.\d+", capsys.readouterr().out)]
    text = read(HANDOUT)
    said = re.search(r"the outputs are \(([^)]*)\),\s+\(([^)]*)\), \(([^)]*)\)", text)
    numbers = [float(number) for row in said.groups() for number in row.split(",")]
    assert printed == pytest.approx(numbers, abs=1e-3)
    exec(adamw, {})
    first, second = (f"{float(line):.7f}" for line in capsys.readouterr().out.split())
    assert f"the decay {first}" in text
    assert f"θ = {second}" in text


def test_students_read_which_tasks_can_be_forged():
    said = re.search(r"can be forged:\s+for ([\d., and]+)\s", read(HANDOUT))
    numbers = [task.number for task in GRADED_TASKS if task.id in CAN_BE_FORGED]
    assert re.findall(r"\d\.\d", said[1]) == numbers
