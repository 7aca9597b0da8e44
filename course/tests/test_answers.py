"""Answers as files: right ones, mistakes as changes to them, and both put into the source."""

import re
import textwrap

import pytest
import torch
from support import ROOT, one_line_error

from checks.findings import Mistake
from checks.graded_tasks import graded_task
from course import answers
from course.answers import (
    MISTAKES,
    VARIANTS,
    installed,
    merge,
    merge_lines,
    put,
    read,
    read_all,
)
from course.gradescope import build
from course.patches import patched

ADD_NORM = "bert.add_norm"
RIGHT = '''\
    """Everything is added.

    And more.
    """

    import math
    from torch.nn import functional as F


    class Plain:
        def add_norm(self, input, output, dense_layer, dropout, ln_layer):
            output = dense_layer(output)
            output = dropout(output)
            return ln_layer(input + output)


    class Again:
        @staticmethod
        def helper(x):
            return F.relu(x) * math.pi

        def add_norm(self, input, output, *modules):
            return None
'''
WRONG = """\
    Mistakes.
    import math
    import torch
    from torch.nn import functional as F

    a_mistake: The input
    is not added.
    Hint: It has to be,
    every time. Read: a paper, §3
        input + output → output
      Again:
        return None → return output
        in helper:
        F.relu(x) * math.pi → F.gelu(x)
      Shorter(Plain): ln_layer(input + output) → output
      Whole:
        @staticmethod
        def helper(x):
            return math.e

        def add_norm(self, *tensors):
            return tensors[1]

    another: The norm is missing.
    Hint: Where? Read: a book Named: no_norm
      Bare(Plain):
        - return ln_layer(input + output)
        + return input + output
"""


CHANGED = """\
    Correct solutions.
    import math

    no_name: The result of the layer
    has no name.
        - output = dropout(output)
        + output = dropout(output) * math.e
      Again: return None → return output
"""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Correct solutions in one folder, mistakes in another."""
    for name in ("MISTAKES", "VARIANTS"):
        monkeypatch.setattr(answers, name, tmp_path / name)
    (tmp_path / "VARIANTS" / ADD_NORM).mkdir(parents=True)
    (tmp_path / "MISTAKES").mkdir()
    write(tmp_path / "VARIANTS" / ADD_NORM / "plain.py", RIGHT)
    write(tmp_path / "VARIANTS" / f"{ADD_NORM}.txt", CHANGED)
    write(tmp_path / "MISTAKES" / f"{ADD_NORM}.txt", WRONG)
    return tmp_path


def write(path, text):
    path.write_text(textwrap.dedent(text), encoding="utf-8")


def test_correct_solutions_are_read(folders):
    changed, plain = read_all(folders / "VARIANTS")
    assert (plain.task, plain.name, plain.says) == (
        graded_task(ADD_NORM),
        "plain",
        "Everything is added.",
    )
    assert list(plain.versions) == ["Plain", "Again"]
    assert plain.versions["Plain"]["add_norm"].endswith("    return ln_layer(input + output)\n")
    assert plain.versions["Again"]["helper"].startswith("@staticmethod\ndef helper(x):\n")
    assert plain.imports == ("import math", "from torch.nn import functional as F")
    assert changed.says == "The result of the layer has no name."
    assert list(changed.versions) == ["NoName", "Again"]
    assert "    output = dropout(output) * math.e\n" in changed.versions["NoName"]["add_norm"]


def test_mistakes_are_read(folders):
    mistake, another = read_all(folders / "MISTAKES")
    assert mistake.task == graded_task(ADD_NORM)
    assert mistake.mistake == Mistake(
        "a_mistake", "The input is not added.", "It has to be, every time.", "a paper, §3"
    )
    assert list(mistake.versions) == ["AMistake", "Again", "Shorter", "Whole"]
    plain, again, shorter, whole = mistake.versions.values()
    assert plain["add_norm"].endswith("    return ln_layer(output)\n")
    assert again == {
        "add_norm": "def add_norm(self, input, output, *modules):\n    return output\n",
        "helper": "@staticmethod\ndef helper(x):\n    return F.gelu(x)\n",
    }
    assert shorter["add_norm"].endswith("    return output\n")
    assert whole == {
        "helper": "@staticmethod\ndef helper(x):\n    return math.e\n",
        "add_norm": "def add_norm(self, *tensors):\n    return tensors[1]\n",
    }
    assert (mistake.named, another.named, another.read) == ("a_mistake", "no_norm", "a book")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Hint: It", "Idea: It", "'a_mistake: The input': a mistake begins with 'name: what is wr"),
        ("another: The", "a_mistake: The", "a_mistake is there twice"),
        ("Shorter(Plain)", "Again(Plain)", "a_mistake, Again, a change of Plain: this name is tak"),
        ("in helper", "in help", "a_mistake, Again, a change of Again: there is no help"),
        ("input + output → o", "x → o", "AMistake, a change of Plain: 'x' is there 0 times"),
        ("return math.e", "return (", "a_mistake, Whole, a change of Whole: .*never closed"),
    ],
)
def test_mistakes_of_another_form_are_refused(folders, old, new, words):
    assert WRONG.count(old) == 1
    path = folders / "MISTAKES" / f"{ADD_NORM}.txt"
    write(path, WRONG.replace(old, new))
    with one_line_error(str(path)) as refused:
        read_all(folders / "MISTAKES")
    refused.match(words)


@pytest.mark.parametrize(("kind", "end"), [("VARIANTS", ""), ("MISTAKES", ".txt")])
def test_what_is_no_task_is_refused(folders, kind, end):
    (folders / kind / f"{ADD_NORM}{end}").rename(folders / kind / f"bert.pooler{end}")
    with one_line_error("no such task"):
        read_all(folders / kind)


# ---------------------------------------------------------------------------------------------
# Changes

LINES = """\
def f(x):
    if x:
        y = g(x)
        z = y
    z = y
    return y + 1
"""


@pytest.mark.parametrize(
    ("patch", "old", "new"),
    [
        (["y + 1 → 2"], "y + 1", "2"),
        (["- y = g(x)", "- z = y"], "        y = g(x)\n        z = y\n", ""),
        (["  y = g(x)", "  z = y", "- z = y"], "    z = y\n    return", "    return"),
        (["  if x:", "+     w = 1"], "if x:\n", "if x:\n        w = 1\n"),
        (
            ["- return y + 1", "+ if z:", "+     return 0"],
            "return y + 1",
            "if z:\n        return 0",
        ),
    ],
)
def test_a_change_is_made(patch, old, new):
    assert old in LINES
    assert patched(LINES, patch) == LINES.replace(old, new, 1)


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (["q → r"], "'q' is there 0 times, not once"),
        (["- z = y"], "'z = y' is there 2 times, not once"),
        (["+ w = 1"], "'+ w = 1': no line above it says after which one it comes"),
        (["w = 1"], "'w = 1': a change begins with '- ', '+ ' or two spaces, or has '→'"),
        (["g(x) → h(x)", "y = g → z = g"], "two changes at the same place"),
    ],
)
def test_a_change_that_does_not_fit_is_refused(patch, words):
    with one_line_error(words):
        patched(LINES, patch)


# ---------------------------------------------------------------------------------------------
# Into the source


def test_put_replaces_the_method_and_nothing_else(folders):
    answer = read(folders / "VARIANTS", f"{ADD_NORM}/plain")
    ours = (ROOT / "bert.py").read_text(encoding="utf-8")
    plain, again = put(answer), put(answer, "Again")
    assert "### " not in plain
    assert "return ln_layer(input + output)\n" in plain
    assert "return ln_layer(input + dropout(dense_layer(output)))" not in plain
    for text in ("def embed(self", "class BertModel(", "def encode(self"):
        assert plain.count(text) == ours.count(text) == 1
    assert again.count("    @staticmethod\n    def helper(x):") == 1  # added to the class
    with installed(answer, "Again") as module:
        assert module.BertLayer.helper(torch.tensor(-1.0)) == 0
        assert module.BertLayer.add_norm(None, 1, 2, 3) is None


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ("aBcde", "abcDe", "aBcDe"),
        ("abXcde", "abcd", "abXcd"),
        ("aBcde", "abCde", "aBCde"),
        ("aBcde", "aXcde", None),
        ("abXcde", "abYcde", None),
        ("aXde", "abcYde", "aXYde"),
    ],
)
def test_two_changes_are_merged_line_by_line(first, second, wanted):
    for pair in ((first, second), (second, first)):
        assert merge_lines(list("abcde"), *map(list, pair)) == (wanted and list(wanted))


def test_methods_are_merged_or_taken_from_whoever_has_them():
    base = {"f": "a\nb\nc\n", "g": "x\n"}
    first, second = {"f": "A\nb\nc\n", "h": "h\n"}, {"f": "a\nb\nC\n"}
    assert merge(base, first, second) == {"f": "A\nb\nC\n", "g": "x\n", "h": "h\n"}
    assert merge(base, first, {"f": "B\nb\nc\n"}) is None
    assert merge(base, first, {"h": "other\n"}) is None
    assert merge(base, first, {"i": "return (\n"}) is None


@pytest.mark.parametrize("folder", [MISTAKES, VARIANTS], ids=lambda folder: folder.name)
def test_every_stored_answer_can_be_read_and_put(folder):
    stored = read_all(folder)
    assert len(stored) > 15
    for answer in stored:
        compile(put(answer), answer.name, "exec")


def test_the_autograder_has_every_answer():
    packed = dict(build.repository_files())
    files = [*MISTAKES.iterdir(), *VARIANTS.glob("*.txt"), *VARIANTS.glob("*/*.py")]
    assert len(files) > 50
    for path in files:
        assert packed[f"repo/{path.relative_to(ROOT).as_posix()}"] == path.read_bytes()


def test_pages_have_the_numbers_of_the_files():
    mistakes, solutions = read_all(MISTAKES), read_all(VARIANTS)
    counts = {
        "mistakes": len(mistakes),
        "rewrites": sum(len(answer.versions) - 1 for answer in mistakes),
        "solutions": sum(len(answer.versions) for answer in solutions),
    }
    table = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    assert f"| mistakes | {counts['mistakes']} |" in table
    assert f"| rewrites of them | {counts['rewrites']} |" in table
    assert f"| {counts['solutions']} + " in table
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    kinds = r"(\d+) (mistakes|rewrites|(?:correct )?solutions|right answers)\b"
    for number, kind in re.findall(kinds, readme):
        assert int(number) == counts.get(kind, counts["solutions"]), kind
