"""lessons/word_tagger.py: learns from a file, keeps what it learned, scores and tags."""

import json

import pytest
from support import assert_refused, succeeded

from extensions.features.tags import WordTags
from lessons import word_tagger
from tokenizer import BertTokenizer


@pytest.fixture
def words(tmp_path):
    """A function: sentences as 'word/tag word/tag' → a file."""

    def write(name: str, *sentences: str):
        blocks = ("\n".join(pair.replace("/", "\t") for pair in one.split()) for one in sentences)
        (tmp_path / name).write_text("\n\n".join(blocks) + "\n")
        return tmp_path / name

    return write


SPEECH = ("the/DET dog/NOUN ran/VERB", "a/DET cat/NOUN slept/VERB", "dogs/NOUN ran/VERB")
NAMES = ("Ada/B-PER Low/I-PER ran/O", "in/O Rome/B-LOC", "Eva/B-PER slept/O in/O Bonn/B-LOC")


def test_parts_of_speech(run_script_here, words, tmp_path):
    train, dev = words("train", *SPEECH), words("dev", "the/DET cat/NOUN ran/NOUN")
    out = tmp_path / "speech.json"
    done = succeeded(run_script_here(word_tagger, "--train", train, "--dev", dev, "--out", out))
    assert "learned 3 tags from 3 sentences" in done.out
    assert "0.667 of 3 words right (always the same tag: 0.667)" in done.out
    assert "F1" not in done.out
    assert json.loads(out.read_text())["tags"] == ["DET", "NOUN", "VERB"]
    done = run_script_here(word_tagger, "--tagger", out, "--tag", "the dog slept")
    assert done.out == "DET\tthe\nNOUN\tdog\nVERB\tslept\n"


def test_names_have_an_f1_and_become_tags_of_pieces(
    run_script_here, words, tmp_path, tiny_model_folder
):
    train, out = words("train", *NAMES), tmp_path / "names.json"
    done = run_script_here(word_tagger, "--train", train, "--dev", train, "--out", out)
    assert "1.000 of 9 words right" in done.out
    assert "F1 of entities 1.000" in done.out
    table = WordTags(BertTokenizer.from_pretrained(tiny_model_folder), str(out))
    assert table.count == 5  # none, and four that were learned
    assert table.tags_of_words(["Eva", "slept", "in", "Bonn"]) == [
        1 + json.loads(out.read_text())["tags"].index(tag) for tag in ("B-PER", "O", "O", "B-LOC")
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--dev x", "give --train to learn"),
        ("--train x", "--train needs --out"),
        ("--tagger x", "--tagger needs something"),
        ("--tagger nowhere.json --tag x", "nowhere.json cannot be read (No such file"),
    ],
)
def test_refused_in_one_line(run_script_here, line, said):
    assert_refused(run_script_here(word_tagger, *line.split()), said)
