"""How well the checks teach: every mistake of mistakes/, every correct solution of variants/.

    python course/hint_table.py               minutes; a line for each mistake, then the totals
    python course/hint_table.py --task 1.1    one task

Of a wrong function the check may say what it is (named), what it is not (named wrongly), what was
measured (facts), what an exception means here (explained), only where it differs (numbers), or only
what Python says (bare); or it finds no fault (missed). Two or three mistakes at once are named if
one of them is, and nothing else. A correct solution is a false positive if its task's check finds
fault or names a mistake. Exit status 1 if a mistake is missed or named wrongly, fewer than 90 % are
named, or there is a false positive.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from checks import jobs
from checks.findings import EXPLAINING, Finding, faulty
from checks.graded_tasks import GRADED_TASKS, GradedTask, graded_task
from checks.part2 import loop
from course.answers import (
    MISTAKES,
    TRAINING,
    VARIANTS,
    Answer,
    Methods,
    installed,
    installed_source,
    merge,
    read_all,
    solution_with,
)
from course.fingerprints import base_of, part_1
from course.hint_counts import HEADINGS, best_told
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script

ENOUGH = 0.9  # share of mistakes that have to be named
OUTCOMES = ("named", "named wrongly", *list(HEADINGS)[1:], "missed")
TRIPLES = 300  # of each task, drawn at random: there are very many


def outcome_of(findings: Sequence[Finding], names: Collection[str]) -> str:
    """Which of OUTCOMES it is, for mistakes with these names."""
    if not faulty(list(findings)):
        return "missed"
    if {finding.name for finding in findings if finding.name} <= {*names}:
        return best_told(findings)
    return "named wrongly"


@dataclass(frozen=True)
class Row:
    """What the check made of one version of a mistake."""

    answer: Answer
    version: str
    findings: list[Finding]

    @property
    def outcome(self) -> str:
        """Which of OUTCOMES."""
        return outcome_of(self.findings, {self.answer.named})

    @property
    def hint(self) -> str:
        """What a student would read first to understand it."""
        texts = [f.text for f in self.findings if f.name or f.kind in EXPLAINING]
        return (texts or [found.text for found in self.findings] or [""])[0]

    @property
    def place(self) -> str:
        """Which mistake, and where."""
        number = "loop" if self.answer.folder == TRAINING else self.answer.task.number
        return f"{number}  {self.answer.name} ({self.version})"


def tasks_of(answer: Answer) -> list[GradedTask]:
    """The tasks that a correct solution answers: its folder's one, or all of its class."""
    if answer.folder == answer.task.id:
        return [answer.task]
    return [entry for entry in GRADED_TASKS if entry.id.startswith(f"{answer.folder}.")]


def checked(answer: Answer) -> dict[str, list[Finding]]:
    """What the checks of all that an answer answers say."""
    if answer.folder == TRAINING:
        return {"training loop": loop.check()}
    return {f"Task {entry.number}": jobs.examine(entry) for entry in tasks_of(answer)}


def rows_of(answers: list[Answer]) -> list[Row]:
    """Every version of every mistake, checked."""
    pairs = [(answer, version) for answer in answers for version in answer.versions]
    rows = []
    for answer, version in tqdm(pairs, desc="mistakes", disable=None):
        with installed(answer, version):
            (findings,) = checked(answer).values()
            rows.append(Row(answer, version, findings))
    return rows


def false_positives(answers: list[Answer]) -> list[str]:
    """The correct solutions with which the checks find fault, and what they say."""
    found = []
    pairs = [(answer, version) for answer in answers for version in answer.versions]
    for answer, version in tqdm(pairs, desc="correct solutions", disable=None):
        with installed(answer, version):
            for what, findings in checked(answer).items():
                for finding in findings:
                    if finding.kind != "hint":
                        place = f"{answer.folder}/{answer.name}, {version}, {what}"
                        found.append(f"{place}: {finding.text}")
    return found


def several_at_once(entries: Iterable[GradedTask], count: int) -> Counter[str]:
    """How often which outcome is that of ``count`` mistakes merged in one function of part 1."""
    found: Counter[str] = Counter()
    for entry in (entry for entry in entries if entry in part_1()):
        groups = list(itertools.combinations(read_all(MISTAKES, entry.id), count))
        random.Random(0).shuffle(groups)
        for group in tqdm(
            groups[: TRIPLES if count > 2 else None], f"{count} at once", disable=None
        ):
            if methods := merged(entry, group):
                imports = tuple(line for answer in group for line in answer.imports)
                source = solution_with(entry, methods, imports)
                with installed_source(entry.file, source):
                    findings = jobs.examine(entry)
                if faulty(findings):  # one may undo the other
                    found[outcome_of(findings, {answer.name for answer in group})] += 1
    return found


def merged(entry: GradedTask, group: Sequence[Answer]) -> Methods | None:
    """All mistakes of a group in one function; None where they do not fit together."""
    base = base_of(entry)
    methods: Methods | None = base
    for answer in group:
        methods = methods and merge(base, methods, answer.versions[answer.first])
    return methods


def print_totals(totals: Mapping[str, Counter[str]]) -> None:
    """A Markdown table: of each kind of wrong functions how many had which outcome."""
    print(f"| | all | {' | '.join(OUTCOMES)} |\n|---|{'---:|' * (1 + len(OUTCOMES))}")
    for what, counts in totals.items():
        cells = " | ".join(f"{counts[outcome]:,}" for outcome in OUTCOMES)
        print(f"| {what} | {counts.total():,} | {cells} |")


def main() -> None:
    """Fingerprint the table and the totals."""
    parser = OneLineParser(description="Count the mistakes that the checks catch and name.")
    parser.add_argument("--task", help=f"number or id of one task, or {TRAINING}")
    args = parser.parse_args()
    entries = list(GRADED_TASKS)
    if args.task:
        entries = [] if args.task == TRAINING else [graded_task(args.task)]
    folders = [entry.id for entry in entries] + [TRAINING] * (args.task in (None, TRAINING))
    rows = rows_of([answer for folder in folders for answer in read_all(MISTAKES, folder)])
    answers = [
        answer
        for answer in read_all(VARIANTS)
        if answer.folder in folders or any(entry in entries for entry in tasks_of(answer))
    ]
    blamed = false_positives(answers)
    for row in rows:
        print(f"{row.outcome:14}  {row.place:58}  {row.hint[:140]}")
    for text in blamed:
        print(f"FALSE POSITIVE  {text}")
    firsts = [row.version == row.answer.first for row in rows]
    singles = {
        "mistakes": Counter(r.outcome for r, first in zip(rows, firsts, strict=True) if first),
        "rewrites": Counter(r.outcome for r, first in zip(rows, firsts, strict=True) if not first),
    }
    several = {f"{n} at once": several_at_once(entries, n) for n in (2, 3)}
    print_totals(singles | several)
    versions = sum(len(answer.versions) for answer in answers)
    print(f"{len(blamed)} false positives among {versions} correct solutions")
    counts = sum(singles.values(), Counter())
    good = not (blamed or counts["missed"] or counts["named wrongly"])
    sys.exit(0 if good and counts["named"] >= ENOUGH * len(rows) else 1)


if __name__ == "__main__":
    run_script(main)
