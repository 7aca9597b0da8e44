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
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
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
    """One of the four tasks of the practice set."""

    name: str
    stem: str  # of its files
    texts: tuple[str, ...]  # columns
    label: str  # column
    sizes: tuple[int, int, int]  # of the splits
    labels: tuple[str, ...]  # as they are written

    def columns(self, with_label: bool) -> list[str]:
        """The header after its empty first cell."""
        return ["id", *self.texts, *([self.label] if with_label else [])]


PAIR = ("sentence1", "sentence2")
FIVE_CLASS = Task(
    "5-class", "ids-sst", ("sentence",), "sentiment", (1000, 200, 200), tuple("01234")
)
BINARY = Task("binary", "ids-cfimdb", ("sentence",), "sentiment", (160, 40, 40), ("0", "1"))
QUESTIONS = Task("questions", "quora", PAIR, "is_duplicate", (400, 100, 100), ("0.0", "1.0"))
SIMILARITY = Task(
    "similarity",
    "sts",
    PAIR,
    "similarity",
    (400, 100, 100),
    tuple(f"{step / 5:.1f}" for step in range(26)),
)
TASKS = (FIVE_CLASS, BINARY, QUESTIONS, SIMILARITY)


@dataclass
class Table:
    """One file as strings; ``rows`` lacks the rows that could not be read."""

    path: Path
    columns: list[str]
    rows: pd.DataFrame
    faults: list[str] = field(default_factory=list)  # of its format

    def sentences(self, task: Task) -> list[tuple[str, str, str]]:
        """(file, id, sentence) for every sentence; a pair has two."""
        return [
            (self.path.name, name, text)
            for column in task.texts
            for name, text in zip(self.rows["id"], self.rows[column], strict=True)
        ]


@dataclass
class PracticeSet:
    """All tables; ``gold`` (by task) is empty where the test labels are not at hand."""

    tables: dict[tuple[Task, str], Table]
    gold: dict[Task, Table]

    def of(self, task: Task) -> list[Table]:
        """The task's three splits, the test split without its labels."""
        return [self.tables[task, split] for split in SPLITS]

    def sentences(self, task: Task) -> list[tuple[str, str, str]]:
        """(file, id, sentence) for every sentence of the three splits."""
        return [place for table in self.of(task) for place in table.sentences(task)]

    def labelled(self, task: Task) -> list[Table]:
        """The tables that hold labels: train, dev and, if at hand, the test split's."""
        tables = [self.tables[task, "train"], self.tables[task, "dev"]]
        return tables + ([self.gold[task]] if self.gold else [])

    def everything(self) -> list[Table]:
        """Every file."""
        return [*self.tables.values(), *self.gold.values()]


# ---------------------------------------------------------------------------------------------
# Reading


def read_set(data: Path, gold: Path) -> PracticeSet:
    """Read every file; a folder ``gold`` that does not exist leaves the test labels out."""
    if not data.is_dir():
        raise InputError(f"no folder {data}; give --data the folder of the practice set")
    tables = {
        (task, split): read_table(
            data / f"{task.stem}-{split}.csv", task.columns(with_label=split != "test-student")
        )
        for task in TASKS
        for split in SPLITS
    }
    labels = {
        task: read_table(gold / f"{task.stem}-test.csv", task.columns(with_label=True))
        for task in TASKS
        if gold.is_dir()
    }
    return PracticeSet(tables, labels)


def read_table(path: Path, columns: list[str]) -> Table:
    """Read one tab-separated file strictly and note every departure from the format."""
    table = Table(path, columns, pd.DataFrame(columns=columns, dtype=str))
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        table.faults.append(f"{path.name} is missing")
        return table
    except UnicodeDecodeError as error:
        table.faults.append(f"{path.name} is not UTF-8 (byte {error.start})")
        return table
    if "\r" in text:
        table.faults.append(f"{path.name} has carriage returns")
    try:
        header, *rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True)
    except (csv.Error, ValueError) as error:  # ValueError: not even a header
        table.faults.append(f"{path.name} is not a table ({error})")
        return table
    if header != ["", *columns]:
        table.faults.append(f"{path.name} header {header} instead of {['', *columns]}")
    kept = []
    for number, row in enumerate(rows):
        where = f"{path.name} row {number}"
        if len(row) != len(columns) + 1:
            table.faults.append(f"{where} has {len(row)} cells instead of {len(columns) + 1}")
            continue
        if row[0] != str(number):
            table.faults.append(f"{where} has the index {row[0]!r}")
        if any(not cell or cell != cell.strip() for cell in row):
            table.faults.append(f"{where} has a cell that is empty or has blanks at an end")
        kept.append(row[1:])
    table.rows = pd.DataFrame(kept, columns=columns, dtype=str)
    return table


# ---------------------------------------------------------------------------------------------
# The checks: each yields its faults


def format_faults(data: PracticeSet) -> Iterator[str]:
    """Tab-separated, an empty first header cell, columns by name, no label in test files."""
    for table in data.everything():
        yield from table.faults


def count_faults(data: PracticeSet) -> Iterator[str]:
    """As many rows as there should be."""
    for task in TASKS:
        for table, size in zip(data.of(task), task.sizes, strict=True):
            if len(table.rows) != size:
                yield f"{table.path.name} has {len(table.rows)} rows instead of {size}"


def length_faults(data: PracticeSet) -> Iterator[str]:
    """Reviews of 60 to 150 words."""
    for table in data.of(BINARY):
        for name, text in zip(table.rows["id"], table.rows["sentence"], strict=True):
            if not 60 <= len(text.split()) <= 150:
                yield f"{table.path.name} {name} has {len(text.split())} words"


def label_faults(data: PracticeSet) -> Iterator[str]:
    """Only the labels of the task, spelled as the course files spell them."""
    for task in TASKS:
        for table in data.labelled(task):
            for name, label in zip(table.rows["id"], table.rows[task.label], strict=True):
                if label not in task.labels:
                    yield f"{table.path.name} {name} has the label {label!r}"


def id_faults(data: PracticeSet) -> Iterator[str]:
    """25 hexadecimal digits, each id once in the whole set."""
    places = defaultdict(list)
    for table in data.tables.values():
        for name in table.rows["id"]:
            places[name].append(table.path.name)
            if not re.fullmatch("[0-9a-f]{25}", name):
                yield f"{table.path.name} {name!r} is not 25 hexadecimal digits"
    for name, files in places.items():
        if len(files) > 1:
            yield f"{name} is there {len(files)} times ({', '.join(sorted(set(files)))})"


def balance_faults(data: PracticeSet) -> Iterator[str]:
    """Sentiment classes exactly even, 40 to 60 % of the question pairs positive."""
    for task in (FIVE_CLASS, BINARY):
        for table, size in zip(data.labelled(task), task.sizes, strict=False):
            counts = Counter(table.rows[task.label])
            if any(counts[label] != size // len(task.labels) for label in task.labels):
                yield f"{table.path.name} classes {dict(sorted(counts.items()))}"
    for table in data.labelled(QUESTIONS):
        share = (table.rows[QUESTIONS.label] == "1.0").mean()
        if not 0.4 <= share <= 0.6:
            yield f"{table.path.name} {share:.0%} positive"


def grade_faults(data: PracticeSet) -> Iterator[str]:
    """Every grade 0 to 5 present among the rounded similarities of each split."""
    for table in data.labelled(SIMILARITY):
        scores = pd.to_numeric(table.rows[SIMILARITY.label], errors="coerce").dropna()
        missing = sorted(set(range(6)) - set(scores.round()))
        if missing:
            yield f"{table.path.name} has no similarity of grade {missing}"


def duplicate_faults(data: PracticeSet) -> Iterator[str]:
    """No sentence twice in a task, whatever its case and punctuation."""
    for task in TASKS:
        places = defaultdict(list)
        for file, name, text in data.sentences(task):
            places[" ".join(words(text))].append(f"{file} {name}")
        for text, found in places.items():
            if len(found) > 1:
                yield f"{' and '.join(found)}: {text[:60]!r}"


def near_duplicate_faults(data: PracticeSet) -> Iterator[str]:
    """No sentence of one split in nearly the same words in another one."""
    for task in TASKS:
        sentences = [place for place in data.sentences(task) if words(place[2])]
        if not sentences:
            continue
        texts = [text for _, _, text in sentences]
        sets = CountVectorizer(analyzer=words, binary=True).fit_transform(texts)  # (n, words)
        common = (sets @ sets.T).tocoo()  # (n, n): how many words two sentences share
        sizes = common.diagonal()
        union = sizes[common.row] + sizes[common.col] - common.data
        for k in (common.data > NEAR * union).nonzero()[0]:
            first, second = sentences[common.row[k]], sentences[common.col[k]]
            if common.row[k] < common.col[k] and first[0] != second[0]:
                yield f"{first[0]} {first[1]} and {second[0]} {second[1]}"


def run_faults(data: PracticeSet) -> Iterator[str]:
    """No run of four words in more than 1 % of the sentences of a task.

    Sentences are counted over all splits, and a review counts as the sentences it consists of.
    """
    for task in TASKS:
        sentences = [
            sentence
            for table in data.of(task)
            for _, _, text in table.sentences(task)
            for sentence in re.split(r"(?<=[.!?])[\"')]*\s+", text)
        ]
        counts = Counter(run for sentence in sentences for run in runs(sentence))
        for run, count in counts.most_common():
            if count > len(sentences) / 100:
                where = f"in {count} of {len(sentences)} sentences"
                yield f"{task.stem}-*.csv: {' '.join(run)!r} {where}"


def gold_faults(data: PracticeSet) -> Iterator[str]:
    """The labelled test files hold exactly the test files' examples, in the same order."""
    for task, labelled in data.gold.items():
        table = data.tables[task, "test-student"]
        ids, gold_ids = list(table.rows["id"]), list(labelled.rows["id"])
        if set(ids) != set(gold_ids):
            only, gold_only = sorted(set(ids) - set(gold_ids)), sorted(set(gold_ids) - set(ids))
            yield f"{labelled.path.name} lacks {only[:SHOWN]} and has {gold_only[:SHOWN]} too many"
        elif ids != gold_ids:
            yield f"{labelled.path.name} has the ids of {table.path.name} in another order"
        elif not table.rows.equals(labelled.rows[table.columns]):
            different = (table.rows != labelled.rows[table.columns]).any(axis=1)
            names = list(table.rows["id"][different])
            yield f"{labelled.path.name} differs from {table.path.name} at {names[:SHOWN]}"


def words(text: str) -> list[str]:
    """The words of a text without case and punctuation; "don't" is one word."""
    return re.findall(r"\w+", re.sub("['’]", "", text.casefold()))


def runs(text: str) -> set[tuple[str, ...]]:
    """Every run of four words of a text."""
    found = words(text)
    return {tuple(found[k : k + RUN]) for k in range(len(found) - RUN + 1)}


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
    found = check(args.data, args.gold)
    if not args.gold.is_dir():
        del found["test labels"]
        print(f"note   no folder {args.gold}: the test labels were not checked")
    for title, faults in found.items():
        print(report(title, faults))
    bad = sum(bool(faults) for faults in found.values())
    if bad:
        raise InputError(f"{bad} of {len(found)} checks found faults in {args.data}")


if __name__ == "__main__":
    run_script(main)
