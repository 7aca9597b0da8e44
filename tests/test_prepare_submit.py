"""Checks before a submission, and the zip (prepare_submit.py)."""

import zipfile
from pathlib import Path

import pytest
from factories import ROOT, make_id
from running import succeeded

import prepare_submit
from evaluation import write_in_order

CODE = ["bert.py", "classifier.py", "optimizer.py", "setup.sh"]
SST = [
    f"predictions/{option}-sst-{split}-out.csv"
    for option in ("pretrain", "finetune")
    for split in ("dev", "test")
]
SIX = [
    f"predictions/{task}-{split}-output.csv"
    for task in ("sst", "para", "sts")
    for split in ("dev", "test")
]
MODERN = "lessons/modern_bert.py"
CARD = "ai-usage-card.pdf"
DEFAULT = "dnlp_final_project_submission.zip"
COLUMNS = dict.fromkeys(("sst", "cfimdb"), "Predicted_Sentiment")
COLUMNS |= {"para": "Predicted_Is_Paraphrase", "sts": "Predicted_Similarity"}


def write_for(path: Path) -> None:
    """Predictions for every row of the tiny data file that belongs to this name."""
    task, split = path.stem.split("-")[-3:-1]
    ids = [make_id(i) for i in (range(100, 111) if split == "dev" else range(200, 209))]
    values = [2.5, 3.5, 4.5] * 4 if task == "sts" else [1] * 12
    predictions = {"sent_ids": ids, "y_pred": values[: len(ids)]}
    write_in_order(path, zip(ids), predictions, COLUMNS[task])


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


@pytest.fixture
def submission(tmp_path) -> Path:
    """A folder with all that the parts need, and some things they do not."""
    for name, text in (SOURCES | UNUSED).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / CARD).write_bytes(b"%PDF-1.4\n%%EOF\n")
    for name in SST + SIX:
        write_for(tmp_path / name)
    return tmp_path


@pytest.fixture
def run(run_script_here, tiny_data):
    """prepare_submit.py on the tiny data."""
    return lambda *arguments: run_script_here(prepare_submit, "--data_dir", tiny_data, *arguments)


def zips(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("*.zip*"))


def assert_zipped(folder: Path, names: list[str], zip_name: str = DEFAULT) -> None:
    """The zip holds these files of the folder, each once, and nothing else."""
    with zipfile.ZipFile(folder / zip_name) as archive:
        assert sorted(archive.namelist()) == sorted(names)
        assert all(archive.read(name) == (folder / name).read_bytes() for name in names)


def test_part_1_with_modules_of_ones_own_and_cfimdb(submission, run):
    result = succeeded(run())
    assert_zipped(submission, CODE + SST)
    # 2 of the 11 dev rows have label 1
    assert "11 predictions from 1 to 1, accuracy 0.182" in result.out
    extra = "predictions/finetune-cfimdb-dev-out.csv"
    write_for(submission / extra)
    (submission / "bert.py").write_text("import tricks.heads\nfrom utils import x\n")
    (submission / "tricks/heads.py").write_text("import helper\n")
    for name in ("helper.py", "utils.py", "unused.py", "my_tests.py"):
        (submission / name).write_text("x = 1\n")
    succeeded(run("--name", "1234_team-x"))
    named = f"1234_team-x_{DEFAULT}"
    own = ["tricks/heads.py", "helper.py", "my_tests.py"]
    assert_zipped(submission, CODE + SST + own + [extra], named)
    assert zips(submission) == [named, DEFAULT]


def test_a_good_part_2(submission, run):
    spoil(submission, SIX[4], (row(101, "3.5"), row(101, "-1e3")))  # any number will do
    result = succeeded(run("--part", "2"))
    assert_zipped(submission, [*SOURCES, CARD, *SIX])
    # 5 of the 11 dev rows are duplicates
    assert "11 predictions from 1 to 1, accuracy 0.455" in result.out
    assert "   11 predictions from -1000 to 4.5, Pearson 0.011" in result.out


@pytest.mark.parametrize(("part", "names"), [("1", CODE), ("2", [*SOURCES, CARD])])
def test_code_alone_without_predictions(submission, run, part, names):
    for name in SST + SIX:
        (submission / name).unlink()
    result = succeeded(run("--part", part, "--code-only"))
    assert_zipped(submission, names)
    assert "without predictions" in result.out
    assert "hint: with --name ID_GROUP" in result.out


@pytest.mark.parametrize(("part", "checked"), [("1", "1"), ("2", "12"), ("3", "3")])
def test_the_checks_of_its_parts_run_before(submission, run, part, checked):
    """Part 3 is handed in alone; what is wrong is zipped, too."""
    check = "import sys; open('asked', 'a').write(sys.argv[2]); sys.exit({})\n"
    for fails in (0, 1):
        (submission / "asked").unlink(missing_ok=True)
        (submission / "sanity_check.py").write_text(check.format(fails))
        result = succeeded(run("--part", part))
        assert (submission / "asked").read_text() == checked
        assert ("fail their checks" in result.out) == bool(fails)


def test_predictions_that_are_no_better_than_one_answer_are_named(submission, run):
    """3 of the 11 dev rows have label 0; all but one of the rows here have label 1."""
    spoil(submission, SST[3], (row(200), row(200, "2")))
    result = succeeded(run("--name", "1234_us"))
    assert result.out.count("accuracy 0.182; the same answer in every row reaches 0.273") == 2
    assert result.out.count("from 1 to 1, the same answer in every row") == 1
    assert "hint: " not in result.out


def test_part_3_is_its_file_alone(submission, run):
    succeeded(run("--part", "3"))
    assert_zipped(submission, [MODERN])


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
PART_1 = {  # a file, what is done to it, and the fault
    "optimizer.py": (None, "optimizer.py is missing: git checkout -- optimizer.py restores it"),
    "bert.py": (b"x = 1\n# caf\xe9\n", "bert.py, line 2 is not UTF-8"),
    "classifier.py": (b"def f(:\n", "classifier.py does not parse"),
    SST[3]: (None, "missing: python classifier.py --only sst --option finetune --lr 1e-5 --data_"),
    SST[0]: ((FIRST, ""), f"without a prediction: 1, such as {make_id(100)}"),
    SST[2]: ((FIRST, row(100, "1.5")), "other than the classes 0 to 4: 1"),
    CFIMDB: (b"id,Predicted_Sentiment\n", "without a prediction: 11"),
}
PART_2 = {
    SIX[1]: ((row(200), row(200) + f"{'f' * 25},1\n"), "does not have: 1"),
    CARD: (b"PK a text document", f"{CARD} is not a PDF"),
    "extensions/more.py": (b"def f(:\n", "extensions/more.py does not parse"),
    "README.md": ((ROOT / "README.template.md").read_bytes(), "the template's first comment"),
}
TWO_CARDS = {"another.PDF": (b"%PDF-1.7\n", "2 PDFs in this folder")}


@pytest.mark.parametrize(("part", "spoiled"), [("1", PART_1), ("2", PART_2), ("2", TWO_CARDS)])
def test_faults_are_listed_and_an_older_zip_survives(submission, run, part, spoiled):
    (submission / DEFAULT).write_bytes(b"older")
    for name, (change, _) in spoiled.items():
        spoil(submission, name, change)
    result = run("--part", part)
    first, *listed = result.err.splitlines()
    assert first == f"error: no zip written; faults ({len(spoiled)}):"
    assert (len(listed), result.code > 0) == (len(spoiled), True)
    for _, fault in spoiled.values():
        assert fault in result.err
    assert zips(submission) == [DEFAULT]
    assert (submission / DEFAULT).read_bytes() == b"older"


@pytest.mark.parametrize(("first", "second"), [("1", "2"), ("2", "1"), ("3", "2"), (None, "1")])
def test_neither_part_overwrites_the_others_zip(submission, run, first, second):
    """One made by hand does not name its part, so it may be the other one's."""
    kept = submission / f"1234_us_{DEFAULT}"
    if first:
        succeeded(run("--part", first, "--name", "1234_us"))
    else:
        with zipfile.ZipFile(kept, "w") as archive:
            archive.writestr("multitask_classifier.py", "x = 1")
    before = kept.read_bytes()
    for part in (second, second, first or second):
        succeeded(run("--part", part, "--name", "1234_us"))
        assert kept.read_bytes() == before
        assert zips(submission) == sorted([kept.name, f"1234_us_part{second}_{DEFAULT}"])
