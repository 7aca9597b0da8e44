"""The quiz: questions about the student's own functions, whose keys are found here once more."""

import contextlib
import io
import random
import re
import sys
import types

import pytest
import torch
from factories import ROOT

from checks.fixed_dropout import FixedDropout
from checks.graded_tasks import graded_task
from checks.hunt import jobs
from checks.quiz import terminal
from checks.quiz.questions import choose, numbers, questions_of, subject_of
from config import BertConfig

ATTENTION, SOURCE = graded_task("1.1"), (ROOT / "bert.py").read_text(encoding="utf-8")


def asked(source, seed):
    """All questions about a source's attention."""
    rng = random.Random(seed)
    subject = subject_of(ATTENTION, source, rng)
    return list(questions_of(subject, numbers(subject), rng))


def test_the_terminal_asks_shows_a_function_once_and_counts(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\nB\nwhat\nc\nd\na\n"))
    assert terminal.quiz([ATTENTION], 3, 240) == 0
    printed = capsys.readouterr().out
    assert printed.count("your answer: ") == 6
    assert "one letter: a, b, c or d" in printed
    assert printed.count("bert.py, Task 1.1") == 1
    keys = re.findall(r"your answer: (?:right|no): ([a-d])\n", printed)
    right = sum(k == a for k, a in zip(keys, "abcda", strict=True))
    assert printed.endswith(f"{right} of 5 right\n")


def test_a_closed_input_ends_the_quiz(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it where the input is closed
    assert terminal.quiz([graded_task("1.2")], 3, 240) == 0
    assert capsys.readouterr().out.endswith("\n0 of 0 right\n")


def test_what_is_not_written_is_left_out_with_a_line(tmp_path, monkeypatch):
    source = re.sub(r"( +)scores = query @.*", r"\1raise NotImplementedError", SOURCE)
    (tmp_path / "bert.py").write_text(source, encoding="utf-8")
    (tmp_path / "optimizer.py").write_text("class AdamW(Optimizer)\n", encoding="utf-8")
    monkeypatch.setattr(jobs, "ROOT", tmp_path)
    made = jobs.quiz(3, 5, ["bert.attention", "bert.add_norm", "optimizer.step"]).about
    assert "BertSelfAttention.attention is left out: it is not written yet" in made
    assert "AdamW.step is left out: optimizer.py is not Python" in made
    assert '"task": "bert.add_norm"' in made


# ---------------------------------------------------------------------------------------------
# Keys, found once more


SETTINGS = {  # option → training, padding, what is 0
    "the result in evaluation mode": (False, True, None),
    "the result in training mode": (True, True, None),
    "the result in evaluation mode without padding": (False, False, None),
    "the result in evaluation mode where all keys are 0": (False, True, "key"),
    "the result in evaluation mode where all queries are 0": (False, True, "query"),
}


def call(source, training=False, padding=True, zero=None):
    """What a source's attention makes of inputs of this test, and whose gradients are not 0."""
    module = types.ModuleType("bert")
    exec(compile(source, "bert.py", "exec"), module.__dict__)
    torch.manual_seed(5)
    config = BertConfig(hidden_size=12, num_attention_heads=2, attention_probs_dropout_prob=0.5)
    layer = module.BertSelfAttention(config).train(training)
    given = {name: torch.randn(2, 2, 5, 6) * (name != zero) for name in ("key", "query", "value")}
    given = {name: tensor.requires_grad_() for name, tensor in given.items()}
    mask = torch.zeros(2, 1, 1, 5)
    mask[..., 4] = -1e9 * padding
    with FixedDropout():
        made = layer.attention(**given, attention_mask=mask)
    with contextlib.suppress(RuntimeError):  # no way back
        (made * torch.randn(made.shape)).sum().backward()
    return made.detach(), {n for n, x in given.items() if x.grad is not None and x.grad.any()}


def edited(source, text):
    """A source with the edit that a question supposes; the source where it supposes none."""
    found = re.match(
        r"Suppose lines? (\d+)(?: to (\d+))? (?:is|are) (left out|replaced by `(.+?)`)\. ", text
    )
    if not found:
        return source
    lines, first, last = source.split("\n"), int(found[1]), int(found[2] or found[1])
    indent = re.match(" *", lines[first - 1])[0]
    lines[first - 1 : last] = [indent + (found[4] or "")] + [""] * (last - first)
    return "\n".join(lines)


VARIANTS = [
    ("", ""),
    ("F.softmax(scores, dim=-1)", "F.softmax(scores, dim=-2)"),
    ("scores + attention_mask", "scores.masked_fill(attention_mask < 0, -1e9)"),
]


@pytest.mark.parametrize(("old", "new"), VARIANTS)
def test_keys_hold_on_other_inputs_and_by_other_code(old, new):
    source, checked = SOURCE.replace(old, new), set()
    for question in asked(source, 1):
        other, options = edited(source, question.text), question.options
        assert len(set(options)) == 4
        if question.about == "a gradient":
            names = re.findall(r"`(\w+)`", question.text.rpartition("Which of")[2])
            has = call(other)[1] & {*names}
            true = [n for n, o in enumerate(options) if {*re.findall(r"`(\w+)`", o)} == has]
        elif question.text.endswith(("changes?", "same?")) and {*options} <= {*SETTINGS}:
            pairs = [[call(code, *SETTINGS[o])[0] for code in (source, other)] for o in options]
            same = [torch.allclose(*p, rtol=1e-3, atol=1e-4, equal_nan=True) for p in pairs]
            true = [n for n, holds in enumerate(same) if holds is question.text.endswith("same?")]
        else:
            continue
        assert true == [question.key], question
        checked.add(question.about == "a gradient")
    assert checked == {True, False}


def test_a_known_mistake_is_asked_about_first():
    right, wrong = asked(SOURCE, 1), asked(SOURCE.replace(*VARIANTS[1]), 1)
    assert not [question for question in right if question.about == "a mistake"]
    chosen = choose([right, wrong], 3)  # two of the first function, one of the second
    assert chosen == [*right[:2], wrong[0]]
    assert wrong[0].about == "a mistake"
    assert "softmax runs over the queries" in wrong[0].options[wrong[0].key]


def test_comments_and_docstrings_are_not_shown():
    code = subject_of(ATTENTION, SOURCE, random.Random(1))["code"]
    assert [line.strip() for _, line in code][-1] == "return context.transpose(1, 2).flatten(2)"
    assert not [line for _, line in code if "#" in line or "Vaswani" in line or "(B, H" in line]
