"""SST-2, IMDB, SNLI, MultiNLI, Quora, files of pairs for our scripts; samples; plain text.

    command                                                 writes into --out
    python data/convert.py sst2 GLUE/SST-2 --out sst2       train.csv, dev.csv
    python data/convert.py imdb FOLDER --out imdb           train.csv, dev.csv, test.csv
    python data/convert.py snli FOLDER --out snli           nli-train.csv, nli-dev.csv
    python data/convert.py multinli FOLDER --out multinli   nli-train.csv, nli-dev.csv
    python data/convert.py pairs FILE.tsv.gz --out pairs    {nli,sts}-{train,dev,test}.csv
    python data/convert.py quora quora-dev.csv --out quora  quora-small-{train,dev}.csv
    python data/convert.py few FILE.csv --rows 200 --out few    FILE-200.csv
    python data/convert.py zorro FOLDER --rows 100 --out zorro-sample    as in FOLDER, fewer pairs
    python data/convert.py text FILE.csv --out text         FILE.txt
    python data/convert.py speech FILE.csv --out speech     FILE.txt

SST-2 is GLUE's folder with train.tsv and dev.tsv. IMDB is the folder aclImdb as its authors pack
it, a text a file, or one of CSV files named like imdb-train-00.csv and imdb-test-00.csv with the
columns id, label and text; with ids half/class/number it gives the same. Of the test half a random
half joins the training half; a tenth of these 37,500 is kept for evaluation, the other half of the
test texts for the test. Where a test text is also in what is trained on, it is counted.

SNLI is its authors' folder with snli_1.0_SPLIT.jsonl or .txt, or one of s1.SPLIT, s2.SPLIT and
labels.SPLIT, a sentence or a word a line, where SPLIT is train, dev and test. Without its
training part, which is large, what it has for development is trained on, and its test part is the
one to look at. MultiNLI is a folder with multinli_1.0_SPLIT.jsonl or .txt, where SPLIT is train and
dev_matched. The classes are 0 contradiction, 1 neutral, 2 entailment.

Pairs are the files of sentence-transformers, AllNLI.tsv.gz and stsbenchmark.tsv.gz: a column says
which split a pair is of.

Quora's dev file alone, or the whole quora_duplicate_questions.tsv, is cut into a fifth to evaluate
on and the rest to train on, so that no question is in both: pairs that share a question, also by
way of others, stay together.

Few labels are a random sample of a file's rows, the same one for the same --seed and --rows; of two
samples the smaller one is a part of the larger one. Classes are drawn as they come, not balanced.

Zorro's files have a sentence a line, first the ungrammatical one of each pair. Of each file --rows
pairs are drawn at random and stay in their order; the licence goes with them.

The sentences of a course file become a text for pretraining/pretrain.py, in which each is a
document; or words with parts of speech, a pair a line, for lessons/word_tagger.py to learn from.
These are what lexicon and rules of the package textblob say (pip install textblob): no download, no
gold either.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from datasets import preprocess_string
from training.cli.flags import OneLineParser, positive_int, seed
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.tables import class_labels, parse_table, read_table, refuse
from training.files.texts import parse_json, read_text
from training.files.writing import atomic_write, write_whole
from training.loop.progress import progress_bar

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")  # don't is one word, a mark is one
DEV_SHARE = 0.2  # of the pairs that are cut
PAIR = ("sentence1", "sentence2")
RELATIONS = ("contradiction", "neutral", "entailment")
OF_A_FILE = ("quora", "pairs", "few", "text", "speech")
IMDB_FILES = {"train": "imdb-train-*.csv", "test": "imdb-test-*.csv"}


def read(path: Path, columns: tuple[str, ...], *format_: Any) -> pd.DataFrame:
    """A table of texts with these columns; InputError where there is none.

    Args:
        format_: of a file that is not JSON, what ``parse_table`` takes: by default it is separated
            by tabs, and its cells may be quoted.
    """
    if path.suffix == ".jsonl":
        lines = enumerate(read_text(path).split("\n"), start=1)
        entries = [parse_json(line, f"{path}, line {i}") for i, line in lines if line.strip()]
        table = pd.DataFrame(entries)
    else:
        table = parse_table(path, *format_)
    missing = [name for name in columns if name not in table]
    if missing or table.empty:
        wanted = f"lacks the column {missing[0]}" if missing else "has no rows"
        raise InputError(f"{path} {wanted}; it should have {', '.join(columns)}")
    for name in columns:
        bad = ~table[name].map(lambda cell: isinstance(cell, str))
        refuse(path, table, bad, f"has no text as its {name}", "fix the row or remove it")
    return table


# Tables with tabs in which quotation marks are only that
UNQUOTED = ("\t", False)


def read_sentiment(path: Path, columns: tuple[str, ...], *format_: Any) -> pd.DataFrame:
    """A table of texts whose label is 0 or 1."""
    table = read(path, columns, *format_)
    return table.assign(label=class_labels(path, table, 2).astype(str))


def sst2(folder: Path) -> dict[str, pd.DataFrame]:
    """GLUE's SST-2: 67,349 phrases to train on, 872 sentences to look at."""
    tables = {}
    for split in ("train", "dev"):
        table = read_sentiment(folder / f"{split}.tsv", ("sentence", "label"), *UNQUOTED)
        ids = [f"{split}-{number}" for number in range(len(table))]
        tables[split] = table.assign(id=ids).rename(columns={"sentence": "text"})
    return tables


def imdb(folder: Path, seed: int) -> dict[str, pd.DataFrame]:
    """IMDB's 50,000 reviews split into 33,750, 3,750 and 12,500, as many of each class in all."""
    from sklearn.model_selection import train_test_split  # here, because importing it takes long

    halves = {}
    for name, pattern in IMDB_FILES.items():
        files = sorted(folder.glob(pattern))
        tables = [read_sentiment(file, ("id", "label", "text"), ",") for file in files] or [
            one_a_file(folder, name)
        ]
        halves[name] = pd.concat(tables).sort_values("id")  # the split depends on the order
        halves[name]["text"] = halves[name]["text"].str.replace("<br />", " ", regex=False)
    joins, test = train_test_split(
        halves["test"], test_size=0.5, random_state=seed, stratify=halves["test"]["label"]
    )
    both = pd.concat([halves["train"], joins])
    train, dev = train_test_split(both, test_size=0.1, random_state=seed, stratify=both["label"])
    in_both = halves["test"]["text"].isin(set(halves["train"]["text"])).sum()
    seen = test["text"].isin(set(both["text"])).sum()
    print(f"{in_both} texts of IMDB's test half are in its training half as well")
    print(f"{seen} of the {len(test):,} test texts made here are in train.csv or dev.csv as well")
    return {"train": train, "dev": dev, "test": test}


def one_a_file(folder: Path, half: str) -> pd.DataFrame:
    """aclImdb/train or aclImdb/test: neg/NUMBER_RATING.txt and pos/NUMBER_RATING.txt."""
    rows = [
        (f"{half}/{kind}/{path.stem.partition('_')[0]}", label, read_text(path))
        for label, kind in (("0", "neg"), ("1", "pos"))
        for path in (folder / half / kind).glob("*_*.txt")
    ]
    if len({label for _, label, _ in rows}) < 2:
        raise InputError(
            f"{folder} has neither files {IMDB_FILES[half]} nor texts in {half}/neg and {half}/pos"
        )
    return pd.DataFrame(rows, columns=["id", "label", "text"])


def snli(folder: Path) -> dict[str, pd.DataFrame]:
    """SNLI's pairs with one of three relations."""
    is_whole = (folder / "labels.train").is_file() or [*folder.glob("snli_1.0_train.*")]
    train, dev = ("train", "dev") if is_whole else ("dev", "test")
    return {
        "nli-train": with_relation(relations(folder, "snli_1.0", train), train),
        "nli-dev": with_relation(relations(folder, "snli_1.0", dev), dev),
    }


def multinli(folder: Path) -> dict[str, pd.DataFrame]:
    """MultiNLI's pairs, from ten genres; dev has the five that are trained on."""
    return {
        f"nli-{split}": with_relation(relations(folder, "multinli_1.0", part), split)
        for split, part in (("train", "train"), ("dev", "dev_matched"))
    }


def with_relation(table: pd.DataFrame, split: str) -> pd.DataFrame:
    """Pairs with ids and numbers of relations; those that people did not agree on are left out."""
    table = with_ids(table[table["relation"].isin(RELATIONS)], split)
    return table.assign(relation=table["relation"].map(RELATIONS.index))


def with_ids(table: pd.DataFrame, split: str) -> pd.DataFrame:
    """The same rows, numbered: dev-0, dev-1 …"""
    ids = pd.Series([f"{split}-{number}" for number in range(len(table))], name="id")
    return pd.concat([ids, table.reset_index(drop=True)], axis=1)


def relations(folder: Path, name: str, split: str) -> pd.DataFrame:
    """sentence1, sentence2 and relation, in any of the forms that SNLI and MultiNLI have."""
    for file in (folder / f"{name}_{split}.jsonl", folder / f"{name}_{split}.txt"):
        if file.is_file():
            table = read(file, (*PAIR, "gold_label"), *UNQUOTED)[[*PAIR, "gold_label"]]
            return table.rename(columns={"gold_label": "relation"})
    if not (folder / f"labels.{split}").is_file():
        raise InputError(f"{folder} has neither {name}_{split}.jsonl nor .txt; name their folder")
    first, second, labels = (
        [line.strip() for line in read_text(folder / f"{part}.{split}").rstrip("\n").split("\n")]
        for part in ("s1", "s2", "labels")
    )
    if not len(first) == len(second) == len(labels):
        raise InputError(
            f"{folder}: s1.{split}, s2.{split} and labels.{split} have {len(first)}, "
            f"{len(second)} and {len(labels)} lines; fetch them again"
        )
    return pd.DataFrame({"sentence1": first, "sentence2": second, "relation": labels})


def pairs(file: Path) -> dict[str, pd.DataFrame]:
    """AllNLI.tsv.gz or stsbenchmark.tsv.gz of sentence-transformers, a table a split."""
    table = read(file, ("split", *PAIR), *UNQUOTED)
    if "label" in table:
        task, label, ours, number = "nli", "label", "relation", with_relation
    elif "score" in table:
        task, label, ours, number = "sts", "score", "similarity", with_ids
    else:
        raise InputError(f"{file} lacks the column label or score: is it AllNLI or stsbenchmark?")
    odd = ~table["split"].isin(("train", "dev", "test"))
    refuse(file, table, odd, "has a split other than train, dev and test", "fix it")
    table = table[["split", *PAIR, label]].rename(columns={label: ours})
    return {
        f"{task}-{split}": number(rows.drop(columns="split"), split)
        for split, rows in table.groupby("split", sort=False)
    }


def quora(file: Path, seed: int) -> dict[str, pd.DataFrame]:
    """The rows of a file of pairs, by names of two new ones in which no question is twice."""
    pairs = without_index(read(file, ("id", "is_duplicate")))
    if not {*PAIR} <= {*pairs}:
        pairs = pairs.rename(columns=dict(zip(("question1", "question2"), PAIR, strict=True)))
    if not {*PAIR} <= {*pairs}:
        raise InputError(f"{file} has neither sentence1 and sentence2 nor question1 and question2")
    pairs = pairs[["id", *PAIR, "is_duplicate"]]
    questions = (
        pd.concat([pairs["sentence1"], pairs["sentence2"]]).str.lower().map(preprocess_string)
    )
    names = pd.factorize(questions)[0]
    first, second = names[: len(pairs)], names[len(pairs) :]
    edges = coo_array((np.ones(len(pairs)), (first, second)), shape=[names.max() + 1] * 2)
    group = connected_components(edges, directed=False)[1][first]  # of each pair
    order = np.random.default_rng(seed).permutation(group.max() + 1)
    sizes = np.bincount(group)[order].cumsum()
    is_dev = np.isin(group, order[sizes <= DEV_SHARE * len(pairs)])
    return {"quora-small-train": pairs[~is_dev], "quora-small-dev": pairs[is_dev]}


def without_index(table: pd.DataFrame) -> pd.DataFrame:
    """A course file's rows without its first column, if that is the unnamed one of row numbers."""
    if table.columns[0] == "Unnamed: 0":
        return table.set_index(table.columns[0]).rename_axis(None)
    return table


def few(file: Path, seed: int, count: int) -> dict[str, pd.DataFrame]:
    """A random sample of a tab-separated file's rows, by the name of its new file."""
    rows = without_index(read(file, ("id",)))
    if count > len(rows):
        raise InputError(f"{file} has {len(rows):,} rows, fewer than --rows {count:,}")
    drawn = np.random.default_rng(seed).permutation(len(rows))[:count]
    return {f"{file.stem}-{count}": rows.iloc[drawn].reset_index(drop=True)}


def zorro(folder: Path, out: Path, seed: int, count: int) -> None:
    """Write a random sample of the pairs in each of Zorro's files, and its licence."""
    files = sorted(folder.glob("*.txt"))
    if not files or not (folder / "LICENSE").is_file():
        raise InputError(f"{folder} has no *.txt with a LICENSE; name Zorro's folder of sentences")
    for file in files:
        lines = read_text(file).rstrip("\n").split("\n")
        if len(lines) < 2 * count or len(lines) % 2:
            raise InputError(f"{file} has {len(lines):,} lines, not two a pair for {count:,} pairs")
        drawn = np.sort(np.random.default_rng(seed).permutation(len(lines) // 2)[:count])
        with atomic_write(out / file.name) as sample:
            sample.writelines(f"{lines[2 * i]}\n{lines[2 * i + 1]}\n" for i in drawn)
    write_whole(out / "LICENSE", read_text(folder / "LICENSE"))
    print(f"wrote {count:,} pairs of each of {len(files)} files into {out}")


def texts_of(file: Path) -> list[str]:
    """The different texts of a course file, on one line each."""
    columns = PAIR if "sentence1" in parse_table(file) else ("sentence",)
    table = read_table(file, ("id", *columns), None)
    texts = table[list(columns)].melt()["value"].str.split().str.join(" ")
    return texts[texts != ""].drop_duplicates().tolist()


def tagged(texts: list[str]) -> list[str]:
    """Of each text its words, each with a tab and its part of speech, of Penn Treebank's."""
    try:
        from textblob.taggers import PatternTagger
    except ImportError:
        raise InputError("parts of speech need textblob: pip install textblob") from None
    tagger = PatternTagger()
    found = []
    for text in progress_bar(texts, "tag"):
        words = WORD.findall(text)
        tags = tagger.tag(" ".join(words), tokenize=False)
        if [word for word, _ in tags] == words:  # it takes some words apart
            found.append("\n".join(map("\t".join, tags)))
    return found


def write(folder: Path, tables: dict[str, pd.DataFrame]) -> None:
    """Each table tab-separated with an index; texts alone become sentence and sentiment."""
    if empty := [name for name, table in tables.items() if table.empty]:
        raise InputError(f"nothing is left for {empty[0]}.csv: is this the right file or folder?")
    for name, table in tables.items():
        if "text" in table:
            text = table["text"].str.replace(r"[\t\r\n]", " ", regex=True).str.strip()
            rows = {"id": table["id"], "sentence": text, "sentiment": table["label"]}
            table = pd.DataFrame(rows).reset_index(drop=True)
        with atomic_write(folder / f"{name}.csv") as file:
            table.to_csv(file, sep="\t", lineterminator="\n")
        print(f"wrote {folder / name}.csv: {len(table):,} rows")


def main() -> None:
    """Convert one data set."""
    parser = OneLineParser(description="Other data sets as files for our scripts.")
    kinds = ("sst2", "imdb", "snli", "multinli", "zorro", *OF_A_FILE)
    parser.add_argument("kind", choices=kinds)
    parser.add_argument(
        "folder", type=Path, help=f"where the files are; of {', '.join(OF_A_FILE)} the file"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=seed, default=11711, help="of splits and samples")
    parser.add_argument("--rows", type=positive_int, help="how many few and zorro take")
    args: argparse.Namespace = parser.parse_args()
    if args.kind in OF_A_FILE and not args.folder.is_file():
        raise InputError(f"no file {args.folder}; {args.kind} converts a file, not a folder")
    if (args.kind in ("few", "zorro")) != bool(args.rows):
        parser.error("few and zorro need --rows, and nothing else takes it")
    if args.kind == "zorro":
        zorro(args.folder, args.out, args.seed, args.rows)
        return
    if args.kind in ("text", "speech"):
        texts = texts_of(args.folder)
        texts = tagged(texts) if args.kind == "speech" else texts
        write_whole(args.out / f"{args.folder.stem}.txt", "\n\n".join(texts) + "\n")
        print(f"wrote {args.out / args.folder.stem}.txt")
        return
    drawn = {"imdb": imdb, "quora": quora, "few": partial(few, count=args.rows)}
    if args.kind in drawn:
        tables = drawn[args.kind](args.folder, args.seed)
    else:
        read_kind = {"sst2": sst2, "snli": snli, "multinli": multinli, "pairs": pairs}[args.kind]
        tables = read_kind(args.folder)
    write(args.out, tables)


if __name__ == "__main__":
    run_script(main)
