"""Predictions against staff's labels (course/grading/judging/predictions.py)."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support import make_id, make_rows, write_table

import prepare_submit
from course.grading.judging import predictions
from course.grading.judging.predictions import Gold, is_public, load_gold, score
from course.grading.judging.types import Submission
from evaluation import accuracy_and_f1, pearson
from training.files.errors import InputError

SECRET = "a secret of these tests"
HEADS = {"sst": "Sentiment", "para": "Is_Paraphrase", "sts": "Similarity"}
LABELS = {"sst": "01234", "cfimdb": "01", "para": ("0.0", "1.0"), "sts": ("0.0", "2.6", "5.0")}
NUMBERS = ("value", "f1", "low", "high", "public", "public_low", "public_high", "private")


@pytest.fixture(scope="module")
def gold_folder(tmp_path_factory):
    """All eight labelled files, 60 rows each."""
    folder = tmp_path_factory.mktemp("gold")
    for number, (data, (stem, _, label, _)) in enumerate(predictions.SETS.items()):
        single = data in ("sst", "cfimdb")
        columns = f"id {'sentence' if single else 'sentence1 sentence2'} {label}"
        for half, split in enumerate(("dev", "test")):
            rows = make_rows(60, 1 if single else 2, LABELS[data], 1000 * (2 * number + half))
            write_table(folder / f"{stem}-{split}.csv", columns, rows)
    return folder


@pytest.fixture(scope="module")
def gold(gold_folder):
    return load_gold(gold_folder, secret=SECRET)


def file_of(gold, values, head="id,Predicted_Sentiment") -> bytes:
    rows = [f"{key},{value}" for key, value in zip(gold.ids, values, strict=True)]
    return ("\n".join([head, *rows]) + "\n").encode()


def entry_of(gold, content: bytes, data="sst", split="dev", part=2) -> dict:
    name = f"predictions/{data}-{split}-output.csv"
    entries = score(Submission("a", part, {name: content}), gold)
    return next(entry for entry in entries if entry["file"] == name)


def assert_refused(entry, *words):
    assert [entry[key] for key in NUMBERS] == [None] * len(NUMBERS)
    assert entry["faults"], entry
    for word in words:
        assert word in entry["faults"][0]
    assert all(character.isprintable() for character in entry["faults"][0])
    assert len(entry["faults"][0]) <= 1000


# ---------------------------------------------------------------------------------------------
# Names, labels, halves


@pytest.mark.parametrize("part", [1, 2])
def test_the_names_are_those_that_prepare_submit_asks_for(part, tiny_data):
    asked = {p.path: (p.split, p.required) for p in prepare_submit.predictions_of(part, tiny_data)}
    assert {
        path: (split, predictions.is_required(data))
        for path, (data, split, *_) in predictions.FILES[part].items()
    } == asked


def test_a_folder_without_labelled_files_is_refused(tmp_path, gold_folder):
    with pytest.raises(InputError, match="no labelled file"):
        load_gold(tmp_path, secret=SECRET)
    with pytest.raises(InputError, match="secret is empty"):
        load_gold(gold_folder, secret="")
    write_table(tmp_path / "sts-test.csv", "id sentence1 sentence2", make_rows(3, 2))
    with pytest.raises(InputError, match="lacks the column similarity"):
        load_gold(tmp_path, secret=SECRET)


def test_halves_are_stable_secret_and_even():
    ids = [make_id(i) for i in range(2000)]
    first = [is_public(key, SECRET) for key in ids]
    assert first == [is_public(key, SECRET) for key in ids]
    assert 900 < sum(first) < 1100
    other = [is_public(key, "another") for key in ids]
    assert 900 < sum(a == b for a, b in zip(first, other, strict=True)) < 1100


# ---------------------------------------------------------------------------------------------
# Metrics


@pytest.mark.parametrize("data", ["sst", "sts"])
def test_metrics_against_the_course_s(gold, data):
    labelled, chance = gold[data, "test"], np.random.default_rng(1)
    if data == "sst":
        predicted = np.where(chance.random(60) < 0.5, labelled.labels, chance.integers(0, 5, 60))
    else:
        predicted = labelled.labels + chance.normal(size=60)
    content = file_of(labelled, predicted, f"id,Predicted_{HEADS[data]}")
    entry = entry_of(gold, content, data, "test")
    for name, rows in (
        ("value", slice(None)),
        ("public", labelled.public),
        ("private", ~labelled.public),
    ):
        labels, values = labelled.labels[rows], predicted[rows]
        wanted = accuracy_and_f1(labels, values) if data == "sst" else (pearson(labels, values),)
        assert entry[name] == pytest.approx(wanted[0])
        assert name != "value" or entry["f1"] == pytest.approx(dict(enumerate(wanted)).get(1))
    assert -1 <= entry["low"] < entry["value"] < entry["high"] <= 1
    assert entry["metric"] == {"sst": "accuracy", "sts": "Pearson"}[data]
    assert entry_of(gold, content, data, "test") == entry


def gold_of(labels: np.ndarray, classes: int | None) -> Gold:
    """Labels of which all rows are public."""
    public, ids = np.ones(len(labels), bool), tuple(map(str, range(len(labels))))
    return Gold("x.csv", "sst" if classes else "sts", "dev", "", classes, ids, labels, public)


@pytest.mark.parametrize("rows", [40, 300])
def test_intervals_against_scipy(rows):
    chance = np.random.default_rng(3)
    right = (chance.random(rows) < 0.7).astype(int)
    theirs = stats.bootstrap((right,), np.mean, method="percentile", rng=4).confidence_interval
    ours = predictions.measure(right, gold_of(np.ones(rows, int), 2))
    assert (ours["low"], ours["high"]) == pytest.approx(tuple(theirs), abs=0.02)
    first = chance.normal(size=rows)
    second = first + chance.normal(size=rows)
    theirs = stats.bootstrap(
        (first, second),
        lambda a, b, axis: stats.pearsonr(a, b, axis=axis).statistic,
        paired=True,
        vectorized=True,
        method="percentile",
        rng=6,
    ).confidence_interval
    ours = predictions.measure(second, gold_of(first, None))
    assert (ours["low"], ours["high"]) == pytest.approx(tuple(theirs), abs=0.03)


@pytest.mark.parametrize("scale", [1e-300, 1.7e308, -1e300, 0.0])
def test_the_scale_of_similarities_does_not_matter(scale):
    """Equal ones are worth nothing."""
    labels, predicted = np.array([0.0, 1.0, 2.0, 5.0]), np.array([0.1, 0.3, 0.2, 1.0])
    pearson_of = stats.pearsonr(labels, predicted).statistic
    ours = predictions.measure(predicted * scale, gold_of(labels, None))
    assert ours["value"] == pytest.approx(np.sign(scale) * pearson_of)


# ---------------------------------------------------------------------------------------------
# What is read and what is not


def test_older_spellings_are_read(gold):
    labelled = gold["sst", "dev"]
    rows = [
        f"{key.upper()} , {label}.0 \r\n"
        for key, label in zip(labelled.ids, labelled.labels, strict=True)
    ]
    content = "\ufeff" + "id \t Predicted_Sentiment \r\n" + "".join(reversed(rows))
    assert entry_of(gold, content.encode())["value"] == 1.0
    labelled = gold["sts", "dev"]
    content = file_of(labelled, labelled.labels, "id,Predicted_Similiary")
    assert entry_of(gold, content, "sts")["value"] == pytest.approx(1.0)


def test_missing_files_and_missing_labels_are_told_apart(gold):
    entries = score(Submission("a", 1), gold)
    assert {entry["data"] for entry in entries} == {"sst"}
    assert all("is missing" in entry["faults"][0] for entry in entries)
    labelled = gold["sst", "dev"]
    entry = entry_of({("sts", "dev"): gold["sts", "dev"]}, file_of(labelled, labelled.labels))
    assert (entry["value"], entry["faults"]) == (None, [])
    assert "no labelled ids-sst-dev.csv" in entry["note"]


HEAD = b"id,Predicted_Sentiment\n"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("KEY,nan", "is not 'id,number'"),
        ("KEY,inf", "is not 'id,number'"),
        ("KEY," + "9" * 9000, "is not 'id,number'"),
        ("KEY,5", "not classes 0 to 4"),
        ("KEY,1.5", "not classes 0 to 4"),
        ("", "lacks 1 ids"),
        ("ffff,1", "lacks 1 ids"),
        ("OTHER,1", "occurs twice"),
        ("KEY,1\nffff,1", "has unknown 1 ids"),
        ("=cmd|' /C calc'!A0,1", "has unknown 1 ids"),
        ("\x1b]0;owned\x07\u202eKEY,1", "has unknown 1 ids"),
        ("\ud800,1", "not UTF-8"),
        (b"", "header"),
        (b"PK\x03\x04\xff\xfe", "not UTF-8"),
        (HEAD + b"9" * 10**6, "too long"),
        (HEAD + b"\n" * 15_000, "too long"),
        (b"id,Predicted_Similarity\n", "header"),
        (HEAD, "lacks 60 ids"),
    ],
)
def test_faults_are_named_and_give_no_value(gold, content, word):
    """Of a right file with one row replaced, or of a whole file."""
    labelled = gold["sst", "dev"]
    if isinstance(content, str):
        row = content.replace("KEY", labelled.ids[2]).replace("OTHER", labelled.ids[5])
        lines = file_of(labelled, labelled.labels).decode().split("\n")
        lines[3] = row
        content = "\n".join(lines).encode("utf-8", "surrogatepass")
    assert_refused(entry_of(gold, content), "predictions/sst-dev-output.csv", word)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_crash_it(gold, content, with_header):
    head = b"id,Predicted_Sentiment\n" if with_header else b""
    assert_refused(entry_of(gold, head + content))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=60, max_size=60))
def test_no_finite_similarities_crash_it(gold, values):
    content = file_of(gold["sts", "dev"], map(repr, values), "id,Predicted_Similarity")
    entry = entry_of(gold, content, "sts")
    assert all(-1 <= entry[key] <= 1 for key in NUMBERS if key != "f1")


# ---------------------------------------------------------------------------------------------
# What no checkpoint gives


def test_what_no_checkpoint_gives_is_odd(gold):
    """Other answers to the same text, and similarities that are round, but not a collapse."""
    sst = replace(gold["sst", "test"], twins=((0, 1), (2, 3), (4, 5)))
    values = np.arange(len(sst.ids)) % 5
    assert predictions.odd(values, sst) == ["3 of 3 texts that are there twice have 2 answers"]
    assert predictions.odd(values * 0, sst) == []
    sts = gold["sts", "test"]
    values = np.linspace(0, 5, len(sts.ids))
    rounded = ["all similarities have one decimal at most"]
    assert predictions.odd(np.round(values, 1), sts) == rounded
    assert predictions.odd(values, sts) == predictions.odd(values * 0 + 2, sts) == []
    assert predictions.twins([("a",), ("b",), ("a",)]) == ((0, 2),)


def test_the_same_predictions_are_known_again(gold):
    labels = gold["sst", "dev"]
    content = file_of(labels, [3, 1] * 30)
    head, *rows = content.decode().split("\n")
    others = {
        "another order": "\n".join([head, *rows[::-1]]),
        "blanks": content.decode().replace(",", " , "),
        "fractions": content.decode().replace(",3", ",3.0"),
    }
    same = entry_of(gold, content)["contents"]
    for name, text in others.items():
        assert entry_of(gold, text.encode())["contents"] == same, name
        assert entry_of({}, text.encode())["contents"] == entry_of({}, content)["contents"] or (
            name == "fractions"
        )
    assert entry_of(gold, file_of(labels, [3, 1] * 29 + [1, 1]))["contents"] != same
    values = [0.25 * (row % 7) for row in range(len(gold["sts", "dev"].ids))]
    scaled, other = [1 - 2 * value for value in values], [*values[1:], 9.0]
    head, sts = "id,Predicted_Similarity", gold["sts", "dev"]
    of_values, *others = (
        entry_of(gold, file_of(sts, each, head), "sts")
        for each in (values, [3 * value - 1 for value in values], scaled, other)
    )
    told = [each["contents"] == of_values["contents"] for each in others]
    assert told == [True, False, False]


def test_an_entry_keeps_what_was_handed_in(gold):
    cfimdb = gold["cfimdb", "test"]
    files = {"predictions/finetune-cfimdb-test-out.csv": file_of(cfimdb, cfimdb.labels)}
    entry = score(Submission("a", 1, files), gold)[-1]
    assert (entry["data"], entry["option"], entry["value"]) == ("cfimdb", "finetune", 1.0)
    assert entry["sha256"] == hashlib.sha256(*files.values()).hexdigest()
    assert (predictions.unpacked(entry["predicted"], cfimdb) == cfimdb.labels).all()
    sts = gold_of(np.arange(4.0), None)
    values = np.array([1e300, -1e300, 5e299, 0])
    assert predictions.unpacked(predictions.packed(values, sts), sts).tolist() == [1, -1, 0.5, 0]
