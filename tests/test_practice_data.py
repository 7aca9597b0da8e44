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


def set_cell(row: int, column: int, value: str):
    def change(rows):
        rows[row][column] = value

    return change


def copy_cell(source: int, target: int, column: int, alter=str):
    def change(rows):
        rows[target][column] = alter(rows[source][column])

    return change


def repeat_run(rows):
    """Put one run of four words in front of thirty sentences of some 1,500 (2 %)."""
    for row in rows[1:31]:
        row[2] = "Zebras yodel quite often. " + row[2]


def each_row(change):
    """Let ``change`` alter each row of a file in turn."""

    def change_all(rows):
        for row in rows:
            change(row)

    return change_all


def swap_columns(row):
    row[1], row[2] = row[2], row[1]


def set_labels(value, first=1, last=None):
    def change(rows):
        for row in rows[first:last]:
            row[-1] = value(row[-1])

    return change


def drop_last_row(rows):
    rows.pop()


def one_class_less(rows):
    next(row for row in rows if row[-1] == "3")[-1] = "2"


FAULTS = {
    "no label column": (
        "ids-cfimdb-train.csv",
        each_row(list.pop),
        {"file format", "row counts", "class balance"},
    ),
    "columns in another order": ("ids-sst-dev.csv", each_row(swap_columns), {"file format", "ids"}),
    "empty cell": ("quora-dev.csv", set_cell(5, 3, ""), {"file format"}),
    "wrong index": ("quora-dev.csv", set_cell(5, 0, "9"), {"file format"}),
    "missing row": ("quora-dev.csv", drop_last_row, {"row counts"}),
    "long review": (
        "ids-cfimdb-train.csv",
        set_cell(3, 2, " ".join(f"word{k}" for k in range(151))),
        {"review lengths"},
    ),
    "score between the steps": ("sts-dev.csv", set_cell(1, 4, "0.1"), {"label values"}),
    "label spelled otherwise": ("quora-dev.csv", set_cell(1, 4, "1"), {"label values"}),
    "short id": ("sts-train.csv", set_cell(7, 1, "0123456789abcdef01234567"), {"ids"}),
    "id twice": ("sts-train.csv", copy_cell(7, 8, 1), {"ids"}),
    "uneven classes": ("ids-sst-train.csv", one_class_less, {"class balance"}),
    "too many duplicates": (
        "quora-dev.csv",
        set_labels(lambda _: "1.0", last=71),
        {"class balance"},
    ),
    "missing grade": (
        "sts-dev.csv",
        set_labels(lambda label: min(label, "4.4")),
        {"similarity grades"},
    ),
    "same but for case and punctuation": (
        "quora-train.csv",
        copy_cell(8, 9, 3, lambda text: text.upper().replace("?", " !")),
        {"duplicates"},
    ),
    "run of four words": ("ids-sst-train.csv", repeat_run, {"runs of four words"}),
}


@pytest.mark.parametrize(("file", "change", "titles"), FAULTS.values(), ids=FAULTS)
def test_a_fault_fails_its_check_and_no_other(copy, file, change, titles):
    edit(copy / "data" / file, change)
    found = script.check(copy / "data", copy / "no gold")
    assert {title for title, faults in found.items() if faults} == titles
    named = file if titles != {"runs of four words"} else "ids-sst-*.csv"  # of all splits together
    for title in titles:
        assert any(named in fault for fault in found[title])


def test_the_shipped_practice_set_passes():
    assert script.check(PRACTICE, GOLD) == {title: [] for title in script.CHECKS}


def test_a_near_duplicate_in_another_split_is_found(copy):
    train, dev = (copy / "data" / f"quora-{split}.csv" for split in ("train", "dev"))
    sentence = "one two three four five six seven eight nine ten"
    edit(train, set_cell(4, 2, sentence))
    edit(dev, set_cell(6, 3, f"{sentence} eleven"))
    found = script.check(copy / "data", copy / "no gold")
    assert [title for title, faults in found.items() if faults] == ["near-duplicates across splits"]
    (fault,) = found["near-duplicates across splits"]
    assert all(name in fault for name in (cell(train, 4, 1), cell(dev, 6, 1)))


def cell(path: Path, row: int, column: int) -> str:
    return path.read_text(encoding="utf-8").splitlines()[row].split("\t")[column]


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
    found = script.check(copy / "data", copy / "no gold")
    assert any(message in fault for fault in found["file format"])
    assert "ids-sst-dev.csv has 0 rows instead of 200" in found["row counts"]


GOLD_FAULTS = {
    "another id": (set_cell(3, 1, "f" * 25), "too many"),
    "another order": (lambda rows: rows.insert(1, rows.pop(2)), "another order"),
    "another sentence": (set_cell(3, 2, "Not what the test file says."), "differs from"),
}


@pytest.mark.skipif(not GOLD.is_dir(), reason="no course/gold here: a student's copy has none")
@pytest.mark.parametrize(("change", "message"), GOLD_FAULTS.values(), ids=GOLD_FAULTS)
def test_test_labels_must_fit_the_test_files(copy, change, message):
    edit(copy / "gold" / "sts-test.csv", change)
    faults = script.check(copy / "data", copy / "gold")["test labels"]
    assert len(faults) == 1
    assert message in faults[0]


def test_it_prints_a_line_a_check_and_all_faults_at_once(copy, tmp_path):
    edit(copy / "data" / "sts-train.csv", copy_cell(7, 8, 1))
    edit(copy / "data" / "quora-dev.csv", drop_last_row)
    flags = ("--data", copy / "data", "--gold", copy / "no gold")
    result = as_process(ROOT / "data/check_practice.py", *flags, folder=tmp_path)
    assert_refused(result, "2 of 10 checks found faults", code=1)
    _, *lines = result.out.splitlines()
    assert "FAULT  row counts: quora-dev.csv has 99 rows instead of 100" in lines
    assert len(lines) == len(script.CHECKS) - 1  # all but the test labels
