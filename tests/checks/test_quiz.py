"""The quiz: what is asked about the student's own functions, and which option is true."""

import io
import random
import re
import sys
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from factories import ROOT

from checks.graded_tasks import graded_task
from checks.hunt import jobs, terminal
from checks.hunt.edits import Edit, Function, installed_source
from checks.quiz import questions
from checks.quiz.questions import choose, numbers, questions_of, subject_of

ATTENTION, SOURCE = graded_task("1.1"), (ROOT / "bert.py").read_text(encoding="utf-8")


def asked(source, seed):
    """All questions about a source's attention."""
    rng = random.Random(seed)
    subject = subject_of(ATTENTION, source, rng)
    return list(questions_of(subject, numbers(subject), rng))


@pytest.fixture
def quiz(monkeypatch, capsys):
    """The terminal's quiz in this process: what it prints, and its exit status."""
    child = SimpleNamespace(run=lambda job, title: jobs.run(job))
    monkeypatch.setattr(terminal, "Child", lambda limit, name: nullcontext(child))
    return lambda *tasks: (terminal.quiz([*map(graded_task, tasks)], 3, 240), capsys.readouterr())


@pytest.mark.parametrize(
    ("typed", "count"),
    [("a\nB\nwhat\nc\nd\na\n", 5), (None, 0)],  # None: as Python has a closed input
)
def test_the_terminal_asks_shows_a_function_once_and_counts(typed, count, monkeypatch, quiz):
    monkeypatch.setattr(sys, "stdin", typed and io.StringIO(typed))
    status, (printed, _) = quiz("1.1")
    assert status == (not count)
    assert printed.count("one letter: a, b, c or d") == (count > 0)
    assert printed.count("bert.py, Task 1.1") == 1
    keys = re.findall(r"your answer: (?:right|no): ([a-d])\n", printed)
    right = sum(k == a for k, a in zip(keys, "abcda"[:count], strict=True))
    assert printed.endswith(f"{right} of 5 right\n" if count else "\ninterrupted after 0 of 5\n")


@pytest.mark.parametrize(
    ("line", "why"),
    [("raise NotImplementedError", "not started"), ("return value.mT.flatten(1)", "wrong")],
)
def test_only_what_is_right_is_asked_about(line, why, quiz, tmp_path, monkeypatch):
    source = re.sub(r"scores = query @(?s:.+?)(?=\n +### END)", line, SOURCE)
    (tmp_path / "bert.py").write_text(source, encoding="utf-8")
    (tmp_path / "optimizer.py").write_text("class AdamW(Optimizer)\n", encoding="utf-8")
    monkeypatch.setattr(jobs, "ROOT", tmp_path)
    with installed_source("bert.py", source):
        status, (printed, _) = quiz("1.1", "1.3", "1.5")
    lines = printed.splitlines()[1:]
    assert (status, len(lines)) == (1, 3)  # and no score
    finds = f"is left out: {ATTENTION.check} finds that {ATTENTION.function} is {why}"
    assert {f"{ATTENTION.title} {finds}", f"{graded_task('1.3').title} {finds}"} < {*lines}
    assert "AdamW.step is left out: optimizer.py is not Python" in printed


EVALUATION = "the result in evaluation mode"
KEYS, QUERIES = f"{EVALUATION} where all keys are 0", f"{EVALUATION} where all queries are 0"
REAL, TRAINING = f"{EVALUATION} without padding", "the result in training mode"
EVERY = {EVALUATION, KEYS, QUERIES, REAL, TRAINING}
SCORES, MASKED = "scores = query @ key.transpose(-1, -2)", "scores = scores + attention_mask"
DROPPED = "probabilities = self.dropout(F.softmax(scores, dim=-1))"


def made(kind, old, new):
    """A kind of questions about attention, after an edit of one line: why, and what holds."""
    function = Function(ATTENTION, SOURCE)
    (line,) = (n for n, text in enumerate(function.lines, start=1) if old in text)
    edit = Edit(line, line, function.lines[line - 1].replace(old, new), "scores")
    subject = subject_of(ATTENTION, SOURCE, random.Random(1)) | {"edits": [asdict(edit)]}
    runs = defaultdict(dict)
    for key, number in numbers(subject).items():
        runs[key.partition("|")[0]][key.partition("|")[2]] = number
    asked = [*kind(subject, runs)]
    claims = [{option for option in options if options[option]} for *_, options in asked]
    return [why for _, why, *_ in asked], claims


@pytest.mark.parametrize(
    ("old", "new", "kept", "reason"),
    [
        (DROPPED, "probabilities = F.softmax(scores, dim=-1)", EVERY - {TRAINING}, "training mode"),
        (MASKED, "pass", {REAL}, "whose attention weights become 0"),
        (MASKED, "scores = scores.masked_fill(attention_mask < 0, -1e30)", EVERY, ""),
        (SCORES, "scores = query @ query.mT", {QUERIES}, "all scores are 0"),
    ],
)
def test_what_an_edit_changes_and_why(old, new, kept, reason):
    reasons, claims = made(questions.changes, old, new)
    assert claims == [EVERY - kept, kept]
    assert any(reason in why for why in reasons)


@pytest.mark.parametrize("query", ["query.detach()", "0 * value"])
def test_what_gets_a_gradient_and_why(query):
    (why,), claims = made(questions.gradients, SCORES, f"scores = {query} @ key.mT")
    assert claims == [{"`key`, `value`"} if "detach" in query else {"`value`"}]
    assert ("detach() ends one" in why) == ("detach" in query)


def test_a_shape_is_asked_where_no_input_has_it():
    (why,), ((right,),) = made(questions.shapes, SCORES, SCORES)
    assert "Its axes: 3 sentences, 6 heads," in why
    # (B, H, L, L): scores, not what is made like them
    assert re.fullmatch(r"\((\d+), 6, (\d+), \2\)", right)


def test_as_many_subjects_and_functions_as_can_be_are_chosen():
    first, second = asked(SOURCE, 1), asked(SOURCE.replace("dim=-1)", "dim=-2)"), 1)
    chosen = choose([first, second], 4)
    assert len({question.about for question in chosen}) == 4
    assert len({question in first for question in chosen}) == 2


def test_comments_and_texts_are_not_shown():
    source = SOURCE.replace(MASKED, f"{MASKED} # (B, H, L, L)\n        '(B, H, L, L)'")
    subject = subject_of(ATTENTION, source, random.Random(1))
    assert [line.strip() for _, line in subject["code"]][-1].startswith("return context.transpose")
    shown = [*(line for _, line in subject["code"]), *(edit["text"] for edit in subject["edits"])]
    assert not [line for line in shown if "#" in line or "Vaswani" in line or "(B, H" in line]
