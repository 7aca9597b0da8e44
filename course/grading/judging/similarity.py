"""Which submissions share code: winnowed fingerprints of syntax (Schleimer et al. 2003, section 4).

A source is parsed, never run, and becomes a row of symbols in which names, texts, comments,
annotations, imports, layout and statements without effect leave no trace. What the handout gave to
everybody is taken out before. A pair in the report is a reason to look, not a verdict.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import re
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path

from course import handout
from course.grading.judging.types import Submission
from course.grading.pages.output import Column, clean, table, write_csv
from course.grading.sandbox.context import ROOT

# Chosen on course/variants: answers to Task 1.5 written apart share up to 0.15, reworked copies
# 0.98 and more
K = 12  # symbols of a fingerprint: shorter matches are noise
WINDOW = 4  # the smallest of so many in a row is kept: a match of K + WINDOW - 1 symbols is found
THRESHOLD = 0.5  # fraction of the smaller submission
FEWEST = 10  # fingerprints: a smaller submission has too little code of its own
SHOWN = 100  # pairs on the page
LONGEST_FILE = 400_000  # bytes; the rest is not compared
SECONDS, MEMORY = 900, 4 << 30  # for all pairs of a class; half a minute for 300 submissions
ACTING = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)  # may have an effect
# Without a symbol: Expr and others say nothing, a name's context follows from its place
SILENT = (ast.Module, ast.Expr, ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)


@dataclass(frozen=True)
class Pair:
    """Two submissions that share code."""

    first: str
    second: str
    share: float  # of the smaller one's fingerprints
    common: int  # fingerprints
    first_place: str  # of the first common one: file, line and its text
    second_place: str


# ---------------------------------------------------------------------------------------------
# Symbols


def symbols_of(source: str) -> list[tuple[str, int]]:
    """The symbols of a source, each with its line; none where it is not Python."""
    try:
        waiting: list[ast.AST] = [ast.parse(source)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    symbols, line = [], 1
    while waiting:  # without recursion, however deep the tree is
        node = waiting.pop()
        line = getattr(node, "lineno", line)
        if has_no_effect(node):
            continue
        if not isinstance(node, SILENT):
            symbols.append((symbol(node), line))
        if not isinstance(node, ast.JoinedStr):
            hints = [getattr(node, name, None) for name in ("annotation", "returns")]
            parts = [part for part in ast.iter_child_nodes(node) if part not in hints]
            waiting += reversed(parts)
    return symbols


def has_no_effect(node: ast.AST) -> bool:
    """Whether a statement may as well not be there."""
    match node:
        case ast.Pass() | ast.Import() | ast.ImportFrom() | ast.AnnAssign(value=None):
            return True
        case ast.Expr():  # a docstring, a lone number or name
            return not any(isinstance(part, ACTING) for part in ast.walk(node))
        case ast.Assign(targets=[ast.Name(id=target)], value=ast.Name(id=value)):
            return target == value
    return False


def symbol(node: ast.AST) -> str:
    """What stands for a node: its kind, its operator, a number's value."""
    match node:
        case ast.Name() | ast.arg() | ast.keyword() | ast.alias():
            return "name"
        case ast.Constant(value=str() | bytes()) | ast.JoinedStr():
            return "text"
        case ast.Constant():
            return repr(node.value)
        case ast.AnnAssign():
            return "Assign"
        case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.AugAssign():
            return f"{type(node).__name__} {type(node.op).__name__}"
        case ast.Compare():
            return " ".join(type(op).__name__ for op in node.ops)
    return type(node).__name__


# ---------------------------------------------------------------------------------------------
# Fingerprints


def hashes(symbols: Sequence[tuple[str, int]]) -> list[int]:
    """A number for each K symbols in a row, the same in every process."""
    words = [word for word, _ in symbols]
    runs = (" ".join(words[at : at + K]) for at in range(len(words) - K + 1))
    return [
        int.from_bytes(hashlib.blake2b(run.encode("utf-8", "replace"), digest_size=7).digest())
        for run in runs
    ]


def winnow(values: Sequence[int], window: int = WINDOW) -> Iterator[int]:
    """Positions of the smallest value of each window, the rightmost of equal ones."""
    before = -1
    for start in range(max(1, len(values) - window + 1) if values else 0):
        here = range(start, min(start + window, len(values)))
        at = min(here, key=lambda i: (values[i], -i))
        if at != before:
            yield at
            before = at


def python_files(files: Mapping[str, bytes]) -> dict[str, str]:
    """Sources as text, whatever the bytes."""
    return {name: text_of(files[name]) for name in sorted(files) if name.endswith(".py")}


@lru_cache(maxsize=512)
def text_of(content: bytes) -> str:
    """A file's text with plain line ends."""
    return re.sub("\r\n?", "\n", content[:LONGEST_FILE].decode("utf-8", "replace"))


def known_code(part: int) -> frozenset[int]:
    """Numbers of the code that everybody was given, in part 2 perhaps with part 1 solved."""
    handouts = [handout.build(ROOT, "2", solved).files for solved in {False, part == 2}]
    sources = (source for files in handouts for source in python_files(files).values())
    return frozenset(number for source in sources for number in hashes(symbols_of(source)))


def fingerprints(files: Mapping[str, bytes], known: frozenset[int]) -> dict[int, tuple[str, int]]:
    """A submission's fingerprints, each with the file and line where it is first seen."""
    places: dict[int, tuple[str, int]] = {}
    for name, source in python_files(files).items():
        for number, line in _of_source(source, known):
            places.setdefault(number, (name, line))
    return places


@lru_cache(maxsize=512)
def _of_source(source: str, known: frozenset[int]) -> tuple[tuple[int, int], ...]:
    """(fingerprint, line) of what is not known; many submissions hold the same file."""
    symbols = symbols_of(source)
    values = hashes(symbols)
    return tuple((values[at], symbols[at][1]) for at in winnow(values) if values[at] not in known)


# ---------------------------------------------------------------------------------------------
# Pairs


def pairs(
    submissions: Iterable[Submission], known: frozenset[int], threshold: float = THRESHOLD
) -> list[Pair]:
    """All pairs that share at least that much of the smaller one, the largest share first."""
    numbers = [(each, fingerprints(each.files, known)) for each in submissions]
    enough = [pair for pair in numbers if len(pair[1]) >= FEWEST]
    alike = []
    for (first, mine), (second, theirs) in itertools.combinations(enough, 2):
        common = mine.keys() & theirs.keys()
        share = len(common) / min(len(mine), len(theirs))
        if common and share >= threshold:
            at = min(common, key=mine.__getitem__)
            places = [_place(first, *mine[at]), _place(second, *theirs[at])]
            alike.append(Pair(first.student, second.student, share, len(common), *places))
    return sorted(alike, key=lambda pair: (-pair.share, -pair.common, pair.first, pair.second))


def _place(submission: Submission, name: str, line: int) -> str:
    text = text_of(submission.files[name]).split("\n")[line - 1]
    return f"{name}:{line} {clean(text, 80)}"


def compared(submissions: Iterable[Submission], part: int) -> tuple[list[Pair], str]:
    """All pairs, found in a process of its own with limits; and why there are none ("": there are).

    No text of a student's can then hold up the grader, or bring it down.
    """
    texts = [[each.student, python_files(each.files)] for each in submissions]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "course.grading.judging.similarity"],
            input=json.dumps([part, texts]).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            timeout=SECONDS,
            check=True,
        )
        return [Pair(**pair) for pair in json.loads(done.stdout)], ""
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return [], f"not compared: {clean(error)}"


def main() -> None:
    """What ``compared`` starts: the part and the submissions as JSON, then pairs as JSON."""
    for kind, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, MEMORY)):
        resource.setrlimit(kind, (most, most))
    part, texts = json.load(sys.stdin)
    submissions = [
        Submission(student, part, {name: text.encode() for name, text in files.items()})
        for student, files in texts
    ]
    print(json.dumps([asdict(pair) for pair in pairs(submissions, known_code(part))]))


# ---------------------------------------------------------------------------------------------
# What staff see


def write(out: Path, alike: Sequence[Pair]) -> None:
    """OUT/similarity.csv: a line for each pair."""
    write_csv(out / "similarity.csv", [f.name for f in fields(Pair)], map(asdict, alike))


def section(alike: Sequence[Pair], why: str = "") -> tuple[str, str, str]:
    """The section of the staff's page: heading, text, HTML.

    Args:
        why: submissions were not compared.
    """
    columns = [
        Column("first", "Group", "key"),
        Column("second", "Other group", "key"),
        Column("share", "Share", "score", bar=True),
        Column("first_place", "A common line", "long"),
    ]
    text = (
        f"Pairs that share at least {THRESHOLD:.0%} of the smaller one's own code, whatever its "
        "names, layout and lines without effect; the handout's code is taken out. A reason to "
        "look, not a verdict. All pairs are in similarity.csv."
    )
    if len(alike) > SHOWN:
        text += f" Here are the {SHOWN} most alike of {len(alike)}."
    html = table(columns, map(asdict, alike[:SHOWN]), "Similar code")
    return "Similar code", why or text, html


if __name__ == "__main__":
    main()
