"""Our tokenizer beside Hugging Face's, on a home-made vocabulary and on MiniLM's."""

from __future__ import annotations

import pytest
import torch
from factories import ODD_TEXTS, ODD_WORDS, tiny_vocabulary
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import one_line_error
from transformers import BertTokenizer as HuggingFaceTokenizer

import tokenizer
from tokenizer import SPECIAL_TOKENS, BertTokenizer
from training.files.errors import InputError
from training.files.hub import find_model

# Characters that tokenizers trip over, drawn more often than chance would
AWKWARD = "\x00\x0b\x1c\x85\xa0\u00ad\u0300\u0301\u0307\u200b\u2028\ufeff\ufffd[]'.,中😀İΣς\u1e9e"
random_texts = st.lists(
    st.one_of(
        st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8),
        st.text(alphabet=AWKWARD, max_size=5),
        st.text(alphabet="abcdefgh .,!", max_size=12),
        st.sampled_from([*SPECIAL_TOKENS, "the", "movie", "good ", " unwanted", "\u00a0"]),
    ),
    max_size=12,
).map("".join)
sixty_examples = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Both:
    """Our tokenizer and Hugging Face's, made from one vocabulary."""

    def __init__(self, pieces, folder, lower_case=True):
        (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        self.hf = HuggingFaceTokenizer(vocab=str(folder / "vocab.txt"), do_lower_case=lower_case)
        self.ours = BertTokenizer(pieces, lower_case)

    def check(self, *texts, **options):
        """Assert that both give the same three lists."""
        assert dict(self.ours(*texts, **options)) == dict(self.hf(*texts, **options)), texts


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Both:
    pieces = list(dict.fromkeys([*tiny_vocabulary(), *ODD_WORDS]))
    return Both(pieces, tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(scope="module")
def cased(tiny, tmp_path_factory) -> Both:
    pieces = [*tiny.ours.pieces, "The", "Movie", "café", "É", "##É", "Σ", "İ", "I"]
    return Both(pieces, tmp_path_factory.mktemp("vocabulary"), lower_case=False)


@pytest.fixture(scope="module")
def offline(tmp_path_factory) -> Both:
    """Of the offline pretrained model."""
    try:
        pieces = (find_model(None) / "vocab.txt").read_text(encoding="utf-8").split("\n")
    except InputError as error:
        pytest.skip(f"no pretrained model here: {error}")
    return Both(pieces[:30522], tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(params=["tiny", "cased", "offline"])
def both(request) -> Both:
    return request.getfixturevalue(request.param)


def test_texts_pairs_and_batches(both):
    for text in ODD_TEXTS:
        both.check(text)
        assert both.ours.tokenize(text) == both.hf.tokenize(text)
    both.check(ODD_TEXTS)
    both.check(ODD_TEXTS, ODD_TEXTS[::-1], padding=True)
    for pair in (("the movie", "was good"), ("the movie", ""), ("", "")):
        both.check(*pair)


def test_every_nineteenth_code_point(both):
    """Of the planes that hold characters, and of the empty and private ones a few."""
    steps = (range(0, 0x323B0, 19), range(0xE0000, 0xE01F0, 19), range(0x32400, 0x110000, 4001))
    points = [chr(p) for step in steps for p in step if not 0xD800 <= p <= 0xDFFF]
    texts = [f"a{c}b {c}" for c in points]
    rows = zip(texts, both.ours(texts)["input_ids"], both.hf(texts)["input_ids"], strict=True)
    assert not [ascii(text) for text, ours, theirs in rows if ours != theirs]


@sixty_examples
@given(text=random_texts, pair=random_texts)
def test_random_unicode(both, text, pair):
    both.check(text)
    both.check(text, pair)


def test_lone_surrogates_are_deleted(tiny):
    """Hugging Face's cannot take them at all; BERT's own cleaning removes them."""
    ours = tiny.ours(["a\udfffb", "good\ud83d movie", "[MASK]\ud800"])
    assert ours == tiny.ours(["ab", "good movie", "[MASK]"])


@pytest.mark.parametrize("padding", [True, "longest", "max_length", False])
@pytest.mark.parametrize("max_length", [3, 4, 9, 20])
def test_truncation_and_padding(tiny, max_length, padding):
    words = "the movie was good he said a".split()
    texts = [" ".join(words[:count]) for count in range(8)]
    options = {"truncation": True, "max_length": max_length, "padding": padding}
    tiny.check(texts, **options)
    for first in texts:
        tiny.check([first] * 8, texts, **options)


def test_lists_and_tensors(tiny):
    lists = tiny.ours(["the", "the movie"], padding=True)
    assert lists.input_ids is lists["input_ids"]
    assert not hasattr(lists, "labels")
    tensors = tiny.ours(["the", "the movie"], padding=True, return_tensors="pt")
    for name in ("input_ids", "token_type_ids", "attention_mask"):
        assert tensors[name].dtype == torch.int64
        assert tensors[name].tolist() == lists[name]
    assert tiny.ours("the", return_tensors="pt").input_ids.shape == (1, 3)
    assert tiny.ours.encode("the", "movie") == tiny.hf.encode("the", "movie")
    assert tiny.ours([], padding=True)["input_ids"] == []
    assert len(tiny.ours("good " * 600, truncation=True)["input_ids"]) == 512  # unless told
    assert len(tiny.ours("good " * 600)["input_ids"]) == 602
    for arguments, options in (((["a", "b b"],), {"return_tensors": "pt"}), ((["a"], []), {})):
        with pytest.raises(ValueError, match=r"\w"):
            tiny.ours(*arguments, **options)


@sixty_examples
@given(data=st.data())
def test_decode_any_ids(both, data):
    """Also sequences no text has: leading ##, n ##'t, specials in the middle."""
    glue = "the do not n't 's 've ' . , ! ? ... 'tis n ##' ##. ##s s [SEP] [PAD] [MASK]".split()
    ids = [i for i in both.ours.convert_tokens_to_ids(glue) if i != both.ours.unk_token_id]
    any_id = st.one_of(st.sampled_from(ids), st.integers(0, len(both.ours) - 1))
    row = data.draw(st.lists(any_id, max_size=12))
    tokens = both.ours.convert_ids_to_tokens(row)
    assert tokens == both.hf.convert_ids_to_tokens(row)
    assert both.ours.convert_tokens_to_ids(tokens) == both.hf.convert_tokens_to_ids(tokens)
    assert both.ours.convert_tokens_to_string(tokens) == both.hf.convert_tokens_to_string(tokens)
    for skip in (False, True):
        text = both.hf.decode(row, skip_special_tokens=skip)
        assert both.ours.decode(torch.tensor(row), skip) == text
        assert both.ours.batch_decode([row, row], skip_special_tokens=skip) == [text, text]


def test_a_vocabulary_without_special_tokens():
    with one_line_error("[CLS]"):
        BertTokenizer([token for token in tiny_vocabulary() if token != "[CLS]"])


def test_memory_is_bounded_and_cannot_be_changed(tiny, monkeypatch):
    monkeypatch.setattr(tokenizer, "MAX_REMEMBERED_WORDS", 10)
    ours = BertTokenizer(tiny.ours.pieces)
    for number in range(100):
        text = f"w{number} the movie {'long' * 30}{number} unwanted."
        assert ours.text_to_ids(text) == tiny.hf.encode(text, add_special_tokens=False)
        assert 0 < len(ours.remembered) <= 10
    first = ours.text_to_ids("the")
    first.append(-1)
    assert ours.text_to_ids("the") == first[:-1]
