"""Which submissions share code: winnowed fingerprints of tokens (Schleimer et al. 2003, section 4).

Names and strings become one symbol each, comments, docstrings and layout vanish, and what the
handout gave to everybody is taken out before anything is compared. Submissions are read as text and
never parsed or run, so that no text of theirs can stop the comparison. A pair in the report is a
reason to look, not a verdict.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import keyword
import re
import resource
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from course.grading.output import Column, clean, table, write_csv
from course.grading.types import Submission

# Chosen on course/variants: answers written apart share up to 0.37, reworked copies 0.73 and more
K = 12  # tokens of a fingerprint: shorter matches are noise
WINDOW = 4  # the smallest of so many in a row is kept: a match of K + WINDOW - 1 tokens is found
BASE_K = 16  # so many of the handout's tokens in a row are the handout's
THRESHOLD = 0.5  # share of the smaller submission
FEWEST = 10  # fingerprints: a smaller submission has too little code of its own
BASE, PRIME = 0x2545F4914F6CDD1D, 2**61 - 1  # of the rolling hash
SHOWN = 200  # pairs on the page
LONGEST_FILE = 400_000  # bytes; the rest is not compared
LONGEST_LINE = 1000  # characters
SECONDS, MEMORY = 900, 4 << 30  # for all pairs of a class; half a minute for 300 submissions

NAMES, STRINGS = "n", "s"
KEYWORDS = frozenset(keyword.kwlist)
BLANK = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
F_STRING = (getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "FSTRING_END", None))


@dataclass(frozen=True)
class Tokens:
    """A file in symbols, each with its line."""

    symbols: tuple[str, ...]
    lines: tuple[int, ...]


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
# Tokens


def tokens(source: str) -> Tokens:
    """The symbols of a source, whatever text it is.

    Lone strings such as docstrings are left out, and what a formatter adds or takes away: round
    brackets, commas before a closing one, semicolons, the cuts of a long string.
    """
    symbols: list[str] = []
    lines: list[int] = []
    statement = 0  # where it begins
    for kind, text, line in itertools.chain(_lexemes(source), [(tokenize.NEWLINE, "", 0)]):
        last = symbols[-1] if len(symbols) > statement else ""
        if kind == tokenize.NEWLINE or text == ";":
            if last == STRINGS and len(symbols) == statement + 1:
                del symbols[-1], lines[-1]
            statement = len(symbols)
        elif kind not in BLANK:
            if text in ")]}" and last == ",":
                del symbols[-1], lines[-1]
            symbol = _symbol(kind, text)
            if text not in "()\\" and not symbol == STRINGS == last:
                symbols.append(symbol)
                lines.append(line)
    return Tokens(tuple(symbols), tuple(lines))


def _lexemes(source: str) -> Iterator[tuple[int, str, int]]:
    """(kind, text, line) of Python's own tokenizer; of a text that it refuses, line by line.

    Its time grows with the square of a line's length: the rest of a long line is not compared.
    """
    cut = [line[:LONGEST_LINE] for line in source.split("\n")]
    whole, fault = _tokenized("\n".join(cut), 0)
    if not fault:
        return iter(whole)
    return (one for at, line in enumerate(cut) for one in _tokenized(line.strip(), at)[0])


def _tokenized(text: str, before: int) -> tuple[list[tuple[int, str, int]], bool]:
    """The tokens of a text, and whether they end too early; f-strings are strings as all others.

    Args:
        before: how many lines there are before it.
    """
    found, depth = [], 0
    try:
        for kind, string, (line, _), _, _ in tokenize.generate_tokens(io.StringIO(text).readline):
            depth -= kind == F_STRING[1]
            if kind == tokenize.ERRORTOKEN and string.isspace():
                continue
            if not depth and kind != F_STRING[1]:
                kind = tokenize.STRING if kind == F_STRING[0] else kind
                found.append((kind, string, line + before))
            depth += string[:1] != "" and kind == F_STRING[0]
    except (tokenize.TokenError, SyntaxError, ValueError):
        return found, True
    return found, False


def _symbol(kind: int, text: str) -> str:
    if kind == tokenize.NAME:
        return text if text in KEYWORDS else NAMES
    return STRINGS if kind == tokenize.STRING else text


def hashes(symbols: Sequence[str], k: int) -> list[int]:
    """A number for each k symbols in a row: a rolling hash, the same in every process."""
    numbers = [_number(symbol) for symbol in symbols]
    highest = pow(BASE, k - 1, PRIME)
    found, value = [], 0
    for at, number in enumerate(numbers):
        if at >= k:
            value -= numbers[at - k] * highest
        value = (value * BASE + number) % PRIME
        if at >= k - 1:
            found.append(value)
    return found


@lru_cache(maxsize=10_000)
def _number(symbol: str) -> int:
    digest = hashlib.blake2b(symbol.encode("utf-8", "replace"), digest_size=7).digest()
    return int.from_bytes(digest)


def winnow(values: Sequence[int], window: int = WINDOW) -> Iterator[int]:
    """Positions of the smallest value of each window, the rightmost of equal ones."""
    before = -1
    for start in range(max(1, len(values) - window + 1)):
        here = values[start : start + window]
        if here:
            smallest = min(here)
            at = start + max(i for i, value in enumerate(here) if value == smallest)
            if at != before:
                yield at
                before = at


# ---------------------------------------------------------------------------------------------
# What a submission has of its own


def python_files(files: Mapping[str, bytes]) -> dict[str, str]:
    """Its sources as text, whatever the bytes."""
    return {name: _text(files[name]) for name in sorted(files) if name.endswith(".py")}


@lru_cache(maxsize=512)
def _text(content: bytes) -> str:
    return re.sub("\r\n?", "\n", content[:LONGEST_FILE].decode("utf-8", "replace"))


def known_code(given: Iterable[Mapping[str, bytes]]) -> frozenset[int]:
    """Fingerprints of code that everybody was given: the files of course.handout.build."""
    sources = (source for files in given for source in python_files(files).values())
    return frozenset(n for source in sources for n in hashes(tokens(source).symbols, BASE_K))


def own_stretches(found: Tokens, known: frozenset[int]) -> Iterator[tuple[int, int]]:
    """First and last position + 1 of each stretch that the handout does not hold."""
    own = [True] * len(found.symbols)
    for at, number in enumerate(hashes(found.symbols, BASE_K)):
        if number in known:
            own[at : at + BASE_K] = [False] * BASE_K
    at = 0
    for is_own, group in itertools.groupby(own):
        length = sum(1 for _ in group)
        if is_own:
            yield at, at + length
        at += length


def fingerprints(files: Mapping[str, bytes], known: frozenset[int]) -> dict[int, tuple[str, int]]:
    """A submission's fingerprints, each with the file and line where it is first found."""
    found: dict[int, tuple[str, int]] = {}
    for name, source in python_files(files).items():
        for number, line in _of_source(source, known):
            found.setdefault(number, (name, line))
    return found


@lru_cache(maxsize=512)
def _of_source(source: str, known: frozenset[int]) -> tuple[tuple[int, int], ...]:
    """(fingerprint, line); many submissions hold the same file."""
    read = tokens(source)
    found = []
    for start, end in own_stretches(read, known):
        values = hashes(read.symbols[start:end], K)
        found += [(values[at], read.lines[start + at]) for at in winnow(values)]
    return tuple(found)


# ---------------------------------------------------------------------------------------------
# Pairs


def pairs(
    submissions: Iterable[Submission], known: frozenset[int], threshold: float = THRESHOLD
) -> list[Pair]:
    """All pairs that share at least that much of the smaller one, the largest share first."""
    read = []
    for submission in submissions:
        found = fingerprints(submission.files, known)
        if len(found) >= FEWEST:
            read.append((submission, found))
    alike = []
    for (first, mine), (second, theirs) in itertools.combinations(read, 2):
        common = mine.keys() & theirs.keys()
        share = len(common) / min(len(mine), len(theirs))
        if common and share >= threshold:
            at = min(common, key=mine.__getitem__)
            places = [_place(first, *mine[at]), _place(second, *theirs[at])]
            alike.append(Pair(first.student, second.student, share, len(common), *places))
    return sorted(alike, key=lambda pair: (-pair.share, -pair.common, pair.first, pair.second))


def compared(submissions: Iterable[Submission], known: frozenset[int]) -> tuple[list[Pair], str]:
    """All pairs, found in a process of its own with limits; and why there are none ("": there are).

    No text of a student's can then hold up the grader, or bring it down.
    """
    texts = [[one.student, python_files(one.files)] for one in submissions]
    command = [sys.executable, "-m", "course.grading.similarity"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps([texts, [*known]]).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).parents[2],
            timeout=SECONDS,
            check=True,
        )
        return [Pair(**pair) for pair in json.loads(done.stdout)], ""
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return [], f"not compared: {clean(error)}"


def main() -> None:
    """What ``compared`` starts: submissions and the known code as JSON, then pairs as JSON."""
    for kind, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, MEMORY)):
        resource.setrlimit(kind, (most, most))
    texts, known = json.load(sys.stdin)
    given = [
        Submission(student, 0, {name: text.encode() for name, text in files.items()})
        for student, files in texts
    ]
    print(json.dumps([asdict(pair) for pair in pairs(given, frozenset(known))]))


def _place(submission: Submission, name: str, line: int) -> str:
    text = _text(submission.files[name]).split("\n")[line - 1]
    return f"{name}:{line} {clean(text, 80)}"


def write(out: Path, found: Iterable[Pair]) -> None:
    """OUT/similarity.csv."""
    write_csv(out / "similarity.csv", list(TITLES), [_row(pair) for pair in found])


def section(found: Sequence[Pair], why: str = "") -> tuple[str, str, str]:
    """The section of the staff's page: heading, text, HTML.

    Args:
        why: submissions were not compared.
    """
    kinds = {"share": "score", "common": "count"}
    columns = [Column(key, title, kinds.get(key, "text")) for key, title in TITLES.items()]
    text = (
        f"Pairs that share at least {THRESHOLD:.0%} of the smaller submission's own code, whatever "
        "its names and layout; the handout's code is taken out. A reason to look, not a verdict."
    )
    if len(found) > SHOWN:
        text += f" The first {SHOWN} of {len(found)} pairs; all are in similarity.csv."
    text = why or text
    return "Similar code", text, table(columns, map(_row, found[:SHOWN]), "Similar code")


TITLES = {
    "first": "Group",
    "second": "Group",
    "share": "Share",
    "common": "Fingerprints",
    "first_place": "First common line",
    "second_place": "in the other",
}


def _row(pair: Pair) -> dict[str, Any]:
    return asdict(pair)


if __name__ == "__main__":
    main()
