"""Which submissions share code (course/grading/judging/similarity.py)."""

import ast
import itertools
import os
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_results import rows_in
from support import ROOT

from course import answers, handout
from course.grading.judging import similarity
from course.grading.judging.similarity import fingerprints, known_code, pairs, symbols_of, winnow
from course.grading.judging.types import Submission

# one_formula and decay_before are plain with a line or two changed: they are copies
APART = ("plain", "corrected_moments", "group_at_once", "helper_method", "in_place", "one_vector")


@pytest.fixture(scope="module")
def given_code() -> dict[str, bytes]:
    """The files of the handout."""
    return handout.build(ROOT, "2").files


@pytest.fixture(scope="module")
def known() -> frozenset[int]:
    return known_code(1)


@pytest.fixture(scope="module")
def optimizer(given_code):
    """A function that gives the handout's optimizer.py with one of the variants in it."""

    def answered(name: str) -> str:
        answer = answers.read(answers.VARIANTS, f"optimizer.step/{name}")
        return answers.put(answer, source=given_code["optimizer.py"].decode())

    return answered


@pytest.fixture(scope="module")
def submission(given_code):
    def made(name: str, source: str) -> Submission:
        return Submission(name, 1, {**given_code, "optimizer.py": source.encode()})

    return made


class Disguise(ast.NodeTransformer):
    """Other names, and lines without effect."""

    def visit_Name(self, node):
        node.id = f"renamed_{len(node.id)}_{node.id[:1]}"
        return node

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


def test_the_handout_s_code_is_nobody_s(given_code, known):
    assert fingerprints(given_code, known) == {}
    disguise = {"c.py": disguised(given_code["bert.py"].decode()).encode()}
    assert len(fingerprints(disguise, known)) < 0.02 * len(fingerprints(disguise, frozenset()))
    assert pairs([Submission(name, 1, given_code) for name in "abc"], known) == []


def test_a_copy_is_found_in_a_process_with_limits(submission, optimizer, tmp_path, monkeypatch):
    source = optimizer("one_vector")
    class_ = [submission("a", source), submission("b", disguised(source))]
    class_ += [submission("c", optimizer("plain"))]
    (pair,), why = similarity.compared(class_, 1)
    assert (pair.first, pair.second, why) == ("a", "b", "")
    assert pair.share > 0.9
    name, line = re.match(r"(\S+):(\d+) ", pair.first_place).groups()
    assert name == "optimizer.py"
    assert pair.first_place.endswith(source.split("\n")[int(line) - 1].strip())
    similarity.write(tmp_path, [pair])
    (row,) = rows_in(tmp_path / "similarity.csv")
    assert (row["first"], row["second"]) == ("a", "b")
    monkeypatch.setattr(similarity, "SECONDS", 0.01)
    alike, why = similarity.compared(class_, 1)
    assert alike == []
    assert why.startswith("not compared: ")


def hidden_in(source: str) -> dict[str, str]:
    """The same code where a reader of files may not see it, by how it is hidden."""
    filler = "".join(
        f"def f{i}(a, b):\n    return a[{i}] * b.c({i}, a) - {i}\n" for i in range(400)
    )
    return {
        "behind much text": "#" * 420_000 + "\n" + source,
        "with what does not parse": f"{source}\nx = = 1\n",
        "in a class that does not parse": source.replace("(Optimizer):", "(Optimizer:", 1),
        "too deep for the parser": f"x = {'-' * 20_000}1\n{source}",
        "in a text": f"exec({source!r})",
        "in bytes": f"__doc__ = 1\nexec({source.encode()!r})",
        "in a text without a name": f"{source!r}\nexec(__doc__)",
        "among much else": f"{filler}\n{source}",
        "in a function": "def f():\n" + "".join(f"    {x}\n" for x in source.split("\n")),
    }


@pytest.mark.parametrize("how", hidden_in(""))
def test_a_copy_is_found_wherever_it_is(submission, optimizer, known, how):
    source = optimizer("one_vector")
    copy = Submission("b", 1, {"own.py": hidden_in(source)[how].encode()})
    (pair,) = pairs([submission("a", source), copy], known)
    assert (pair.first, pair.second) == ("a", "b")


def test_a_whole_function_is_found_among_much_of_ones_own(submission, optimizer, known):
    texts = [
        "".join(
            f"def f{i}(a):\n    return a[{n * i}].b({i}, a, {n}) - a * {i}\n" for i in range(200)
        )
        for n in (3, 7)
    ]
    source = optimizer("one_vector")
    class_ = [submission(name, f"{text}\n{source}") for name, text in zip("ab", texts, strict=True)]
    (pair,) = pairs(class_, known)
    assert pair.share < similarity.THRESHOLD
    assert pair.copied >= similarity.MUCH


def test_one_text_that_cannot_be_read_stops_no_comparison(
    submission, optimizer, monkeypatch, known
):
    def measure(each, known, whole=similarity.measure):
        return os._exit(11) if each.student == "bad" else whole(each, known)

    monkeypatch.setattr(similarity, "measure", measure)
    source, lost = optimizer("one_vector"), []
    class_ = [submission(name, source) for name in ("a", "bad", "c")]
    (pair,) = pairs(class_, known, lost=lost)
    assert ((pair.first, pair.second), lost) == (("a", "c"), ["bad"])


def test_variants_written_apart_are_no_copies(submission, optimizer, known):
    submissions = [submission(name, optimizer(name)) for name in APART]
    assert pairs(submissions, known) == []
    sizes = [len(fingerprints(each.files, known)) for each in submissions]
    assert min(sizes) >= similarity.FEWEST  # all of them were compared
    assert pairs(submissions, known, threshold=0.0)


def words(source: str) -> list[str]:
    return [word for word, _ in symbols_of(source)]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (
            'def f(a: int, b) -> int:\n  """What."""\n  x: list = g(a, "one" "two")[0]; return x',
            "import q\ndef other(\n  one,  # with \"quotes'\n  two,\n):\n\n"
            "    y = h(one, r'three')[0]\n    return y",
            True,
        ),
        ("x = f'{y}'", "x = 'y'", True),
        ("x = f(y)", "0\n'a text'\ny\ny.real\npass\nx = f(y)\nx = x", True),
        ("x = f(y)", "f(y)", False),
        ("x = f(y)", "x = f(y, z)", False),
        ("x = a - 1", "x = a - 2", False),
        ("x = a - b", "x = a + b", False),
        ("x = a < b", "x = a > b", False),
        ("for x in y: pass", "while y: pass", False),
        ("x = a or b", "x = a and b", False),
        ("x -= a", "x += a", False),
    ],
)
def test_what_vanishes(first, second, same):
    assert (words(first) == words(second)) == same


def test_the_most_alike_are_on_top_of_the_page_however_many_pairs_there_are():
    """A class whose short functions are all alike, and a copy in it."""
    groups = [f"g{i:02}" for i in range(35)]
    shares = dict.fromkeys(itertools.combinations(groups, 2), 0.6) | {("g07", "g20"): 0.99}
    alike = [similarity.Pair(*pair, share, 30, "a:1", "b:1") for pair, share in shares.items()]
    alike.sort(key=lambda pair: -pair.share)
    _, text, html = similarity.section(alike)
    first, *others = re.findall(r"<tr>(.*?)</tr>", html.partition("<tbody>")[2], re.S)
    assert set(re.findall(r"g\d\d", first)) == {"g07", "g20"}
    assert (len(others) + 1, "100 most alike of 595" in text) == (100, True)


def test_winnowing_keeps_the_smallest_of_each_window():
    values = [77, 74, 42, 17, 98, 50, 17, 98, 8, 88, 67, 39, 77, 74, 42, 17, 98]
    # the example of Schleimer et al. 2003, figure 2, with windows of 4
    assert [values[at] for at in winnow(values, 4)] == [17, 17, 8, 39, 17]
    assert list(winnow([3, 1], 4)) == [1]
    assert list(winnow([], 4)) == []


@given(st.text(alphabet="'\"\\\n#()[]{},;abf0 .\0\u2028é", max_size=80) | st.text(max_size=80))
def test_no_text_stops_the_comparison(text):
    assert all(1 <= line <= text.count("\n") + 1 for _, line in symbols_of(text))
    files = {"a.py": text.encode("utf-8", "surrogatepass") * 3, "b.py": b"\xff\0" * 50}
    assert isinstance(fingerprints(files, frozenset()), dict)


HOSTILE = {
    "quotes": "'\\" * 200_000,
    "one line": "x = " + "'a' " * 100_000,
    "open brackets": "(" * 200_000,
    "indents": "\n".join(" " * (depth % 900) + "if x:" for depth in range(2000)),
    "numbers": "1_" * 200_000,
    "long number": "9" * 90,
    "hexadecimal": "x = 0x" + "f" * 5000,
    "continued": "\\\n" * 200_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_long(name):
    start = time.monotonic()
    symbols_of(HOSTILE[name])
    assert time.monotonic() - start < 20
