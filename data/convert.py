"""SST-2, IMDB, SNLI, MultiNLI and Quora for our scripts; samples; plain text.

    command                                                 writes into --out
    python -m data.convert sst2 GLUE/SST-2 --out sst2       train.csv, dev.csv
    python -m data.convert imdb FOLDER --out imdb           train.csv, dev.csv, test.csv
    python -m data.convert snli FOLDER --out snli           nli-train.csv, nli-dev.csv
    python -m data.convert multinli FOLDER --out multinli   nli-train.csv, nli-dev.csv
    python -m data.convert quora quora-dev.csv --out quora  quora-small-{train,dev}.csv
    python -m data.convert few FILE.csv --rows 200 --out few    FILE-200.csv
    python -m data.convert text FILE.csv --out text         FILE.txt

Folders are as the authors pack them: GLUE's SST-2 with train.tsv and dev.tsv, aclImdb, and the ones
with snli_1.0_SPLIT.jsonl and multinli_1.0_SPLIT.jsonl. Of IMDB a random half of the test half joins
the training half, and a tenth of these 37,500 is kept for evaluation. SNLI without its file of
train is trained on dev, and evaluated on test.

Quora's pairs are cut into a fifth to evaluate on and the rest to train on, so that no question is
in both. Few labels are a random sample of a file's rows; of two samples the smaller one is a part
of the larger one. The sentences of a course file become a text for pretraining/pretrain.py, in
which each is a document.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from datasets import preprocess_string
from training.cli.flags import OneLineParser, positive_int, seed
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.tables import check_columns, class_labels, column_names, parse_table, refuse
from training.files.texts import parse_json, read_text
from training.files.writing import atomic_write, write_whole

DEV_SHARE = 0.2  # of the pairs that are cut
PAIR = ("sentence1", "sentence2")
RELATIONS = ("contradiction", "neutral", "entailment")
Tables = dict[str, pd.DataFrame]  # by the names of their files, without .csv


def read(path: Path, columns: tuple[str, ...], quoted: bool = True) -> pd.DataFrame:
    """A table of texts with these columns; InputError where there is none.

    Args:
        quoted: whether quotation marks may enclose the cells of a table with tabs.
    """
    if path.suffix == ".jsonl":
        lines = enumerate(read_text(path).split("\n"), start=1)
        table = pd.DataFrame([parse_json(x, f"{path}, line {i}") for i, x in lines if x.strip()])
        table.columns = column_names([*table.columns])
    else:
        table = parse_table(path, quoted=quoted)
    check_columns(path, table, columns)
    for name in columns:
        bad = ~table[name].map(lambda cell: isinstance(cell, str))
        refuse(path, table, bad, f"has no text as its {name}", "fix the row or remove it")
    return table


def as_sentiment(path: Path, table: pd.DataFrame) -> pd.DataFrame:
    """The columns id, sentence and sentiment of a table with id, sentence and label, 0 or 1."""
    text = table["sentence"].str.replace(r"<br />|[\t\r\n]", " ", regex=True).str.strip()
    labels = class_labels(path, table, 2)
    return pd.DataFrame({"id": table["id"], "sentence": text, "sentiment": labels})


def sst2(folder: Path, args: Namespace) -> Tables:
    """GLUE's SST-2: 67,349 phrases to train on, 872 sentences to look at."""
    tables = {}
    for split in ("train", "dev"):
        path = folder / f"{split}.tsv"
        table = with_ids(read(path, ("sentence", "label"), quoted=False), split)
        tables[split] = as_sentiment(path, table)
    return tables


def imdb(folder: Path, args: Namespace) -> Tables:
    """IMDB's 50,000 reviews split into 33,750, 3,750 and 12,500, as many of each class in all."""
    from sklearn.model_selection import train_test_split  # here, because importing it takes long

    halves = {half: as_sentiment(folder, reviews(folder, half)) for half in ("train", "test")}

    def split(rows: pd.DataFrame, size: float) -> list[pd.DataFrame]:
        classes = rows["sentiment"]
        return train_test_split(rows, test_size=size, random_state=args.seed, stratify=classes)

    joins, test = split(halves["test"], 0.5)
    train, dev = split(pd.concat([halves["train"], joins]), 0.1)
    tables = {"train": train, "dev": dev, "test": test}
    return {name: table.reset_index(drop=True) for name, table in tables.items()}


def reviews(folder: Path, half: str) -> pd.DataFrame:
    """aclImdb/train or aclImdb/test: neg/NUMBER_RATING.txt and pos/NUMBER_RATING.txt."""
    rows = [
        (f"{half}/{kind}/{path.stem.partition('_')[0]}", label, read_text(path))
        for label, kind in (("0", "neg"), ("1", "pos"))
        for path in (folder / half / kind).glob("*_*.txt")
    ]
    if len({label for _, label, _ in rows}) < 2:
        raise InputError(f"{folder} has no reviews in {half}/neg and {half}/pos; is it aclImdb?")
    rows = pd.DataFrame(rows, columns=["id", "label", "sentence"])
    return rows.sort_values("id")  # the split depends on the order


def snli(folder: Path, args: Namespace) -> Tables:
    """SNLI's pairs with one of three relations."""
    is_whole = (folder / "snli_1.0_train.jsonl").is_file()
    splits = ("train", "dev") if is_whole else ("dev", "test")
    train, dev = (relations(folder / f"snli_1.0_{part}.jsonl", part) for part in splits)
    return {"nli-train": train, "nli-dev": dev}


def multinli(folder: Path, args: Namespace) -> Tables:
    """MultiNLI's pairs, from ten genres; dev has the five that are trained on."""
    return {
        f"nli-{split}": relations(folder / f"multinli_1.0_{part}.jsonl", split)
        for split, part in (("train", "train"), ("dev", "dev_matched"))
    }


def relations(path: Path, split: str) -> pd.DataFrame:
    """Pairs with ids and numbers of relations; those that people did not agree on are left out."""
    table = read(path, (*PAIR, "gold_label"))
    table = with_ids(table[table["gold_label"].isin(RELATIONS)], split)
    return table[["id", *PAIR]].assign(relation=table["gold_label"].map(RELATIONS.index))


def with_ids(table: pd.DataFrame, split: str) -> pd.DataFrame:
    """The same rows, numbered: dev-0, dev-1 …"""
    ids = pd.Series([f"{split}-{number}" for number in range(len(table))], name="id")
    return pd.concat([ids, table.reset_index(drop=True)], axis=1)


def quora(file: Path, args: Namespace) -> Tables:
    """The rows of a file of pairs as two tables in which no question is twice."""
    pairs = read(file, ("id", *PAIR, "is_duplicate"))[["id", *PAIR, "is_duplicate"]]
    questions = pd.concat([pairs["sentence1"], pairs["sentence2"]]).str.lower()
    names = pd.factorize(questions.map(preprocess_string))[0]
    first, second = names[: len(pairs)], names[len(pairs) :]
    edges = coo_array((np.ones(len(pairs)), (first, second)), shape=[names.max() + 1] * 2)
    group = connected_components(edges, directed=False)[1][first]  # of each pair
    order = np.random.default_rng(args.seed).permutation(group.max() + 1)
    sizes = np.bincount(group)[order].cumsum()
    is_dev = np.isin(group, order[sizes <= DEV_SHARE * len(pairs)])
    return {"quora-small-train": pairs[~is_dev], "quora-small-dev": pairs[is_dev]}


def few(file: Path, args: Namespace) -> Tables:
    """A random sample of a tab-separated file's rows."""
    rows = read(file, ("id",))
    rows = rows.loc[:, ~rows.columns.str.startswith("unnamed")]  # a course file's numbers of rows
    if not args.rows or args.rows > len(rows):
        raise InputError(f"{file} has {len(rows):,} rows; give as --rows how many to draw")
    drawn = np.random.default_rng(args.seed).permutation(len(rows))[: args.rows]
    return {f"{file.stem}-{args.rows}": rows.iloc[drawn].reset_index(drop=True)}


def texts_of(file: Path) -> list[str]:
    """The different texts of a course file, on one line each."""
    table = read(file, ("id",))
    columns = [name for name in (*PAIR, "sentence") if name in table]
    texts = table[columns].melt()["value"].str.split().str.join(" ")
    return texts[texts != ""].drop_duplicates().tolist()


KINDS = {kind.__name__: kind for kind in (sst2, imdb, snli, multinli, quora, few)}


def main() -> None:
    """Convert one data set."""
    parser = OneLineParser(description="Other data sets as files for our scripts.")
    parser.add_argument("kind", choices=(*KINDS, "text"))
    parser.add_argument("source", type=Path, help="the folder, or the file, of the data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=seed, default=11711, help="of splits and samples")
    parser.add_argument("--rows", type=positive_int, help="how many rows few draws")
    args = parser.parse_args()
    if args.kind == "text":
        path = args.out / f"{args.source.stem}.txt"
        write_whole(path, "\n\n".join(texts_of(args.source)) + "\n")
        print(f"wrote {path}")
        return
    tables = KINDS[args.kind](args.source, args)
    for name, table in tables.items():
        with atomic_write(args.out / f"{name}.csv") as file:
            table.to_csv(file, sep="\t", lineterminator="\n")
        print(f"wrote {args.out / name}.csv: {len(table):,} rows")


if __name__ == "__main__":
    run_script(main)
