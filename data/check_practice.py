"""Check the practice set: ``python data/check_practice.py [--data FOLDER] [--gold FOLDER]``.

One line a check, every fault named, exit status 1 if there is one. It reads the files by itself,
stricter than datasets.py, and does not know about models.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer

ROOT = Path(__file__).resolve().parent.parent
# Python puts the folder of the script (data/) on its path, and utils.py is one folder above.
sys.path.insert(0, str(ROOT))

from training.cli.flags import OneLineParser  # noqa: E402
from training.cli.scripts import run_script  # noqa: E402
from training.files.errors import InputError  # noqa: E402

SPLITS = ("train", "dev", "test-student")
SHOWN = 5  # faults named in one line
NEAR = 0.8  # Jaccard similarity of two sentences' sets of words
RUN = 4  # words in a row


@dataclass(frozen=True)
class Task:
    """One of the four tasks of the practice set; its name is that of its files."""

    texts: tuple[str, ...]  # columns
    label: str  # column
    sizes: tuple[int, int, int]  # of the splits
    labels: tuple[str, ...]  # as they are written


SINGLE, PAIR = ("sentence",), ("sentence1", "sentence2")
GRADES = tuple(f"{step / 5:.1f}" for step in range(26))
TASKS = {
    "ids-sst": Task(SINGLE, "sentiment", (1000, 200, 200), tuple("01234")),
    "ids-cfimdb": Task(SINGLE, "sentiment", (160, 40, 40), ("0", "1")),
    "quora": Task(PAIR, "is_duplicate", (400, 100, 100), ("0.0", "1.0")),
    "sts": Task(PAIR, "similarity", (400, 100, 100), GRADES),
}


@dataclass(frozen=True)
class PracticeSet:
    """All files: rows of strings, with task, split and file of each.

    Args:
        rows: task, split, file, id, texts (of a pair two) and label, which test files lack.
        gold: the same of the labelled test files; empty where these are not available.
        texts: task, file, id and text of every sentence of ``rows``.
        format_faults: of what could not be read as a row.
    """

    rows: pd.DataFrame
    gold: pd.DataFrame
    texts: pd.DataFrame
    format_faults: list[str]

    def labelled(self) -> pd.DataFrame:
        """The rows of train, dev and, where they are available, the labelled test files."""
        return pd.concat([self.rows, self.gold]).dropna(subset="label")

    def labels(self, task: str) -> Iterator[tuple[str, pd.Series]]:
        """(file, labels) of each labelled file of a task."""
        rows = self.labelled()
        yield from rows[rows["task"] == task].groupby("file", sort=False)["label"]


# ---------------------------------------------------------------------------------------------
# Reading


def read_set(data: Path, gold: Path) -> PracticeSet:
    """Read every file; a folder ``gold`` that does not exist leaves the test labels out."""
    if not data.is_dir():
        raise InputError(f"no folder {data}; give --data the folder of the practice set")
    faults: list[str] = []
    rows = [
        row
        for name, task in TASKS.items()
        for split in SPLITS
        for row in read_rows(data / f"{name}-{split}.csv", task, name, split, faults)
    ]
    gold_rows = [
        row
        for name, task in TASKS.items()
        if gold.is_dir()
        for row in read_rows(gold / f"{name}-test.csv", task, name, "test", faults)
    ]
    columns = ["task", "split", "file", "id", "texts", "label"]
    table, gold_table = (pd.DataFrame(part, columns=columns) for part in (rows, gold_rows))
    texts = table[["task", "file", "id", "texts"]].explode("texts", ignore_index=True)
    return PracticeSet(table, gold_table, texts.rename(columns={"texts": "text"}), faults)


def read_rows(path: Path, task: Task, name: str, split: str, faults: list[str]) -> Iterator[tuple]:
    """Read one tab-separated file strictly, and note every departure from the format."""
    label = [] if split == "test-student" else [task.label]
    expected = ["", "id", *task.texts, *label]
    try:
        text = path.read_bytes().decode("utf-8")
        header, *rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True)
    except FileNotFoundError:
        faults.append(f"{path.name} is missing")
        return
    except UnicodeDecodeError as error:
        faults.append(f"{path.name} is not UTF-8 (byte {error.start})")
        return
    except (csv.Error, ValueError) as error:  # ValueError: not even a header
        faults.append(f"{path.name} is not a table ({error})")
        return
    if "\r" in text:
        faults.append(f"{path.name} has carriage returns")
    if header != expected:
        faults.append(f"{path.name} header {header} instead of {expected}")
    for number, row in enumerate(rows):
        where = f"{path.name} row {number}"
        if len(row) != len(expected):
            faults.append(f"{where} has {len(row)} cells instead of {len(expected)}")
            continue
        if row[0] != str(number):
            faults.append(f"{where} has the index {row[0]!r}")
        if any(not cell or cell != cell.strip() for cell in row):
            faults.append(f"{where} has a cell that is empty or has blanks at an end")
        end = 2 + len(task.texts)
        yield name, split, path.name, row[1], tuple(row[2:end]), row[-1] if label else None


# ---------------------------------------------------------------------------------------------
# The checks: each yields its faults


def format_faults(data: PracticeSet) -> Iterator[str]:
    """Tab-separated, an empty first header cell, columns by name, no label in test files."""
    yield from data.format_faults


def count_faults(data: PracticeSet) -> Iterator[str]:
    """As many rows as there should be."""
    counts = Counter(data.rows["file"])
    for name, task in TASKS.items():
        for split, size in zip(SPLITS, task.sizes, strict=True):
            file = f"{name}-{split}.csv"
            if counts[file] != size:
                yield f"{file} has {counts[file]} rows instead of {size}"


def length_faults(data: PracticeSet) -> Iterator[str]:
    """Reviews of 60 to 150 words."""
    for row in data.texts[data.texts["task"] == "ids-cfimdb"].itertuples():
        if not 60 <= len(row.text.split()) <= 150:
            yield f"{row.file} {row.id} has {len(row.text.split())} words"


def label_faults(data: PracticeSet) -> Iterator[str]:
    """Only the labels of the task, spelled as the course files spell them."""
    for row in data.labelled().itertuples():
        if row.label not in TASKS[row.task].labels:
            yield f"{row.file} {row.id} has the label {row.label!r}"


def id_faults(data: PracticeSet) -> Iterator[str]:
    """25 hexadecimal digits, each id once in the whole set."""
    for name, files in data.rows.groupby("id")["file"]:
        if not re.fullmatch("[0-9a-f]{25}", name):
            yield f"{', '.join(files)} {name!r} is not 25 hexadecimal digits"
        if len(files) > 1:
            yield f"{name} is there {len(files)} times ({', '.join(sorted(set(files)))})"


def balance_faults(data: PracticeSet) -> Iterator[str]:
    """Sentiment classes exactly even, 40 to 60 % of the question pairs positive."""
    for task in ("ids-sst", "ids-cfimdb"):
        for file, labels in data.labels(task):
            counts = Counter(labels)
            if len({counts[label] for label in TASKS[task].labels}) > 1:
                yield f"{file} classes {dict(sorted(counts.items()))}"
    for file, labels in data.labels("quora"):
        positive = (labels == "1.0").mean()
        if not 0.4 <= positive <= 0.6:
            yield f"{file} {positive:.0%} positive"


def grade_faults(data: PracticeSet) -> Iterator[str]:
    """Every grade 0 to 5 present among the rounded similarities of each split."""
    for file, labels in data.labels("sts"):
        scores = pd.to_numeric(labels, errors="coerce").dropna()
        if missing := sorted(set(range(6)) - set(scores.round())):
            yield f"{file} has no similarity of grade {missing}"


def duplicate_faults(data: PracticeSet) -> Iterator[str]:
    """No sentence twice in a task, whatever its case and punctuation."""
    plain = data.texts["text"].map(lambda text: " ".join(words(text)))
    for _, same in data.texts.groupby([data.texts["task"], plain]):
        if len(same) > 1:
            places = (same["file"] + " " + same["id"]).tolist()
            yield f"{' and '.join(places)}: {same['text'].iloc[0][:60]!r}"


def near_duplicate_faults(data: PracticeSet) -> Iterator[str]:
    """No sentence of one split in nearly the same words in another one."""
    for _, table in data.texts[data.texts["text"].map(words).astype(bool)].groupby("task"):
        places = list(zip(table["file"], table["id"], strict=True))
        vectorizer = CountVectorizer(analyzer=words, binary=True)
        sets = vectorizer.fit_transform(table["text"])  # (n, words)
        common = (sets @ sets.T).tocoo()  # (n, n): how many words two sentences share
        sizes = common.diagonal()
        union = sizes[common.row] + sizes[common.col] - common.data
        for k in (common.data > NEAR * union).nonzero()[0]:
            first, second = places[common.row[k]], places[common.col[k]]
            if common.row[k] < common.col[k] and first[0] != second[0]:
                yield f"{' '.join(first)} and {' '.join(second)}"


def run_faults(data: PracticeSet) -> Iterator[str]:
    """No run of four words in more than 1 % of the sentences of a task.

    Sentences are counted over all splits, and a review counts as the sentences it consists of.
    """
    for task, texts in data.texts.groupby("task")["text"]:
        sentences = [s for text in texts for s in re.split(r"(?<=[.!?])[\"')]*\s+", text)]
        counts = Counter(run for sentence in sentences for run in runs(sentence))
        for run, count in counts.most_common():
            if count > len(sentences) / 100:
                yield f"{task}-*.csv: {' '.join(run)!r} in {count} of {len(sentences)} sentences"


def gold_faults(data: PracticeSet) -> Iterator[str]:
    """The labelled test files hold exactly the test files' examples, in the same order."""
    tests = data.rows[data.rows["split"] == "test-student"]
    for task, gold in data.gold.groupby("task", sort=False):
        table, file = tests[tests["task"] == task], gold["file"].iloc[0]
        student_file = f"{task}-test-student.csv"
        ids, gold_ids = table["id"].tolist(), gold["id"].tolist()
        if set(ids) != set(gold_ids):
            only, gold_only = sorted(set(ids) - set(gold_ids)), sorted(set(gold_ids) - set(ids))
            yield f"{file} lacks {only[:SHOWN]} and has {gold_only[:SHOWN]} too many"
        elif ids != gold_ids:
            yield f"{file} has the ids of {student_file} in another order"
        elif names := [
            name for name, *both in zip(ids, table["texts"], gold["texts"], strict=True)
            if both[0] != both[1]
        ]:  # fmt: skip
            yield f"{file} differs from {student_file} at {names[:SHOWN]}"


def words(text: str) -> list[str]:
    """The words of a text without case and punctuation; "don't" is one word."""
    return re.findall(r"\w+", re.sub("['’]", "", text.casefold()))


def runs(text: str) -> set[tuple[str, ...]]:
    """Every run of four words of a text."""
    in_order = words(text)
    return {tuple(in_order[k : k + RUN]) for k in range(len(in_order) - RUN + 1)}


CHECKS = {
    "file format": format_faults,
    "row counts": count_faults,
    "review lengths": length_faults,
    "label values": label_faults,
    "ids": id_faults,
    "class balance": balance_faults,
    "similarity grades": grade_faults,
    "duplicates": duplicate_faults,
    "near-duplicates across splits": near_duplicate_faults,
    "runs of four words": run_faults,
    "test labels": gold_faults,
}


def check(data: Path, gold: Path) -> dict[str, list[str]]:
    """The faults of every check, by the check's title."""
    practice = read_set(data, gold)
    return {title: list(faults(practice)) for title, faults in CHECKS.items()}


def report(title: str, faults: list[str]) -> str:
    """The line of one check."""
    if not faults:
        return f"ok     {title}"
    more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
    return f"FAULT  {title}: {'; '.join(faults[:SHOWN])}{more}"


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "practice")
    parser.add_argument(
        "--gold", type=Path, default=ROOT / "course" / "gold", help="folder of the test labels"
    )
    return parser.parse_args()


def main() -> None:
    """Print a line a check; exit status 1 if any found a fault."""
    args = get_args()
    faults_of = check(args.data, args.gold)
    if not args.gold.is_dir():
        del faults_of["test labels"]
        print(f"note   no folder {args.gold}: the test labels were not checked")
    for title, faults in faults_of.items():
        print(report(title, faults))
    bad = sum(map(bool, faults_of.values()))
    if bad:
        raise InputError(f"{bad} of {len(faults_of)} checks found faults in {args.data}")


if __name__ == "__main__":
    run_script(main)
