"""Which submissions share code: winnowed fingerprints of syntax (Schleimer et al. 2003, section 4).

What is compared are the symbols of normal_form.py: names, texts, layout and what has no effect
vanish. What the handout gave to everybody is taken out before. Submissions are never run. A cluster
in the report is a reason to look, not a verdict.
"""

from __future__ import annotations

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

from course.grading.judging.normal_form import Symbols, symbols_of
from course.grading.judging.types import Submission
from course.grading.pages.output import Column, clean, table, write_csv

# Chosen on course/variants: answers written apart share up to 0.27, reworked copies 0.91 and more
K = 12  # symbols of a fingerprint: shorter matches are noise
WINDOW = 4  # the smallest of so many in a row is kept: a match of K + WINDOW - 1 symbols is found
BASE_K = 16  # so many of the handout's symbols in a row are the handout's
THRESHOLD = 0.5  # share of the smaller submission
FEWEST = 10  # fingerprints: a smaller submission has too little code of its own
BASE, PRIME = 0x2545F4914F6CDD1D, 2**61 - 1  # of the rolling hash
SHOWN = 100  # clusters on the page
LONGEST_FILE = 400_000  # bytes; the rest is not compared
SECONDS, MEMORY = 900, 4 << 30  # for all pairs of a class; half a minute for 300 submissions


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
# Fingerprints


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
    return frozenset(n for source in sources for n in hashes(symbols_of(source).symbols, BASE_K))


def own_stretches(found: Symbols, known: frozenset[int]) -> Iterator[tuple[int, int]]:
    """First and last position + 1 of each stretch that the handout does not hold."""
    own = [True] * len(found.symbols)
    for at, number in enumerate(hashes(found.symbols, BASE_K)):
        if number in known:
            own[at : at + BASE_K] = [False] * BASE_K
    at = 0
    for is_own, group in itertools.groupby(own):
        length = sum(1 for _ in group)
        if is_own and length >= BASE_K:  # in a shorter one nothing is seen of the handout
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
    read = symbols_of(source)
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
    command = [sys.executable, "-m", "course.grading.judging.similarity"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps([texts, [*known]]).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).parents[3],
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


def clusters(found: Iterable[Pair]) -> list[list[Pair]]:
    """The pairs, those that share a submission together, also by way of others; largest first."""
    together: list[list[Pair]] = []
    for pair in found:
        ours = {pair.first, pair.second}
        joined = [group for group in together if any(ours & {p.first, p.second} for p in group)]
        together = [group for group in together if group not in joined]
        together.append([*itertools.chain.from_iterable(joined), pair])
    return sorted(together, key=lambda group: (-len(members(group)), -group[0].share))


def members(group: Iterable[Pair]) -> list[str]:
    """The submissions of a cluster."""
    return sorted({name for pair in group for name in (pair.first, pair.second)})


def write(out: Path, found: Sequence[Pair]) -> None:
    """OUT/similarity.csv: a line for each pair, with the number of its cluster."""
    rows = [
        asdict(pair) | {"cluster": number}
        for number, group in enumerate(clusters(found), 1)
        for pair in group
    ]
    write_csv(out / "similarity.csv", ["cluster", *(f.name for f in fields(Pair))], rows)


def section(found: Sequence[Pair], why: str = "") -> tuple[str, str, str]:
    """The section of the staff's page: heading, text, HTML.

    Args:
        why: submissions were not compared.
    """
    columns = [
        Column("count", "Submissions", "count"),
        Column("members", "Groups", "long"),
        Column("share", "Largest share", "score"),
        Column("place", "A common line", "long"),
    ]
    groups = clusters(found)
    rows = [
        {
            "count": len(members(group)),
            "members": ", ".join(members(group)),
            "share": max(pair.share for pair in group),
            "place": group[0].first_place,
        }
        for group in groups
    ]
    text = (
        f"Submissions of which each shares at least {THRESHOLD:.0%} of the smaller one's own code "
        "with another, whatever its names, layout and lines without effect; the handout's code is "
        "taken out. A reason to look, not a verdict. All pairs are in similarity.csv."
    )
    if len(groups) > SHOWN:
        text += f" Here are the {SHOWN} largest of {len(groups)} clusters."
    text = why or text
    return "Similar code", text, table(columns, rows[:SHOWN], "Similar code")


if __name__ == "__main__":
    main()
