"""The bug hunt: which edits count as bugs, what is said about tests, whose lines are edited."""

import re

import pytest
from factories import ROOT, copy_part1

from checks import child, findings
from checks.graded_tasks import graded_task
from checks.hunt import jobs, terminal
from checks.hunt.edits import Edit, Function
from checks.quiz.questions import versions
from training.files.errors import InputError

SHAPE_ONLY = """
import torch
from bert import BertSelfAttention
from config import BertConfig

def test_attention(attention):
    module = BertSelfAttention(BertConfig(hidden_size=6, num_attention_heads=2)).eval()
    key, query, value = torch.randn(3, 1, 2, 4, 3)
    context = attention(module, key, query, value, torch.zeros(1, 1, 1, 4))
    assert context.shape == (1, 4, 6)
"""
WORTHLESS = """
import torch

def test_attention(attention):
    while True: pass

def test_layer(forward):
    assert forward is None

def test_adamw(AdamW):
    torch.calls = getattr(torch, "calls", 0) + 1
    assert torch.calls == 1
"""


@pytest.fixture
def say(tmp_path, monkeypatch, capsys):
    """What the hunt says to a my_tests.py, and its exit status, in a copy of what part 1 needs."""
    copy_part1(tmp_path)
    for module in (terminal, child, findings):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(terminal, "MOST", 4)
    monkeypatch.setenv("COLUMNS", "1000")  # no line is broken

    def run(tests, *tasks):
        (tmp_path / "my_tests.py").write_text(tests, encoding="utf-8")
        status = terminal.hunt([graded_task(number) for number in tasks], seed=0)
        return status, capsys.readouterr().out

    return run


def test_survivors_come_first_by_subject_then_with_their_lines(say):
    status, text = say(SHAPE_ONLY, "1.1")
    assert status == 0
    caught, left, kinds = re.search(
        r"attention: caught (\d) of 4.*; (\d) survived: (.+)\n +survived: ", text
    ).groups()
    assert sum(map(int, re.findall(r"\d+", kinds))) == int(left) == 4 - int(caught) > 0
    survivors = re.findall(r"survived: lines? \d+.* (?:left out|replaced by `.+`)\n", text)
    assert len(survivors) == int(left)


def test_what_is_worth_nothing_is_told(say, monkeypatch):
    status, text = say(WORTHLESS, "1.3", "1.4", "1.5")
    assert status == 1
    layer, embed, adamw = text.splitlines()
    assert "test_layer fails with your own file: AssertionError" in layer
    assert embed.endswith("test_embed is not started")
    assert "test_adamw fails with your own file at a later run" in adamw
    assert "caught 0 of 4: test_embed never fails" in say("def test_embed(embed): pass", "1.4")[1]
    monkeypatch.setattr(terminal, "LIMIT", 20.0)
    early = "ended early: not done after 20 seconds at my_tests.py:5, in test_attention"
    assert early in say(WORTHLESS, "1.1")[1]


def test_the_hunt_begins_with_a_right_function_and_a_text(say, tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*my_tests\.py"):
        terminal.hunt([graded_task("1.1")], 0)
    source = (tmp_path / "bert.py").read_text(encoding="utf-8")
    (tmp_path / "bert.py").write_text(source.replace("dim=-1)", "dim=-2)"), encoding="utf-8")
    assert "begins once BertSelfAttention.attention is ok" in say(SHAPE_ONLY, "1.1")[1]
    (tmp_path / "my_tests.py").write_bytes(b"\n# caf\xe9\n")
    with pytest.raises(InputError, match=r"my_tests\.py, line 2 is not UTF-8"):
        terminal.hunt([graded_task("1.1")], 0)


ATTENTION = "probabilities = self.dropout(F.softmax(scores, dim=-1))"


@pytest.mark.parametrize(
    ("number", "old", "new", "key"),
    [
        ("1.1", ATTENTION, ATTENTION.replace("dim=-1", "dim=3"), ""),
        ("1.1", ATTENTION, "probabilities = F.softmax(scores, dim=-1)", "|dropout/context"),
        ("1.1", ATTENTION, f"{ATTENTION}; attention_mask += 0.5", "|inputs/mask"),
        ("1.1", ATTENTION, f"{ATTENTION}.detach()", "|gradients/key"),
        ("1.1", ATTENTION, "probabilities = scores.nothing", None),
        ("1.5", "state = self.state[parameter]", "state = {}", "|values/plain"),
        ("1.5", 'mul_(1 - group["lr"]', 'mul_(1 + group["lr"]', "|decay/decay"),
    ],
)
def test_only_what_computes_something_else_is_a_bug(number, old, new, key):
    """The first output that differs; None where the function raises."""
    task = graded_task(number)
    lines = (ROOT / task.file).read_text(encoding="utf-8").split("\n")
    (line,) = (n for n, text in enumerate(lines, start=1) if old in text)
    edit = Edit(line, line, lines[line - 1].replace(old, new), "")
    right, run = versions(task, "\n".join(lines), [edit], jobs.INPUTS)
    assert (jobs.first_difference(right, run) if run else None) == key


@pytest.mark.parametrize("mark", ["### TODO", "# mine"])
def test_given_lines_are_not_edited(mark):
    """With the handout's mark above a student's lines, and where they have removed it."""
    source = (ROOT / "optimizer.py").read_text(encoding="utf-8")
    source = source.replace("### BEGIN SOLUTION optimizer.step", mark)
    function = Function(graded_task("1.5"), source)
    first = function.lines.index("                state = self.state[parameter]") + 1
    edits = function.edits()
    assert {edit.first for edit in edits} >= {*range(first + 5, first + 17)} - {first + 12}
    if mark == "### TODO":
        assert all(first <= edit.first and edit.last < first + 18 for edit in edits)
    words = ("closure is", "is_sparse", "raise", "return", "grad is None")
    edited = (function.lines[number - 1] for e in edits for number in range(e.first, e.last + 1))
    assert not [line for line in edited if any(word in line for word in words)]
