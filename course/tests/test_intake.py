"""Intake (course/grading/intake) and the autograder for Gradescope (course/gradescope)."""

import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tracemalloc
import unicodedata
import warnings
import zipfile
from argparse import Namespace
from contextlib import contextmanager
from pathlib import Path

import pytest
from factories import ROOT
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from made import GOLD
from running import succeeded

from checks.findings import Mistake
from course.gradescope import build, harness
from course.grading import types
from course.grading.intake import submissions
from course.grading.intake.submissions import MB, find, student_id, take
from course.grading.sandbox.isolation import ChangeOfUser
from course.grading.types import GRADED, REFUSED, Result, Score, Submission
from course.settings import read_settings
from prepare_submit import CODE, ZIP_NAME, build_zip

STEM = ZIP_NAME.removesuffix(".zip")
SST, SIX = "predictions/finetune-sst-dev-out.csv", "predictions/sst-dev-output.csv"
PART_1 = {
    "bert.py": b"import torch\n\tif x:  # a tab\n",
    "classifier.py": b"from bert import BertModel\n",
    "optimizer.py": b"import math\n",
    "setup.sh": b"echo ready\n",
    SST: b"id,Predicted_Sentiment\n",
}
MODULES = {"helper.py": b"import bert\n", "tricks/losses.py": b"from . import more\n"}
PART_2 = {
    **{name: content for name, content in PART_1.items() if name != SST},
    **MODULES,
    "multitask_classifier.py": b"from tricks.losses import contrast\nimport helper\n",
    "README.md": b"# Ours\n",
    "card.pdf": b"%PDF-1.4\r\n",
    SIX: b"id,Predicted_Sentiment\n",
}
PART_3 = {"lessons/modern_bert.py": b"import torch\n"}
BASES = {1: PART_1 | MODULES, 2: PART_2, 3: PART_3}


def packed(*pairs) -> bytes:
    """A zip of (name, content), also with names twice, and those that zipfile would change."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
        warnings.simplefilter("ignore")
        for name, content in pairs:
            info = zipfile.ZipInfo("x", (2020, 1, 1, 0, 0, 0))
            info.filename, info.compress_type = name, zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return file.getvalue()


GOOD = packed(*PART_1.items())


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def taken(tmp_path):
    """What is taken of a zip with these bytes, or of these files and further ones."""

    def take_it(files, *more, part=1) -> Submission:
        path = tmp_path / "s.zip"
        path.write_bytes(files if isinstance(files, bytes) else packed(*files.items(), *more))
        return take("s", path, part)

    return take_it


@contextmanager
def little_memory():
    """Fail instead of filling the memory."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 400 * MB, f"{peak >> 20} MB"
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------------------------------------
# Layouts that students make


def renamed(change):
    """A layout in which each name is another one."""
    return lambda files: {change(name): content for name, content in files.items()}


def with_more(*names: str):
    """A layout with further files."""
    return lambda files: files | dict.fromkeys(names, b"x\n")


def rewritten(change):
    """A layout in which the bytes of each text are others."""
    return lambda files: {n: d if n[-4:] == ".pdf" else change(d) for n, d in files.items()}


LAYOUTS = {
    "as prepare_submit.py zips it": dict,
    "a folder with a name in NFD": renamed(lambda name: f"Lo\u0308sung\u200c มหา/{name}"),
    "the scripts in a folder in a folder": renamed(
        lambda n: f"g/src/code/{n}" if n[-3:] == ".py" else f"g/{n}"
    ),
    "backslashes": renamed(lambda name: f"g\\{name}".replace("/", "\\")),
    "predictions at the top": renamed(lambda n: Path(n).name if n.endswith(".csv") else n),
    "capital letters": renamed(lambda n: n if n in MODULES or n[-4:] == ".pdf" else n.upper()),
    "line ends of Windows": rewritten(lambda data: data.replace(b"\n", b"\r\n")),
    "byte-order marks": rewritten(lambda data: b"\xef\xbb\xbf" + data),
    "files of systems, Python and editors": with_more(
        *("__MACOSX/bert.py", "._bert.py", "tricks/.DS_Store", "Thumbs.db", ".git/bert.py"),
        *("__pycache__/bert.cpython-311.pyc", "__pycache__/bert.py", "../up.py"),
    ),
}


@pytest.mark.parametrize("part", [1, 2, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_zips_and_folders_give_the_same_files(tmp_path, taken, layout, part):
    files = LAYOUTS[layout](BASES[part])
    for submission in (taken(files, part=part), take("s", write(tmp_path / "s", files), part)):
        assert (submission.refused, submission.notes) == ("", ())
        assert submission.files == BASES[part]


def test_the_folder_of_a_platform_with_a_zip_and_more(tmp_path):
    files = {"x.ZIP": GOOD, "more.pdf": b"%PDF-", "__MACOSX/._x.zip": b"x"}
    submission = take("s", write(tmp_path, files), 1)
    assert (submission.files, submission.notes) == (PART_1, ("left out: more.pdf",))


@pytest.mark.parametrize(
    ("part", "names"), [(1, [*CODE, "helper.py"]), (3, ["lessons/modern_bert.py"])]
)
def test_the_grader_takes_the_zip(tmp_path, monkeypatch, part, names):
    monkeypatch.chdir(tmp_path)
    for name in names:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("x = 1\n", encoding="utf-8-sig")  # as some editors save it
    target = Path(f"1234_us_part{part}_{ZIP_NAME}")
    build_zip([Path(name) for name in names], target, part)
    taken = take("1234_us", target, part)
    assert not taken.refused
    assert taken.files.keys() >= {*names}
    assert student_id(target.name) == "1234_us"


# ---------------------------------------------------------------------------------------------
# What is left out

LEFT_OUT = [  # a part, and the name of a further file
    *((1, name) for name in ("notes.ipynb", "a/model.pt", "my-module.py", "C:bert.py", "bert.so")),
    *((1, name) for name in ("bert\u202eyp.py", "bert.py\0.py", "ſetup.sh", "old/bert.py")),
    *((1, name) for name in ("multitask_classifier.py", "a/setup.sh", "old.zip", "bert.py")),
    *((2, name) for name in ("UTILS.py", "data/download.py", "checks/a.py", "course/grade.py")),
    *((2, name) for name in ("bert/__init__.py", "helper.py")),
]


@pytest.mark.parametrize(("part", "name"), LEFT_OUT)
def test_a_further_file_is_left_out_and_told(taken, part, name):
    submission = taken(BASES[part], (name, b"x"), part=part)
    assert (submission.refused, submission.files) == ("", BASES[part])
    assert [note.rpartition(": ")[0] for note in submission.notes] == ["left out"]


@pytest.mark.parametrize("content", [b"# \xe9\n", b"#" * (20 * MB + 1)])
def test_a_file_that_cannot_be_taken(taken, content):
    others = {key: data for key, data in PART_2.items() if key != "bert.py"}
    submission = taken(others, ("bert.py", content), part=2)
    about = "left out: bert.py (no text in UTF-8 of at most 20 MB)"
    assert (submission.files, submission.notes) == (others, (about,))


# ---------------------------------------------------------------------------------------------
# Hostile zips and folders


def patched(content: bytes, at: int, value: bytes, entry: int = 0) -> bytes:
    """A zip with other bytes in an entry of the table of contents."""
    start = [match.start() for match in re.finditer(b"PK\1\2", content)][entry]
    return content[: start + at] + value + content[start + at + len(value) :]


def bomb(method: int) -> bytes:
    """A large file, whose header has the largest size that there is."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(SST, b"0" * (600 * MB))
    return patched(file.getvalue(), 24, b"\xfe\xff\xff\xff")


NONE = "none of the files that part 1 asks for"
HOSTILE_ZIPS = {
    "empty": (lambda: b"", "not a zip"),
    "nothing of ours": (lambda: packed(("helper.py", b"x")), NONE),
    "two zips": (lambda: packed(("a.zip", GOOD), ("b.zip", GOOD)), NONE),
    "a zip in a zip in a zip": (lambda: packed(("a.zip", packed(("b.zip", GOOD)))), NONE),
    "not a text": (lambda: packed(("bert.py", b"%PDF-\xff")), NONE),
    "encrypted": (lambda: patched(GOOD, 8, b"\1\0", entry=4), "is encrypted"),
    "too much": (
        lambda: packed(*((f"{n}/{SST}", b"0" * (7 * MB)) for n in range(12))),
        "MB unpacked",
    ),
    "too much code": (
        lambda: packed(*PART_1.items(), *((f"a{n}.py", b"#" * (MB - 1)) for n in range(2))),
        "1 MB of Python",
    ),
    "a long zip": (lambda: b"PK" * (11 * MB), "more than 20 MB"),
    "a bomb whose header lies": (lambda: bomb(zipfile.ZIP_DEFLATED), NONE),
    "a bomb of bzip2": (lambda: bomb(zipfile.ZIP_BZIP2), NONE),
}


@pytest.mark.parametrize("name", HOSTILE_ZIPS)
def test_a_hostile_zip_is_refused_in_one_line(taken, name):
    make, why = HOSTILE_ZIPS[name]
    content = make()
    with little_memory():
        submission = taken(content)
    assert submission.files == {}
    assert why in submission.refused
    assert submission.refused.endswith("hand in the zip that prepare_submit.py writes")
    assert "\n" not in submission.refused


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1))
def test_a_spoilt_zip_never_raises(tmp_path, places):
    content = bytearray(GOOD)
    for place, value in places:
        content[place] = value
    (tmp_path / "s.zip").write_bytes(content)
    submission = take("s", tmp_path / "s.zip", 1)
    assert bool(submission.files) != bool(submission.refused)


def test_links_pipes_and_devices_in_a_folder(tmp_path):
    secret = write(tmp_path / "secret", PART_1)
    folder = write(tmp_path / "s", {"setup.sh": b"echo ready\n"})
    (folder / "bert.py").symlink_to(secret / "bert.py")
    (folder / "predictions").symlink_to(secret / "predictions")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "classifier.py")
    os.mkfifo(tmp_path / "pipe.zip")
    # a name that is not UTF-8, as unzip makes them of umlauts in zips from Windows
    Path(os.fsdecode(os.fsencode(folder) + b"/M\xfcller.txt")).write_bytes(b"")
    os.truncate(write(tmp_path / "t", PART_1) / SST, 10**12)  # a file with holes
    with little_memory():
        assert take("s", folder, 1).files == {"setup.sh": b"echo ready\n"}
        assert "not a regular file" in take("s", tmp_path / "pipe.zip", 1).refused
        assert SST not in take("s", tmp_path / "t", 1).files


def test_trouble_of_this_machine_is_not_the_student_s_fault(tmp_path, monkeypatch):
    def broken(*_):
        raise PermissionError(13, "no")

    monkeypatch.setattr(submissions.os, "listdir", broken)
    with pytest.raises(PermissionError):
        take("s", write(tmp_path / "s", PART_1), 1)


# ---------------------------------------------------------------------------------------------
# Which submissions there are


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (
            [f"12_a_part2_{ZIP_NAME}", "team-1.rar", "unpacked/bert.py"],
            {"12_a": 0, "team-1": 1, "unpacked": 2},
        ),
        # handed in or downloaded again, copied
        ([f"12_a_{STEM}.zip", f"12_a_{STEM} (1).zip", f"12_a_{STEM} - Kopie.zip"], {"12_a": 2}),
        # Canvas and Moodle say whose a zip is, whatever its name claims
        (
            [f"mallory_11_501_12_a_{STEM}.zip", f"anna_12_502_12_a_{STEM}.zip"],
            {"mallory_11": 0, "anna_12": 1},
        ),
        (["anna_12_99000_x-1.zip", "anna_LATE_12_100_y.zip"], {"anna_12": 0}),
        (
            [f"Ana Lin_99_assignsubmission_file_/12_a_{STEM}.zip", f"12_a_{ZIP_NAME}"],
            {"Ana_Lin_99": 0, "12_a": 1},
        ),
        (["A B_9_assignsubmission_onlinetext_/x.html", "7.zip"], {"7": 1}),
        # names that clash as ids
        (["a b.zip", "a+b.zip"], {"a_b-?": 0, "a_b-? ": 1}),
        (["Group.zip", "group.zip"], {"Group-?": 0, "group-?": 1}),
        (["J\u00f6rg.zip", "Jo\u0308rg.rar"], {"Jörg": 1}),
        # what is left out
        (["7.zip", "._7.zip", ".8.zip", "marks.csv", ".git/x", "__MACOSX/x"], {"7": 0}),
    ],
)
def test_each_owner_s_newest_submission_is_found_and_told(tmp_path, capsys, names, found):
    for number, name in enumerate(names):
        path = tmp_path / write(tmp_path, {name: b""}).joinpath(name).relative_to(tmp_path).parts[0]
        os.utime(path, (number, number))
    made = {student: path.name for student, path in find(tmp_path).items()}
    digest = re.compile(r"-[0-9a-f]{6}$")
    assert {path: digest.sub("-?", student) for student, path in made.items()} == {
        Path(names[number]).parts[0]: student.strip() for student, number in found.items()
    }
    assert len(made) == len(found)
    told = f"12_a: 3 submissions, the newest counts: '{names[-1]}'\n"
    assert (told == capsys.readouterr().out) == names[-1].endswith("Kopie.zip")
    assert all(student_id(student) == student for student in made)


@given(st.text())
@example("\x1b[2J=cmd|'.zip")
@example("-rf.zip")
@example("e\u200d\u0301.zip")
@example("\u1100\u200c\u1161.zip")
def test_ids_are_safe_names_of_files(name):
    made = student_id(name)
    assert 0 < len(made) <= 80
    assert len(f"{made}.json.part".encode()) < 255
    assert made[0] != "-"
    assert student_id("समूह.zip") == "समूह"
    assert student_id(made) == made
    kinds = {unicodedata.category(letter)[0] for letter in made if letter not in "_-"}
    assert kinds <= set("LMN")


# ---------------------------------------------------------------------------------------------
# Gradescope

SETTINGS = read_settings(ROOT)
MISTAKE = Mistake("no_scale", "It does not divide.", "\x07Look.", "3.2")
TASKS = (
    types.TaskResult("1.1", "T", "wrong", 12.0, 20.0, (), ("\x1b[31mred\u202e <b>",), (MISTAKE,)),
    types.TaskResult("1.2", "U", "right", 20.0, 20.0),
)


def test_tests_add_up_and_the_feedback_is_the_page_s():
    made = harness.results_of(Result("7", 1, GRADED, tasks=TASKS), SETTINGS)
    assert "score" not in made
    assert (made["visibility"], made["stdout_visibility"]) == ("visible", "hidden")
    shown = [(t["score"], t["max_score"], t["status"]) for t in made["tests"]]
    assert shown == [(12, 20, "failed"), (20, 20, "passed")]
    assert "It does not divide. Look." in made["output"]
    assert "red &lt;b&gt;" in made["output"]
    assert not {"\x1b", "\u202e", "\x07"} & set(json.dumps(made, ensure_ascii=False))


def test_of_part_2_predictions_alone_give_points_at_gradescope():
    values = {"sst": 0.5, "para": 0.7, "sts": 0.4}
    scores = [Score(n, n, "test", "", "accuracy", value) for n, value in values.items()]
    scores.append(Score("sst of dev", "sst", "dev", "", "accuracy", 0.9))
    made = harness.results_of(Result("7", 2, GRADED, scores=scores), SETTINGS)
    shown = [(t["name"], t["score"], t["max_score"]) for t in made["tests"]]
    assert shown == [("predictions", 9.5, SETTINGS["predictions"]["points"])]
    assert made["leaderboard"][0] == {"name": "overall-test", "value": 0.633}


def test_a_refused_submission_says_why():
    made = harness.results_of(Result("7", 1, REFUSED, why="a link\x1b[31m inside"), SETTINGS)
    assert "Not graded: a link[31m inside" in made["output"]
    assert harness.student_of({"users": [{"id": 9}, {"id": 7}]}) == "7-9"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The autograder's files for part 1."""
    out = tmp_path_factory.mktemp("out")
    return build.all_files(Namespace(part=1, gold=GOLD, out=out))


def test_the_autograder_has_what_it_needs(files, tmp_path, run_script_here):
    succeeded(run_script_here(build, "--gold", *GOLD, "--out", tmp_path / "out"))
    with zipfile.ZipFile(tmp_path / "out" / "autograder.zip") as archive:
        assert set(archive.namelist()) == files.keys()
    assert {"gold/ids-sst-test.csv", "assignment.json", "repo/requirements.txt"} <= files.keys()
    assert not [name for name in files if "course/gold" in name or "/tests/" in name]
    stage = "from course.gradescope import harness\nwith harness.open_context(1, 'x'): pass"
    line = [sys.executable, "-c", stage]
    done = subprocess.run(line, cwd=write(tmp_path, files) / "repo", capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def container(files, tmp_path):
    """A function that lays out /autograder with a submission and runs it: results and output.

    ``spoil`` is a file of ours and what is in it instead.
    """

    def go(submission, spoil=None):
        base = tmp_path / "autograder"
        shutil.rmtree(base, ignore_errors=True)
        write(base / "source", files)
        write(base / "submission", submission)
        write(base, {"submission_metadata.json": b'{"users": [{"id": 7}]}'})
        shutil.copy(base / "source" / "run_autograder", base)
        if spoil:
            (base / "source" / spoil[0]).write_text(spoil[1])
        environment = {"AUTOGRADER": str(base), "GRADER_PYTHON": sys.prefix}
        environment |= {"PATH": os.environ["PATH"]}
        line = ["bash", str(base / "run_autograder")]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
        assert stat.S_IMODE(base.stat().st_mode) == 0o700
        written = base / "results" / "results.json"
        assert written.exists() == (done.returncode == 0)
        made = json.loads(written.read_text()) if written.exists() else None
        return made, done.stdout + done.stderr

    return go


as_at_gradescope = pytest.mark.skipif(
    os.geteuid() != 0 or not ChangeOfUser().reaches(Path(sys.base_prefix)),
    reason="GRADESCOPE'S HARNESS IS NOT TESTED HERE: only root can become another user, and that "
    "user has to be able to enter Python's folder",
)


@as_at_gradescope
def test_the_solution_in_a_zip_gets_all_points(container):
    code = {name: (ROOT / name).read_bytes() for name in CODE}
    made, printed = container({f"7_{ZIP_NAME}": packed(*code.items())})
    assert sum(t["score"] for t in made["tests"]) == 100, printed
    assert "graded: 100" in printed


def test_after_a_failure_of_ours_there_are_no_results(container):
    fails = "def check(*_): raise ValueError('our own solution is wrong')\n"
    spoil = ("repo/course/grading/judging/canaries.py", fails)
    made, printed = container({"bert.py": b"x = 1\n"}, spoil)
    assert made is None
    assert "Error: " in printed
