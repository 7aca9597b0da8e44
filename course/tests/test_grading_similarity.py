"""Which submissions share code (course/grading/judging/similarity.py)."""

import ast
import csv
import importlib.util
import re
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

from course import answers, handout
from course.grading.judging import similarity
from course.grading.judging.normal_form import symbols_of
from course.grading.judging.similarity import fingerprints, known_code, pairs, winnow
from course.grading.judging.types import Submission

needs_ruff = pytest.mark.skipif(
    importlib.util.find_spec("ruff") is None, reason="no ruff: pip install -r requirements-dev.txt"
)
OPTIMIZERS = answers.read_all(answers.VARIANTS, "optimizer.step")


@pytest.fixture(scope="module")
def given_code() -> dict[str, bytes]:
    """The files of the handout."""
    return handout.build(ROOT, "2").files


@pytest.fixture(scope="module")
def known(given_code) -> frozenset[int]:
    return known_code([given_code])


def submission(name: str, given_code, source: str, file="optimizer.py") -> Submission:
    return Submission(name, 1, {**given_code, file: source.encode()})


def answered(given_code, name: str) -> str:
    """The handout's optimizer.py with one of the variants in it."""
    answer = next(answer for answer in OPTIMIZERS if answer.name == name)
    return answers.put(answer, source=given_code["optimizer.py"].decode())


class Disguise(ast.NodeTransformer):
    """Other names, and lines and operations without effect."""

    def visit_Name(self, node):
        node.id = f"renamed_{len(node.id)}_{node.id[:1]}"
        read = isinstance(node.ctx, ast.Load)
        return ast.parse(f"[{node.id}][0]", mode="eval").body if read else node

    def visit_Attribute(self, node):
        self.generic_visit(node)
        node.attr = f"other_{node.attr[:2]}"
        return node

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.body = [part for line in node.body for part in (line, ast.parse("0").body[0])]
        return node


def disguised(source: str) -> str:
    """Also reformatted, with comments and other quotes; what it computes does not matter."""
    tree = ast.fix_missing_locations(Disguise().visit(ast.parse(source)))
    lines = ast.unparse(tree).split("\n")
    text = "\n\n".join(f"{line}  # step {i}" for i, line in enumerate(lines))
    return text.replace("    ", "  ").replace('"', "'")


@needs_ruff
def test_the_handout_s_code_is_nobody_s(given_code, known):
    assert fingerprints(given_code, known) == {}
    disguise = {"c.py": disguised(given_code["bert.py"].decode()).encode()}
    assert len(fingerprints(disguise, known)) < 0.02 * len(fingerprints(disguise, frozenset()))
    everybody = [Submission(name, 1, given_code) for name in "abc"]
    assert pairs(everybody, known) == []


@needs_ruff
def test_a_copy_is_found(given_code, known, tmp_path):
    source = answered(given_code, "one_vector")
    first = submission("a", given_code, source)
    second = submission("b", given_code, disguised(source))
    third = submission("c", given_code, answered(given_code, "plain"))
    (pair,) = pairs([first, second, third], known)
    assert (pair.first, pair.second) == ("a", "b")
    assert pair.share > 0.9
    name, line = re.match(r"(\S+):(\d+) ", pair.first_place).groups()
    assert name == "optimizer.py"
    assert pair.first_place.endswith(source.split("\n")[int(line) - 1].strip())
    similarity.write(tmp_path, [pair])
    with open(tmp_path / "similarity.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["first"], row["second"]) == ("a", "b")


# one_formula and decay_before are plain with a line or two changed: they are copies
APART = ("plain", "corrected_moments", "group_at_once", "helper_method", "in_place", "one_vector")


@needs_ruff
def test_variants_written_apart_are_no_copies(given_code, known):
    names = [answer.name for answer in OPTIMIZERS if answer.name in APART]
    assert len(names) >= 2
    found = [submission(name, given_code, answered(given_code, name)) for name in names]
    assert pairs(found, known) == []
    sizes = [len(fingerprints(each.files, known)) for each in found]
    assert min(sizes) >= similarity.FEWEST  # all of them were compared
    assert pairs(found, known, threshold=0.0)


def symbols(source: str) -> tuple[str, ...]:
    return symbols_of(textwrap.dedent(source)).symbols


def test_layout_names_comments_and_docstrings_vanish():
    first = '''
        def f(a: int, b) -> int:
            """What it does."""
            x: list = g(a, "one" "two")[0]; return (x + 1)  # a comment
    '''
    second = """
        import math
        def other(
            one,  # with "quotes'
            two,
        ):
            'Else'
            y = h(
                one,
                r'three',
            )[0]
            return y + 1
    """
    assert symbols(first) == symbols(second)
    assert symbols("x = f'{y}'") == symbols("x = 'y'")
    for one, other in (
        ("x = a - 1", "x = a - 2"),
        ("x = a - b", "x = a + b"),
        ("x = a < b", "x = a > b"),
        ("for x in y: pass", "while y: pass"),
        ("x = a or b", "x = a and b"),
        ("x -= a", "x += a"),
    ):
        assert symbols(one) != symbols(other)


EFFECTLESS = [
    "0\nx = f(y)",
    "x = f([y][0])",
    "pass\nx = f(y)\nx = x",
    "if True:\n    x = f(y)\nelse:\n    z = 3",
    "while False:\n    z()\nx = f(y)",
    "x = f(y if 1 else z)",
    "assert True\nx = f(1 * y + 0)",
    "x = (lambda: f(y / 1))()",
    "'a text'\ny\ny.real\nx = f(y)",
    "import q\nx = f(y)",
]
ACTING = ["x = f(y[0])", "x = f(2 * y)", "x = f(0 - y)", "x = f(1 / y)", "x = f(y, z)", "f(y)"]


@pytest.mark.parametrize("source", [*EFFECTLESS, *ACTING])
def test_only_what_has_no_effect_vanishes(source):
    assert (symbols(source) == symbols("x = f(y)")) == (source in EFFECTLESS)


def test_winnowing_keeps_the_smallest_of_each_window():
    values = [77, 74, 42, 17, 98, 50, 17, 98, 8, 88, 67, 39, 77, 74, 42, 17, 98]
    # the example of Schleimer et al. 2003, figure 2, with windows of 4
    assert [values[at] for at in winnow(values, 4)] == [17, 17, 8, 39, 17]
    assert list(winnow([3, 1], 4)) == [1]
    assert list(winnow([], 4)) == []


@given(st.text(alphabet="'\"\\\n#()[]{},;abf0 .\0\u2028é", max_size=80) | st.text(max_size=80))
def test_no_text_stops_the_comparison(text):
    read = symbols_of(text)
    assert len(read.symbols) == len(read.lines)
    assert all(1 <= line <= text.count("\n") + 1 for line in read.lines)
    found = {"a.py": text.encode("utf-8", "surrogatepass") * 3, "b.py": b"\xff\0" * 50}
    assert isinstance(fingerprints(found, frozenset()), dict)


HOSTILE = {
    "quotes": "'\\" * 200_000,
    "one line": "x = " + "'a' " * 100_000,
    "open brackets": "(" * 200_000,
    "indents": "\n".join(" " * (depth % 900) + "if x:" for depth in range(2000)),
    "numbers": "1_" * 200_000,
    "continued": "\\\n" * 200_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_long(name):
    start = time.monotonic()
    symbols_of(HOSTILE[name])
    assert time.monotonic() - start < 20


def test_a_process_with_limits_finds_the_same(given_code, known, monkeypatch):
    source = answered(given_code, "one_vector")
    both = [submission(name, given_code, source) for name in "ab"]
    found, why = similarity.compared(both, known)
    assert (found, why) == (pairs(both, known), "")
    assert len(found) == 1
    monkeypatch.setattr(similarity, "SECONDS", 0.01)
    found, why = similarity.compared(both, known)
    assert found == []
    assert why.startswith("not compared: ")
