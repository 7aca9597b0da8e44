"""Our tokenizer beside Hugging Face's, on a home-made vocabulary and on the offline model's."""

from __future__ import annotations

import copy
import json
import pickle
import unicodedata

import numpy as np
import pytest
import torch
from factories import tiny_vocabulary
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import one_line_error
from transformers import AutoTokenizer
from transformers import BertTokenizer as HuggingFaceTokenizer

import tokenizer
from tokenizer import SPECIAL_TOKENS, BertTokenizer

WORDS = """the a movie was good bad un ##want ##ed ##able runn ##ing he said do not n't 's 've 'm
    're cafe resume uber naive istanbul ##i σοφος σοφοσ 中 文 日 ☃ 😀 ##😀 ß ss … — “ ” $ + ^ ` ~
    | < > = [ ] # : ; ( ) / \\ ##' ##. mask sep cls ... 'tis""".split()

TEXTS = [
    "",
    " ",
    "The movie was good.",
    "  unwanted\t\tmovies\n\nrunning \r ",
    "I can't, won't; don't!  (it's \"bad\")...",
    "Café résumé ÜBER naïve Ångström a\u0301e\u0323\u0308",
    "中文movie日本語のテスト 한국어 ㄱ",
    "\U00020000\U0002a700\uf900\u3400x\u9fff\U0002ceb0",
    "good😀movie 👩‍👩‍👧 ☃️ 🇩🇪",
    "a\x00b\x01c\x7fd\x80e\ufffdf\ufeffg\u00adh",
    "a\x0bb\x0cc\x1cd\x1de\x1ef\x1fg",
    "a\u0085b\u2028c\u2029d\u00a0e\u200bf\u3000g\u1680h\u202fi\u180ej\u2060k",
    "[MASK] the [SEP] [CLS] [PAD] [UNK]",
    "the[MASK]movie[SEP]. x[CLS][CLS]y [mask] [ MASK ] [[MASK]] [MASK",
    "[MA\x0bSK] [MA\u00adSK] [MÁSK] [MA\x85SK] ［MASK］",
    "a" * 99 + " " + "a" * 100 + " " + "a" * 101 + " " + "good" * 100,
    "á" * 100 + " " + "a\u0301" * 60 + " " + "中" * 120 + " " + "!" * 120 + "a" * 100 + ".",
    "ΣΟΦΟΣ σοφος ΌΣΟΣ",
    "İstanbul ISTANBUL ıIiİ I\u0307",
    "ß ẞ STRASSE Ǆ ǅ ﬁ ﬀ ½ ² Ⅷ ⓐ",
    "$5 + 3 = 8^2 ~ `x` | <br /> a_b #tag @me 100% \\n",
    "“quoted” ‘single’ — – … ‽ · • № ™ ° § ¶ ¿¡",
    "नमस्ते हिन्दी বাংলা ไทย עִבְרִית العَرَبِيَّة",
    "\ue000\U000f0000\u0378\U000e0001",
]

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


class Both:
    """Our tokenizer and Hugging Face's, made from one vocabulary file."""

    def __init__(self, vocab_file, lower_case=True):
        self.hf = HuggingFaceTokenizer(vocab=str(vocab_file), do_lower_case=lower_case)
        pieces = vocab_file.read_text(encoding="utf-8").rstrip("\n").split("\n")
        self.ours = BertTokenizer(pieces, lower_case)
        self.folder = vocab_file.parent

    def check(self, *texts, **options):
        """Assert that both give the same three lists."""
        assert dict(self.ours(*texts, **options)) == dict(self.hf(*texts, **options)), texts


def write_vocabulary(folder, pieces=None):
    unique = dict.fromkeys(pieces or [*tiny_vocabulary(), *WORDS])
    (folder / "vocab.txt").write_text("\n".join(unique) + "\n", encoding="utf-8")
    return folder / "vocab.txt"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Both:
    return Both(write_vocabulary(tmp_path_factory.mktemp("tiny-vocabulary")))


@pytest.fixture(scope="module")
def cased(tmp_path_factory) -> Both:
    folder = tmp_path_factory.mktemp("cased-vocabulary")
    pieces = [*tiny_vocabulary(), *WORDS, "The", "Movie", "café", "É", "##É", "Σ", "İ", "I"]
    return Both(write_vocabulary(folder, pieces), lower_case=False)


@pytest.fixture(params=["tiny vocabulary", "offline model"])
def both(request) -> Both:
    return request.getfixturevalue("tiny" if request.param == "tiny vocabulary" else "offline")


@pytest.fixture(params=["tiny", "cased", "offline"])
def each(request) -> Both:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def offline(offline_model) -> Both:
    """Made once: reading 30,522 pieces takes a moment."""
    return Both(offline_model / "vocab.txt")


# ---------------------------------------------------------------------------------------------
# Ids


def test_single_texts(each):
    for text in TEXTS:
        each.check(text)
        assert each.ours.tokenize(text) == each.hf.tokenize(text)


def test_pairs_and_batches(both):
    both.check(TEXTS)
    both.check(TEXTS, TEXTS[::-1])
    both.check("the movie", "was good")
    both.check("the movie", "")
    both.check("", "")
    both.check(TEXTS, TEXTS[::-1], padding=True)


def test_every_nineteenth_code_point(both):
    """Of the planes that hold characters, and of the empty and private ones a few."""
    steps = (range(0, 0x323B0, 19), range(0xE0000, 0xE01F0, 19), range(0x32400, 0x110000, 4001))
    points = [chr(p) for step in steps for p in step if not 0xD800 <= p <= 0xDFFF]
    texts = [f"a{c}b {c}" for c in points]
    rows = zip(texts, both.ours(texts)["input_ids"], both.hf(texts)["input_ids"], strict=True)
    assert not [ascii(text) for text, ours, theirs in rows if ours != theirs]


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=random_texts, pair=random_texts)
def test_random_unicode(each, text, pair):
    each.check(text)
    each.check(text, pair)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "good\ud83d movie", "[MASK]\ud800"])
def test_lone_surrogates_are_deleted(tiny, text):
    """Hugging Face's cannot take them at all; BERT's own cleaning removes them."""
    cleaned = "".join(c for c in text if unicodedata.category(c) != "Cs")
    assert tiny.ours(text)["input_ids"] == tiny.ours(cleaned)["input_ids"]


# ---------------------------------------------------------------------------------------------
# Truncation and padding


LONG = "the movie was good he said a"


@pytest.mark.parametrize("max_length", [3, 4, 9, 20])
def test_truncation(tiny, max_length):
    words = LONG.split()
    texts = [" ".join(words[:count]) for count in range(8)]
    tiny.check(texts, truncation=True, max_length=max_length)
    for first in texts:
        tiny.check([first] * 8, texts, truncation=True, max_length=max_length)


def test_truncation_alone_cuts_at_512(tiny):
    assert len(tiny.ours("good " * 600, truncation=True)["input_ids"]) == 512
    assert len(tiny.ours("good " * 600)["input_ids"]) == 602


@pytest.mark.parametrize("padding", [True, "longest", "max_length", False])
@pytest.mark.parametrize("max_length", [5, 12])
def test_padding(tiny, padding, max_length):
    texts = ["the", LONG, "", "the movie"]
    tiny.check(texts, texts[::-1], padding=padding, truncation=True, max_length=max_length)
    tiny.check(LONG, padding=padding, max_length=max_length, truncation=True)


# ---------------------------------------------------------------------------------------------
# Types and errors


def test_return_types(tiny):
    lists = tiny.ours(["the", "the movie"], padding=True)
    assert lists.input_ids is lists["input_ids"]
    assert not hasattr(lists, "labels")
    tensors = tiny.ours(["the", "the movie"], padding=True, return_tensors="pt")
    for name in ("input_ids", "token_type_ids", "attention_mask"):
        assert tensors[name].dtype == torch.int64
        assert tensors[name].tolist() == lists[name]
    assert tensors.to("cpu").input_ids.equal(tensors.input_ids)
    assert tiny.ours("the", return_tensors="pt").input_ids.shape == (1, 3)
    assert tiny.ours("the").input_ids == tiny.ours.encode("the") == tiny.hf.encode("the")
    assert tiny.ours.encode("the", "movie") == tiny.hf.encode("the", "movie")
    assert tiny.ours([], padding=True)["input_ids"] == []
    assert tiny.ours(np.array(["the", "a"]))["input_ids"] == tiny.ours(["the", "a"])["input_ids"]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((["a", "b b"],), {"return_tensors": "pt"}),
        ((["a", "b"], ["c"]), {}),
    ],
    ids=str,
)
def test_errors(tiny, arguments, options):
    with pytest.raises(ValueError, match=r"\w"):
        tiny.ours(*arguments, **options)


def test_attributes(both):
    ours, hf = both.ours, both.hf
    for name in ("pad", "cls", "sep", "unk", "mask"):
        assert getattr(ours, f"{name}_token") == getattr(hf, f"{name}_token")
        assert getattr(ours, f"{name}_token_id") == getattr(hf, f"{name}_token_id")
    assert len(ours) == ours.vocab_size == len(hf)
    assert ours.get_vocab() == hf.get_vocab()


def test_a_vocabulary_without_special_tokens():
    with one_line_error("[CLS]"):
        BertTokenizer([token for token in tiny_vocabulary() if token != "[CLS]"])


# ---------------------------------------------------------------------------------------------
# Back to text


def test_decode(both):
    rows = both.ours(TEXTS)["input_ids"]
    for skip in (False, True):
        expected = [both.hf.decode(row, skip_special_tokens=skip) for row in rows]
        assert both.ours.batch_decode(rows, skip_special_tokens=skip) == expected
        assert both.ours.decode(torch.tensor(rows[4]), skip_special_tokens=skip) == expected[4]


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
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
        assert both.ours.decode(row, skip) == both.hf.decode(row, skip_special_tokens=skip)


# ---------------------------------------------------------------------------------------------
# Folders


@pytest.mark.parametrize("name", ["tiny", "cased"])
def test_saved_folder_loads_in_both(request, name, tmp_path):
    pair = request.getfixturevalue(name)
    pair.ours.save_pretrained(tmp_path / "new" / "folder")
    ours = BertTokenizer.from_pretrained(tmp_path / "new" / "folder")
    hf = AutoTokenizer.from_pretrained(tmp_path / "new" / "folder")
    assert type(hf).__name__ == "BertTokenizer"
    assert ours.lower_case == pair.ours.lower_case
    assert ours.get_vocab() == hf.get_vocab() == pair.ours.get_vocab()
    texts = [*TEXTS, "The Movie É"]
    expected = pair.hf(texts)["input_ids"]
    assert ours(texts)["input_ids"] == hf(texts)["input_ids"] == expected


@pytest.mark.parametrize("name", ["tiny", "cased"])
@pytest.mark.parametrize("settings_too", [True, False])
def test_tokenizer_json_alone(request, name, settings_too, tmp_path):
    pair = request.getfixturevalue(name)
    hf = copy.deepcopy(pair.hf)
    hf(TEXTS, padding="max_length", truncation=True, max_length=4)  # written into tokenizer.json
    hf.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").unlink(missing_ok=True)
    if not settings_too:
        (tmp_path / "tokenizer_config.json").unlink()
    assert json.loads((tmp_path / "tokenizer.json").read_text())["truncation"]
    ours = BertTokenizer.from_pretrained(str(tmp_path))
    assert ours.lower_case == pair.ours.lower_case
    assert ours(TEXTS)["input_ids"] == pair.hf(TEXTS)["input_ids"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer_config.json", b"{"),
        ("tokenizer_config.json", b"[]"),
        ("vocab.txt", b"caf\xe9"),
        ("tokenizer.json", b'{"model": {}}'),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with one_line_error(str(tmp_path)):
        BertTokenizer.from_pretrained(str(tmp_path))


# ---------------------------------------------------------------------------------------------
# What it remembers


def test_memory_is_bounded_and_cannot_be_changed(tiny, monkeypatch):
    monkeypatch.setattr(tokenizer, "MAX_REMEMBERED_WORDS", 10)
    ours = BertTokenizer(tiny.ours.pieces)
    for number in range(100):
        text = f"w{number} the movie {'long' * 30}{number} unwanted."
        assert ours.text_to_ids(text) == tiny.hf.encode(text, add_special_tokens=False)
        assert 0 < len(ours.word_pieces) <= 10
    first = ours.text_to_ids(LONG)
    first.append(-1)
    assert ours.text_to_ids(LONG) == first[:-1]
    again = pickle.loads(pickle.dumps(ours))  # a DataLoader with workers sends it to others
    assert again(TEXTS)["input_ids"] == tiny.ours(TEXTS)["input_ids"]
