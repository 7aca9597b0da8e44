"""The lesson on tagging words: the head and transformers', scores and their definition."""

import pytest
import torch
from factories import padded_batch, tiny_config
from hypothesis import given, settings
from hypothesis import strategies as st
from running import one_line_error, succeeded
from transformers import AutoTokenizer, BertForTokenClassification

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
from tokenizer import BertTokenizer

LABELS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


def classifier_like(config) -> TokenClassifier:
    torch.manual_seed(1)
    return TokenClassifier(config, LABELS).eval()


def test_folders_in_and_out(tmp_path, capsys):
    """Through transformers and back; the head is new where labels are given."""
    ours = classifier_like(tiny_config())
    ours.save_pretrained(tmp_path / "a")
    theirs = BertForTokenClassification.from_pretrained(tmp_path / "a").eval()
    theirs.save_pretrained(tmp_path / "b")
    again = TokenClassifier.from_pretrained(str(tmp_path / "b"))
    assert again.labels == LABELS
    ids, mask, _ = padded_batch(9, 7, 4, 2)
    torch.testing.assert_close(again(ids, mask), ours(ids, mask), atol=1e-6, rtol=0)
    labels = [*LABELS[:3], "B-ORG", "I-ORG"]
    other = TokenClassifier.from_pretrained(str(tmp_path / "b"), labels=labels)
    assert not torch.equal(other.head.weight, ours.head.weight)
    assert "the head of 5 outputs is new" in capsys.readouterr().out


def by_definition(tags: list[str]) -> list[tuple[str, int, int]]:
    """Chunks as seqeval's default mode defines them, by the conditions of its two predicates.

    A chunk ends between two tags if there is one and the next is B or O, or of another type; one
    starts at a B, at anything inside after O, or at anything inside of another type.
    """
    chunks, begin = [], 0
    before, kind_before = "O", ""
    for i, tag in enumerate([*tags, "O"]):
        now, _, kind = tag.partition("-")
        ends = before in ("B", "I") and (now in ("B", "O") or kind != kind_before)
        starts = (
            now == "B" or (before == "O" and now == "I") or (now != "O" and kind != kind_before)
        )
        if ends:
            chunks.append((kind_before, begin, i - 1))
        if starts:
            begin = i
        before, kind_before = now, kind
    return chunks


TAGS = st.lists(st.sampled_from([*LABELS, "B-a-b", "I-a-b"]), max_size=12)


@given(st.lists(st.tuples(TAGS, TAGS), max_size=5))
@settings(max_examples=200, deadline=None)
def test_entities_and_scores_are_those_of_the_definition(pairs):
    gold, found = [], []
    for i, (a, b) in enumerate(pairs):
        size = min(len(a), len(b))
        gold.append(a[:size])
        found.append((b if i % 2 else a)[:size])
    table = entity_scores(gold, found)
    true, claimed, right = 0, 0, 0
    for a, b in zip(gold, found, strict=True):
        mine, theirs = by_definition(a), by_definition(b)
        assert (entities(a), entities(b)) == (mine, theirs)
        true, claimed = true + len(mine), claimed + len(theirs)
        right += sum(chunk in mine for chunk in theirs)
    precision, recall = (right / n if n else 0.0 for n in (claimed, true))
    total = precision + recall
    row = table.loc["all"]
    assert row["precision"] == pytest.approx(precision)
    assert row["recall"] == pytest.approx(recall)
    assert row["f1"] == pytest.approx(2 * precision * recall / total if total else 0.0)
    assert (row["gold"], row["predicted"]) == (true, claimed)
    assert table.drop(index="all")["gold"].sum() == true


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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a\tO\nb\n", "line 2: expected a word, a tab and O, B-TYPE or I-TYPE, not 'b'"),
        ("Ada\tB-PER\u200b\n".encode(), "line 1: expected"),
        (b"\n \n", "holds no sentences"),
    ],
)
def test_bad_files(tmp_path, content, said):
    file = tmp_path / "bad"
    file.write_bytes(content)
    with one_line_error(said, str(file)):
        read_sentences(file)


WORDS = ["Ada", "Lovelace", "\u200e", "Zürich", "🦜x", "don't", "ABBA-fan", "x" * 120]


@pytest.fixture(scope="module")
def ours(tiny_model_folder) -> BertTokenizer:
    return BertTokenizer.from_pretrained(str(tiny_model_folder))


def test_labels_stand_at_first_pieces_as_transformers_counts_words(ours, tiny_model_folder):
    theirs = AutoTokenizer.from_pretrained(tiny_model_folder)
    tags = ["B-PER", "I-PER", "O", "B-LOC", "O", "O", "B-LOC", "I-LOC"]
    data = TaggedWords([Sentence(WORDS, tags)], ours, LABELS, 128)
    ids, targets, places = data.rows[0]
    encoded = theirs(WORDS, is_split_into_words=True)
    assert ids.tolist() == encoded["input_ids"]
    expected, before = [], None
    for word in encoded.word_ids():
        first = word is not None and word != before
        expected.append(LABELS.index(tags[word]) if first else NO_LABEL)
        before = word
    assert targets.tolist() == expected
    assert places[2] is None  # a word of a control character has no piece
    assert data.unseen == 0


def test_a_batch(ours):
    rows = [
        Sentence(["ab"], ["B-LOC"]),
        Sentence(["a", "b", "c"], ["O", "O", "B-PER"]),
        Sentence(["a"], ["B-ORG"]),  # a type that training never saw is not learned
    ]
    batch = TaggedWords(rows, ours, LABELS, 16).collate_fn(range(3))
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 0], [1] * 5, [1, 1, 1, 0, 0]]
    assert batch["token_ids"][0, -1] == ours.pad_token_id
    assert batch["labels"].tolist() == [
        [-100, 1, -100, -100, -100],
        [-100, 0, 0, 3, -100],
        [-100] * 5,
    ]


@pytest.fixture
def folder(tmp_path, tiny_model_folder):
    ours = BertTokenizer.from_pretrained(str(tiny_model_folder))
    classifier_like(tiny_config(vocab_size=ours.vocab_size)).save_pretrained(tmp_path / "tagger")
    ours.save_pretrained(tmp_path / "tagger")
    return tmp_path / "tagger"


@pytest.mark.parametrize(("words", "beyond"), [(20, 0), (150, 90)])
def test_words_that_are_not_looked_at_are_counted(run_script_here, folder, words, beyond):
    text = " ".join("a" * words + "bc")
    done = succeeded(run_script_here(script, "--predict", text, "--checkpoint", folder))
    assert (f"note: {beyond} words lie beyond" in done.out) == bool(beyond)
