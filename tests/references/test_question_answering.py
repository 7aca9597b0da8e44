"""The lesson on answers in a text: offsets and windows as in transformers, spans, and scores."""

import functools
import json
import random

import pytest
import torch
from factories import TINY, tiny_config
from hypothesis import example, given, settings
from hypothesis import strategies as st
from running import succeeded
from transformers import AutoTokenizer

from lessons import question_answering as script
from lessons.heads import Trained
from lessons.question_answering import QuestionAnswerer, answer
from lessons.squad import Question, Windows, align, best_spans, score


@pytest.fixture(scope="module")
def theirs(tiny_model_folder):
    return AutoTokenizer.from_pretrained(tiny_model_folder)


LETTERS = st.text(
    st.sampled_from("aB1 .,-'\t\n\u00e9\u0301\u200e\u00a0\u0130\u6771\ud55c\U0001f99c_\u2014\u1e9e")
)


@given(LETTERS)
@settings(max_examples=200, deadline=None)
@example("\U0001e94b\u1df9a")
@example("\u200ea\u200db\x00c\x07d\ufffde")  # deleted within words
@example("x" * 101 + " y")  # too long a word
@example("\u0301a \u0301")  # an accent alone
def test_tokens_know_their_characters_as_in_transformers(theirs, text):
    found = align(TINY, text)
    wanted = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
    assert found.ids == TINY.text_to_ids(text) == wanted["input_ids"]
    assert list(zip(found.starts, found.ends, strict=True)) == wanted["offset_mapping"]


@pytest.mark.parametrize(("length", "stride"), [(20, 4), (13, 2), (200, 50)])
def test_windows_are_those_of_transformers(theirs, length, stride):
    chance = random.Random(length)
    asked, context = (
        " ".join("".join(chance.choices("abc", k=chance.randint(1, 3))) for _ in range(count))
        for count in (2, 40)
    )
    data = Windows([Question("1", asked, context, [(7, "x")])], TINY, length, stride)
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


def test_where_the_answer_is():
    context = "aa bb cc dd ee"  # 10 tokens, two a word
    for text, answers, places in (
        (context, [(3, "bb cc"), (0, "aa")], (3 + 2, 3 + 5)),
        (context, [(4, "b c")], (3 + 3, 3 + 4)),  # begins inside a word
        ("a \u200e b", [(2, "\u200e")], (0, 0)),  # has no token
    ):
        (row,) = Windows([Question("1", "q", text, answers)], TINY, 20, 2).rows
        assert (row.first, row.last) == places
    question = Question("1", "q", context, [(3, "bb cc")])
    rows = Windows([question], TINY, 10, 2).rows  # windows of 6 tokens
    assert [row[1:] for row in rows] == [(0, 6, 5, 8), (4, 10, 0, 0)]  # half of it is not it


@pytest.mark.parametrize("longest", [1, 3, 30])
def test_the_best_spans_of_all(longest):
    chance = torch.Generator().manual_seed(longest)
    first, last = torch.randn(2, 3, 12, generator=chance)
    answerable = torch.zeros(3, 12, dtype=torch.bool)
    answerable[0, 4:12] = True
    answerable[1, 3:4] = True
    scores, begins, ends = best_spans(first, last, answerable, longest)
    for row in range(2):
        places = answerable[row].nonzero().flatten().tolist()
        spans = [(i, j) for i in places for j in places if i <= j < i + longest]
        i, j = max(spans, key=lambda span: float(first[row][span[0]] + last[row][span[1]]))
        assert (begins[row], ends[row]) == (i, j)
        assert scores[row] == pytest.approx(float(first[row][i] + last[row][j]))
    assert scores[2] == -torch.inf  # no context, no answer


class Fixed(torch.nn.Module):
    """Answers with fixed logits by token, whatever the words are."""

    def __init__(self, first, last):
        super().__init__()
        self.tables = first, last

    def forward(self, ids, mask, segments):
        return tuple(
            torch.tensor([[table.get(int(i), 0.0) for i in row] for row in ids])
            for table in self.tables
        )


def answers_of(model, data):
    plain = functools.partial(torch.autocast, "cpu", enabled=False)
    return answer(Trained(model, None, torch.device("cpu"), plain), data, 2)


def test_the_answer_is_cut_from_the_text_as_it_was():
    number = TINY.vocab
    sep = number["[SEP]"]
    model = Fixed({number["z"]: 9.0, sep: 50.0}, {number["##e"]: 9.0, sep: 50.0})
    question = Question("1", "ze", "In Zürich-Ost: Das  Café. Zoo", [])
    # neither [SEP] nor the question's own z and e; and case, accents and spaces are back
    assert answers_of(model, Windows([question], TINY, 64, 8)) == ["Zürich-Ost: Das  Café"]


def test_the_best_window_wins():
    data = Windows([Question("1", "x", "a b c d e f g h", [])], TINY, 9, 2)  # 5 tokens a window
    assert len(data) == 2
    for values in ((3.0, 4.0), (4.0, 3.0)):
        table = dict(zip((TINY.vocab["b"], TINY.vocab["g"]), values, strict=True))
        assert answers_of(Fixed(table, table), data) == ["bg"[values.index(4.0)]]


def test_scores_by_hand():
    """Of several answers the best one counts; without any there is nothing to score."""
    answers = (["a b", "apolloprogram"], ["a"], ["b c c"], [])
    questions = [Question("", "", "", [(0, text) for text in texts]) for texts in answers]
    found = score(questions, ["The  Apollo-program.", "the the", "b b c", "w"])
    # of "the the" nothing is left, nor of "a": equal, but no word in common
    assert found == {"exact": pytest.approx(2 / 3), "f1": pytest.approx((1 + 0 + 2 / 3) / 3)}


def test_a_file_is_answered_and_questions_without_an_answer_do_not_count(run_script_here, tmp_path):
    """Half of an emoji in a text ends nothing, nor does a byte-order mark."""
    config = tiny_config(vocab_size=TINY.vocab_size, max_position_embeddings=128)
    QuestionAnswerer(config, ("first", "last")).save_pretrained(tmp_path / "squad")
    TINY.save_pretrained(tmp_path / "squad")
    answers = [{"answer_start": 3, "text": "cd"}]
    asked = [
        {"id": f"\ud83c{i}", "question": "q " * (70 - i), "answers": answers * (not i)}
        for i in range(3)
    ]
    paragraph = {"context": "ab cd \ud83cef \ud83c", "qas": asked}
    text = json.dumps({"data": [{"paragraphs": [paragraph]}]})
    (tmp_path / "dev.json").write_text("\ufeff" + text, encoding="utf-8")
    flags = ("--evaluate", "dev.json", "--checkpoint", "squad", "--out", "out")
    done = succeeded(run_script_here(script, *flags))
    assert "3 of 3 questions were cut at 64 tokens" in done.out
    answers = json.loads((tmp_path / "out/dev-predictions.json").read_text(encoding="utf-8"))
    assert list(answers) == ["\ud83c0", "\ud83c1", "\ud83c2"]
    exact = answers["\ud83c0"] == "cd"
    assert f"exact match {100 * exact:.2f}" in done.out
    assert json.loads((tmp_path / "out/dev-scores.json").read_text())["exact"] == exact
