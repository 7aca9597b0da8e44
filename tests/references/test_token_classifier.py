"""The lesson on tagging words: labels at tokens as transformers counts them, scores by seqeval."""

import json

import pytest
import torch
from factories import TINY, tiny_config
from running import succeeded
from transformers import AutoTokenizer

from lessons import token_classifier as script
from lessons.entities import (
    NO_LABEL,
    Sentence,
    TaggedWords,
    entities,
    entity_scores,
    labels_of,
    read_sentences,
)
from lessons.token_classifier import TokenClassifier

LABELS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


CHUNKS = {  # of tags, as seqeval's default mode counts them: type, first and last word
    "O B-LOC I-LOC O": [("LOC", 1, 2)],
    "B-LOC B-LOC I-LOC": [("LOC", 0, 0), ("LOC", 1, 2)],
    "I-LOC I-LOC O I-PER": [("LOC", 0, 1), ("PER", 3, 3)],
    "B-LOC I-PER I-PER": [("LOC", 0, 0), ("PER", 1, 2)],
    "B-LOC I-LOC I-PER B-LOC": [("LOC", 0, 1), ("PER", 2, 2), ("LOC", 3, 3)],
    "B-a-b I-a-b O O": [("a-b", 0, 1)],
    "O": [],
}


def test_entities_and_scores_are_those_of_seqeval():
    assert {tags: entities(tags.split()) for tags in CHUNKS} == CHUNKS
    gold = ["B-LOC I-LOC O", "B-PER O B-LOC I-LOC", "B-PER I-PER"]
    found = ["I-LOC I-LOC O", "B-PER O B-LOC O", "B-LOC I-LOC"]  # 1, 1 of 2, another type
    rows = entity_scores(*([tags.split() for tags in side] for side in (gold, found)))
    assert rows.loc["all"].tolist() == pytest.approx([0.5, 0.5, 0.5, 4, 4])
    assert rows.loc["LOC"].tolist() == pytest.approx([1 / 3, 1 / 2, 2 / 5, 2, 3])
    assert rows.loc["PER"].tolist() == pytest.approx([1, 1 / 2, 2 / 3, 2, 1])
    assert entity_scores([["O"]], [["O"]]).loc["all"].tolist() == [0] * 5


@pytest.mark.parametrize(
    ("content", "sentences"),
    [
        (  # WikiANN's: a language before each word, empty lines of several kinds
            "\ufeffen:Ada\tB-PER\nen:en:x\tO\n\n\t\n\ufeff\nen:São\tB-LOC\n\n\n",
            [(["Ada", "en:x"], ["B-PER", "O"]), (["São"], ["B-LOC"])],
        ),
        ("EU\tB-ORG\nUN\tB-ORG \nx\tO \t\r\n", [(["EU", "UN", "x"], ["B-ORG", "B-ORG", "O"])]),
    ],
)
def test_files(tmp_path, content, sentences):
    file = tmp_path / "train"
    file.write_bytes(content.encode())
    found = read_sentences(file)
    assert found == [Sentence(*one) for one in sentences]
    assert read_sentences(file, limit=1) == found[:1]
    if "Ada" in content:
        assert labels_of(found) == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


WORDS = ["Ada", "Lovelace", "\u200e", "Zürich", "🦜x", "don't", "ABBA-fan", "x" * 120]


def test_labels_are_at_first_tokens_as_transformers_counts_words(tiny_model_folder):
    theirs = AutoTokenizer.from_pretrained(tiny_model_folder)
    tags = ["B-PER", "I-PER", "O", "B-LOC", "O", "O", "B-LOC", "B-ORG"]
    data = TaggedWords([Sentence(WORDS, tags)], TINY, LABELS, 128)
    ids, targets, places = data.rows[0]
    encoded = theirs(WORDS, is_split_into_words=True)
    assert ids.tolist() == encoded["input_ids"]
    expected, before = [], None
    for word in encoded.word_ids():  # a type that training never saw, as ORG, is not learned
        first = word is not None and word != before and tags[word] in LABELS
        expected.append(LABELS.index(tags[word]) if first else NO_LABEL)
        before = word
    assert targets.tolist() == expected
    assert places[2] is None  # a word of a control character has no token
    assert data.unseen == 0


def test_a_batch_is_padded():
    rows = [Sentence(["ab"], ["B-LOC"]), Sentence(["a", "b", "c"], ["O", "O", "B-PER"])]
    batch = TaggedWords(rows, TINY, LABELS, 16).collate_fn(range(2))
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 0], [1] * 5]
    assert batch["token_ids"][0, -1] == TINY.pad_token_id
    assert batch["labels"].tolist() == [[-100, 1, -100, -100, -100], [-100, 0, 0, 3, -100]]


def test_a_file_is_scored_and_words_beyond_the_length_are_o(run_script_here, tmp_path):
    torch.manual_seed(1)
    model = TokenClassifier(tiny_config(vocab_size=TINY.vocab_size), LABELS)
    model.head.bias.data[1] = 9.0  # B-LOC for every word that is looked at
    model.save_pretrained(tmp_path / "tagger")
    TINY.save_pretrained(tmp_path / "tagger")
    words = list("abcdefghij" * 8)  # 64 positions: 62 words
    gold = ["B-LOC" if word in "abc" else "O" for word in words]
    lines = [f"{word}\t{tag}" for word, tag in zip(words, gold, strict=True)]
    (tmp_path / "f").write_text("\n".join(lines) + "\n")
    flags = ("--checkpoint", "tagger", "--out", "out")
    done = succeeded(run_script_here(script, "--evaluate", "f", *flags))
    assert "note: 18 words lie beyond" in done.out
    scores = json.loads((tmp_path / "out/f-scores.json").read_text())
    wanted = {"precision": 20 / 62, "recall": 20 / 24, "f1": 40 / 86, "gold": 24, "predicted": 62}
    assert scores["all"] == pytest.approx(wanted)
    done = succeeded(run_script_here(script, "--predict", " ".join(words), *flags))
    assert done.out.count("    LOC ") == 62
