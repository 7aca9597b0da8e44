"""The bug hunt: which mutants count, what is said about tests, and what these may not do."""

import re
import shutil

import pytest
from support import ROOT

from checks import child, findings
from checks.graded_tasks import graded_task
from checks.hunt import hunt
from checks.hunt.equivalence import compare
from checks.hunt.student_tests import faults_of
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
    while True:
        pass


def test_add_norm(add_norm):
    raise SystemExit


def test_layer(forward):
    assert forward is None


def test_adamw(AdamW):
    try:
        torch.calls += 1
    except AttributeError:
        torch.calls = 1
    assert torch.calls == 1
"""


@pytest.fixture
def say(tmp_path, monkeypatch, capsys):
    """What the hunt says to a my_tests.py, and its exit status, in a copy of what part 1 needs."""
    for file in (*ROOT.glob("*.py"), ROOT / "sanity_check.data", ROOT / "optimizer_test.npy"):
        shutil.copy(file, tmp_path)
    for name in ("training", "checks"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for module in (hunt, child, findings):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(hunt, "MOST", 8)

    def run(tests, *tasks, seed=0):
        (tmp_path / "my_tests.py").write_text(tests, encoding="utf-8")
        status = hunt.hunt([graded_task(number) for number in tasks], seed)
        return status, capsys.readouterr().out

    return run


def test_survivors_are_shown_with_their_lines_and_an_input(say):
    status, text = say(SHAPE_ONLY, "1.1")
    assert status == 0
    caught, bugs = map(int, re.search(r"attention: caught (\d+) of (\d+)\n", text).groups())
    assert 0 < caught < bugs == 8
    survivors = re.findall(r"survived  bert\.py:(\d+)  (.+)\n +becomes  (.+)\n +on ", text)
    assert len(survivors) == bugs - caught
    lines = (ROOT / "bert.py").read_text(encoding="utf-8").splitlines()
    for line, before, after in survivors:
        assert lines[int(line) - 1].split("#")[0].strip() == before.split(" / probab")[0]
        assert before != after
    assert say(SHAPE_ONLY, "1.1") == (status, text)
    assert say(SHAPE_ONLY, "1.1", seed=1)[1] != text


def test_what_is_worth_nothing_is_told(say, monkeypatch):
    monkeypatch.setattr(hunt, "LIMIT", 8.0)
    status, text = say(WORTHLESS, "1.1", "1.2", "1.3", "1.4", "1.5")
    assert status == 1
    attention, add_norm, layer, embed, adamw = text.splitlines()
    assert (
        "test_attention on your own function: not done after 8 seconds at my_tests.py" in attention
    )
    assert "test_add_norm on your own function: it ends Python" in add_norm
    assert "test_layer fails your own function, which is right: AssertionError" in layer
    assert embed.endswith("test_embed is not started")
    assert "test_adamw fails your own function at a later run" in adamw
    assert "caught 0 of 8: test_embed never fails" in say("def test_embed(embed): pass", "1.4")[1]


def test_a_byte_order_mark_changes_nothing_and_other_bytes_are_one_line(say, tmp_path):
    plain = say(SHAPE_ONLY, "1.1")
    (tmp_path / "bert.py").write_text((ROOT / "bert.py").read_text("utf-8"), encoding="utf-8-sig")
    assert say(f"\ufeff{SHAPE_ONLY}", "1.1") == plain
    (tmp_path / "my_tests.py").write_bytes(b"\n# caf\xe9\n")
    with pytest.raises(InputError, match=r"my_tests\.py, line 2 is not UTF-8"):
        hunt.hunt([graded_task("1.1")], 0)


def test_a_check_that_takes_too_long_is_not_called_wrong(say, tmp_path, monkeypatch):
    monkeypatch.setattr(hunt, "LIMIT", 0.01)
    text = say(SHAPE_ONLY, "1.1")[1]
    assert "begins once BertSelfAttention.attention is ok" in text
    assert "not done after 0.01 seconds" in text


ATTENTION, STEP = "probabilities = self.dropout(F.softmax(scores, dim=-1))", "parameter.addcdiv_("
DECAY = 'parameter.mul_(1 - group["lr"] * group["weight_decay"])'


@pytest.mark.parametrize(
    ("number", "old", "new", "status", "where"),
    [
        ("1.1", ATTENTION, ATTENTION.replace("dim=-1", "dim=3"), "same", ""),
        ("1.1", ATTENTION, "probabilities = F.softmax(scores, dim=-1)", "differs", "training mode"),
        ("1.1", ATTENTION, f"value.mul_(1.0); {ATTENTION}", "same", ""),
        ("1.1", ATTENTION, f"value.mul_(1.1); {ATTENTION}", "differs", "values of context"),
        ("1.1", ATTENTION, f"{ATTENTION}.detach()", "differs", "gradients of key: no gradient"),
        ("1.1", ATTENTION, "probabilities = scores.nothing", "broken", ""),
        ("1.5", STEP, f"{DECAY}; {STEP}", "differs", "weight decay"),
        ("1.5", f"                {DECAY}\n", "", "differs", "weight decay"),
        ("1.5", "state = self.state[parameter]", "state = {}", "differs", "step 2"),
        ("1.5", "beta1, beta2 = group", "beta2, beta1 = group", "differs", "step 2"),
        ("1.5", "beta1, beta2 = group", "beta1, beta2 = nothing", "broken", ""),
    ],
)
def test_only_what_computes_something_else_is_a_bug(number, old, new, status, where):
    entry = graded_task(number)
    right = (ROOT / entry.file).read_text(encoding="utf-8")
    assert right.count(old) == 1
    compared = compare(entry, right.replace(old, new), right)
    assert compared.status == status
    assert where in "".join(finding.text for finding in compared.findings)


def test_decay_before_the_update_is_no_bug():
    right = (ROOT / "optimizer.py").read_text(encoding="utf-8")
    other = right.replace(f"                {DECAY}\n", "").replace(STEP, f"{DECAY}; {STEP}")
    assert compare(graded_task("1.5"), other, right).status == "same"


@pytest.mark.parametrize(
    "source",
    [
        "import inspect",
        "from os import path",
        "import torch, time",
        "from torch import jit",
        "import sanity_check",
        "from . import bert",
        "def test_embed(embed): return embed.__code__",
        "def test_embed(embed): return '{0.__name__}'",
        "def test_embed(embed): return '{0._'.format(embed)",
        "def test_embed(embed): return getattr(embed, 'x')",
        "def test_embed(embed): return open('bert.py')",
        "def test_embed(embed): eval('embed')",
        "x = __file__",
        "x = torch.sys.modules",
        "x = torch.load('a')",
        "def test_embed(embed) return",
    ],
)
def test_tests_only_call_what_they_are_given(source):
    assert faults_of(f"import torch\n{source}")


def test_the_handouts_file_and_evaluation_mode_are_allowed():
    assert faults_of((ROOT / "course" / "hunt" / "my_tests.py").read_text(encoding="utf-8")) == []
    assert faults_of("def test_embed(embed):\n    'as `open` does'\n    embed(model.eval())") == []
