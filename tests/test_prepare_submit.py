"""Checks before a submission, and the zip (prepare_submit.py)."""

import shutil
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT, make_id

import prepare_submit
from datasets import load_data
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
