"""Checks before a submission, and the zip (prepare_submit.py)."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from factories import ROOT, make_id
from running import as_process, assert_refused, succeeded

import prepare_submit
from course import handout, parts
from course.grading.intake.submissions import student_id, take
from course.handout_repository import write_files
from evaluation import write_predictions

CODE = ["bert.py", "classifier.py", "optimizer.py", "setup.sh"]
SST = [
    f"predictions/{option}-sst-{split}-out.csv"
    for option in ("pretrain", "finetune")
    for split in ("dev", "test")
]
MODERN = "lessons/modern_bert.py"
DEFAULT = "dnlp_final_project_submission.zip"


KINDS = {  # the data of a prediction file, its column, and values in turn
    "sst": ("ids-sst", "Predicted_Sentiment", [1]),
    "cfimdb": ("ids-cfimdb", "Predicted_Sentiment", [1]),
    "para": ("quora", "Predicted_Is_Paraphrase", [1]),
    "sts": ("sts", "Predicted_Similarity", [2.5, 3.5, 4.5]),
}


def write_for(path: Path, data: Path) -> None:
    """Predictions for every row of the data file that belongs to this name."""
    kind, split = path.stem.split("-")[-3:-1]
    stem, column, values = KINDS[kind]
    split = "test-student" if split == "test" else "dev"
    ids = list(pd.read_csv(data / f"{stem}-{split}.csv", sep="\t", dtype=str)["id"])
    write_predictions(path, ids, [values[i % len(values)] for i in range(len(ids))], column)


SOURCES = {
    "bert.py": "import torch\nfrom config import BertConfig\n",
    "classifier.py": "from bert import BertModel\n",
    "optimizer.py": "import math\n",
    "setup.sh": "echo ready\n",
    "multitask_classifier.py": (
        "import os.path, numpy as np\nfrom bert import BertModel\n"
        "from extensions import sampling\nimport tricks.deep.losses as losses\n"
        "def f():\n    from evaluation import pearson\n"
    ),
    "README.md": "# Ours\n",
    "config.py": "x = 1\n",
    "evaluation.py": "import lonely_in_a_comment  # not here\n",
    "extensions/__init__.py": "",
    "extensions/sampling.py": "from .shared import draw\nfrom . import more\n",
    "extensions/shared.py": "from ..config import BertConfig\n",
    "extensions/more.py": "import bert\n",
    "tricks/deep/losses.py": "import helper\n",
    "helper.py": "import multitask_classifier\n",
}
UNUSED = {  # by parts 1 and 2
    MODERN: "from bert import BertModel\n",
    "unused.py": "x = 1\n",
    "extensions/unused.py": "x = 1\n",
    "numpy.txt": "not code\n",
}
SIX = [
    f"predictions/{task}-{split}-output.csv"
    for task in ("sst", "para", "sts")
    for split in ("dev", "test")
]
CARD = "ai-usage-card.pdf"


@pytest.fixture
def submission(tmp_path, tiny_data) -> Path:
    """A folder with all that the parts need, and some things they do not."""
    for name, text in (SOURCES | UNUSED).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / CARD).write_bytes(b"%PDF-1.4\n%%EOF\n")
    for name in SST + SIX:
        write_for(tmp_path / name, tiny_data)
    return tmp_path


@pytest.fixture
def run(run_script_here, tiny_data):
    """prepare_submit.py on the tiny data."""

    def run(*arguments):
        return run_script_here(prepare_submit, "--data_dir", tiny_data, *arguments)

    return run


def zips(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*.zip*"))


def contents(folder: Path, name: str = DEFAULT) -> dict[str, bytes]:
    """The files of a zip, each there once."""
    with zipfile.ZipFile(folder / name) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert len(names) == len(set(names))
        return {name: archive.read(name) for name in names}


# ---------------------------------------------------------------------------------------------
# Good submissions


def test_a_good_submission(submission, run):
    result = succeeded(run())
    assert zips(submission) == [DEFAULT]
    assert contents(submission) == {name: (submission / name).read_bytes() for name in CODE + SST}
    # 2 of the 11 dev rows have label 1
    assert "11 predictions, classes 0:0 1:11 2:0 3:0 4:0, accuracy 0.182" in result.out
    first = (submission / DEFAULT).read_bytes()
    for name in CODE + SST:
        os.utime(submission / name, (10**9, 10**9))
    succeeded(run("--name", "1234_team-x"))
    named = f"1234_team-x_{DEFAULT}"
    assert zips(submission) == [named, DEFAULT]
    assert (submission / named).read_bytes() == first


@pytest.mark.parametrize("name", ["../evil", "a b", "", "ID_GROUP"])
def test_a_name_that_is_no_groups(submission, run, name):
    result = run("--name", name)
    assert_refused(result, code=1)
    assert zips(submission) == []


def test_cfimdb_goes_along_where_present(submission, run, tiny_data):
    extra = "predictions/finetune-cfimdb-dev-out.csv"
    write_for(submission / extra, tiny_data)
    succeeded(run())
    assert contents(submission).keys() == {*CODE, *SST, extra}


# ---------------------------------------------------------------------------------------------
# Faults: each is listed, and no zip is written


def spoil(folder: Path, name: str, change: bytes | tuple[str, str] | None) -> None:
    """Take a file away, or give it another content, or another text in the place of one."""
    path = folder / name
    if change is None:
        path.unlink()
    elif isinstance(change, bytes):
        path.write_bytes(change)
    else:
        text = path.read_text()
        assert text.count(change[0]) == 1
        path.write_text(text.replace(*change))


def row(number: int, value: str = "1") -> str:
    """A row of predictions; 100 is the first of the dev files, 200 of the test files."""
    return f"{make_id(number)},{value}\n"


FIRST = row(100)
CFIMDB = "predictions/pretrain-cfimdb-dev-out.csv"
FAULTS = {  # a file, and what is done to it
    "missing code": ("optimizer.py", None),
    "missing predictions": (SST[3], None),
    "missing id": (SST[0], (FIRST, "")),
    "duplicate id": (SST[0], (FIRST, 2 * FIRST)),
    "out of range": (SST[2], (FIRST, row(100, "5"))),
    "not an integer": (SST[2], (FIRST, row(100, "1.5"))),
    "wrong header": (SST[1], ("id,Predicted_Sentiment", "id,label")),
    "python that does not parse": ("bert.py", b"def f(:\n"),
    "python with a null byte": ("bert.py", b"x = 1\x00\n"),
    "python in Latin-1": ("bert.py", b"x = 1\n# caf\xe9\n"),
    "empty file": ("setup.sh", b" \n"),
    "faulty CFIMDB": (CFIMDB, b"id,Predicted_Sentiment\nx,1\n"),
}
FAULTS_2 = {
    "missing CSV": (SIX[5], None),
    "class out of range": (SIX[2], (FIRST, row(100, "2"))),
    "extra id": (SIX[1], (row(200), row(200) + f"{'f' * 25},1\n")),
    "nan similarity": (SIX[4], (row(100, "2.5"), row(100, "nan"))),
    "missing PDF": (CARD, None),
    "an imported file that does not parse": ("extensions/more.py", b"def f(:\n"),
    "missing script": ("multitask_classifier.py", None),
    "missing README": ("README.md", None),
}
SOME = ["missing code", "missing id", "not an integer", "wrong header", "empty file"]
CHOICES = {fault: [fault] for fault in (*FAULTS, *FAULTS_2)} | {"some": SOME}


def assert_listed(result, folder: Path, count: int) -> None:
    """No zip, status 1, and a line for each fault."""
    assert result.code == 1
    first, *listed = result.err.splitlines()
    assert first == f"error: no zip written; faults ({count}):"
    assert len(listed) == count
    assert zips(folder) == []


@pytest.mark.parametrize("chosen", CHOICES)
def test_faults_are_listed(submission, run, chosen):
    for name in CHOICES[chosen]:
        spoil(submission, *(FAULTS | FAULTS_2)[name])
    # the unknown id of CFIMDB's file comes with all the missing ones
    count = len(CHOICES[chosen]) + (chosen == "faulty CFIMDB")
    part = "2" if chosen in FAULTS_2 else "1"
    assert_listed(run("--part", part), submission, count)


def test_an_older_zip_survives_a_fault(submission, run, run_script_here):
    run()
    before = (submission / DEFAULT).read_bytes()
    spoil(submission, *FAULTS["missing id"])
    assert run().code == 1
    assert (submission / DEFAULT).read_bytes() == before
    assert_refused(run_script_here(prepare_submit, "--data_dir", "nowhere"), "nowhere", code=1)


# ---------------------------------------------------------------------------------------------
# The zip of another part


def test_a_zip_of_another_origin_is_kept(submission, run):
    """One made by hand does not name its part, so it may be the other one's."""
    with zipfile.ZipFile(submission / "by-hand", "w") as archive:
        archive.writestr("multitask_classifier.py", "x = 1")
    for content in (b"no zip at all", b"", (submission / "by-hand").read_bytes()):
        (submission / DEFAULT).write_bytes(content)
        succeeded(run())
        assert (submission / f"part1_{DEFAULT}").is_file()
        assert (submission / DEFAULT).read_bytes() == content


# ---------------------------------------------------------------------------------------------
# Part 2


def test_a_good_part_2(submission, run):
    result = succeeded(run("--part", "2"))
    assert zips(submission) == [DEFAULT]
    wanted = {name: (submission / name).read_bytes() for name in [*SOURCES, CARD, *SIX]}
    assert contents(submission) == wanted
    # 5 of the 11 dev rows are duplicates; the Pearson is of labels 0, 2.6, 5, 3.25 … and
    # predictions 2.5, 3.5, 4.5 …, by NumPy
    assert "classes 0:0 1:11 2:0 3:0 4:0, accuracy 0.182" in result.out
    assert "classes 0:0 1:11, accuracy 0.455" in result.out
    gold = [0.0, 2.6, 5.0, 3.25] * 3
    expected = np.corrcoef(gold[:11], [2.5, 3.5, 4.5] * 3 + [2.5, 3.5])[0, 1]
    assert f"   11 predictions from 2.5 to 4.5, Pearson {expected:.3f}" in result.out


def test_part_3_is_its_file_alone(submission, run):
    source = (submission / MODERN).read_text(encoding="utf-8")
    (submission / MODERN).write_text(source, encoding="utf-8-sig")  # as some editors save it
    succeeded(run("--part", "3", "--name", "1234_us"))
    zipped = f"1234_us_{DEFAULT}"
    assert contents(submission, zipped) == {MODERN: (submission / MODERN).read_bytes()}
    taken = take("1234_us", submission / zipped, 3)
    assert taken.files.keys() == {MODERN}
    assert not taken.refused
    (submission / MODERN).write_text("def apply_rotary(:\n")
    refused = run("--part", "3")
    assert refused.code == 1
    assert "faults (1):" in refused.err
    assert f"{MODERN} does not parse" in refused.err
    assert zips(submission) == [zipped]


def test_any_finite_similarity_will_do(submission, run):
    spoil(submission, SIX[4], (row(100, "2.5"), row(100, "-1e3")))
    assert "from -1000 to 4.5" in succeeded(run("--part", "2")).out


def test_the_card(submission, run, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "my-card.pdf"
    elsewhere.write_bytes(b"%PDF-1.7\n")
    succeeded(run("--part", "2", "--ai_card", os.path.relpath(elsewhere, submission)))
    names = contents(submission)
    assert "my-card.pdf" in names  # and not ../elsewhere/my-card.pdf
    assert CARD not in names
    (submission / DEFAULT).unlink()
    (submission / CARD).write_bytes(b"PK a text document")
    for card in (CARD, "nowhere.pdf"):
        assert_listed(run("--part", "2", "--ai_card", card), submission, 1)
    assert run("--ai_card", CARD).code == 2


@pytest.mark.parametrize(("first", "second"), [("1", "2"), ("2", "1"), ("1", "3"), ("3", "2")])
def test_neither_part_overwrites_the_others_zip(submission, run, first, second):
    succeeded(run("--part", first, "--name", "1234_us"))
    kept = f"1234_us_{DEFAULT}"
    before = (submission / kept).read_bytes()
    named = f"1234_us_part{second}_{DEFAULT}"
    for _ in range(2):
        succeeded(run("--part", second, "--name", "1234_us"))
        assert (submission / kept).read_bytes() == before
        assert zips(submission) == sorted([kept, named])
    assert student_id(named) == student_id(kept) == "1234_us"


@pytest.mark.parametrize("change", ["stubs", "wrong", "nothing"])
def test_functions_are_checked_and_zipped_as_they_are(tmp_path, tiny_data, change):
    write_files(tmp_path, handout.build(ROOT, "1").files)
    if change != "stubs":
        write_files(tmp_path, {name: (ROOT / name).read_bytes() for name in CODE})
    for name in SST:
        write_for(tmp_path / name, tiny_data)
    if change == "wrong":
        text = (tmp_path / "bert.py").read_text(encoding="utf-8")
        wrong = text.replace("ln_layer(input + ", "ln_layer(")
        assert wrong != text
        (tmp_path / "bert.py").write_text(wrong, encoding="utf-8")
    done = succeeded(as_process("prepare_submit.py", "--data_dir", tiny_data, folder=tmp_path))
    assert zips(tmp_path) == [DEFAULT]
    assert ("WRONG: some functions in this zip fail" in done.out) == (change != "nothing")
    assert ("WRONG Task 1.2" in done.out) == (change == "wrong")
    assert ("not started  Task 1.2" in done.out) == (change == "stubs")


def test_the_report_is_the_groups_own(submission, run):
    for text in (
        handout.build(ROOT, "2").files["README.md"],
        (ROOT / "README.template.md").read_bytes(),
    ):
        (submission / "README.md").write_bytes(text)
        assert_listed(run("--part", "2"), submission, 1)


def test_a_module_of_ones_own_goes_along_in_part_1(submission, run):
    (submission / "bert.py").write_text("import tricks.heads\nfrom utils import x\n")
    (submission / "tricks/heads.py").write_text("import helper\n")
    for name in ("helper.py", "utils.py", "unused.py"):
        (submission / name).write_text("x = 1\n")
    succeeded(run())
    own = {"tricks/heads.py", "helper.py"}
    assert contents(submission).keys() == {*CODE, *SST, *own}
    taken = take("us", submission / DEFAULT, 1)
    assert own <= taken.files.keys()
    assert taken.sources(CODE).keys() == own


def test_what_the_handout_gives_is_not_handed_in():
    shipped = {name for name, _ in parts.files_of(ROOT, 1)}
    given = {name for name in shipped if name.endswith(".py")} - {*CODE}
    assert {name.partition("/")[0] for name in given} - {"data"} == prepare_submit.GIVEN
