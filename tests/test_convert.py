"""data/convert.py: classifier.py reads what it writes, and the split of IMDB is the one said."""

import json
from pathlib import Path

import pandas as pd
import pytest
from running import assert_refused, load_script, succeeded

from datasets import load_data, load_pairs


@pytest.fixture
def convert(run_script_here):
    """A function that runs the script with a command line."""
    script = load_script("data/convert.py")
    return lambda *arguments: run_script_here(script, *arguments)


@pytest.fixture
def reviews(tmp_path) -> Path:
    """80 reviews a half in two files each; three texts stand in both halves."""
    folder = tmp_path / "reviews"
    folder.mkdir()
    for half in ("train", "test"):
        texts = [f'{half} {i},"quoted"<br />with\ta tab\x85and more' for i in range(80)]
        texts[:3] = ["seen twice a", "seen twice b", "seen twice c"]
        rows = pd.DataFrame({"id": [f"{half}/{i}" for i in range(80)], "text": texts})
        rows = rows.assign(label=[i % 2 for i in range(80)], rating=5)
        for number in range(2):
            part = rows.iloc[40 * number : 40 * number + 40]
            part.to_csv(folder / f"imdb-{half}-0{number}.csv", index=False)
    return folder


def test_the_split_of_the_reviews(convert, reviews, tmp_path):
    succeeded(convert("imdb", reviews, "--out", tmp_path / "out", "--seed", 3))
    rows = {name: load_data(tmp_path / "out" / f"{name}.csv", "dev") for name in SPLITS}
    assert {name: len(found) for name, found in rows.items()} == SPLITS
    ids = [key for found in rows.values() for *_, key in found]
    assert len(set(ids)) == 160
    assert all(key.startswith("test/") for *_, key in rows["test"])
    assert sum(label for _, label, _ in rows["test"]) == 20  # half of them
    text, label, _ = next(row for row in rows["train"] if row[2] == "train/10")
    assert (text, label) == ('train 10,"quoted" with a tab\x85and more', 0)


def test_the_reviews_as_their_authors_pack_them(convert, reviews, tmp_path):
    """They make the same files as tables with the ids that these texts have."""
    packed = tmp_path / "aclImdb"
    for file in reviews.glob("*.csv"):
        rows = pd.read_csv(file, dtype=str)
        kinds = rows["label"].map({"0": "neg", "1": "pos"})
        rows["id"] = [
            key.replace("/", f"/{kind}/") for key, kind in zip(rows["id"], kinds, strict=True)
        ]
        for row in rows.itertuples():
            (packed / row.id).parent.mkdir(parents=True, exist_ok=True)
            (packed / f"{row.id}_7.txt").write_text(row.text, encoding="utf-8")
        rows.to_csv(file, index=False)
    for folder, out in ((reviews, "a"), (packed, "b")):
        succeeded(convert("imdb", folder, "--out", tmp_path / out))
    for name in SPLITS:
        first, second = (tmp_path / out / f"{name}.csv" for out in "ab")
        assert first.read_bytes() == second.read_bytes()
    (packed / "test" / "pos").rename(packed / "test" / "positive")
    done = convert("imdb", packed, "--out", tmp_path / "c")
    assert_refused(done, "texts in test/neg and test/pos", code=1)


SPLITS = {"train": 108, "dev": 12, "test": 40}


def test_phrases(convert, tmp_path):
    """GLUE never quotes a cell: quotation marks are text."""
    for name in ("train", "dev"):
        text = f'\ufeffsentence\tlabel\n" a {name} phrase \t1\nbad\t0\nso good " \t0\n'
        (tmp_path / f"{name}.tsv").write_text(text, encoding="utf-8")
    succeeded(convert("sst2", tmp_path, "--out", tmp_path / "out"))
    assert load_data(tmp_path / "out/train.csv", "dev") == [
        ('" a train phrase', 1, "train-0"),
        ("bad", 0, "train-1"),
        ('so good "', 0, "train-2"),
    ]


def test_few_labels_are_a_sample(convert, tmp_path):
    rows = [f'{i}\tid-{i}\t"quoted ""{i}"" "\x85 end\t{i % 2}' for i in range(60)]
    whole = tmp_path / "train.csv"
    whole.write_text("\n".join(["\tid\tsentence\tsentiment", *rows]) + "\n", encoding="utf-8")
    for count in (10, 30):
        succeeded(convert("few", whole, "--rows", count, "--out", tmp_path / "few"))
    few, more = (load_data(tmp_path / f"few/train-{count}.csv", "dev") for count in (10, 30))
    assert (len(few), len(more)) == (10, 30)
    assert few == more[:10]
    assert set(more) < set(load_data(whole, "dev"))
    assert [key for *_, key in more] != [f"id-{i}" for i in range(30)]  # not the first ones
    first = (tmp_path / "few/train-10.csv").read_bytes()
    succeeded(convert("few", whole, "--rows", 10, "--out", tmp_path / "few", "--seed", 1))
    assert (tmp_path / "few/train-10.csv").read_bytes() != first
    done = convert("few", whole, "--rows", 61, "--out", tmp_path / "more")
    assert_refused(done, "train.csv has 60 rows; give as --rows how many", code=1)


FAULTS = [  # a file, its text, the kind and further flags, what is said
    (
        "train.tsv",
        "sentence\tlabel\nfine\t2\n",
        "sst2",
        "has the label '2', not an integer from 0 to 1",
    ),
    ("snli_1.0_dev.jsonl", '{"sentence1": null}', "snli", "snli_1.0_dev.jsonl"),
    ("q.csv", "id,sentence,label\na,x,1\n", "few --rows 1", "lacks the column id"),
]


@pytest.mark.parametrize(("name", "text", "kind", "says"), FAULTS)
def test_what_is_wrong_is_one_line(convert, tmp_path, name, text, kind, says):
    (tmp_path / "in").mkdir()
    for file in (name, name.replace("dev", "test")):
        (tmp_path / "in" / file).write_text(text)
    kind, *flags = kind.split()
    source = tmp_path / "in" / ("" if kind in ("sst2", "snli") else name)
    assert_refused(convert(kind, source, "--out", tmp_path / "out", *flags), says)
    assert not (tmp_path / "out").exists()


LABELS = ["neutral", "-", "entailment", "contradiction"]


def test_relations(convert, tmp_path):
    """Lines end in line feeds only, and the first may have a byte-order mark."""
    folder = tmp_path / "snli"
    folder.mkdir()
    for split in ("dev", "test"):
        for part in ("s1", "s2"):
            words = [f"{part} {split}\t\u2028{i} ." for i in range(4)]
            (folder / f"{part}.{split}").write_text("\n".join(words) + "\n", "utf-8-sig")
        (folder / f"labels.{split}").write_text("\n".join(LABELS) + "\n", "utf-8-sig")
    succeeded(convert("snli", folder, "--out", tmp_path))
    rows = load_pairs(tmp_path / "nli-train.csv", "train", "relation", 3)
    assert [row[2:] for row in rows] == [(1, "dev-0"), (2, "dev-1"), (0, "dev-2")]
    assert rows[1][0] == "s1 dev 2 ."
    with (folder / "s2.test").open("a") as file:
        file.write("one more\n")
    message = "s1, s2 and labels.test differ in length"
    assert_refused(convert("snli", folder, "--out", tmp_path), message, code=1)


def test_relations_as_their_authors_pack_them(convert, tmp_path):
    for name in (
        "snli_1.0_train",
        "snli_1.0_dev",
        "multinli_1.0_train",
        "multinli_1.0_dev_matched",
    ):
        rows = [
            {"gold_label": label, "sentence1": f'"{i} a', "sentence2": name}
            for i, label in enumerate(LABELS)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text, "utf-8-sig")
    for kind, second in (("snli", "snli_1 .0_dev"), ("multinli", "multinli_1 .0_dev_matched")):
        succeeded(convert(kind, tmp_path, "--out", tmp_path / kind))
        pairs = load_pairs(tmp_path / kind / "nli-dev.csv", "train", "relation", 3)
        assert pairs == [
            ('"0 a', second, 1, "dev-0"),
            ('"2 a', second, 2, "dev-1"),
            ('"3 a', second, 0, "dev-2"),
        ]
    (tmp_path / "snli_1.0_dev.jsonl").write_text("{")
    assert_refused(
        convert("snli", tmp_path, "--out", tmp_path), "dev.jsonl, line 1 is not valid JSON", code=1
    )


def test_texts_alone(convert, tmp_path):
    """Of pairs both; white space of any kind is one blank, a repeated text stands once."""
    table = tmp_path / "pairs.csv"
    rows = "0\ta\tone \u00a0two\tthree\t1\n1\tb\tthree\t \t0\n"
    table.write_text("\tid\tsentence1\tsentence2\tis_duplicate\n" + rows)
    succeeded(convert("text", table, "--out", tmp_path / "out"))
    assert (tmp_path / "out" / "pairs.txt").read_text() == "one two\n\nthree\n"


def test_quora_is_cut_so_that_no_question_is_in_both(tmp_path, convert):
    chain = [(f"q{i}", f"Q{i + 1} " if i % 4 else f"other {i}") for i in range(200)]
    rows = pd.DataFrame(chain, columns=["sentence1", "sentence2"])
    rows.insert(0, "id", [f"{i:025x}" for i in range(200)])
    rows["is_duplicate"] = "1.0"
    rows.to_csv(tmp_path / "quora-dev.csv", sep="\t")
    succeeded(convert("quora", tmp_path / "quora-dev.csv", "--out", tmp_path))
    parts = [
        load_pairs(tmp_path / f"quora-small-{split}.csv", split, "is_duplicate")
        for split in ("train", "dev")
    ]
    assert sorted(row[-1] for part in parts for row in part) == sorted(rows["id"])
    train, dev = ({question for row in part for question in row[:2]} for part in parts)
    assert not train & dev
    assert 20 <= len(parts[1]) <= 40
    names = {"sentence1": "question1", "sentence2": "question2"}
    own = rows.rename(columns=names).assign(qid1="7", qid2="8", is_duplicate="1")
    own.to_csv(tmp_path / "own.tsv", sep="\t", index=False)
    succeeded(convert("quora", tmp_path / "own.tsv", "--out", tmp_path / "own"))
    for split in ("train", "dev"):
        name = f"quora-small-{split}.csv"
        theirs = load_pairs(tmp_path / "own" / name, split, "is_duplicate")
        assert theirs == load_pairs(tmp_path / name, split, "is_duplicate")
    rows.drop(columns="is_duplicate").to_csv(tmp_path / "bad.csv", sep="\t")
    assert_refused(convert("quora", tmp_path / "bad.csv", "--out", tmp_path), "is_duplicate")
