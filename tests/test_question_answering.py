"""The lesson on answers in a text: head, windows and offsets as in transformers, and scores."""

import functools
import json
import random

import pytest
import torch
from factories import tiny_config
from hypothesis import example, given, settings
from hypothesis import strategies as st
from running import one_line_error, succeeded
from transformers import AutoTokenizer

from lessons import question_answering as script
from lessons.heads import Trained
from lessons.question_answering import QuestionAnswerer, answer
from lessons.squad import (
    Question,
    Windows,
    align,
    best_spans,
    exact_match,
    f1,
    read_questions,
    score,
)
from tokenizer import BertTokenizer

LABELS = ("first", "last")


@pytest.fixture(scope="module")
def ours(tiny_model_folder) -> BertTokenizer:
    return BertTokenizer.from_pretrained(str(tiny_model_folder))


@pytest.fixture(scope="module")
def theirs(tiny_model_folder):
    return AutoTokenizer.from_pretrained(tiny_model_folder)


def check_alignment(ours, theirs, text: str) -> None:
    found = align(ours, text)
    wanted = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
    assert found.ids == ours.text_to_ids(text) == wanted["input_ids"]
    assert list(zip(found.starts, found.ends, strict=True)) == wanted["offset_mapping"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\n",
        "Düsseldorf's cafe\u0301 naïve",  # one character, and a letter with a combining accent
        "\u200ea\u200db\x00c\x07d\ufffde",  # deleted within words
        "ABC İstanbul DŽ ŉ",  # lower-cased to more characters
        "東京 is 日本の首都",  # every Chinese character a word
        "한국어 a한b",  # decomposed into letters
        "🦜🦜 x🦜y 👩‍👩‍👧",
        "a\u00a0b\u2028c\x85d\x0be\u3000f",  # spaces, and some that BERT deletes
        "x" * 101 + " y",  # too long a word
        "\u0301a \u0301",  # an accent alone
    ],
)
def test_pieces_know_their_characters(ours, theirs, text):
    check_alignment(ours, theirs, text)


LETTERS = st.text(
    st.sampled_from("aB1 .,-'\t\n\u00e9\u0301\u200e\u00a0\u0130\u6771\ud55c\U0001f99c_\u2014\u1e9e")
)


@given(LETTERS)
@settings(max_examples=200, deadline=None)
@example("\U0001e94b\u1df9a")
def test_pieces_know_their_characters_in_any_mixture(ours, theirs, text):
    check_alignment(ours, theirs, text)


@pytest.mark.parametrize(("length", "stride"), [(20, 4), (13, 2), (200, 50)])
def test_windows_are_those_of_transformers(ours, theirs, length, stride):
    chance = random.Random(length)
    asked, context = (
        " ".join("".join(chance.choices("abc", k=chance.randint(1, 3))) for _ in range(count))
        for count in (2, 40)
    )
    data = Windows([Question("1", asked, context, [(7, "x")])], ours, length, stride)
    batch = data.collate_fn(range(len(data)))
    options = {"truncation": "only_second", "return_overflowing_tokens": True, "padding": True}
    options |= {"max_length": length, "stride": stride, "return_tensors": "pt"}
    wanted = theirs(asked, context, **options)
    assert torch.equal(batch["token_ids"], wanted["input_ids"])
    for name in ("attention_mask", "token_type_ids"):
        assert torch.equal(batch[name], wanted[name])
    inside = [[one == 1 for one in wanted.sequence_ids(i)] for i in range(len(data))]
    assert batch["answerable"].tolist() == inside
    assert data.lengths() == wanted["attention_mask"].sum(dim=1).tolist()


def test_where_the_answer_stands(ours):
    context = "aa bb cc dd ee"  # 10 pieces, two a word
    for text, answers, places in (
        (context, [(3, "bb cc"), (0, "aa")], (3 + 2, 3 + 5)),
        (context, [(4, "b c")], (3 + 3, 3 + 4)),  # begins inside a word
        ("a \u200e b", [(2, "\u200e")], (0, 0)),  # has no piece
    ):
        (row,) = Windows([Question("1", "q", text, answers)], ours, 20, 2).rows
        assert (row.first, row.last) == places
    question = Question("1", "q", context, [(3, "bb cc")])
    rows = Windows([question], ours, 10, 2).rows  # windows of 6 pieces
    assert [row[1:] for row in rows] == [(0, 6, 5, 8), (4, 10, 0, 0)]  # half of it is not it


def by_trying_all(first, last, answerable, longest):
    """Every allowed span with its score, best first."""
    size = len(first)
    spans = [
        (float(first[i] + last[j]), i, j)
        for i in range(size)
        for j in range(i, min(size, i + longest))
        if answerable[i] and answerable[j]
    ]
    return sorted(spans, reverse=True)


@pytest.mark.parametrize("longest", [1, 3, 30])
def test_the_best_spans_of_all(longest):
    chance = torch.Generator().manual_seed(longest)
    first, last = torch.randn(2, 3, 12, generator=chance)
    answerable = torch.zeros(3, 12, dtype=torch.bool)
    answerable[0, 4:12] = True
    answerable[1, 3:4] = True
    scores, begin, end = best_spans(first, last, answerable, longest, count=4)
    for row in range(2):
        wanted = by_trying_all(first[row], last[row], answerable[row], longest)[:4]
        found = [
            span
            for span in zip(*(one[row].tolist() for one in (scores, begin, end)), strict=True)
            if span[0] > -torch.inf
        ]
        assert [span[1:] for span in found] == [span[1:] for span in wanted]
        assert [span[0] for span in found] == pytest.approx([span[0] for span in wanted])
    assert (scores[2] == -torch.inf).all()  # no context, no answer


class Fixed(torch.nn.Module):
    """Answers with fixed logits by piece, whatever the words are."""

    def __init__(self, first, last):
        super().__init__()
        self.tables = first, last

    def forward(self, ids, mask, segments):
        return tuple(
            torch.tensor([[table.get(int(i), 0.0) for i in row] for row in ids])
            for table in self.tables
        )


def answers_of(model, data, longest=30, count=5):
    plain = functools.partial(torch.autocast, "cpu", enabled=False)
    return answer(Trained(model, None, torch.device("cpu"), plain), data, 2, longest, count)


def test_the_answer_is_cut_from_the_text_as_it_was(ours):
    number = ours.vocab
    sep = number["[SEP]"]
    model = Fixed({number["z"]: 9.0, sep: 50.0}, {number["##e"]: 9.0, sep: 50.0})
    question = Question("1", "ze", "In Zürich-Ost: Das  Café. Zoo", [])
    (best,) = answers_of(model, Windows([question], ours, 64, 8))
    # neither [SEP] nor the question's own z and e; and case, accents and spaces are back
    assert best[0][0] == "Zürich-Ost: Das  Café"
    assert all(text in question.context for text, _ in best)
    assert sum(share for _, share in best) == pytest.approx(1.0)


def test_the_best_window_wins_and_spans_in_two_count_once(ours):
    data = Windows([Question("1", "x", "a b c d e f g h", [])], ours, 9, 2)  # 5 pieces a window
    assert len(data) == 2
    table = {ours.vocab["e"]: 3.0, ours.vocab["g"]: 4.0}
    (best,) = answers_of(Fixed(table, table), data)
    texts = [text for text, _ in best]
    assert texts[0] == "g"
    assert "e" in texts
    assert len(set(texts)) == len(texts)
    (short,) = answers_of(Fixed(table, table), data, longest=1, count=2)
    assert [text for text, _ in short] == ["g", "e"]


@pytest.mark.parametrize(
    ("predicted", "gold", "exact", "overlap"),
    [
        ("The  Apollo-program.", "apolloprogram", 1, 1.0),
        ("the the", "a", 1, 0.0),  # nothing is left: equal, but no word in common
        ("b b c", "b c c", 0, 2 / 3),
    ],
)
def test_scores_by_hand(predicted, gold, exact, overlap):
    assert exact_match(predicted, gold) == exact
    assert f1(predicted, gold) == pytest.approx(overlap)


def test_the_best_of_several_answers_counts():
    questions = [
        Question("1", "", "", [(0, "x y"), (0, "z")]),
        Question("2", "", "", [(0, "x y")]),
        Question("3", "", "", []),  # nothing to score
    ]
    found = score(questions, ["z", "y", "w"])
    assert found == {"exact": 0.5, "f1": pytest.approx((1 + 2 / 3) / 2)}


def squad(questions: list[dict], context: str = "ab cd ef") -> str:
    article = {"title": "t", "paragraphs": [{"context": context, "qas": questions}]}
    return json.dumps({"version": "1.1", "data": [article]})


def asked(**values) -> dict:
    one = {"id": "1", "question": "q?", "answers": [{"answer_start": 3, "text": "cd"}]}
    return one | values


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1]", "is not a JSON object"),
        ('{"data": []}', "holds no questions"),
        ('{"data": [{"paragraphs": [{"qas": [{}]}]}]}', "is not SQuAD's JSON"),
        (squad([asked(answers=[{"answer_start": 2, "text": "cd"}])]), "is not at char"),
    ],
)
def test_bad_files(tmp_path, content, said):
    file = tmp_path / "bad"
    file.write_text(content)
    with one_line_error(said, str(file)):
        read_questions(file)


@pytest.fixture
def folder(tmp_path, ours):
    config = tiny_config(vocab_size=ours.vocab_size, max_position_embeddings=128)
    QuestionAnswerer(config, LABELS).save_pretrained(tmp_path / "squad")
    ours.save_pretrained(tmp_path / "squad")
    return tmp_path / "squad"


def test_questions_without_an_answer_do_not_count(run_script_here, tmp_path, folder):
    """Half of an emoji in a text ends nothing, nor does a byte-order mark."""
    questions = [asked(id=f"\ud83c{i}", **({"answers": []} if i else {})) for i in range(3)]
    text = squad(questions, "ab cd \ud83cef \ud83c").replace("q?", "q " * 70, 1)
    (tmp_path / "dev.json").write_text("\ufeff" + text, encoding="utf-8")
    flags = ("--evaluate", "dev.json", "--checkpoint", folder, "--out", "out")
    done = succeeded(run_script_here(script, *flags))
    assert "1 of 3 questions were cut at 64 tokens" in done.out
    answers = json.loads((tmp_path / "out" / "dev-predictions.json").read_text(encoding="utf-8"))
    assert list(answers) == ["\ud83c0", "\ud83c1", "\ud83c2"]
    exact = 100 * (answers["\ud83c0"] == "cd")
    assert f"exact match {exact:.2f}" in done.out
