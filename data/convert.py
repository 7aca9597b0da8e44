"""IMDB and SNLI for our scripts; samples; plain text.

    command                                                 writes into --out
    python -m data.convert imdb FOLDER --out imdb           train.csv, dev.csv, test.csv
    python -m data.convert snli FOLDER --out snli           nli-train.csv, nli-dev.csv
    python -m data.convert few FILE.csv --rows 200 --out few    FILE-200.csv
    python -m data.convert text FILE.csv --out text         FILE.txt

Folders are as the authors pack them: aclImdb, and the one with snli_1.0_SPLIT.jsonl. Of IMDB a
random half of the test half joins the training half, and a tenth of these 37,500 is kept for
evaluation. SNLI without its file of train is trained on dev, and evaluated on test.

Few labels are a random sample of a file's rows; of two samples the smaller one is a part of the
larger one. The sentences of a course file become a text for pretraining/pretrain.py, in which each
is a document.
"""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd

from training.cli.flags import OneLineParser, positive_int, seed
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.tables import check_columns, parse_table, refuse
from training.files.texts import parse_json, read_text
from training.files.writing import write_whole

PAIR = ("sentence1", "sentence2")
BREAK = re.compile(r"<br />|[\t\r\n]")  # in a review
RELATIONS = ("contradiction", "neutral", "entailment")


def as_csv(tables: dict[str, pd.DataFrame]) -> dict[str, str]:
    """Names of files, and what goes into them, rows numbered from 0."""
    numbered = {name: table.reset_index(drop=True) for name, table in tables.items()}
    return {f"{name}.csv": x.to_csv(sep="\t", lineterminator="\n") for name, x in numbered.items()}


def imdb(folder: Path, args: Namespace) -> dict[str, str]:
    """IMDB's 50,000 reviews split into 33,750, 3,750 and 12,500, as many of each class in all."""
    from sklearn.model_selection import train_test_split  # here, because importing it takes long

    halves = {half: reviews(folder, half) for half in ("train", "test")}

    def split(rows: pd.DataFrame, size: float) -> list[pd.DataFrame]:
        classes = rows["sentiment"]
        return train_test_split(rows, test_size=size, random_state=args.seed, stratify=classes)

    joins, test = split(halves["test"], 0.5)
    train, dev = split(pd.concat([halves["train"], joins]), 0.1)
    return as_csv({"train": train, "dev": dev, "test": test})


def reviews(folder: Path, half: str) -> pd.DataFrame:
    """aclImdb/train or aclImdb/test: neg/NUMBER_RATING.txt and pos/NUMBER_RATING.txt."""
    rows = [
        (f"{half}/{kind}/{path.stem.partition('_')[0]}", BREAK.sub(" ", read_text(path)), label)
        for label, kind in enumerate(("neg", "pos"))
        for path in (folder / half / kind).glob("*_*.txt")
    ]
    if len({label for *_, label in rows}) < 2:
        raise InputError(f"{folder} has no reviews in {half}/neg and {half}/pos; is it aclImdb?")
    rows = pd.DataFrame(rows, columns=["id", "sentence", "sentiment"])
    return rows.sort_values("id")  # the split depends on the order


def snli(folder: Path, args: Namespace) -> dict[str, str]:
    """SNLI's pairs with one of three relations."""
    is_whole = (folder / "snli_1.0_train.jsonl").is_file()
    splits = ("train", "dev") if is_whole else ("dev", "test")
    train, dev = (relations(folder / f"snli_1.0_{part}.jsonl", part) for part in splits)
    return as_csv({"nli-train": train, "nli-dev": dev})


def relations(path: Path, split: str) -> pd.DataFrame:
    """Pairs with ids and numbers of relations; those that people did not agree on are left out."""
    lines = enumerate(read_text(path).split("\n"), start=1)
    table = pd.DataFrame([parse_json(x, f"{path}, line {i}") for i, x in lines if x.strip()])
    columns = (*PAIR, "gold_label")
    check_columns(path, table, columns)
    for name in columns:
        bad = ~table[name].map(lambda cell: isinstance(cell, str))
        refuse(path, table, bad, f"has no text as its {name}", "fix the row or remove it")
    table = table[table["gold_label"].isin(RELATIONS)]
    ids = [f"{split}-{number}" for number in range(len(table))]
    return table[[*PAIR]].assign(id=ids, relation=table["gold_label"].map(RELATIONS.index))


def few(file: Path, args: Namespace) -> dict[str, str]:
    """A random sample of a table's rows."""
    rows = parse_table(read_text(file), file)
    rows = rows.loc[:, ~rows.columns.str.startswith("unnamed")]  # a course file's numbers of rows
    if not args.rows or args.rows > len(rows):
        raise InputError(f"{file} has {len(rows):,} rows; give as --rows how many to draw")
    drawn = np.random.default_rng(args.seed).permutation(len(rows))[: args.rows]
    return as_csv({f"{file.stem}-{args.rows}": rows.iloc[drawn]})


def text(file: Path, args: Namespace) -> dict[str, str]:
    """The different texts of a course file, a document each, which is a line."""
    table = parse_table(read_text(file), file)
    columns = [name for name in (*PAIR, "sentence") if name in table] or ["sentence"]
    check_columns(file, table, columns)
    texts = table[columns].melt()["value"].str.split().str.join(" ")
    return {f"{file.stem}.txt": "\n\n".join(texts[texts != ""].drop_duplicates()) + "\n"}


KINDS = {kind.__name__: kind for kind in (imdb, snli, few, text)}


def main() -> None:
    """Convert one data set."""
    parser = OneLineParser(description="Other data sets as files for our scripts.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("source", type=Path, help="the folder, or the file, of the data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=seed, default=11711, help="of splits and samples")
    parser.add_argument("--rows", type=positive_int, help="how many rows few draws")
    args = parser.parse_args()
    for name, content in KINDS[args.kind](args.source, args).items():
        write_whole(args.out / name, content)
        print(f"wrote {args.out / name}")


if __name__ == "__main__":
    run_script(main)
