"""The shipped practice set: its counts, labels and ids; no text is there twice."""

import re
from collections import Counter
from functools import partial

import pytest

from datasets import load_data, load_pairs
from training.files.course_files import PRACTICE_DATA, SPLITS

TASKS = {  # the reader, rows of the splits, labels
    "ids-sst": (load_data, (1000, 200, 200), range(5)),
    "ids-cfimdb": (load_data, (160, 40, 40), range(2)),
    "quora": (partial(load_pairs, label="is_duplicate"), (400, 100, 100), range(2)),
    "sts": (partial(load_pairs, label="similarity"), (400, 100, 100), [i / 5 for i in range(26)]),
}


@pytest.mark.parametrize("task", TASKS)
def test_the_practice_set_has_its_rows_and_labels_and_none_twice(task):
    """Whatever a text's case and punctuation; an id has 25 hexadecimal digits."""
    read, sizes, labels = TASKS[task]
    flags = ("dev", "dev", "test")
    files = [PRACTICE_DATA / f"{task}-{ending}.csv" for ending in SPLITS.values()]
    parts = [read(file, flag) for file, flag in zip(files, flags, strict=True)]
    assert tuple(map(len, parts)) == sizes
    assert {row[-2] for row in parts[0] + parts[1]} <= {*labels}
    rows = [row for part in parts for row in part]
    assert len({row[-1] for row in rows}) == len(rows)
    assert all(re.fullmatch("[0-9a-f]{25}", row[-1]) for row in rows)
    texts = [x.casefold() for row in rows for x in row[: 1 + (read is not load_data)]]
    plain = [" ".join(re.findall(r"\w+", re.sub("['’]", "", text))) for text in texts]
    assert [text for text, count in Counter(plain).items() if count > 1] == []
