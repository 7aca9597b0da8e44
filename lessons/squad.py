"""SQuAD: questions, tokens with their characters in the text, windows, best spans, EM and F1."""

from __future__ import annotations

import functools
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from tokenizer import BertTokenizer, category, normalise, split_at_punctuation
from training.files.errors import InputError, values_of
from training.files.texts import parse_json, read_text
from training.loop.progress import progress_bar

QUESTION_TOKENS = 64  # a longer question is cut, as BERT's own script cuts it


class Tokens(NamedTuple):
    """Token ids, and for each the first character and the one after its last."""

    ids: list[int]
    starts: np.ndarray
    ends: np.ndarray


def align(tokenizer: BertTokenizer, text: str) -> Tokens:
    """Tokens with their characters in the text as it was before cleaning and lower-casing.

    The ids are those of ``tokenizer.text_to_ids``, except that a [SEP] or [MASK] typed in the text
    is text like any other.
    """
    plain, origins = [], []  # the text as BERT cleans it, and where each character comes from
    for place, character in enumerate(text):
        cleaned = clean(character, tokenizer.lower_case)
        plain.append(cleaned)
        origins += [place] * len(cleaned)
    plain = "".join(plain)
    ids, bounds, at = [], [], 0
    for word in split_at_punctuation(plain):
        at = plain.index(word, at)  # only white space lies before it
        word_ids = tokenizer.wordpiece(word)
        # ## is not in the text
        lengths = [len(tokenizer.pieces[i]) - 2 * (n > 0) for n, i in enumerate(word_ids)]
        if word_ids == [tokenizer.unk_token_id]:
            lengths = [len(word)]
        for length in lengths:
            bounds.append((origins[at], origins[at + length - 1] + 1))
            at += length
        ids += word_ids
    starts, ends = np.array(bounds, np.int32).reshape(-1, 2).T
    return Tokens(ids, starts, ends)


@functools.cache
def clean(character: str, lower_case: bool) -> str:
    """How BERT cleans a character: to nothing, itself, its base letter, or several."""
    if character in "\t\n\r" or category(character)[0] == "Z":
        return " "
    return normalise(character, lower_case)


class Question(NamedTuple):
    """A question on a context, and its correct answers: (first character, text)."""

    id: str
    text: str
    context: str
    answers: list[tuple[int, str]]


def read_questions(path: str | Path, limit: int | None = None) -> list[Question]:
    """Read SQuAD's JSON; answers may be missing (then there is nothing to score).

    Raises:
        InputError: the file is not of that form, or an answer is not at its character.
    """
    text = read_text(path)
    if '"context"' in text and '"paragraphs"' not in text:
        what = 'has no "paragraphs"; the library datasets saves SQuAD in another form than this'
        raise InputError(f"{path} {what}: give the file that SQuAD's authors publish")
    saved = parse_json(text, str(path))
    questions = []
    with values_of(f"{path} is not SQuAD's JSON, data/paragraphs/qas"):
        for paragraph in (one for article in saved["data"] for one in article["paragraphs"]):
            context = paragraph["context"]
            for entry in paragraph["qas"]:
                answers = [(a["answer_start"], a["text"]) for a in entry.get("answers", ())]
                for start, text in answers:
                    if start < 0 or not text.strip() or not context.startswith(text, start):
                        what = f"{text[:40]!r} is not at character {start}"
                        raise ValueError(f"question {entry['id']}: {what} of its context")
                questions.append(Question(str(entry["id"]), entry["question"], context, answers))
    if not questions:
        raise InputError(f"{path} holds no questions; name SQuAD's file")
    return questions[:limit]


class Row(NamedTuple):
    """A window: its question, its tokens of the context, where the answer is."""

    question: int
    begin: int  # first token of the context
    end: int  # and the one after its last
    first: int  # of the answer, counted from [CLS]; 0, which is [CLS] itself, if it is elsewhere
    last: int


def windows(length: int, room: int, stride: int) -> Iterator[tuple[int, int]]:
    """(begin, end) of stretches of at most ``room`` tokens; neighbours share ``stride`` of them."""
    begin = 0
    while begin + room < length:
        yield begin, begin + room
        begin += room - stride
    yield begin, length


class Windows:
    """Rows [CLS] question [SEP] window of the context [SEP], each text tokenized once."""

    def __init__(self, questions: list[Question], tokenizer, length: int, stride: int):
        self.questions = questions
        self.pad_id = tokenizer.pad_token_id
        self.cls, self.sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        contexts = {question.context: None for question in questions}
        self.contexts = {text: align(tokenizer, text) for text in progress_bar(contexts, "align")}
        asked = [align(tokenizer, question.text).ids for question in questions]
        self.asked = [ids[:QUESTION_TOKENS] for ids in asked]
        if cut := sum(len(ids) > QUESTION_TOKENS for ids in asked):
            print(f"data: {cut} of {len(asked)} questions were cut at {QUESTION_TOKENS} tokens")
        self.rows = [
            row
            for i in range(len(questions))
            for row in self.rows_of(i, length - 3 - len(self.asked[i]), stride)
        ]

    def rows_of(self, i: int, room: int, stride: int) -> Iterator[Row]:
        """The windows of a question; its first answer is the one to learn."""
        question = self.questions[i]
        tokens = self.contexts[question.context]
        first, last = len(tokens.ids), -1  # nowhere
        if question.answers:
            start, answer = question.answers[0]
            first = int(np.searchsorted(tokens.ends, start, side="right"))
            last = int(np.searchsorted(tokens.starts, start + len(answer), side="left")) - 1
        if room <= stride:
            raise InputError(f"--length leaves {room} tokens, no more than --stride {stride}")
        before = len(self.asked[i]) + 2  # [CLS] question [SEP]
        for begin, end in windows(len(tokens.ids), room, stride):
            inside = begin <= first <= last < end
            span = (first - begin + before, last - begin + before) if inside else (0, 0)
            yield Row(i, begin, end, *span)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> int:
        return i

    def lengths(self) -> list[int]:
        """Tokens of every row, [CLS] and both [SEP] included."""
        return [len(self.asked[row.question]) + row.end - row.begin + 3 for row in self.rows]

    def collate_fn(self, numbers: Sequence[int]) -> dict[str, Any]:
        """token_ids, attention_mask, token_type_ids and answerable (B, L), labels (B, 2), rows."""
        ids, segments = [], []
        for row in (self.rows[i] for i in numbers):
            asked = [self.cls, *self.asked[row.question], self.sep]
            context = self.contexts[self.questions[row.question].context].ids[row.begin : row.end]
            ids.append(torch.tensor([*asked, *context, self.sep]))
            segments.append(torch.tensor([0] * len(asked) + [1] * (len(context) + 1)))
        pad = functools.partial(pad_sequence, batch_first=True)
        segments, mask = pad(segments), pad([torch.ones_like(row) for row in ids])  # (B, L)
        following = F.pad(segments[:, 1:], (0, 1))  # (B, L)
        return {
            "token_ids": pad(ids, padding_value=self.pad_id),
            "attention_mask": mask,
            "token_type_ids": segments,
            "labels": torch.tensor([self.rows[i][3:] for i in numbers]),
            "answerable": (segments * following).bool(),  # of the second segment, not its [SEP]
            "rows": list(numbers),
        }


def best_spans(
    first: Tensor, last: Tensor, answerable: Tensor, longest: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Of each row the span i … j with the largest first_i + last_j, where i ≤ j < i + longest.

    Args:
        first, last: logits (B, L).
        answerable: (B, L), True for tokens of the context.

    Returns:
        Scores, i and j, (B,) each; the score is −∞ where there is no such span.
    """
    first, last = (end.float().masked_fill(~answerable, -torch.inf) for end in (first, last))
    last = F.pad(last, (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)  # (B, L, longest)
    best, place = (first[:, :, None] + last).flatten(1).max(dim=1)  # (B, L · longest) → (B,), (B,)
    begin = place // longest
    return best, begin, begin + place % longest


def normalise_answer(text: str) -> str:
    """Lower case, without punctuation and articles, single spaces."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(predicted: str, gold: str) -> float:
    """1 or 0: equal once normalised, as in SQuAD's official script."""
    return float(normalise_answer(predicted) == normalise_answer(gold))


def f1(predicted: str, gold: str) -> float:
    """F1 of the bags of words: 2 · words in common / words in both."""
    ours, theirs = (normalise_answer(text).split() for text in (predicted, gold))
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0


def score(questions: Sequence[Question], answers: Sequence[str]) -> dict[str, float]:
    """Means of exact match and F1, each the best over a question's answers."""
    pairs = [(q.answers, text) for q, text in zip(questions, answers, strict=True) if q.answers]
    return {
        name: sum(max(metric(text, gold) for _, gold in wanted) for wanted, text in pairs)
        / max(1, len(pairs))
        for name, metric in (("exact", exact_match), ("f1", f1))
    }
