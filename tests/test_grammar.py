"""lessons/grammar.py: scores as transformers gives them, marks as the exam counts them."""

import json
import shutil
import zipfile

import numpy as np
import pytest
import torch
import transformers
from factories import WORDS, data_folder, tiny_config, tiny_vocabulary
from running import assert_refused, succeeded
from scipy.stats import binomtest

from lessons import grammar
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.files.hub import MODELS, OWN_MODEL

pytestmark = pytest.mark.fast
BLIMP = ("sentence_good", "sentence_bad", "linguistics_term", "UID")


@pytest.fixture(scope="module")
def books():
    return grammar.load(OWN_MODEL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small model that finds "dull" likely anywhere, and all other words equally unlikely."""
    path = tmp_path_factory.mktemp("model")
    vocabulary = [*tiny_vocabulary(), *WORDS]
    torch.manual_seed(1)
    model = PretrainingModel(tiny_config(vocab_size=len(vocabulary), max_position_embeddings=12))
    with torch.no_grad():
        model.bert.word_embedding.weight.zero_()
        model.decoder_bias[vocabulary.index("dull")] = 3.0
    model.save_pretrained(path)
    BertTokenizer(vocabulary).save_pretrained(path)
    return path


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def theirs():
    model = transformers.BertForMaskedLM.from_pretrained(MODELS / OWN_MODEL, dtype=torch.float32)
    return model.eval(), transformers.BertTokenizer.from_pretrained(MODELS / OWN_MODEL)


@torch.no_grad()
def score_by_transformers(model, tokenizer, text: str, masks: bool) -> float:
    """One sentence and one mask at a time."""
    ids = tokenizer(text, return_tensors="pt").input_ids
    if not masks:
        return -float(torch.nn.functional.cross_entropy(model(ids).logits[0], ids[0]))
    total = 0.0
    for place in range(1, ids.shape[1] - 1):
        hidden = ids.clone()
        hidden[0, place] = tokenizer.mask_token_id
        total += float(model(hidden).logits[0, place].log_softmax(-1)[ids[0, place]])
    return total


@pytest.mark.parametrize("masks", [True, False])
def test_ten_pairs_have_the_scores_of_transformers(books, theirs, masks):
    model, tokenizer = books
    pairs = grammar.draw(grammar.read_pairs(None), 1, seed=3)[::2][:10]
    encoded = grammar.encode(tokenizer, pairs, 128)
    sentences = [ids for both in encoded for ids in both]
    mask = tokenizer.mask_token_id if masks else None
    scores = grammar.sentence_scores(model, sentences, mask)
    for pair, (bad, good) in zip(pairs, encoded, strict=True):
        for text, ids in ((pair.bad, bad), (pair.good, good)):
            expected = score_by_transformers(*theirs, text, masks)
            assert scores[ids] == pytest.approx(expected, abs=1e-3), text
    assert len({len(ids) for ids in sentences}) > 3  # several lengths, some with several sentences
    above = grammar.differences(encoded, scores)
    assert above[0] == scores[encoded[0][1]] - scores[encoded[0][0]]


def rows_of(out: str) -> dict[str, list[str]]:
    """The table's cells by phenomenon."""
    lines = [line.split() for line in out.splitlines() if "[" in line]
    return {name: cells for name, *cells in lines}


@pytest.mark.parametrize(
    ("lines", "accuracy"),
    [
        (("a warm film", "a dull film"), "1.000"),
        (("a dull film", "a warm film"), "0.000"),  # it prefers the ungrammatical sentence
        (("a warm film", "A WARM film"), "0.500"),  # the same to an uncased model
        (("a dull film", "a warm film", "a warm", "A warm"), "0.250"),
    ],
)
@pytest.mark.parametrize("flags", [(), ("--no_masks",)])
def test_what_a_pair_counts(folder, run_script_here, tmp_path, lines, accuracy, flags):
    file = write(tmp_path / "mine.txt", *lines)
    done = succeeded(run_script_here(grammar, "--model", folder, "--pairs", file, *flags))
    rows = rows_of(done.out)
    assert rows["mine"] == rows["all"]
    assert rows["all"][:2] == [str(len(lines) // 2), accuracy]
    assert ("ties, which count half: 1" in done.out) == (accuracy in ("0.500", "0.250"))


def test_books_on_a_part_of_the_sample(run_script_here):
    done = succeeded(run_script_here(grammar, "--each", "5", "--show", "2"))
    rows = rows_of(done.out)
    assert rows["all"][0] == "115"
    accuracy, baseline = float(rows["all"][1]), float(rows["all"][-1])
    assert accuracy > 0.7 > baseline > 0.4
    assert len(rows) == 13 + 1
    assert done.out.count("preferred") == done.out.count("grammatical  ") == 2


def test_the_sample_is_a_draw_from_zorro(monkeypatch):
    sample = grammar.read_pairs(None)
    assert len(sample) == 23 * 100
    assert len({(pair.bad, pair.good) for pair in sample}) > 2000
    assert (grammar.SAMPLE / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    monkeypatch.setenv("MINBERT_DATA", str(data_folder("grammar").parent))
    drawn = grammar.draw(grammar.read_pairs("zorro"), 100, seed=11711)
    assert [(p.paradigm, p.bad, p.good) for p in drawn] == [
        (p.paradigm, p.bad, p.good) for p in sample
    ]


def test_blimp(folder, run_script_here, tmp_path, monkeypatch):
    row = {"sentence_good": "a dull film", "sentence_bad": "a film", "linguistics_term": "islands"}
    (tmp_path / "grammar" / "blimp").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "grammar" / "blimp" / "BLiMP.zip", "w") as archive:
        for name in ("one", "two"):
            archive.writestr(f"data/{name}.jsonl", json.dumps(row | {"UID": name}) + "\n")
        archive.writestr("__MACOSX/data/._one.jsonl", b"\xb0")
    monkeypatch.setenv("MINBERT_DATA", str(tmp_path))
    done = succeeded(run_script_here(grammar, "--model", folder, "--pairs", "blimp"))
    assert rows_of(done.out)["islands"][0] == "2"


def test_the_interval_is_wilson_s():
    for right, count in ((0, 10), (7, 10), (813, 1000)):
        expected = binomtest(right, count).proportion_ci(method="wilson")
        assert grammar.wilson(right / count, count) == pytest.approx(expected, abs=1e-4)


def test_the_same_words_in_another_order_are_a_tie():
    """Also for a sum of rounded numbers."""
    chance = np.random.default_rng(0)
    counts = chance.integers(1, 10**6, 40).tolist()
    words = range(2, 22)
    orders = [(0, *chance.permutation(words).tolist(), 1) for _ in range(50)]
    assert len(set(grammar.unigram_scores(counts, orders).values())) == 1


def test_the_counts_beside_books_are_of_its_vocabulary(books, run_script_here, tmp_path):
    tokenizer = books[1]
    counts = grammar.known_counts(OWN_MODEL, tokenizer)
    order = np.argsort(counts)[::-1][:4]
    assert set(tokenizer.convert_ids_to_tokens(order.tolist())) == {",", ".", "the", '"'}
    shutil.copytree(MODELS / OWN_MODEL, tmp_path / "mine")
    write(tmp_path / "mine" / "unigrams.txt", *counts[1:])
    done = run_script_here(grammar, "--model", tmp_path / "mine", "--each", "1")
    assert_refused(done, "unigrams.txt has 7999 counts for 8000 tokens", code=1)


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        (("a", "a ☃ film"), ('"a ☃ film" contains [UNK]',)),
        (("a", "a film", "dull"), ("mine.txt: its last line is alone",)),
        (("a", "film", "a", "film " * 11), ("has 13 tokens", "3 to 12")),
        (("a film", "\u200b"), ("has 2 tokens",)),
    ],
)
def test_pairs_that_cannot_be_scored_are_one_line(folder, run_script_here, tmp_path, lines, facts):
    file = write(tmp_path / "mine.txt", *lines)
    done = run_script_here(grammar, "--model", folder, "--pairs", file)
    assert_refused(done, *facts, code=1)


def test_what_is_not_there_is_one_line(folder, run_script_here, tmp_path, monkeypatch):
    monkeypatch.setenv("MINBERT_DATA", str(tmp_path))
    (tmp_path / "empty").mkdir()
    write(tmp_path / "not.zip", "text")
    with zipfile.ZipFile(tmp_path / "numbers.zip", "w") as archive:
        archive.writestr("data/a.jsonl", json.dumps(dict.fromkeys(BLIMP, 1)))
    for name, fact in (
        ("blimp", "set MINBERT_DATA"),
        ("empty", "has no pairs"),
        ("not.zip", "is not BLiMP.zip (File is not a zip file)"),
        ("numbers.zip", "is not BLiMP.zip ('int' object has no attribute 'strip')"),
    ):
        done = run_script_here(grammar, "--model", folder, "--pairs", name)
        assert_refused(done, fact, code=1)
