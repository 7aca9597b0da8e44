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

from course.grading.judging.normal_form import symbols_of
from course.grading.judging.types import Submission
from course.grading.pages.output import Column, clean, table, write_csv

# Chosen on course/variants: answers to Task 1.5 written apart share up to 0.15, reworked copies
# 0.98 and more. The package copydetect has 0.36 and 0.72, and 0.12 behind dead operations.
K = 12  # symbols of a fingerprint: shorter matches are noise
WINDOW = 4  # the smallest of so many in a row is kept: a match of K + WINDOW - 1 symbols is found
THRESHOLD = 0.5  # fraction of the smaller submission
FEWEST = 10  # fingerprints: a smaller submission has too little code of its own
SHOWN = 100  # pairs on the page
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


def hashes(symbols: Sequence[str]) -> list[int]:
    """A number for each K symbols in a row, the same in every process."""
    runs = (" ".join(symbols[at : at + K]) for at in range(len(symbols) - K + 1))
    return [
        int.from_bytes(hashlib.blake2b(run.encode("utf-8", "replace"), digest_size=7).digest())
        for run in runs
    ]


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


def known_code(handouts: Iterable[Mapping[str, bytes]]) -> frozenset[int]:
    """Numbers of the code that everybody was given: the files of course.handout.build."""
    sources = (source for files in handouts for source in python_files(files).values())
    return frozenset(number for source in sources for number in hashes(symbols_of(source).symbols))


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
    read = symbols_of(source)
    values = hashes(read.symbols)
    return tuple((values[at], read.lines[at]) for at in winnow(values) if values[at] not in known)


# ---------------------------------------------------------------------------------------------
# Pairs


def pairs(
    submissions: Iterable[Submission], known: frozenset[int], threshold: float = THRESHOLD
) -> list[Pair]:
    """All pairs that share at least that much of the smaller one, the largest share first."""
    read = []
    for submission in submissions:
        numbers = fingerprints(submission.files, known)
        if len(numbers) >= FEWEST:
            read.append((submission, numbers))
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
    texts = [[each.student, python_files(each.files)] for each in submissions]
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
    submissions = [
        Submission(student, 0, {name: text.encode() for name, text in files.items()})
        for student, files in texts
    ]
    print(json.dumps([asdict(pair) for pair in pairs(submissions, frozenset(known))]))


def _place(submission: Submission, name: str, line: int) -> str:
    text = _text(submission.files[name]).split("\n")[line - 1]
    return f"{name}:{line} {clean(text, 80)}"


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
