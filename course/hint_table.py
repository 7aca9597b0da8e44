"""How well the checks teach: every mistake of mistakes/, every correct solution of variants/.

    python course/hint_table.py               minutes; a line for each mistake, then the totals
    python course/hint_table.py --task 1.1    one task

Of a wrong function the check may say what it is (named), what it is not (named wrongly), what was
measured (facts), what an exception means here (explained), only where it differs (numbers), or only
what Python says (bare); or it finds no fault (missed). Two mistakes at once are named if one of
them is, and nothing else. A correct solution is a false positive if its task's check finds fault or
names a mistake. Exit status 1 if a mistake is missed or named wrongly, fewer than 90 % are named,
or there is a false positive.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
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
from course.fingerprints import base_of, with_fingerprints
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script

ENOUGH = 0.9  # share of mistakes that have to be named
# The best that is told of a fault, best first, and its heading in a table.
HEADINGS = {
    "named": "named",
    "facts": "facts only",
    "explained": "exception explained",
    "numbers": "first wrong number only",
    "bare": "bare exception",
}
OUTCOMES = ("named", "named wrongly", *list(HEADINGS)[1:], "missed")
RAISED = re.compile(r"\b\w*(Error|Exception|Exit|Interrupt|Iteration)\b: ")
# Python's own words and the place, and nothing after them: "TypeError: … (bert.py:57)"
BARE = re.compile(RAISED.pattern + r".*\((\S+:\d+|in the backward pass)\)$")


def best_told(findings: Sequence[Finding]) -> str:
    """The best that findings tell about a fault: a key of HEADINGS."""
    if any(finding.name or finding.kind == "cause" for finding in findings):
        return "named"
    if any(finding.kind in EXPLAINING for finding in findings):
        return "facts"
    texts = [finding.text for finding in faulty(list(findings))]
    if any(BARE.search(text) for text in texts):
        return "bare"
    return "explained" if any(RAISED.search(text) for text in texts) else "numbers"


def outcome_of(findings: Sequence[Finding], names: Collection[str]) -> str:
    """Which of OUTCOMES it is, for mistakes with these names."""
    if not faulty(list(findings)):
        return "missed"
    if {finding.name for finding in findings if finding.name} <= {*names}:
        return best_told(findings)
    return "named wrongly"


def tasks_of(answer: Answer) -> list[GradedTask]:
    """The tasks that a correct solution answers: its folder's one, or all of its class."""
    if answer.folder == answer.task.id:
        return [answer.task]
    return [entry for entry in GRADED_TASKS if entry.id.startswith(f"{answer.folder}.")]


def all_findings(answers: Iterable[Answer]) -> list[tuple[Answer, str, str, list[Finding]]]:
    """Of every version of every answer: which check, and what it says."""
    rows = []
    pairs = [(answer, version) for answer in answers for version in answer.versions]
    for answer, version in tqdm(pairs, desc="answers", disable=None):
        with installed(answer, version):
            if answer.folder == TRAINING:
                rows.append((answer, version, "loop", loop.check()))
            else:
                for entry in tasks_of(answer):
                    rows.append((answer, version, entry.number, jobs.examine(entry)))
    return rows


def of_pairs(entries: Iterable[GradedTask]) -> Counter[str]:
    """How often which outcome is that of two mistakes merged in one function of part 1."""
    counts: Counter[str] = Counter()
    for entry in (entry for entry in entries if entry in with_fingerprints()):
        pairs = list(itertools.combinations(read_all(MISTAKES, entry.id), 2))
        for pair in tqdm(pairs, desc="two at once", disable=None):
            if methods := merged(entry, pair):
                imports = tuple(line for answer in pair for line in answer.imports)
                with installed_source(entry.file, solution_with(entry, methods, imports)):
                    findings = jobs.examine(entry)
                if faulty(findings):  # one may undo the other
                    counts[outcome_of(findings, {answer.name for answer in pair})] += 1
    return counts


def merged(entry: GradedTask, group: Sequence[Answer]) -> Methods | None:
    """All mistakes of a group in one function; None where they do not fit together."""
    base = base_of(entry)
    methods: Methods | None = base
    for answer in group:
        methods = methods and merge(base, methods, answer.versions[answer.first])
    return methods


def main() -> None:
    """Print what is said of each mistake, false positives, and the totals as Markdown."""
    parser = OneLineParser(description="Count the mistakes that the checks catch and name.")
    parser.add_argument("--task", help=f"number or id of one task, or {TRAINING}")
    args = parser.parse_args()
    entries = list(GRADED_TASKS)
    if args.task:
        entries = [] if args.task == TRAINING else [graded_task(args.task)]
    folders = [entry.id for entry in entries] + [TRAINING] * (args.task in (None, TRAINING))
    totals = {"mistakes": Counter(), "rewrites": Counter()}
    mistakes = itertools.chain.from_iterable(read_all(MISTAKES, folder) for folder in folders)
    for answer, version, check, findings in all_findings(mistakes):
        outcome = outcome_of(findings, {answer.named})
        totals["mistakes" if version == answer.first else "rewrites"][outcome] += 1
        explaining = [f.text for f in findings if f.name or f.kind in EXPLAINING]
        read_first = (explaining or [finding.text for finding in findings] or [""])[0]
        place = f"{check}  {answer.name} ({version})"
        print(f"{outcome:14}  {place:58}  {read_first[:140]}")
    counts = sum(totals.values(), Counter())
    solutions = [
        answer
        for answer in read_all(VARIANTS)
        if answer.folder in folders or any(entry in entries for entry in tasks_of(answer))
    ]
    blamed = [
        f"{answer.folder}/{answer.name}, {version}, {check}: {finding.text}"
        for answer, version, check, findings in all_findings(solutions)
        for finding in findings
        if finding.kind != "hint"
    ]
    for text in blamed:
        print(f"FALSE POSITIVE  {text}")
    print(f"| | all | {' | '.join(OUTCOMES)} |\n|---|{'---:|' * (1 + len(OUTCOMES))}")
    for what, outcomes in (totals | {"two at once": of_pairs(entries)}).items():
        cells = " | ".join(f"{outcomes[outcome]:,}" for outcome in OUTCOMES)
        print(f"| {what} | {outcomes.total():,} | {cells} |")
    versions = sum(len(answer.versions) for answer in solutions)
    print(f"{len(blamed)} false positives among {versions} correct solutions")
    good = not (blamed or counts["missed"] or counts["named wrongly"])
    sys.exit(0 if good and counts["named"] >= ENOUGH * counts.total() else 1)


if __name__ == "__main__":
    run_script(main)
