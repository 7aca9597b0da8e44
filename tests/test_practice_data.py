"""The shipped practice set: its format, counts, labels and ids; no text is there twice.

The files are read here strictly, by the csv module, and not by datasets.py.
"""

import csv
import re
from collections import Counter

import pytest
from factories import ROOT

PRACTICE = ROOT / "data" / "practice"
GRADES = [f"{step / 5:.1f}" for step in range(26)]
ONE, TWO = ["sentence"], ["sentence1", "sentence2"]
TASKS = {  # columns of texts and of labels, rows of the splits, labels as they are written
    "ids-sst": (ONE, "sentiment", (1000, 200, 200), [*"01234"]),
    "ids-cfimdb": (ONE, "sentiment", (160, 40, 40), [*"01"]),
    "quora": (TWO, "is_duplicate", (400, 100, 100), ["0.0", "1.0"]),
    "sts": (TWO, "similarity", (400, 100, 100), GRADES),
}
SPLITS = ("train", "dev", "test-student")


def rows_of(task: str, split: str) -> list[list[str]]:
    """The cells of a file, header first."""
    with open(PRACTICE / f"{task}-{split}.csv", encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", strict=True))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("task", TASKS)
def test_a_file_has_its_columns_rows_and_labels(task, split):
    """Nothing is around a cell; labels are balanced, and test files have none."""
    texts, label, sizes, labels = TASKS[task]
    header, *rows = rows_of(task, split)
    assert header == ["", "id", *texts] + [label] * (split != "test-student")
    assert len(rows) == sizes[SPLITS.index(split)]
    assert [row[0] for row in rows] == [str(number) for number in range(len(rows))]
    assert all(cell == cell.strip() != "" and "\r" not in cell for row in rows for cell in row)
    if split == "test-student":
        return
    counts = Counter(row[-1] for row in rows)
    assert counts.keys() <= {*labels}
    if task == "sts":
        assert {round(float(label)) for label in counts} == {*range(6)}
    elif task == "quora":
        assert 0.4 <= counts["1.0"] / counts.total() <= 0.6
    else:
        assert {counts[label] for label in labels} == {counts["0"]}


def test_an_id_and_a_text_are_there_once():
    """Whatever the text's case and punctuation; an id has 25 hexadecimal digits."""
    ids = []
    for task, (columns, *_) in TASKS.items():
        rows = [row for split in SPLITS for row in rows_of(task, split)[1:]]
        ids += [row[1] for row in rows]
        texts = [text.casefold() for row in rows for text in row[2 : 2 + len(columns)]]
        plain = [" ".join(re.findall(r"\w+", re.sub("['’]", "", text))) for text in texts]
        assert [text for text, count in Counter(plain).items() if count > 1] == []
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[0-9a-f]{25}", key) for key in ids)
