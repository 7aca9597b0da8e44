"""What the scripts refuse that make data, and the one that zips a submission."""

import shutil

from row import Row, written

PAIRS = "id\tsentence1\tsentence2\nx\ta\tb\n"


def unequal_relations(folder):
    """SNLI in three files of which one has a line more."""
    for split in ("dev", "test"):
        for part, text in (("s1", "a\n"), ("s2", "a\nb\n"), ("labels", "neutral\n")):
            written(f"{part}.{split}", text)(folder)


ROWS = [
    Row("data.convert imdb . --out o", "neither imdb-train-*.csv nor train/neg and train/pos"),
    Row(
        "data.convert sst2 . --out o",
        "row 1 (id train-0) has the label '2', not an integer from 0 to 1",
        written("train.tsv", "sentence\tlabel\nfine\t2\n"),
    ),
    Row("data.convert snli . --out o", "labels.dev differ in length", unequal_relations),
    Row(
        "data.convert snli . --out o",
        "snli_1.0_dev.jsonl, row 1 has no text as its sentence1",
        written("snli_1.0_dev.jsonl", '{"sentence1": null, "sentence2": "", "gold_label": ""}'),
    ),
    Row(
        "data.convert snli . --out o",
        "snli_1.0_dev.jsonl, line 1 is not valid JSON",
        written("snli_1.0_dev.jsonl", "{"),
    ),
    Row(
        "data.convert few t.csv --rows 1 --out o",
        "t.csv lacks the column id",
        written("t.csv", "sentence\tlabel\nx\t1\n"),
    ),
    Row("data.convert few data/sts-dev.csv --rows 99 --out o", "sts-dev.csv has 11 rows; give as"),
    Row(
        "data.convert quora t.csv --out o", "lacks the column is_duplicate", written("t.csv", PAIRS)
    ),
    Row("data.download --url file:///etc/", "--url file:///etc/ is not an http:// or https://"),
    Row("data.download --only nobody.csv", "argument --only: invalid choice: 'nobody.csv'"),
    Row("evaluation.py", "the following arguments are required: --compare"),
    Row("prepare_submit.py --name 'a b'", "--name 'a b': put your ID and group there"),
    Row("prepare_submit.py --data_dir nowhere", "--data_dir nowhere lacks ids-sst-train.csv"),
    Row(
        "prepare_submit.py --data_dir data",
        "lacks ids-sst-train.csv",
        lambda folder: shutil.move(folder / "data" / "ids-sst-train.csv", folder / "away"),
    ),
]
