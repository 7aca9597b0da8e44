"""Safe intake of submissions (course/grading/intake/intake.py, entries.py, parse.py)."""

import io
import os
import re
import signal
import stat
import struct
import tracemalloc
import unicodedata
import warnings
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import ROOT, succeeded
from test_prepare_submit import SIX, SST, contents, run  # noqa: F401
from test_prepare_submit import submission as part2  # noqa: F401

import prepare_submit
from course.grading.intake import entries, intake, parse
from course.grading.intake.intake import LIMITS, find, take
from course.grading.intake.names import plain_name, student_id
from course.grading.judging.library_calls import library_calls
from course.grading.judging.types import Submission
from course.grading.sandbox import packages
from course.handout_checks import write_files
from training.files.errors import InputError
from training.files.writing import write_json

PART_1 = {
    "bert.py": b"import torch\n",
    "classifier.py": b"from bert import BertModel\n",
    "optimizer.py": b"import math\n",
    "setup.sh": b"echo ready\n",
    SST[0]: b"id,Predicted_Sentiment\n",
}
PART_2 = {
    **{name: content for name, content in PART_1.items() if name != SST[0]},
    "multitask_classifier.py": b"from tricks.losses import contrast\nimport helper\n",
    "README.md": b"# Ours\n",
    "card.pdf": b"%PDF-1.4\n",
    "tricks/losses.py": b"from . import more\n",
    "tricks/more.py": b"x = 1\n",
    "helper.py": b"import bert\n",
    SIX[0]: b"id,Predicted_Sentiment\n",
}


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


BASES = {1: PART_1, 2: PART_2}
GOOD = packed(*PART_1.items())


@pytest.fixture
def taken(tmp_path):
    """What is taken of a zip with these bytes, or of PART_1 or PART_2 and further entries."""

    def take_it(*more, part=1, content=None, limits=LIMITS) -> Submission:
        path = tmp_path / "s.zip"
        path.write_bytes(packed(*BASES[part].items(), *more) if content is None else content)
        return take("s", path, part, limits)

    return take_it


def folder_of(base: Path, files: dict[str, bytes]) -> Path:
    write_files(base, files)
    return base


def reasons(submission: Submission) -> set[str]:
    """The notes without the names."""
    return {note.rpartition(": ")[0] for note in submission.notes}


@contextmanager
def no_waiting(seconds: int = 20):
    """Fail instead of hanging."""

    def late(*_):
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---------------------------------------------------------------------------------------------
# Good submissions, and what is repaired


def test_what_prepare_submit_writes_is_taken(part2, run):  # noqa: F811
    """Of part 2; tests/test_prepare_submit.py has part 1."""
    succeeded(run("--part", "2", "--name", "7_a"))
    ((student, path),) = find(next(part2.glob("7_a*.zip")))
    submission = take(student, path, 2)
    assert (student, submission.refused) == ("7_a", "")
    assert reasons(submission) == {intake.COURSES_OWN}  # what that test has in their place
    own = contents(part2, path.name).keys() - (intake.course_files(2) - set(intake.WANTED[2]))
    assert submission.files == {name: (part2 / name).read_bytes() for name in own}


def test_what_part_2_lacks_is_noted(taken):
    script = "multitask_classifier.py"
    notes = taken(content=packed((script, PART_2[script])), part=2).notes
    assert "not in it: README.md, a PDF, the AI-usage card" in notes


@pytest.mark.parametrize("part", [1, 2])
def test_a_folder_gives_the_same_as_a_zip(tmp_path, taken, part):
    zipped = taken(part=part)
    folder = take("s", folder_of(tmp_path / "s", BASES[part]), part)
    assert zipped.files == folder.files == BASES[part]
    assert zipped.notes == folder.notes == ()
    assert len(zipped.sha256) == len(folder.sha256) == 64
    (tmp_path / "s" / "bert.py").write_bytes(b"import sys\n")
    assert take("s", tmp_path / "s", part).sha256 != folder.sha256


SCRIPTS = {name for name in PART_2 if name.endswith(".py")}


@pytest.mark.parametrize(
    ("part", "rename", "reason"),
    [
        (2, lambda name: f"a/b/{name}", intake.TOP_FOLDER),
        (2, lambda name: f"my folder\\{name}".replace("/", "\\"), intake.TOP_FOLDER),
        (2, lambda name: f"code/{name}" if name in SCRIPTS else name, intake.SCRIPTS_FOLDER),
        (1, lambda name: Path(name).name, intake.MOVED.format("predictions")),
    ],
)
def test_other_layouts_are_read_alike(taken, part, rename, reason):
    base = BASES[part]
    submission = taken(content=packed(*((rename(name), base[name]) for name in base)), part=part)
    assert submission.files == base
    assert reasons(submission) == {reason}


# ---------------------------------------------------------------------------------------------
# What is left out


def check_left_out(submission: Submission, reason: str, base=PART_1, less: tuple = ()) -> None:
    assert submission.refused == ""
    assert submission.files == {name: text for name, text in base.items() if name not in less}
    assert reasons(submission) == {reason}


UNSAFE_NAMES = (
    "../optimizer.py",
    "x\\..\\optimizer.py",
    ".. /optimizer.py",
    "/optimizer.py",
    "C:optimizer.py",
    "optimizer.py:stream",
    "optimizer.py\0.txt",
    "optimizer\u202eyp.py",  # right to left
    "optimizer.py\x1b[2J",
    "x/" * 120 + "optimizer.py",
    "",
)
LIKE_OTHERS = ("OPTIMIZER.PY", "optimizer.py.", "optimizer.py ", "ｏptimizer.py", "ſetup.sh")
JUNK = ("__MACOSX/._bert.py", ".DS_Store", "__pycache__/bert.cpython-311.pyc")
EXECUTED = "evil.pth", "bert.so", "my-module.py"

# Part, further entries, why they are left out, what else is then missing
FURTHER = [
    *((1, {name: b"evil"}, intake.UNSAFE, ()) for name in UNSAFE_NAMES),
    *((1, {name: b"evil"}, intake.ALMOST, ()) for name in LIKE_OTHERS),
    *((1, {name: b"x"}, intake.FROM_JUNK, ()) for name in JUNK),
    *((1, {name: b"x"}, intake.TWICE, ("bert.py",)) for name in ("bert.py", ".//bert.py")),
    (1, {".\\bert.py": b"x"}, intake.TWICE, ("bert.py",)),
    (1, {"old/bert.py": b"x"}, intake.NOT_IMPORTED, ()),
    (1, {Path(SST[0]).name: b"other"}, intake.NOT_ASKED, ()),
    (2, {"Helper.py": b"other"}, intake.TWICE, ("helper.py",)),
    (2, dict.fromkeys(("a.zip", "c.tar.gz"), b"PK"), intake.NESTED, ()),
    (2, {"tricks/unused.py": b"x = 1\n"}, intake.NOT_IMPORTED, ()),
    (2, {"a/b.pdf": b"%PDF-1.7\n"}, intake.SECOND_PDF, ()),
    (2, {"a.pdf": b"PK a text document"}, intake.NOT_PDF, ()),
    (2, dict.fromkeys(EXECUTED, b""), intake.NOT_ASKED, ()),
    (2, {"utils.py": b"evil = 1\n", "checks/__init__.py": b"evil"}, intake.COURSES_OWN, ()),
]


@pytest.mark.parametrize(("part", "more", "reason", "less"), FURTHER, ids=range(len(FURTHER)))
def test_further_entries_are_left_out(taken, part, more, reason, less):
    check_left_out(taken(*more.items(), part=part), reason, BASES[part], less)


NOT_SOURCES = {
    b"# \xe9\n": intake.NOT_UTF8,
    b"x = 1\0\n": intake.NOT_UTF8,
    b"\r# coding: utf-7\r": intake.NOT_UTF8,
    b"#" * (LIMITS.source + 1): intake.TOO_LONG,
}


@pytest.mark.parametrize(
    ("name", "entry", "content", "reason"),
    [
        ("bert.py", info("bert.py", stat.S_IFLNK), b"/etc/passwd", entries.NOT_REGULAR),
        ("bert.py", info("bert.py", stat.S_IFCHR), b"", entries.NOT_REGULAR),
        ("bert.py", info("bert.py", method=zipfile.ZIP_BZIP2), b"x = 1\n", entries.METHOD),
        *(("bert.py", "bert.py", content, reason) for content, reason in NOT_SOURCES.items()),
        *(("helper.py", "helper.py", content, reason) for content, reason in NOT_SOURCES.items()),
    ],
)
def test_a_file_that_cannot_be_taken(taken, name, entry, content, reason):
    others = {key: text for key, text in PART_2.items() if key != name}
    submission = taken(content=packed(*others.items(), (entry, content)), part=2)
    check_left_out(submission, reason, others)


@pytest.mark.parametrize(
    "name",
    ["Torch.py", "numpy/core.py", "json.py", "conftest.py", "sitecustomize.py", "UTILS.py"]
    + ["bert/__init__.py", "checks/part2/a.py", "course/grade.py", "__main__.py"],
)
def test_modules_that_shadow(taken, name):
    module = ".".join(Path(name).with_suffix("").parts).replace(".__init__", "")
    base = PART_2 | {"helper.py": f"import {module}\n".encode()}
    submission = taken(content=packed(*base.items(), (name, b"evil = 1\n")), part=2)
    check_left_out(submission, intake.SHADOWS, base)


def test_part_1_takes_nothing_of_part_2_nor_of_the_course(taken):
    unchanged = (ROOT / "utils.py").read_bytes().replace(b"\n", b"\r\n")
    files = PART_2 | {"utils.py": unchanged, "bert.py": b"\xef\xbb\xbfimport torch\n"}
    submission = taken(content=packed(*files.items()))
    assert submission.files == {name: PART_1[name] for name in prepare_submit.CODE}
    assert reasons(submission) == {intake.NOT_ASKED, intake.NOT_IMPORTED}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"x = 1\n\nreturn x\n", "line 3: 'return' outside function"),
        (b"x = " + b"-" * 100_000 + b"1\n", "too deeply nested or too large"),
    ],
)
def test_what_does_not_parse_is_taken(taken, content, fault):
    base = PART_2 | {"helper.py": content}
    submission = taken(content=packed(*base.items()), part=2)
    assert submission.files == base
    (note,) = submission.notes
    assert note.startswith(f"does not parse ({fault}")
    assert note.endswith("): helper.py")


# ---------------------------------------------------------------------------------------------
# Refused as a whole


def check_refused(submission: Submission, why: str) -> None:
    assert submission.files == {}
    assert why in submission.refused
    assert submission.refused.endswith(entries.REMEDY)
    assert "\n" not in submission.refused


def patched(content: bytes, at: int, value: bytes, entry: int = 0) -> bytes:
    """A zip with other bytes in an entry of the table of contents."""
    start = [match.start() for match in re.finditer(b"PK\1\2", content)][entry]
    return content[: start + at] + value + content[start + at + len(value) :]


def overlapping() -> bytes:
    """All entries share the bytes of one file."""
    offset = struct.pack("<L", GOOD.index(b"PK\3\4", 5))
    content = GOOD
    for entry in range(len(PART_1)):
        content = patched(content, 42, offset, entry)
    return content


@contextmanager
def little_memory(megabytes: int = 200):
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < megabytes << 20, f"{peak >> 20} MB"


def table_of_contents(count: int, name: bytes = b"a", extra: bytes = b"") -> bytes:
    """A zip that is nothing but a table of contents, of that many entries."""
    header = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 0, 0, 0, 0, len(name),
                         len(extra), 0, 0, 0, 0, 0)  # fmt: skip
    body = (header + name + extra) * count
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(body), 0, 0)
    return body + end


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no zip"),
        (b"Rar!\x1a\x07\x00", "no zip"),
        (GOOD[:-30], "no zip"),
        (packed(("a.txt", b"x")), "none of the files that part 1 asks for"),
        (packed(("BERT.py", b"x")), intake.ALMOST),
        (patched(GOOD, 8, b"\1\0", entry=4), "the zip is encrypted"),
        (patched(GOOD, 16, b"1234"), "damaged"),  # a checksum
        (overlapping(), "damaged"),
        # another name in the table of contents, or before the content
        (GOOD[::-1].replace(b"bert.py"[::-1], b"evil.py"[::-1], 1)[::-1], "damaged"),
        (GOOD.replace(b"bert.py", b"evil.py", 1), "damaged"),
        (packed((SST[0], b"0" * (LIMITS.file + 1))), "is too large when unpacked"),
        (packed((SST[0], b"0" * (2 << 20))), "is too large when unpacked"),  # by its ratio
        (table_of_contents(1_000_000), "table of contents is too long"),
        # the time that zipfile needs grows with the square of their length
        (table_of_contents(700, extra=b"\x99\x99\0\0" * 16000), "table of contents is too long"),
    ],
    ids=range(14),
)
def test_contents_that_are_refused(taken, content, why):
    with little_memory(), no_waiting():
        check_refused(taken(content=content), why)


@pytest.mark.parametrize(
    ("less", "more", "why"),
    [
        ({"archive": 2000}, [("noise.bin", os.urandom(3000))], "more than 0 MB"),
        ({"entries": len(PART_1)}, [("one-more.txt", b"")], "more than 5 files"),
        ({"total": 1 << 20}, [(SST[1], os.urandom(1 << 20))], "more than 1 MB unpacked"),
    ],
)
def test_a_zip_within_its_limits_and_above(taken, less, more, why):
    limits = replace(LIMITS, **less)
    assert taken(limits=limits).files == PART_1
    check_refused(taken(*more, limits=limits), why)


@pytest.mark.parametrize("claimed", [1, 100, 2**32 - 2])
def test_a_bomb_whose_header_lies(taken, claimed):
    """Size and checksum are those of the beginning; what zipfile makes of it has no more bytes."""
    base = {SST[0]: b"0" * (LIMITS.file + 1)}
    content = patched(packed(*base.items()), 24, struct.pack("<L", claimed))
    check_refused(taken(content=content), "")
    content = patched(content, 16, struct.pack("<L", zlib.crc32(b"0" * min(claimed, 100))))
    submission = taken(content=content)
    assert len(submission.files.get(SST[0], b"")) <= 100


def test_lies_of_zip64(taken):
    name = SST[0].encode()
    extra = struct.pack("<2H3Q", 1, 24, 2**63, 2**63, 2**63)
    content = bytearray(table_of_contents(1, name, extra))
    content[20:28] = b"\xff" * 8
    content[42:46] = b"\xff" * 4
    check_refused(taken(content=bytes(content)), "damaged")
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2**62, 2**62, 2**62, 2**62)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    check_refused(taken(content=GOOD[:-22] + end64 + locator + GOOD[-22:]), "damaged")


MANY = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@MANY
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1))
def test_a_spoilt_zip_never_raises(tmp_path, monkeypatch, places):
    monkeypatch.setattr(intake, "parse_all", lambda sources, _: dict.fromkeys(sources, ("", "")))
    content = bytearray(GOOD)
    for place, value in places:
        content[place] = value
    (tmp_path / "s.zip").write_bytes(content)
    submission = take("s", tmp_path / "s.zip", 1)
    assert bool(submission.files) != bool(submission.refused)
    assert set(submission.files) <= set(intake.WANTED[1])


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
def test_only_plain_names_are_taken(tmp_path, monkeypatch, names, part):
    monkeypatch.setattr(intake, "parse_all", lambda sources, _: dict.fromkeys(sources, ("", "")))
    pairs = [(name, b"%PDF-1.4\n" if name.lower().endswith(".pdf") else b"") for name in names]
    try:
        content = packed(*pairs)
    except UnicodeEncodeError:  # no zip has such a name
        return
    (tmp_path / "s.zip").write_bytes(content)
    submission = take("s", tmp_path / "s.zip", part)
    for name in submission.files:
        plain = re.fullmatch(r"[A-Za-z_][\w/-]*\.(py|md|sh|csv)", name, re.ASCII)
        assert plain or (name.lower().endswith(".pdf") and "/" not in name and "\\" not in name)
        assert (Path("/x") / name).resolve().is_relative_to("/x")
    folded = [intake.fold(name) for name in submission.files]
    assert len(set(folded)) == len(folded)


# ---------------------------------------------------------------------------------------------
# Folders


def test_links_pipes_and_devices_in_a_folder(tmp_path):
    secret = folder_of(tmp_path / "secret", PART_1)
    folder = folder_of(tmp_path / "s", {"setup.sh": b"echo ready\n"})
    (folder / "bert.py").symlink_to(secret / "bert.py")
    (folder / "predictions").symlink_to(secret / "predictions")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "classifier.py")
    if os.geteuid() == 0:
        os.mknod(folder / "optimizer.py", stat.S_IFCHR | 0o600, os.makedev(1, 5))  # endless zeros
    (tmp_path / "link").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe.zip")
    with no_waiting():
        submission = take("s", folder, 1)
        for name in ("link", "pipe.zip"):
            check_refused(take("s", tmp_path / name, 1), "no regular file")
    assert set(submission.files) == {"setup.sh"}
    assert reasons(submission) == {entries.NOT_REGULAR}


def test_trouble_of_this_machine_is_not_the_student_s_fault(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="cannot be read"):
        take("s", tmp_path / "missing.zip", 1)
    monkeypatch.setattr(entries, "open_regular", mock.Mock(side_effect=PermissionError(13, "no")))
    with pytest.raises(InputError, match="cannot be read"):
        take("s", folder_of(tmp_path / "s", PART_1), 1)


def test_a_file_that_becomes_a_link_or_a_pipe(tmp_path, monkeypatch):
    """Between listing and reading, or even between looking and opening."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "target").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    with no_waiting():
        for name in ("link", "pipe"):
            with pytest.raises(entries.Refused, match="no regular file"):
                entries.open_regular(tmp_path / name)
        regular = (tmp_path / "file").lstat()
        monkeypatch.setattr(Path, "lstat", lambda self: regular)
        with pytest.raises(OSError, match="symbolic links"):
            entries.open_regular(tmp_path / "link")
        with entries.open_regular(tmp_path / "pipe") as pipe:
            assert pipe.read() == b""


def test_limits_hold_for_folders(tmp_path):
    folder = folder_of(tmp_path / "s", PART_1)
    check_refused(take("s", folder, 1, replace(LIMITS, entries=5)), "more than 5 files")
    os.truncate(folder / SST[0], 10**12)  # a file with holes
    with little_memory(), no_waiting():
        check_refused(take("s", folder, 1), "is too large when unpacked")


# ---------------------------------------------------------------------------------------------
# The parser's process


def test_a_parser_that_dies_or_hangs(tmp_path, taken, monkeypatch):
    program = tmp_path / "parser.py"
    monkeypatch.setattr(parse, "__file__", str(program))
    for ending in ("os.kill(os.getpid(), 9)", "time.sleep(60)"):
        program.write_text(
            "import os, sys, time, json\n"
            "print('ready')\n"
            "name, _ = json.loads(sys.stdin.readline())\n"
            "print(json.dumps([name, '', '']), flush=True)\n"
            f"print('[\"cut', end='', flush=True)\n{ending}\n"
        )
        with no_waiting():
            submission = taken(limits=replace(LIMITS, seconds=1))
        assert submission.files == PART_1
        assert submission.notes == (
            "does not parse (Python's parser gave up): classifier.py, optimizer.py",
        )
    program.write_text("import nothing_of_that_name\n")
    with pytest.raises(InputError, match=r"parser\.py does not start"):
        taken()


def test_a_name_that_is_not_utf8_is_noted_and_can_be_written(tmp_path):
    """As unzip makes them of umlauts in zips from Windows."""
    folder = folder_of(tmp_path / "s", PART_1)
    Path(os.fsdecode(os.fsencode(folder) + b"/M\xfcller.py")).write_bytes(b"")
    submission = take("s", folder, 1)
    assert set(submission.files) == set(PART_1)
    (note,) = [note for note in submission.notes if note.startswith(intake.UNSAFE)]
    assert note.endswith(r"M\udcfcller.py")
    write_json(tmp_path / "note.json", submission.notes)


# ---------------------------------------------------------------------------------------------
# Which submissions there are


def test_find(tmp_path):
    names = {
        f"1234_group_{prepare_submit.ZIP_NAME}": "1234_group",
        "17.ZIP": "17",
        "Jörg Müller (2).zip": "Jörg_Müller_2_",
        "unpacked/bert.py": "unpacked",
        "strange.rar": "strange",
        "Max Moodle_99_file_/handed in.zip": "Max_Moodle_99_file_",
        "Jo\u0323\u0301se\u0301.zip": "Jọ\u0301sé",
        "กลุ่มที่_๑.zip": "กลุ่มที่_๑",
        "مُحَمَّد.zip": "مُحَمَّد",
        ".x.zip": "_x",
        "._17.zip": None,
        "Max Moodle_99_assignsubmission_onlinetext_/onlinetext.html": None,
        "marks.csv": None,
        ".git/bert.py": None,
        "__MACOSX/bert.py": None,
    }
    folder_of(tmp_path, dict.fromkeys(names, b""))
    students = dict(find(tmp_path))
    assert set(students) == set(names.values()) - {None}
    assert students["17"] == tmp_path / "17.ZIP"
    assert students["Max_Moodle_99_file_"].name == "handed in.zip"
    out = [tmp_path / "unpacked"]
    assert {name for name, _ in find(tmp_path, ours=out)} == set(students) - {"unpacked"}
    assert find(tmp_path / "unpacked") == [("unpacked", tmp_path / "unpacked")]


STEM = prepare_submit.ZIP_NAME.removesuffix(".zip")


@pytest.mark.parametrize(
    ("name", "group"),
    [
        (f"12_a_{STEM}-1.zip", "12_a"),  # handed in again on Canvas
        (f"12_a_{STEM}-12.zip", "12_a"),
        (f"12_a_{STEM} (1).zip", "12_a"),  # downloaded again
        (f"12_a_part2_{STEM}(2).zip", "12_a"),
        (f"12_a_{STEM} 2.zip", "12_a"),  # by macOS, then by Windows
        (f"12_a_{STEM} - Copy (2).zip", "12_a"),
        (f"linana_4711_98765_12_a_{STEM}.zip", "12_a"),
        (f"linana_LATE_4711_98766_12_a_{STEM}-2.zip", "12_a"),
        (f"linana_LATE_4711_98767_{STEM}.zip", "linana_4711"),
        ("linana_4711_98768_homework-1.zip", "linana_4711"),
        (f"Ana Lin_99_assignsubmission_file_/12_a_{STEM}.zip", "12_a"),
        (f"Ana Lin_99_assignsubmission_file_/{STEM}.zip", "Ana_Lin_99"),
        (f"Ana Lin_99_assignsubmission_file_12_a_{STEM}.zip", "12_a"),
        (f"Ana Lin_99_assignsubmission_file_{STEM}.zip", "Ana_Lin_99"),
        (f"12_34567_89012_a_{STEM}.zip", "12_34567_89012_a"),  # three numbers of students
        ("team-1.zip", "team-1"),
        ("late_4711.zip", "late_4711"),
    ],
)
def test_names_that_platforms_make_are_undone(tmp_path, name, group):
    folder_of(tmp_path, {name: b"", "other.zip": b""})
    assert dict(find(tmp_path)).keys() == {group, "other"}
    assert student_id(group) == group


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        ((f"12_a_{STEM}.zip", f"12_a_{STEM} (1).zip"), "the same student's id"),
        (("a b.zip", "a+b.zip"), "the same student's id"),
        (("Group.zip", "group.zip"), "the same student's id"),
        ((f"7_{prepare_submit.ZIP_NAME}", "7.rar"), "the same student's id"),
        (("x" * 80 + "1.zip", "x" * 80 + "2.zip"), "the same student's id"),
        (("J\u00f6rg.zip", "Jo\u0308rg.rar"), "the same student's id"),
        (("bert.py", "7.zip"), r"has bert\.py and also '7\.zip'"),
        ((), "holds no submission"),
    ],
)
def test_folders_that_are_refused(tmp_path, names, fault):
    folder_of(tmp_path, dict.fromkeys([*names, *(["other.zip"] if "id" in fault else [])], b""))
    with pytest.raises(InputError, match=fault) as caught:
        find(tmp_path)
    assert all(name in str(caught.value) for name in names)
    assert "other" not in str(caught.value)
    with pytest.raises(InputError, match="neither a zip nor a folder"):
        find(tmp_path / "missing")


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
    assert plain_name(made).replace(" ", "_") == made  # what the writer of feedback asks for
    kinds = {unicodedata.category(letter)[0] for letter in made if letter not in "_-"}
    assert kinds <= set("LMN")


def test_all_sources_together_have_a_limit(taken):
    """Control bytes take six times their size in a request, and each task has one."""
    modules = [(f"m{number}.py", b"x = '" + b"\x01" * 100_000 + b"'\n") for number in range(12)]
    script = b"import " + b", ".join(name[:-3].encode() for name, _ in modules)
    refused = taken(content=packed(("bert.py", script), *modules), part=2).refused
    assert "more than 1 MB of Python files" in refused
    assert not taken(content=packed(("bert.py", script), *modules[:5]), part=2).refused


# ---------------------------------------------------------------------------------------------
# What is to be looked at in sources


def flagged(source: str, allowed: tuple[str, ...] = (), **more: str) -> list[str]:
    files = {"bert.py": source.encode()} | {f"{n}.py": text.encode() for n, text in more.items()}
    return library_calls(Submission("x", 1, files), allowed)


def test_calls_of_a_library_are_named():
    source = "from a import o\nx = o.SGD(p).step\ny = f().scaled_dot_product_attention\n"
    first, second = flagged(source, a="import torch as t\no = t.optim")  # of another file
    assert first == "bert.py:2: torch.optim.SGD is one of torch's own optimizers (Task 1.5)"
    assert second.endswith("has the name of torch's own attention (Task 1.1)")
    with no_waiting(10):  # long names hide nothing and take no time
        (only,) = flagged(f"x = a{'.b' * 300}\n" * 100 + "torch.optim.SGD\n")
    assert only.startswith("bert.py:101:")


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("from torch import optim\nclass AdamW(optim.Adam): pass", 2, "torch.optim.Adam is"),
        ("import torch as t\no = t.optim\no.AdamW(p)", 3, "torch.optim.AdamW is"),
        ("from torch.optim import *", 1, "optimizers"),
        (
            "from torch.nn.functional import *\nscaled_dot_product_attention(q, k, v)",
            2,
            "attention",
        ),
        ("import torch\ngetattr(torch.optim, 'SGD')(p)", 2, "torch.optim.SGD is"),
        ("import importlib as i\nm = i.import_module('torch.optim')\nm.SGD", 3, "optim.SGD is"),
        ("import torch\nf(torch._fused_adamw_)", 2, "optimizers"),
        ("from torch import _foreach_addcdiv_ as g", 1, "optimizers"),
        ("import torch\ntorch.ops.aten._scaled_dot_product_flash_attention(q)", 2, "attention"),
        ("from torch.nn.attention.flex_attention import flex_attention as f", 1, "attention"),
        ("from torch.nn.modules import transformer as x\nx.TransformerDecoderLayer", 2, "layers"),
        ("class A:\n def __init__(s): s.F = torch.nn\n def f(s): s.F.Transformer", 3, "layers"),
        ("import torch\ngetattr(torch, name)", 2, "only known when it runs"),
        ("exec(text)", 1, "only known when it runs"),
        ("import sys\nsys.modules['torch.optim'].SGD(p)", 2, "only known when it runs"),
        ("import torch as t\nt.__dict__['optim']", 2, "only known when it runs"),
        ("from torch import nn\nvars(nn)['Transformer']", 2, "only known when it runs"),
        ("from operator import attrgetter as a\na('optim.SGD')(t)", 1, "only known when it runs"),
    ],
)
def test_calls_are_seen_by_other_names_and_in_other_files(source, line, words):
    assert any(text.startswith(f"bert.py:{line}: ") and words in text for text in flagged(source))
    assert words in "".join(flagged("import helper", helper=source))


@pytest.mark.parametrize(
    "source",
    [
        "from torch.optim import Optimizer, lr_scheduler\nlr_scheduler.LambdaLR(o, f)",
        "from torch.optim.optimizer import Optimizer",
        "import torch\nfrom optimizer import AdamW\nclass B(torch.optim.Optimizer): pass",
        "class A:\n def multi_head_attention(s): s.multi_head_attention(s.attention_mask)",
        "model.eval()\nre.compile('x')\ntorch.compile(f)\ngetattr(args, name)",
        "self.attention = BertSelfAttention(config).attention",
    ],
)
def test_what_is_no_call_of_a_library_is_not_told(source):
    assert flagged(source) == []


def test_packages_that_the_course_allows():
    """With what they need in turn, however they are spelt."""
    assert "pytest" in packages.hidden()
    assert {"pytest", "_pytest", "pluggy"}.isdisjoint(packages.hidden(("PyTest",)))
    assert "hypothesis" in packages.hidden(("PyTest",))
    source = "import pytest\nimport hypothesis\n"
    assert len(flagged(source)) == 2
    assert [sentence[:10] for sentence in flagged(source, ("pytest",))] == ["bert.py:2:"]
    names = ["pytest", "NumPy", "no-such-package", ""]
    assert packages.not_installed(names) == ["no-such-package", ""]
