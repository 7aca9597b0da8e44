"""The shipped practice set: its format, counts, labels and ids; no text twice, none that leaks.

The files are read here strictly, by the csv module, and not by datasets.py.
"""

import csv
import io
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from factories import ROOT
from sklearn.feature_extraction.text import CountVectorizer

PRACTICE = ROOT / "data" / "practice"
GOLD = ROOT / "course" / "gold"  # which a student's copy does not have
SPLITS = ("train", "dev", "test-student")
GRADES = [f"{step / 5:.1f}" for step in range(26)]
TASKS = {  # column of labels, rows of the splits, labels as they are written
    "ids-sst": ("sentiment", (1000, 200, 200), [*"01234"]),
    "ids-cfimdb": ("sentiment", (160, 40, 40), [*"01"]),
    "quora": ("is_duplicate", (400, 100, 100), ["0.0", "1.0"]),
    "sts": ("similarity", (400, 100, 100), GRADES),
}
NEAR = 0.8  # Jaccard similarity of two sentences' sets of words
NAMES = [f"{task}-{split}.csv" for task in TASKS for split in SPLITS]
GOLD_NAMES = [f"{task}-test.csv" for task in TASKS if GOLD.is_dir()]
LABELLED = [*(name for name in NAMES if "test" not in name), *GOLD_NAMES]


def rows_of(name: str) -> list[list[str]]:
    """The cells of a file, header first."""
    path = (GOLD if name.endswith("-test.csv") else PRACTICE) / name
    text = path.read_bytes().decode("utf-8")
    return list(csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True))


def task_of(name: str) -> str:
    return next(task for task in TASKS if name.startswith(task))


def text_columns(task: str) -> list[str]:
    return ["sentence"] if task.startswith("ids") else ["sentence1", "sentence2"]


def texts_of(task: str) -> pd.DataFrame:
    """The task's texts: columns file, id and text."""
    rows = [
        (name, row[1], text)
        for name in NAMES
        if task_of(name) == task
        for row in rows_of(name)[1:]
        for text in row[2 : 2 + len(text_columns(task))]
    ]
    return pd.DataFrame(rows, columns=["file", "id", "text"])


def words(text: str) -> list[str]:
    """The words of a text without case and punctuation; "don't" is one word."""
    return re.findall(r"\w+", re.sub("['’]", "", text.casefold()))


@pytest.mark.parametrize("name", [*NAMES, *GOLD_NAMES])
def test_a_file_has_its_columns_and_rows(name):
    """No label in test files, and nothing around a cell."""
    task = task_of(name)
    label, sizes, _ = TASKS[task]
    header, *rows = rows_of(name)
    assert header == ["", "id", *text_columns(task), *([label] if name in LABELLED else [])]
    assert len(rows) == sizes[0 if "train" in name else 1 if "dev" in name else 2]
    assert {len(row) for row in rows} == {len(header)}
    assert [row[0] for row in rows] == [str(number) for number in range(len(rows))]
    assert all(cell == cell.strip() != "" for row in rows for cell in row)
    assert not any("\r" in cell for row in rows for cell in row)


@pytest.mark.parametrize("name", LABELLED)
def test_labels_are_written_as_in_the_course_files_and_balanced(name):
    """Sentiments evenly, 40 to 60 % of the questions the same, every grade of similarity."""
    task = task_of(name)
    counts = Counter(row[-1] for row in rows_of(name)[1:])
    assert counts.keys() <= {*TASKS[task][2]}
    if task == "sts":
        assert {round(float(label)) for label in counts} == {*range(6)}
    elif task == "quora":
        assert 0.4 <= counts["1.0"] / counts.total() <= 0.6
    else:
        assert {counts[label] for label in TASKS[task][2]} == {counts["0"]}


def test_ids_are_25_digits_and_each_is_there_once():
    counts = Counter(row[1] for name in NAMES for row in rows_of(name)[1:])
    assert [
        key for key, n in counts.items() if n > 1 or not re.fullmatch("[0-9a-f]{25}", key)
    ] == []


@pytest.mark.parametrize("task", TASKS)
def test_no_text_is_there_twice(task):
    """Whatever its case and punctuation."""
    texts = texts_of(task)
    plain = texts["text"].map(words).map(" ".join)
    assert texts[plain.duplicated(keep=False)].empty


@pytest.mark.parametrize("task", TASKS)
def test_no_text_of_a_split_is_in_nearly_the_same_words_in_another(task):
    texts = texts_of(task)
    sets = CountVectorizer(analyzer=words, binary=True).fit_transform(texts["text"])  # (N, words)
    common = (sets @ sets.T).tocoo()  # (N, N): how many words two texts share
    sizes = common.diagonal()
    union = sizes[common.row] + sizes[common.col] - common.data
    files = texts["file"].to_numpy()
    is_near = (common.data > NEAR * union) & (files[common.row] != files[common.col])
    pairs = np.stack([common.row, common.col])[:, is_near]
    assert texts.loc[np.unique(pairs)].empty


@pytest.mark.skipif(not GOLD.is_dir(), reason="no course/gold here")
@pytest.mark.parametrize("task", TASKS)
def test_test_labels_are_those_of_the_test_files_rows(task):
    gold = [row[:-1] for row in rows_of(f"{task}-test.csv")]
    assert gold == rows_of(f"{task}-test-student.csv")
