"""data/check_practice.py: the shipped practice set passes, a copy with a fault fails its check."""

import shutil
from pathlib import Path

import pytest
from support import ROOT, as_process, assert_refused, load_script

PRACTICE = ROOT / "data" / "practice"
GOLD = ROOT / "course" / "gold"


script = load_script("data/check_practice.py")


@pytest.fixture
def copy(tmp_path) -> Path:
    """A copy of the practice set in ``data`` and, if the test labels are here, in ``gold``."""
    shutil.copytree(PRACTICE, tmp_path / "data")
    if GOLD.is_dir():
        shutil.copytree(GOLD, tmp_path / "gold")
    return tmp_path


def edit(path: Path, change) -> None:
    """Let ``change`` alter a file's rows, header first, each a list of raw cells."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    change(rows)
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def faults_of(copy: Path) -> dict[str, list[str]]:
    """The faults of the copy's files without test labels, by the check that finds them."""
    found = script.check(copy / "data", copy / "no gold")
    return {title: faults for title, faults in found.items() if faults}


def set_cell(row: int, column: int, value: str):
    return lambda rows: rows[row].__setitem__(column, value)


def repeat_run(rows):
    """Put one run of four words in front of thirty sentences of some 1,500 (2 %)."""
    for row in rows[1:31]:
        row[2] = "Zebras yodel quite often. " + row[2]


def drop_labels(rows):
    for row in rows:
        row.pop()


def swap_columns(rows):
    for row in rows:
        row[1], row[2] = row[2], row[1]


def all_positive(rows):
    for row in rows[1:71]:
        row[-1] = "1.0"


def no_top_grade(rows):
    for row in rows[1:]:
        row[-1] = min(row[-1], "4.4")


def one_class_less(rows):
    next(row for row in rows if row[-1] == "3")[-1] = "2"


def repeat_id(rows):
    rows[8][1] = rows[7][1]


def shout_again(rows):
    rows[9][3] = rows[8][3].upper().replace("?", " !")


LONG = " ".join(f"word{k}" for k in range(151))
FAULTS = [
    ("ids-cfimdb-train.csv", drop_labels, {"file format", "row counts"}),
    ("ids-sst-dev.csv", swap_columns, {"file format", "ids"}),
    ("quora-dev.csv", set_cell(5, 3, ""), {"file format"}),
    ("quora-dev.csv", set_cell(5, 0, "9"), {"file format"}),
    ("quora-dev.csv", list.pop, {"row counts"}),
    ("ids-cfimdb-train.csv", set_cell(3, 2, LONG), {"review lengths"}),
    ("sts-dev.csv", set_cell(1, 4, "0.1"), {"label values"}),
    ("quora-dev.csv", set_cell(1, 4, "1"), {"label values"}),
    ("sts-train.csv", set_cell(7, 1, "0123456789abcdef01234567"), {"ids"}),
    ("sts-train.csv", repeat_id, {"ids"}),
    ("ids-sst-train.csv", one_class_less, {"class balance"}),
    ("quora-dev.csv", all_positive, {"class balance"}),
    ("sts-dev.csv", no_top_grade, {"similarity grades"}),
    ("quora-train.csv", shout_again, {"duplicates"}),
    ("ids-sst-train.csv", repeat_run, {"runs of four words"}),
]


@pytest.mark.parametrize(("file", "change", "titles"), FAULTS)
def test_a_fault_fails_its_check_and_no_other(copy, file, change, titles):
    edit(copy / "data" / file, change)
    faults = faults_of(copy)
    assert faults.keys() == titles
    named = file if titles != {"runs of four words"} else "ids-sst-*.csv"  # of all splits together
    for title in titles:
        assert any(named in fault for fault in faults[title])


def test_the_shipped_practice_set_passes():
    assert script.check(PRACTICE, GOLD) == {title: [] for title in script.CHECKS}


def test_a_near_duplicate_in_another_split_is_found(copy):
    train, dev = (copy / "data" / f"quora-{split}.csv" for split in ("train", "dev"))
    sentence = "one two three four five six seven eight nine ten"
    edit(train, set_cell(4, 2, sentence))
    edit(dev, set_cell(6, 3, f"{sentence} eleven"))
    faults = faults_of(copy)
    assert [title for title, of_title in faults.items() if faults] == [
        "near-duplicates across splits"
    ]
    (fault,) = faults["near-duplicates across splits"]
    for path, row in ((train, 4), (dev, 6)):
        assert path.read_text(encoding="utf-8").splitlines()[row].split("\t")[1] in fault


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is missing"),
        (b"", "is not a table"),
        (b"\tid\tsentence\tsentiment\n0\t\xff\tx\t1\n", "not UTF-8"),
        (b'\tid\tsentence\tsentiment\n0\tx\t"y\t1\n', "is not a table"),
    ],
)
def test_a_file_that_is_no_table_is_reported_with_all_else(copy, content, message):
    path = copy / "data" / "ids-sst-dev.csv"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    faults = faults_of(copy)
    assert any(message in fault for fault in faults["file format"])
    assert "ids-sst-dev.csv has 0 rows instead of 200" in faults["row counts"]


@pytest.mark.skipif(not GOLD.is_dir(), reason="no course/gold here: a student's copy has none")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_cell(3, 1, "f" * 25), "too many"),
        (lambda rows: rows.insert(1, rows.pop(2)), "another order"),
        (set_cell(3, 2, "Not what the test file says."), "differs from"),
    ],
)
def test_test_labels_must_fit_the_test_files(copy, change, message):
    edit(copy / "gold" / "sts-test.csv", change)
    faults = script.check(copy / "data", copy / "gold")["test labels"]
    assert len(faults) == 1
    assert message in faults[0]


def test_it_prints_a_line_a_check_and_all_faults_at_once(copy, tmp_path):
    edit(copy / "data" / "sts-train.csv", repeat_id)
    edit(copy / "data" / "quora-dev.csv", list.pop)
    flags = ("--data", copy / "data", "--gold", copy / "no gold")
    result = as_process(ROOT / "data/check_practice.py", *flags, folder=tmp_path)
    assert_refused(result, "2 of 10 checks found faults", code=1)
    _, *lines = result.out.splitlines()
    assert "FAULT  row counts: quora-dev.csv has 99 rows instead of 100" in lines
    assert len(lines) == len(script.CHECKS) - 1  # all but the test labels
