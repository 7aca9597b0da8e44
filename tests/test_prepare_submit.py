"""Checks before a submission, and the zip (prepare_submit.py)."""

import os
import random
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, make_id

import prepare_submit
from datasets import load_data, load_pairs
from evaluation import write_predictions

CODE = ["bert.py", "classifier.py", "optimizer.py", "setup.sh"]
SST = [
    f"predictions/{option}-sst-{split}-out.csv"
    for option in ("pretrain", "finetune")
    for split in ("dev", "test")
]
DEFAULT = "dnlp_final_project_submission.zip"


def write_for(path: Path, data: Path) -> None:
    """Predictions of class 1 for every row of the data file that belongs to this name."""
    name, split = path.name.split("-")[1:3]
    flag = "test" if split == "test" else "dev"
    rows = load_data(data / f"ids-{name}-{'test-student' if split == 'test' else 'dev'}.csv", flag)
    write_predictions(path, [row[-1] for row in rows], [1] * len(rows), "Predicted_Sentiment")


@pytest.fixture
def submission(tmp_path, tiny_data) -> Path:
    """A folder with all that part 1 needs."""
    for name in CODE:
        shutil.copy(ROOT / name, tmp_path / name)
    for name in SST:
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


# ---------------------------------------------------------------------------------------------
# Good submissions


def test_a_good_submission(submission, run):
    result = run()
    assert (result.code, result.err) == (0, "")
    assert zips(submission) == [DEFAULT]
    with zipfile.ZipFile(submission / DEFAULT) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == sorted(CODE + SST)
        for name in CODE + SST:
            assert archive.read(name) == (submission / name).read_bytes()
    # 2 of the 11 dev rows have label 1
    assert (
        f"{SST[0]:45s}    11 predictions, classes 0:0 1:11 2:0 3:0 4:0, accuracy 0.182"
        in result.out
    )
    assert f"{SST[1]:45s}     9 predictions, classes 0:0 1:9 2:0 3:0 4:0\n" in result.out
    assert "note" not in result.out


def test_twice_the_same_bytes(submission, run):
    run()
    first = (submission / DEFAULT).read_bytes()
    for name in CODE + SST:
        (submission / name).touch()
    assert run().code == 0
    assert (submission / DEFAULT).read_bytes() == first


def test_name(submission, run):
    assert run("--name", "1234_team-x").code == 0
    assert zips(submission) == ["1234_team-x_dnlp_final_project_submission.zip"]


@pytest.mark.parametrize("name", ["../evil", "a b", "", "ä", "a/b"])
def test_a_name_that_is_no_file_name(submission, run, name):
    result = run("--name", name)
    assert result.code == 1
    assert result.err == f"error: --name {name!r}: only letters, digits, - and _\n"
    assert zips(submission) == []


def test_cfimdb_goes_along_where_present(submission, run, tiny_data):
    extra = "predictions/finetune-cfimdb-dev-out.csv"
    write_for(submission / extra, tiny_data)
    assert run().code == 0
    with zipfile.ZipFile(submission / DEFAULT) as archive:
        assert sorted(archive.namelist()) == sorted([*CODE, *SST, extra])


def test_predictions_as_older_code_writes_them(submission, run, tiny_data):
    rows = load_data(tiny_data / "ids-sst-dev.csv", "dev")
    lines = [f"{row[-1]} , 1.0 \n" for row in reversed(rows)]
    (submission / SST[0]).write_text("id \t Predicted_Sentiment \n" + "".join(lines))
    result = run()
    assert result.code == 0
    assert "accuracy 0.182" in result.out


def test_functions_not_yet_written_are_named(submission, run):
    with (submission / "bert.py").open("a") as file:
        file.write(
            'def f():\n    raise NotImplementedError("Task 1.1 · BertSelfAttention.attention")\n'
        )
    result = run()
    assert result.code == 0
    assert "note: Task 1.1 · BertSelfAttention.attention is still not written" in result.out


# ---------------------------------------------------------------------------------------------
# Faults: each is listed, and no zip is written


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


ROW = f"{make_id(100)},1\n"  # the first of the dev file
FAULTS = {
    "missing code": (
        lambda folder: (folder / "optimizer.py").unlink(),
        "optimizer.py is missing",
    ),
    "missing predictions": (
        lambda folder: (folder / SST[3]).unlink(),
        f"{SST[3]} is missing",
    ),
    "missing id": (
        lambda folder: edit(folder / SST[0], ROW, ""),
        f"{SST[0]} lacks 1 ids of",
    ),
    "unknown id": (
        lambda folder: edit(folder / SST[0], ROW, ROW + "abc,1\n"),
        f"{SST[0]} has unknown 1 ids of",
    ),
    "duplicate id": (
        lambda folder: edit(folder / SST[0], ROW, ROW + ROW),
        f"{SST[0]}: line 3: id {make_id(100)} is there twice",
    ),
    "out of range": (
        lambda folder: edit(folder / SST[2], ROW, ROW.replace(",1", ",5")),
        f"{SST[2]} has 1 values that are not classes 0 to 4: {make_id(100)}=5",
    ),
    "negative": (
        lambda folder: edit(folder / SST[2], ROW, ROW.replace(",1", ",-1")),
        f"{SST[2]} has 1 values that are not classes 0 to 4: {make_id(100)}=-1",
    ),
    "not an integer": (
        lambda folder: edit(folder / SST[2], ROW, ROW.replace(",1", ",1.5")),
        f"{SST[2]} has 1 values that are not classes 0 to 4: {make_id(100)}=1.5",
    ),
    "not a number": (
        lambda folder: edit(folder / SST[2], ROW, ROW.replace(",1", ",good")),
        f"{SST[2]}: line 2: '{make_id(100)},good' is not 'id,number'",
    ),
    "wrong header": (
        lambda folder: edit(folder / SST[1], "id,Predicted_Sentiment", "id,label"),
        f"{SST[1]}: header is 'id,label', not 'id,Predicted_Sentiment'",
    ),
    "python that does not parse": (
        lambda folder: (folder / "bert.py").write_text("def f(:\n"),
        "bert.py does not parse: ",
    ),
    "python that is not UTF-8": (
        lambda folder: (folder / "bert.py").write_bytes(b"# \xe9\n"),
        "bert.py does not parse: 'utf-8' codec",
    ),
    "python with a null byte": (
        lambda folder: (folder / "bert.py").write_bytes(b"x = 1\x00\n"),
        "bert.py does not parse: ",
    ),
    "empty file": (
        lambda folder: (folder / "setup.sh").write_text(" \n"),
        "setup.sh is empty",
    ),
    "faulty CFIMDB": (
        lambda folder: write_predictions(
            folder / "predictions/pretrain-cfimdb-dev-out.csv", ["x"], [1], "Predicted_Sentiment"
        ),
        "predictions/pretrain-cfimdb-dev-out.csv lacks 11 ids of",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_listed(submission, run, name):
    break_it, expected = FAULTS[name]
    break_it(submission)
    result = run()
    assert result.code == 1
    assert "Traceback" not in result.err
    first, *listed = result.err.splitlines()
    assert first.startswith("error: no zip written, ")
    assert all(line.startswith("  - ") for line in listed)
    assert any(expected in line for line in listed), result.err
    assert zips(submission) == []


def test_all_faults_are_listed_at_once(submission, run):
    chosen = ("missing code", "missing id", "not an integer", "wrong header", "empty file")
    for name in chosen:
        FAULTS[name][0](submission)
    result = run()
    assert result.err.startswith("error: no zip written, 5 faults:\n")
    for name in chosen:
        assert FAULTS[name][1] in result.err
    assert len(result.err.splitlines()) == 6
    assert zips(submission) == []


def test_an_older_zip_survives_a_fault(submission, run):
    run()
    before = (submission / DEFAULT).read_bytes()
    FAULTS["missing id"][0](submission)
    assert run().code == 1
    assert (submission / DEFAULT).read_bytes() == before


def test_no_data_to_check_against(submission, run_script_here):
    result = run_script_here(prepare_submit, "--data_dir", "nowhere")
    assert result.code == 1
    assert result.err.startswith("error: --data_dir nowhere: no ids-sst-train.csv there")


# ---------------------------------------------------------------------------------------------
# The zip of another part


def test_the_other_parts_zip_is_never_overwritten(submission, run):
    prepare_submit.build_zip([Path("setup.sh")], submission / DEFAULT, part=2)
    before = (submission / DEFAULT).read_bytes()
    result = run()
    assert result.code == 1
    assert result.err == (
        f"error: {DEFAULT} is a submission of part 2; move it away, or give --name to this one\n"
    )
    assert (submission / DEFAULT).read_bytes() == before
    assert run("--name", "part1").code == 0
    assert (submission / DEFAULT).read_bytes() == before


def test_the_same_parts_zip_is_replaced(submission, run):
    prepare_submit.build_zip([Path("setup.sh")], submission / DEFAULT, part=1)
    assert run().code == 0
    with zipfile.ZipFile(submission / DEFAULT) as archive:
        assert len(archive.namelist()) == len(CODE + SST)


@pytest.mark.parametrize("content", [b"no zip at all", b""])
def test_a_file_that_is_no_zip_is_kept(submission, run, content):
    (submission / DEFAULT).write_bytes(content)
    result = run()
    assert result.code == 1
    assert len(result.err.splitlines()) == 1
    assert DEFAULT in result.err
    assert (submission / DEFAULT).read_bytes() == content


def test_a_zip_made_by_hand_is_kept(submission, run):
    """It says nothing of a part, so it may be the other one."""
    with zipfile.ZipFile(submission / DEFAULT, "w") as archive:
        archive.writestr("multitask_classifier.py", "x = 1")
    before = (submission / DEFAULT).read_bytes()
    assert run().code == 1
    assert (submission / DEFAULT).read_bytes() == before


# ---------------------------------------------------------------------------------------------
# Part 2

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
UNUSED = {
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
COLUMNS = {
    "sst": ("ids-sst", "Predicted_Sentiment", 1),
    "para": ("quora", "Predicted_Is_Paraphrase", 1),
    "sts": ("sts", "Predicted_Similarity", 2.5),
}


def rows_for(name: str, data: Path) -> list[tuple]:
    task, split = name.removeprefix("predictions/").split("-")[:2]
    stem = COLUMNS[task][0]
    path = data / f"{stem}-{'test-student' if split == 'test' else 'dev'}.csv"
    if task == "sst":
        return load_data(path, split)
    return load_pairs(path, split, "is_duplicate" if task == "para" else "similarity")


@pytest.fixture
def part2(tmp_path, tiny_data) -> Path:
    """A folder with all that part 2 needs, and some things it does not."""
    for name, text in (SOURCES | UNUSED).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / CARD).write_bytes(b"%PDF-1.4\n%%EOF\n")
    for name in SIX:
        _, column, value = COLUMNS[name.removeprefix("predictions/").split("-")[0]]
        rows = rows_for(name, tiny_data)
        values = [value + (i % 3 if value == 2.5 else 0) for i in range(len(rows))]
        write_predictions(tmp_path / name, [row[-1] for row in rows], values, column)
    return tmp_path


def test_a_good_part_2(part2, run):
    result = run("--part", "2")
    assert (result.code, result.err) == (0, "")
    assert zips(part2) == [DEFAULT]
    with zipfile.ZipFile(part2 / DEFAULT) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert len(names) == len(set(names))
        assert set(names) == SOURCES.keys() | {CARD, *SIX}
        for name in names:
            assert archive.read(name) == (part2 / name).read_bytes()
    # 5 of the 11 dev rows are duplicates; the Pearson is of labels 0, 2.6, 5, 3.25 … and
    # predictions 2.5, 3.5, 4.5 …, by NumPy
    assert "classes 0:0 1:11 2:0 3:0 4:0, accuracy 0.182" in result.out
    assert "classes 0:0 1:11, accuracy 0.455" in result.out
    gold = [0.0, 2.6, 5.0, 3.25] * 3
    expected = np.corrcoef(gold[:11], [2.5, 3.5, 4.5] * 3 + [2.5, 3.5])[0, 1]
    assert f"   11 predictions from 2.5 to 4.5, Pearson {expected:.3f}" in result.out


def test_part_2_twice_the_same_bytes(part2, run):
    run("--part", "2")
    first = (part2 / DEFAULT).read_bytes()
    for name in [*SOURCES, CARD, *SIX]:
        os.utime(part2 / name, (0, 0))
    (part2 / DEFAULT).rename(part2 / "first")
    assert run("--part", "2").code == 0
    assert (part2 / DEFAULT).read_bytes() == first


def test_older_spellings_in_any_order_read_the_same(part2, run, tiny_data):
    expected = run("--part", "2", "--name", "new").out.replace("new_", "old_")
    for name in SIX:
        header, *lines = (part2 / name).read_text().splitlines()
        column = header.split(",")[1].replace("Similarity", "Similiary")
        random.Random(0).shuffle(lines)
        rows = [f"{line.split(',')[0].upper()} , {float(line.split(',')[1])} \n" for line in lines]
        (part2 / name).write_text(f"id \t {column} \n" + "".join(rows))
    result = run("--part", "2", "--name", "old")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[1:] == expected.splitlines()[1:]


SST_ROW = f"{make_id(100)},1\n"
FAULTS_2 = {
    "missing CSV": (
        lambda folder: (folder / SIX[5]).unlink(),
        f"{SIX[5]} is missing",
    ),
    "missing id": (
        lambda folder: edit(folder / SIX[0], SST_ROW, ""),
        f"{SIX[0]} lacks 1 ids of",
    ),
    "class out of range": (
        lambda folder: edit(folder / SIX[2], SST_ROW, SST_ROW.replace(",1", ",2")),
        f"{SIX[2]} has 1 values that are not classes 0 to 1: {make_id(100)}=2",
    ),
    "duplicate id": (
        lambda folder: edit(folder / SIX[3], f"{make_id(201)},1\n", f"{make_id(200)},1\n"),
        f"{SIX[3]}: line 3: id {make_id(200)} is there twice",
    ),
    "extra id": (
        lambda folder: edit(
            folder / SIX[1], f"{make_id(200)},1\n", f"{make_id(200)},1\n{'f' * 25},1\n"
        ),
        f"{SIX[1]} has unknown 1 ids of",
    ),
    "nan similarity": (
        lambda folder: edit(folder / SIX[4], f"{make_id(100)},2.5\n", f"{make_id(100)},nan\n"),
        f"{SIX[4]}: line 2: '{make_id(100)},nan' is not 'id,number'",
    ),
    "missing PDF": (
        lambda folder: (folder / CARD).unlink(),
        "no PDF in this folder; hand in the AI-usage card as a PDF, named by --ai_card PATH",
    ),
    "an imported file that does not parse": (
        lambda folder: (folder / "extensions/more.py").write_text("def f(:\n"),
        "extensions/more.py does not parse: ",
    ),
    "missing code": (
        lambda folder: (folder / "multitask_classifier.py").unlink(),
        "multitask_classifier.py is missing",
    ),
    "missing README": (
        lambda folder: (folder / "README.md").unlink(),
        "README.md is missing",
    ),
}


@pytest.mark.parametrize("name", FAULTS_2)
def test_a_fault_of_part_2_is_listed(part2, run, name):
    break_it, expected = FAULTS_2[name]
    break_it(part2)
    result = run("--part", "2")
    assert result.code == 1
    first, *listed = result.err.splitlines()
    assert first == "error: no zip written, 1 faults:"
    assert len(listed) == 1
    assert listed[0].startswith(f"  - {expected}")
    assert zips(part2) == []


def test_all_faults_of_part_2_are_listed_at_once(part2, run):
    chosen = [name for name in FAULTS_2 if name != "missing code"]  # which hides what it imports
    for name in chosen:
        FAULTS_2[name][0](part2)
    result = run("--part", "2")
    assert result.code == 1
    assert result.err.startswith(f"error: no zip written, {len(chosen)} faults:\n")
    assert len(result.err.splitlines()) == 1 + len(chosen)
    for name in chosen:
        assert f"  - {FAULTS_2[name][1]}" in result.err
    assert zips(part2) == []


def test_any_finite_similarity_will_do(part2, run):
    edit(part2 / SIX[4], f"{make_id(100)},2.5\n", f"{make_id(100)},-1e3\n")
    result = run("--part", "2")
    assert result.code == 0
    assert "from -1000 to 4.5" in result.out


def test_the_card(part2, run, tmp_path_factory):
    (part2 / "paper.PDF").write_bytes(b"%PDF-1.7\n")
    result = run("--part", "2")
    assert result.code == 1
    assert f"several PDFs ({CARD}, paper.PDF); hand in" in result.err
    assert run("--part", "2", "--ai_card", "paper.PDF").code == 0
    with zipfile.ZipFile(part2 / DEFAULT) as archive:
        assert "paper.PDF" in archive.namelist()
        assert CARD not in archive.namelist()

    elsewhere = tmp_path_factory.mktemp("elsewhere") / "my-card.pdf"
    elsewhere.write_bytes(b"%PDF-1.7\n")
    relative = os.path.relpath(elsewhere, part2)
    assert run("--part", "2", "--ai_card", relative).code == 0
    with zipfile.ZipFile(part2 / DEFAULT) as archive:
        assert "my-card.pdf" in archive.namelist()  # and not ../elsewhere/my-card.pdf

    (part2 / CARD).write_bytes(b"PK a text document")
    assert f"{CARD} is no PDF" in run("--part", "2", "--ai_card", CARD).err
    assert "nowhere.pdf is missing; hand in" in run("--part", "2", "--ai_card", "nowhere.pdf").err
    assert run("--ai_card", CARD).code == 2


def test_a_predictions_folder_that_is_a_link(part2, run, tmp_path_factory):
    target = tmp_path_factory.mktemp("large-disk") / "predictions"
    (part2 / "predictions").rename(target)
    (part2 / "predictions").symlink_to(target)
    assert run("--part", "2").code == 0
    with zipfile.ZipFile(part2 / DEFAULT) as archive:
        assert set(SIX) <= set(archive.namelist())


def test_neither_part_overwrites_the_others_zip(part2, run, tiny_data):
    for name in SST:
        write_for(part2 / name, tiny_data)
    assert run("--part", "2").code == 0
    second = (part2 / DEFAULT).read_bytes()
    result = run("--part", "1")
    assert result.code == 1
    assert f"{DEFAULT} is a submission of part 2; move it away" in result.err
    assert (part2 / DEFAULT).read_bytes() == second

    (part2 / DEFAULT).unlink()
    assert run("--part", "1").code == 0
    first = (part2 / DEFAULT).read_bytes()
    result = run("--part", "2")
    assert result.code == 1
    assert f"{DEFAULT} is a submission of part 1; move it away" in result.err
    assert (part2 / DEFAULT).read_bytes() == first


def test_a_data_file_that_cannot_be_had(part2, run_script_here, tiny_data, tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    for path in tiny_data.glob("*.csv"):
        if path.name != "quora-test-student.csv":
            shutil.copy(path, data / path.name.replace("quora-", "quora-small-"))
    result = run_script_here(prepare_submit, "--data_dir", data, "--part", "2")
    assert result.code == 1
    assert result.err.splitlines()[1:] == [
        "  - no file quora-test-student.csv; python data/download.py fetches the course files"
    ]
