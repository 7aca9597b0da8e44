"""Intake (course/grading/intake) and the autograder for Gradescope (course/gradescope)."""

import io
import json
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tracemalloc
import unicodedata
import warnings
import zipfile
import zlib
from argparse import Namespace
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import ROOT, succeeded
from test_prepare_submit import SIX, SST, contents, run  # noqa: F401
from test_prepare_submit import submission as part2  # noqa: F401

from checks.findings import Mistake
from course.gradescope import build, results
from course.grading import types
from course.grading.intake import archives, submissions
from course.grading.intake.archives import MB
from course.grading.intake.submissions import Found, find, student_id, take
from course.grading.sandbox.isolation import ChangeOfUser
from course.grading.types import GRADED, REFUSED, Result, Score, Submission
from course.settings import read_settings
from prepare_submit import CODE, ZIP_NAME
from training.files.errors import InputError

STEM = ZIP_NAME.removesuffix(".zip")
PART_1 = {
    "bert.py": b"import torch\n\tif x:  # a tab\n",
    "classifier.py": b"from bert import BertModel\n",
    "optimizer.py": b"import math\n",
    "setup.sh": b"echo ready\n",
    SST[0]: b"id,Predicted_Sentiment\n",
}
MODULES = {"helper.py": b"import bert\n", "tricks/losses.py": b"from . import more\n"}
PART_2 = {
    **{name: content for name, content in PART_1.items() if name != SST[0]},
    **MODULES,
    "multitask_classifier.py": b"from tricks.losses import contrast\nimport helper\n",
    "README.md": b"# Ours\n",
    "card.pdf": b"%PDF-1.4\r\n",
    SIX[0]: b"id,Predicted_Sentiment\n",
}
PART_3 = {"lessons/modern_bert.py": b"import torch\n"}
BASES = {1: PART_1 | MODULES, 2: PART_2, 3: PART_3}


def info(name: str, kind: int = stat.S_IFREG, method: int = zipfile.ZIP_DEFLATED):
    """A zip's entry with any name, also one that zipfile itself would change."""
    made = zipfile.ZipInfo("x", (2020, 1, 1, 0, 0, 0))
    made.filename, made.compress_type = name, method
    made.external_attr = (kind | 0o644) << 16
    return made


def packed(*pairs) -> bytes:
    """A zip of (name or ZipInfo, content), also with names twice."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
        warnings.simplefilter("ignore")
        for name, content in pairs:
            archive.writestr(info(name) if isinstance(name, str) else name, content)
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


def check_refused(submission: Submission, why: str) -> None:
    """Nothing is taken, and one line says why and what to do."""
    assert submission.files == {}
    assert why in submission.refused
    assert submission.refused.endswith("hand in the zip that prepare_submit.py writes")
    assert "\n" not in submission.refused


@contextmanager
def little_time_and_memory(seconds: int = 20, megabytes: int = 200):
    """Fail instead of hanging or filling the memory."""

    def late(*_):
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
        assert peak < megabytes << 20, f"{peak >> 20} MB"
    finally:
        tracemalloc.stop()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


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
    "a folder around everything": renamed(lambda name: f"minbert/{name}"),
    "several folders around everything": renamed(lambda name: f"a/b.c/d e/{name}"),
    "a folder with a name in NFD": renamed(lambda name: f"Lo\u0308sung\u200c มหา/{name}"),
    "the scripts in a folder": renamed(lambda n: f"code/{n}" if n[-3:] == ".py" else n),
    "the scripts in a folder in a folder": renamed(
        lambda n: f"g/src/code/{n}" if n[-3:] == ".py" else f"g/{n}"
    ),
    "backslashes": renamed(lambda name: f"g\\{name}".replace("/", "\\")),
    "dots and double slashes": renamed(lambda name: f"./g//{name}"),
    "predictions at the top": renamed(lambda n: Path(n).name if n.endswith(".csv") else n),
    "capital letters": renamed(lambda n: n if n in MODULES or n[-4:] == ".pdf" else n.upper()),
    "capital letters of a folder": renamed(lambda n: n.replace("predictions/", "Predictions/")),
    "line ends of Windows": rewritten(lambda data: data.replace(b"\n", b"\r\n")),
    "byte-order marks": rewritten(lambda data: b"\xef\xbb\xbf" + data),
    "files of macOS": with_more("__MACOSX/bert.py", "._bert.py", ".DS_Store", "tricks/.DS_Store"),
    "files of Windows": with_more("desktop.ini", "tricks/Thumbs.db"),
    "files of Python": with_more("__pycache__/bert.cpython-311.pyc", "__pycache__/bert.py"),
    "hidden folders": with_more(".git/bert.py", ".ipynb_checkpoints/bert.py", ".venv/a/bert.py"),
    "a backup deeper inside": with_more("old/bert.py"),
}


@pytest.mark.parametrize("part", [1, 2, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_zips_and_folders_give_the_same_files(tmp_path, taken, layout, part):
    files = LAYOUTS[layout](BASES[part])
    backup = {"old/bert.py": b"x\n"} if "backup" in layout else {}
    for submission in (taken(files, part=part), take("s", write(tmp_path / "s", files), part)):
        assert submission.refused == ""
        assert submission.files == BASES[part] | backup
        assert all(note.startswith("moved into place: ") for note in submission.notes)


WRAPPED = {
    "a folder around one zip": lambda zipped: {"inner/x.zip": zipped},
    "a zip next to the card": lambda zipped: {"x.ZIP": zipped, "more.pdf": b"%PDF-"},
}


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_a_zip_in_a_zip_or_folder(tmp_path, taken, wrapped):
    files = WRAPPED[wrapped](packed(*PART_1.items())) | {"__MACOSX/._x.zip": b"x"}
    for submission in (taken(files), take("s", write(tmp_path / "s", files), 1)):
        assert submission.files == PART_1, submission


def test_what_prepare_submit_writes_is_taken(part2, run):  # noqa: F811
    """For part 2; tests/test_prepare_submit.py has parts 1 and 3."""
    succeeded(run("--part", "2", "--name", "7_a"))
    ((student, path),) = [(f.student, f.path) for f in find(next(part2.glob("7_a*.zip")))]
    submission = take(student, path, 2)
    assert (student, submission.refused) == ("7_a", "")
    # modules that this test puts in the place of the course's
    assert submission.notes == ("left out: config.py, evaluation.py",)
    own = contents(part2, path.name).keys() - {"config.py", "evaluation.py"}
    assert submission.files == {name: (part2 / name).read_bytes() for name in own}


# ---------------------------------------------------------------------------------------------
# What is left out

# A part, the name of a further file, and which file of the others is then missing
LEFT_OUT = [
    *((1, name, ()) for name in ("notes.ipynb", "a/model.pt", "my-module.py", "C:bert.py")),
    *((1, name, ()) for name in ("bert\u202eyp.py", "bert.py\0.py", "bert.so", "ſetup.sh")),
    *((1, name, ()) for name in ("multitask_classifier.py", "a/setup.sh", "old.zip")),
    *((1, name, ()) for name in ("../optimizer.py", "x\\..\\a.py", ".hidden.py")),
    *((1, name, ("bert.py",)) for name in ("bert.py", "/bert.py", ".\\bert.py")),
    (2, "helper.py", ("helper.py",)),
    *((2, name, ()) for name in ("Torch.py", "numpy/core.py", "json.py", "data/download.py")),
    *((2, name, ()) for name in ("UTILS.py", "checks/a.py", "course/grade.py")),
    *((2, name, ()) for name in ("bert/__init__.py", "sitecustomize.py")),
]


@pytest.mark.parametrize(("part", "name", "less"), LEFT_OUT)
def test_a_further_file_is_left_out(taken, part, name, less):
    submission = taken(BASES[part], (name, b"x"), part=part)
    assert submission.refused == ""
    assert submission.files == {n: data for n, data in BASES[part].items() if n not in less}
    is_hidden = any(part[:1] == "." and part != "." for part in re.split(r"[/\\]", name))
    assert [note.rpartition(": ")[0] for note in submission.notes] == ["left out"] * (not is_hidden)


@pytest.mark.parametrize("name", ["bert.py", "helper.py"])
@pytest.mark.parametrize(
    ("entry", "content"),
    [
        ({"kind": stat.S_IFLNK}, b"/etc/passwd"),
        ({"kind": stat.S_IFCHR}, b""),
        ({"method": zipfile.ZIP_BZIP2}, b"x = 1\n"),
        ({}, b"# \xe9\n"),
        ({}, b"#" * (MB // 2 + 1)),
    ],
)
def test_a_file_that_cannot_be_taken(taken, name, entry, content):
    others = {key: data for key, data in PART_2.items() if key != name}
    submission = taken(others, (info(name, **entry), content), part=2)
    assert submission.files == others
    assert submission.notes == (f"left out: {name}",)


def test_all_sources_together_have_a_limit(taken):
    """Each is sent to the sandbox for each task; the files that are asked for come first."""
    modules = {f"a{number}.py": b"#" * 300_000 for number in range(5)}
    submission = taken(modules | PART_1)
    assert submission.files == PART_1 | {n: modules[n] for n in ("a0.py", "a1.py", "a2.py")}
    assert submission.notes == ("left out: a3.py, a4.py",)


# ---------------------------------------------------------------------------------------------
# Hostile zips and folders


def patched(content: bytes, at: int, value: bytes, entry: int = 0) -> bytes:
    """A zip with other bytes in an entry of the table of contents."""
    start = [match.start() for match in re.finditer(b"PK\1\2", content)][entry]
    return content[: start + at] + value + content[start + at + len(value) :]


def overlapping() -> bytes:
    """All entries share the bytes of one file."""
    content = GOOD
    for entry in range(len(PART_1)):
        content = patched(content, 42, struct.pack("<L", GOOD.index(b"PK\3\4", 5)), entry)
    return content


def table_of_contents(count: int, name: bytes = b"a", extra: bytes = b"") -> bytes:
    """A zip that is nothing but a table of contents, of that many entries."""
    header = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 0, 0, 0, 0, len(name),
                         len(extra), 0, 0, 0, 0, 0)  # fmt: skip
    body = (header + name + extra) * count
    return body + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(body), 0, 0)


def zip64(*sizes: int) -> bytes:
    """A table of contents whose sizes are in a record of 64 bits."""
    content = bytearray(table_of_contents(1, b"bert.py", struct.pack("<2H3Q", 1, 24, *sizes)))
    content[20:28], content[42:46] = b"\xff" * 8, b"\xff" * 4
    return bytes(content)


def bomb(claimed: int) -> bytes:
    """A large file whose header has another size, and the checksum of its beginning."""
    content = patched(packed((SST[0], b"0" * (64 * MB))), 24, struct.pack("<L", claimed))
    return patched(content, 16, struct.pack("<L", zlib.crc32(b"0" * claimed)))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a zip"),
        (b"Rar!\x1a\x07\x00", "not a zip"),
        (GOOD[:-30], "not a zip"),
        (packed(("a.txt", b"x")), "none of the files that part 1 asks for"),
        (packed(("helper.py", b"x")), "none of the files that part 1 asks for"),
        (packed(("a.zip", GOOD), ("b.zip", GOOD)), "none of the files"),
        (packed(("a.zip", packed(("b.zip", GOOD)))), "none of the files"),  # one level
        (packed(("a/bert.py", b"x"), ("b/bert.py", b"y")), "scripts in several folders: a/, b/"),
        (packed(("bert.py", b"%PDF-\xff")), "none of the files"),
        (packed(("_ " * 30_000 + "1" * 5000 + ".zip", GOOD)), "none of the files"),
        (packed((f"a_1_{'9' * 200}_x{'_' * 30}.zip", GOOD), ("b.zip", b"")), "none of the files"),
        (patched(GOOD, 8, b"\1\0", entry=4), "is encrypted"),
        (patched(GOOD, 16, b"1234"), "damaged"),  # a checksum
        (overlapping(), "damaged"),
        # another name in the table of contents, or before the content
        (GOOD[::-1].replace(b"bert.py"[::-1], b"evil.py"[::-1], 1)[::-1], "damaged"),
        (GOOD.replace(b"bert.py", b"evil.py", 1), "damaged"),
        (packed((SST[0], b"0" * (64 * MB))), "none of the files"),
        (packed(*((f"{n}/{SST[0]}", b"0" * (7 * MB)) for n in range(12))), "MB unpacked"),
        (packed(*((f"{n}.txt", b"") for n in range(30_000))), "table of contents is too long"),
        (table_of_contents(1_000_000), "table of contents is too long"),
        # the time that zipfile needs grows with the square of their length
        (table_of_contents(700, extra=b"\x99\x99\0\0" * 16000), "table of contents is too long"),
        (zip64(2**63, 2**63, 2**63), "damaged"),
        (GOOD[:-22] + struct.pack("<4sQ2H2L4Q4sLQL", b"PK\6\6", 44, 45, 45, 0, 0, *[2**62] * 4,
                                  b"PK\6\7", 0, 0, 1) + GOOD[-22:], "damaged"),
        (bomb(2**32 - 2), "none of the files"),
        (packed(("x.zip", packed(("bert.py", b"#" * (64 * MB))))), "none of the files"),
    ],
    ids=range(25),
)  # fmt: skip
def test_a_hostile_zip_is_refused_in_one_line(taken, content, why):
    with little_time_and_memory():
        check_refused(taken(content), why)


def test_a_zip_above_its_limit_and_a_bomb_whose_header_lies(taken, monkeypatch):
    assert len(taken(bomb(100)).files[SST[0]]) <= 100
    monkeypatch.setitem(archives.LIMITS, "zip", len(GOOD) - 1)
    check_refused(taken(GOOD), "not a regular file, or more than 0 MB")
    monkeypatch.setitem(archives.LIMITS, "zip", len(GOOD))
    assert taken(GOOD).files == PART_1


MANY = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@MANY
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1))
def test_a_spoilt_zip_never_raises(tmp_path, places):
    content = bytearray(GOOD)
    for place, value in places:
        content[place] = value
    (tmp_path / "s.zip").write_bytes(content)
    submission = take("s", tmp_path / "s.zip", 1)
    assert bool(submission.files) != bool(submission.refused)


NAMES = st.one_of(
    st.text(max_size=12),
    st.text(alphabet="./\\ab:\0 ", max_size=8),
    st.sampled_from([*PART_2, *SIX]).flatmap(
        lambda name: st.sampled_from([name, name.upper(), f"./{name}", f"a/{name}", f"{name}."])
    ),
)


@MANY
@given(st.lists(NAMES, max_size=6), st.sampled_from([1, 2]))
@example(["a/bert.py", "../bert.py"], 1)
def test_only_plain_names_are_taken(tmp_path, names, part):
    try:
        content = packed(*((n, b"%PDF-1.4" * n.lower().endswith(".pdf")) for n in names))
    except UnicodeEncodeError:  # no zip has such a name
        return
    (tmp_path / "s.zip").write_bytes(content)
    submission = take("s", tmp_path / "s.zip", part)
    assert submission.sources() is not None
    for name in submission.files:
        assert re.fullmatch(r"[\w/-]+\.(py|md|sh|csv)|[^/\\]*\.pdf", name, re.I), name
        assert (Path("/x") / name).resolve().is_relative_to("/x")


def test_links_pipes_and_devices_in_a_folder(tmp_path):
    secret = write(tmp_path / "secret", PART_1)
    folder = write(tmp_path / "s", {"setup.sh": b"echo ready\n"})
    (folder / "bert.py").symlink_to(secret / "bert.py")
    (folder / "predictions").symlink_to(secret / "predictions")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "classifier.py")
    if os.geteuid() == 0:
        os.mknod(folder / "optimizer.py", stat.S_IFCHR | 0o600, os.makedev(1, 5))  # endless zeros
    (tmp_path / "link").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe.zip")
    # a name that is not UTF-8, as unzip makes them of umlauts in zips from Windows
    Path(os.fsdecode(os.fsencode(folder) + b"/M\xfcller.txt")).write_bytes(b"")
    with little_time_and_memory():
        submission = take("s", folder, 1)
        for name in ("link", "pipe.zip"):
            check_refused(take("s", tmp_path / name, 1), "not a regular file")
    assert submission.files == {"setup.sh": b"echo ready\n"}
    os.truncate(write(tmp_path / "t", PART_1) / SST[0], 10**12)  # a file with holes
    with little_time_and_memory():
        assert SST[0] not in take("s", tmp_path / "t", 1).files


def test_a_file_that_becomes_a_link_or_a_pipe(tmp_path, monkeypatch):
    """Between looking and opening."""
    regular = write(tmp_path, {"file": b"", "target": b"secret"}).joinpath("file").lstat()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(Path, "lstat", lambda self: regular)
    with little_time_and_memory():
        with pytest.raises(OSError, match="symbolic links"):
            archives.open_regular(tmp_path / "link")
        with archives.open_regular(tmp_path / "pipe") as pipe:
            assert pipe.read() == b""


def test_trouble_of_this_machine_is_not_the_student_s_fault(tmp_path, monkeypatch):
    def broken(*_):
        raise PermissionError(13, "no")

    with pytest.raises(InputError, match="cannot be read"):
        take("s", tmp_path / "missing.zip", 1)
    write(tmp_path / "s", PART_1)
    monkeypatch.setattr(archives, "open_regular", broken)
    with pytest.raises(InputError, match="cannot be read"):
        take("s", tmp_path / "s", 1)
    monkeypatch.undo()
    monkeypatch.setattr(submissions, "_choose", lambda *_: [][0])
    with pytest.raises(IndexError):  # nor is a mistake of ours
        take("s", tmp_path / "s", 1)


# ---------------------------------------------------------------------------------------------
# Which submissions there are


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([f"12_a_{ZIP_NAME}"], {"12_a": 0}),
        ([f"12_a_part2_{ZIP_NAME}", "other.zip"], {"12_a": 0, "other": 1}),
        # handed in or downloaded again, copied
        ([f"12_a_{STEM}-1.zip", f"12_a_{STEM}.zip", f"12_a_{STEM}-12.zip"], {"12_a": 2}),
        ([f"12_a_{STEM}.zip", f"12_a_{STEM} (1).zip", f"12_a_{STEM} - Kopie.zip"], {"12_a": 2}),
        (["team-1.zip", "team-2.zip"], {"team-1": 0, "team-2": 1}),
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
        ([f"Ana Lin_99_assignsubmission_file_12_a_{STEM}.zip"], {"Ana_Lin_99": 0}),
        (["A B_9_assignsubmission_onlinetext_/x.html", "7.zip"], {"7": 1}),
        ([f"12_34567_89012_a_{STEM}.zip"], {"12_34567_89012_a": 0}),  # three students' numbers
        # elsewhere each folder is an owner
        ([f"anna/12_a_{STEM}.zip", f"mallory/12_a_{STEM}.zip"], {"anna": 0, "mallory": 1}),
        # names that clash as ids
        (["a b.zip", "a+b.zip"], {"a_b-?": 0, "a_b-? ": 1}),
        (["Group.zip", "group.zip"], {"Group-?": 0, "group-?": 1}),
        (["x" * 80 + "1.zip", "x" * 80 + "2.zip"], {"x" * 40 + "-?": 0, "x" * 40 + "-? ": 1}),
        (["J\u00f6rg.zip", "Jo\u0308rg.rar"], {"Jörg": 1}),
        # what is left out
        (["7.zip", "._7.zip", ".8.zip", "marks.csv", ".git/x", "__MACOSX/x", "out/x"], {"7": 0}),
        (["strange.rar", "unpacked/a/bert.py"], {"strange": 0, "unpacked": 1}),
    ],
)
def test_each_owner_s_newest_submission_is_found(tmp_path, names, found):
    for number, name in enumerate(names):
        path = tmp_path / write(tmp_path, {name: b""}).joinpath(name).relative_to(tmp_path).parts[0]
        os.utime(path, (number, number))
    made = {entry.student: entry.path.name for entry in find(tmp_path, ours=[tmp_path / "out"])}
    digest = re.compile(r"-[0-9a-f]{6}$")
    assert {path: digest.sub("-?", student) for student, path in made.items()} == {
        Path(names[number]).parts[0]: student.strip() for student, number in found.items()
    }
    assert len(made) == len(found)
    assert all(student_id(student) == student for student in made)


def test_a_folder_or_zip_that_is_one_submission_or_none(tmp_path):
    folder = write(tmp_path / "7 us", PART_1)
    assert find(folder) == [Found("7_us", folder)]
    assert find(write(tmp_path / "8", PART_3)) == [Found("8", tmp_path / "8")]
    zipped = write(tmp_path, {f"9_{ZIP_NAME}": GOOD}) / f"9_{ZIP_NAME}"
    assert find(zipped) == [Found("9", zipped)]
    for nothing in (write(tmp_path / "x", {".git/y": b""}), tmp_path / "missing"):
        with pytest.raises(InputError, match="no submission in it: no zip and no folder"):
            find(nothing)


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
    assert student_id("क्\u200dष.zip") == "क्ष"
    assert student_id(made) == made
    kinds = {unicodedata.category(letter)[0] for letter in made if letter not in "_-"}
    assert kinds <= set("LMN")


# ---------------------------------------------------------------------------------------------
# Gradescope

SETTINGS = read_settings(ROOT)
GOLD = (ROOT / "course" / "gold", ROOT / "data" / "practice")
MISTAKE = Mistake("no_scale", "It does not divide.", "\x07Look.", "3.2")
ROWS = {what: (types.Row("values", what, 0.0, 8.0),) for what in (types.RIGHT, types.WRONG)}
MESSAGES = ("\x1b[31mred\u202e <b>", "x" * 5000)
TASKS = (
    types.TaskResult("1.1", "T", "wrong", 12.0, 20.0, ROWS[types.WRONG], MESSAGES, (MISTAKE,)),
    types.TaskResult("1.2", "U", "right", 20.0, 20.0, ROWS[types.RIGHT]),
)


def test_tests_add_up_and_texts_are_clean():
    scores = tuple(
        Score(f"predictions/{data}-{split}", data, split, "", "accuracy", value, 0.1, 0.9)
        for data, value in (("sst", 0.5), ("para", 0.7), ("sts", 0.4))
        for split in ("dev", "test")
    )
    made = results.of_result(Result("7", 1, GRADED, tasks=TASKS, scores=scores), SETTINGS)
    assert "score" not in made
    assert made["stdout_visibility"] == "hidden"
    shown = [(t["score"], t["max_score"], t.get("status")) for t in made["tests"]]
    assert shown == [(12, 20, "failed"), (20, 20, "passed"), (0, 0, None)]
    assert {(t["visibility"], t["output_format"]) for t in made["tests"]} == {("visible", "text")}
    text = made["tests"][0]["output"]
    assert text.startswith("Wrong.\nvalues: wrong, 0 of 8\nred <b>\nxxx")
    assert len(text) <= 4000
    assert not {"\x1b", "\u202e", "\x07"} & set(json.dumps(made))
    assert "sst-dev: accuracy 0.500, 95 % interval 0.100–0.900" in made["tests"][2]["output"]
    board = [(row["name"], row["value"]) for row in made["leaderboard"]]
    assert board[:3] == [("overall, test", 0.633), ("overall, dev", 0.633), ("sst-test", 0.5)]
    assert len(board) == 8


def test_part_2_has_a_row_for_predictions_and_leaves_the_others_to_people():
    result = Result("7", 2, GRADED, checks="Task 2.1 is wrong")
    tests = results.of_result(result, SETTINGS)["tests"]
    best = SETTINGS["predictions"]["points"]
    assert (tests[0]["name"], tests[0]["score"], tests[0]["max_score"]) == ("Predictions", 0, best)
    assert (tests[1]["output"], tests[1]["max_score"]) == ("Task 2.1 is wrong", 0)


def test_a_refused_submission_and_the_skeleton_have_zeros_and_say_why():
    refused = Result("7", 1, REFUSED, why="a link\x1b[31m inside", notes=("left out: a\x07",))
    made, empty = results.of_result(refused, SETTINGS), results.skeleton(1, SETTINGS)
    assert made["output"] == "Nothing could be graded: a link inside\nleft out: a"
    assert empty["output"] == results.NOT_GRADED
    for table in (made, empty):
        assert {t["score"] for t in table["tests"]} == {0}
        assert sum(t["max_score"] for t in table["tests"]) == 100


def test_a_group_has_the_same_id_each_time():
    for users in (None, 3, []):
        assert results.student_of({"users": users}) == "nobody"
    assert results.student_of({"users": [{"id": 9}, {"id": 7}, None]}) == "7-9"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The autograder's files for part 1."""
    out = tmp_path_factory.mktemp("out")
    return build.all_files(Namespace(part=1, gold=GOLD, out=out))


def test_the_autograder_has_what_it_needs_and_is_the_same_each_time(
    files, tmp_path, run_script_here
):
    made = []
    for _ in range(2):
        succeeded(run_script_here(build, "--gold", *GOLD, "--out", tmp_path / "out"))
        made.append((tmp_path / "out" / "autograder.zip").read_bytes())
    assert made[0] == made[1]
    with zipfile.ZipFile(io.BytesIO(made[0])) as archive:
        assert set(archive.namelist()) == files.keys()
    for name in ("setup.sh", "run_autograder"):
        assert files[name].startswith(b"#!/usr/bin/env bash\n")
        assert subprocess.run(["bash", "-n"], input=files[name], check=False).returncode == 0
    assert {"gold/ids-sst-test.csv", "assignment.json", "repo/requirements.txt"} <= files.keys()
    assert not [name for name in files if "course/gold" in name or "/tests/" in name]
    line = [sys.executable, "-c", "import course.gradescope.harness"]
    done = subprocess.run(line, cwd=write(tmp_path, files) / "repo", capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def container(files, tmp_path):
    """A function that lays out /autograder with a submission and runs it: results and output."""

    def go(submission, python=sys.prefix, seconds=560, spoil=None):
        base = tmp_path / "autograder"
        shutil.rmtree(base, ignore_errors=True)
        write(base / "source", files)
        write(base / "submission", submission)
        write(base, {"submission_metadata.json": b'{"users": [{"id": 7}]}'})
        shutil.copy(base / "source" / "run_autograder", base)
        if spoil:
            (base / "source" / spoil[0]).write_text(spoil[1])
        environment = {"AUTOGRADER": str(base), "GRADER_PYTHON": str(python)}
        environment |= {"PATH": os.environ["PATH"], "GRADER_SECONDS": str(seconds)}
        line = ["bash", str(base / "run_autograder")]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert stat.S_IMODE(base.stat().st_mode) == 0o700
        made = json.loads((base / "results" / "results.json").read_text())
        return made, done.stdout + done.stderr

    return go


as_at_gradescope = pytest.mark.skipif(
    os.geteuid() != 0 or not ChangeOfUser().reaches(Path(sys.base_prefix)),
    reason="GRADESCOPE'S HARNESS IS NOT TESTED HERE: only root can become another user, and that "
    "user has to be able to enter Python's folder",
)
HOSTILE = b"""
import os, socket, subprocess, sys, torch
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(900)  # outlives"],
                 start_new_session=True)
got = [path for path in sys.path if "autograder" in path and os.access(path, os.R_OK)]
raise Exception(f"user {os.getuid()}, got {got}")
"""


@as_at_gradescope
def test_the_solution_in_a_zip_gets_all_points(container):
    code = {name: (ROOT / name).read_bytes() for name in CODE}
    made, printed = container({f"7_{ZIP_NAME}": packed(*code.items())})
    assert sum(t["score"] for t in made["tests"]) == 100, printed
    assert "graded: 100" in printed


@as_at_gradescope
def test_submitted_code_reads_nothing_of_ours_and_leaves_no_process(container):
    made, printed = container({"bert.py": HOSTILE, "optimizer.py": b"x = 1\n"})
    assert sum(t["score"] for t in made["tests"]) == 0
    users = set(re.findall(r"user (\d+), got \[\]", json.dumps(made)))
    assert users, printed
    assert "0" not in users
    assert results.NOT_GRADED not in made.get("output", "")
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "# outlives" not in running.stdout


HARNESS = "repo/course/gradescope/harness.py"
CANARIES = "repo/course/grading/judging/canaries.py"


@pytest.mark.parametrize(
    "trouble",
    [
        {"python": "/nowhere"},
        {"seconds": 1, "spoil": (HARNESS, "import time\ntime.sleep(60)\n")},
        {"spoil": ("gold/ids-sst-test.csv", "not a data file\n")},
        {"spoil": (CANARIES, "def check(*_): raise ValueError('our own solution is wrong')\n")},
    ],
)
def test_a_failure_of_ours_is_said_to_be_none_of_theirs(container, trouble):
    made, _ = container({"bert.py": b"x = 1\n"}, **trouble)
    assert made["output"] == results.NOT_GRADED
    assert {t["score"] for t in made["tests"]} == {0}
    assert made["stdout_visibility"] == "hidden"
