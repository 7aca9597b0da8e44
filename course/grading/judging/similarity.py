"""Which submissions share code: winnowed fingerprints of syntax (Schleimer et al. 2003, section 4).

A source is parsed, never run, and becomes a row of symbols in which names, texts, comments,
annotations, imports, layout and statements without effect leave no trace. What the handout gave to
everybody is taken out before. A pair in the report is a reason to look, not a verdict.
"""

from __future__ import annotations

import ast
import bisect
import hashlib
import itertools
import json
import multiprocessing
import re
import resource
import subprocess
import sys
import textwrap
from collections import defaultdict
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
COPIED, MUCH = 0.9, 50  # of a function's fingerprints; fingerprints of such functions together
LONG = 80  # letters: such a text may hold code
DEEPEST = 6  # blocks in blocks of a file that does not parse as a whole
SECONDS_EACH = 30  # for one submission
SECONDS, MEMORY = 900, 4 << 30  # for all pairs of a class; half a minute for 300 submissions
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
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
    copied: int = 0  # fingerprints of functions that are there as a whole, whatever else there is


# ---------------------------------------------------------------------------------------------
# Symbols


def symbols_of(source: str) -> list[tuple[str, int]]:
    """The symbols of a source, each with its line, of all that is Python in it."""
    return [pair for tree in trees_of(source) for pair in symbols_in(tree)]


def trees_of(source: str, line: int = 0, depth: int = 0) -> Iterator[ast.AST]:
    """The syntax trees of a source, or of those of its blocks that parse."""
    try:
        yield ast.increment_lineno(ast.parse(source), line)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        lines = textwrap.dedent(source).split("\n")
        starts = [i for i, text in enumerate(lines) if text[:1].strip()]
        if len(starts) == 1:  # a block's first line may be what is wrong
            starts = [starts[0] + 1]
        if depth < DEEPEST and len(lines) > 1:
            for start, end in itertools.pairwise([*starts, len(lines)]):
                yield from trees_of("\n".join(lines[start:end]), line + start, depth + 1)


def code_in(node: ast.AST) -> ast.AST | None:
    """The code that a long text holds, for exec or for nobody, at the text's line."""
    if symbol(node) != "text":  # a number's digits would hold that number again, and so on
        return None
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [part.value if isinstance(part, ast.Constant) else "x" for part in parts]
    text = "".join(t.decode("latin-1") if isinstance(t, bytes) else str(t) for t in texts)
    try:
        tree = ast.parse(textwrap.dedent(text)) if len(text) >= LONG else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for part in ast.walk(tree) if tree else ():
        part.lineno = node.lineno
    return tree


def symbols_in(tree: ast.AST) -> list[tuple[str, int]]:
    """The symbols of a syntax tree, each with its line."""
    waiting, symbols, line = [tree], [], 1
    while waiting:  # without recursion, however deep the tree is
        node = waiting.pop()
        line = getattr(node, "lineno", line)
        if code := code_in(node.value if isinstance(node, ast.Expr) else node):
            waiting.append(code)
        if has_no_effect(node):
            continue
        if not isinstance(node, SILENT):
            symbols.append((symbol(node), line))
        if not isinstance(node, ast.JoinedStr):
            hints = [getattr(node, name, None) for name in ("annotation", "returns")]
            hints = [hint for hint in hints if hint and not acts(hint)]
            parts = [part for part in ast.iter_child_nodes(node) if part not in hints]
            waiting += reversed(parts)
    return symbols


def acts(node: ast.AST) -> bool:
    """Whether an expression may have an effect."""
    return any(isinstance(part, ACTING) for part in ast.walk(node))


def has_no_effect(node: ast.AST) -> bool:
    """Whether a statement may as well not be there."""
    match node:
        case ast.Pass() | ast.Import() | ast.ImportFrom() | ast.AnnAssign(value=None):
            return True
        case ast.Expr():  # a docstring, a lone number or name
            return not acts(node)
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
        case ast.Constant(value=value):  # repr refuses a number of more than 4,300 digits
            return hex(value) if isinstance(value, int) else repr(value)
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
    return re.sub("\r\n?", "\n", content.decode("utf-8", "replace"))


def known_code(part: int) -> frozenset[int]:
    """Numbers of the code that everybody was given, later perhaps with part 1 solved."""
    last = "3" if part == 3 else "2"
    handouts = [handout.build(ROOT, last, solved).files for solved in {False, part != 1}]
    sources = (source for files in handouts for source in python_files(files).values())
    return frozenset(number for source in sources for number in hashes(symbols_of(source)))


def functions_in(source: str) -> list[int]:
    """The first lines of functions that are in no other one."""
    inside, starts = 0, []
    for tree in trees_of(source):
        nodes = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
        for node in sorted(nodes, key=lambda node: node.lineno):
            if node.lineno > inside:
                starts.append(node.lineno)
                inside = node.end_lineno
    return starts


def by_function(
    files: Mapping[str, bytes], places: Mapping[int, tuple[str, int]]
) -> list[set[int]]:
    """A submission's fingerprints, those of each function together."""
    starts = {name: functions_in(source) for name, source in python_files(files).items()}
    groups = defaultdict(set)
    for number, (name, line) in places.items():
        groups[name, bisect.bisect(starts[name], line)].add(number)
    return [group for group in groups.values() if len(group) >= FEWEST]


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
    submissions: Iterable[Submission],
    known: frozenset[int],
    threshold: float = THRESHOLD,
    lost: list[str] | None = None,
) -> list[Pair]:
    """All pairs that share at least that much of the smaller one, or much of one's functions.

    Args:
        lost: gets the names of those that could not be read.
    """
    numbers = []
    for each in submissions:
        measured = measured_apart(each, known) if lost is not None else measure(each, known)
        if measured:
            numbers.append((each, *measured))
        else:
            lost.append(each.student)
    enough = [entry for entry in numbers if len(entry[1]) >= FEWEST]
    alike = []
    for (first, mine, functions), (second, theirs, others) in itertools.combinations(enough, 2):
        common = mine.keys() & theirs.keys()
        share = len(common) / min(len(mine), len(theirs))
        copied = max(
            sum(len(f) for f in each if len(f & common) >= COPIED * len(f))
            for each in (functions, others)
        )
        if common and (share >= threshold or copied >= MUCH):
            at = min(common, key=mine.__getitem__)
            places = [_place(first, *mine[at]), _place(second, *theirs[at])]
            names = (first.student, second.student)
            alike.append(Pair(*names, share, len(common), *places, copied))
    return sorted(alike, key=lambda pair: (-pair.share, -pair.common, pair.first, pair.second))


Measures = tuple[dict[int, tuple[str, int]], list[set[int]]]


def measure(submission: Submission, known: frozenset[int]) -> Measures:
    """A submission's fingerprints with their places, and those of each function."""
    places = fingerprints(submission.files, known)
    return places, by_function(submission.files, places)


def measured_apart(submission: Submission, known: frozenset[int]) -> Measures | None:
    """The same in a process of its own; None if that dies, of one student's text, or takes long."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=lambda: theirs.send(measure(submission, known)))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(SECONDS_EACH) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def _place(submission: Submission, name: str, line: int) -> str:
    text = text_of(submission.files[name]).split("\n")[line - 1]
    return f"{name}:{line} {clean(text, 80)}"


def compared(submissions: Iterable[Submission], part: int) -> tuple[list[Pair], str]:
    """All pairs, found in a process of its own with limits; and who was not compared ("": nobody).

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
        found, lost = json.loads(done.stdout)
        why = (
            f"not compared, since they could not be read: {clean(', '.join(lost))}" if lost else ""
        )
        return [Pair(**pair) for pair in found], why
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
    lost: list[str] = []
    alike = pairs(submissions, known_code(part), lost=lost)
    print(json.dumps([[asdict(pair) for pair in alike], lost]))


# ---------------------------------------------------------------------------------------------
# What staff see


def write(out: Path, alike: Sequence[Pair]) -> None:
    """OUT/similarity.csv: a line for each pair."""
    write_csv(out / "similarity.csv", [f.name for f in fields(Pair)], map(asdict, alike))


def section(alike: Sequence[Pair], why: str = "") -> tuple[str, str, str]:
    """The section of the staff's page: heading, text, HTML.

    Args:
        why: some submissions, or all, were not compared.
    """
    columns = [
        Column("first", "Group", "key"),
        Column("second", "Other group", "key"),
        Column("share", "Share", "score", bar=True),
        Column("first_place", "A common line", "long"),
    ]
    text = (
        f"Pairs that share at least {THRESHOLD:.0%} of the smaller one's own code, or whole "
        "functions of some length, whatever their names, layout and lines without effect; the "
        "handout's code is taken out. A reason to look, not a verdict. All are in similarity.csv."
    )
    if len(alike) > SHOWN:
        text += f" Here are the {SHOWN} most alike of {len(alike)}."
    html = table(columns, map(asdict, alike[:SHOWN]), "Similar code")
    return "Similar code", f"{why}. {text}" if why and alike else why or text, html


if __name__ == "__main__":
    main()
