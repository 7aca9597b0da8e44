"""data/convert.py: classifier.py reads what it writes, and the split of IMDB is the one said."""

import itertools
import json

import pytest
from running import succeeded

from data import convert as script
from datasets import load_data, load_pairs


@pytest.fixture
def convert(run_script_here):
    """A function that runs the script with a command line."""
    return lambda *arguments: run_script_here(script, *arguments)


SPLITS = {"train": 108, "dev": 12, "test": 40}


def test_the_split_of_the_reviews(convert, tmp_path):
    """80 reviews a half; it does not depend on the order in which a system lists files."""
    for i, half in itertools.product(range(80), ("train", "test")):
        text = f'{half} {i},"quoted"<br />with\ta tab\x85and more' if i > 2 else f"twice {i}"
        file = tmp_path / "aclImdb" / half / ("pos" if i % 2 else "neg") / f"{i}_7.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    succeeded(convert("imdb", tmp_path / "aclImdb", "--out", tmp_path / "out", "--seed", 3))
    rows = {name: load_data(tmp_path / "out" / f"{name}.csv", "dev") for name in SPLITS}
    assert {name: len(found) for name, found in rows.items()} == SPLITS
    assert len({key for found in rows.values() for *_, key in found}) == 160
    assert all(key.startswith("test/") for *_, key in rows["test"])
    assert sum(label for _, label, _ in rows["test"]) == 20  # half of them
    assert [key for *_, key in rows["test"]][:2] == ["test/neg/48", "test/neg/4"]
    text, label, _ = next(row for row in rows["train"] if row[2] == "train/neg/10")
    assert (text, label) == ('train 10,"quoted" with a tab\x85and more', 0)


def test_few_labels_are_a_sample(convert, tmp_path):
    rows = [f'{i}\tid-{i}\t"quoted ""{i}"" "\x85 end\t{i % 2}' for i in range(60)]
    whole = tmp_path / "train.csv"
    whole.write_text("\n".join(["\tid\tsentence\tsentiment", *rows]) + "\n", encoding="utf-8")
    for count in (10, 30):
        succeeded(convert("few", whole, "--rows", count, "--out", tmp_path / "few"))
    few, more = (load_data(tmp_path / f"few/train-{count}.csv", "dev") for count in (10, 30))
    assert (few, len(more)) == (more[:10], 30)
    assert set(more) < set(load_data(whole, "dev"))
    assert [key for *_, key in more] != [f"id-{i}" for i in range(30)]  # not the first ones
    first = (tmp_path / "few/train-10.csv").read_bytes()
    succeeded(convert("few", whole, "--rows", 10, "--out", tmp_path / "few", "--seed", 1))
    assert (tmp_path / "few/train-10.csv").read_bytes() != first


LABELS = ["neutral", "-", "entailment", "contradiction"]


def test_relations(convert, tmp_path):
    """SNLI without its file of train is trained on dev."""
    for train, dev in (("snli_1.0_dev", "snli_1.0_test"), ("snli_1.0_train", "snli_1.0_dev")):
        for file in (train, dev):
            pairs = [{"sentence1": f'"{i} a', "sentence2": file} for i in range(4)]
            rows = [pair | {"gold_label": label} for pair, label in zip(pairs, LABELS, strict=True)]
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / f"{file}.jsonl").write_text(text, "utf-8-sig")
        succeeded(convert("snli", tmp_path, "--out", tmp_path / "nli"))
        for split, file in (("train", train), ("dev", dev)):
            pairs = load_pairs(tmp_path / "nli" / f"nli-{split}.csv", "train", "relation", 3)
            second, part = file.replace(".", " ."), file.split("_")[2]
            assert pairs == [
                ('"0 a', second, 1, f"{part}-0"),
                ('"2 a', second, 2, f"{part}-1"),
                ('"3 a', second, 0, f"{part}-2"),
            ]


def test_texts_alone(convert, tmp_path):
    """Of pairs both; white space of any kind is one blank, a repeated text stands once."""
    table = tmp_path / "pairs.csv"
    rows = "0\ta\tone \u00a0two\tthree\t1\n1\tb\tthree\t \t0\n"
    table.write_text("\tid\tsentence1\tsentence2\tis_duplicate\n" + rows)
    succeeded(convert("text", table, "--out", tmp_path / "out"))
    assert (tmp_path / "out" / "pairs.txt").read_text() == "one two\n\nthree\n"
