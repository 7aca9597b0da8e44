"""How well the checks teach: every mistake of mistakes/, every right answer of variants/.

    python course/hint_table.py               minutes; a line for each mistake, then the totals
    python course/hint_table.py --seed 2      the same with new references and fingerprints
    python course/hint_table.py --task 1.1    one task
    python course/hint_table.py --singles     pairs of mistakes without fingerprints of their own

A mistake is caught if its task's check finds fault, and named if the check calls it by its name; a
right answer is accused if its task's check finds fault or names a mistake. Exit status 1 if a
mistake is not caught, fewer than 90 % are named, or a right answer is accused.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

import sanity_check  # noqa: E402
from checks.findings import EXPLAINING, Finding, faulty  # noqa: E402
from checks.graded_tasks import GRADED_TASKS, GradedTask, graded_task  # noqa: E402
from checks.part1 import adamw, functions  # noqa: E402
from checks.part2 import loop  # noqa: E402
from course.answers import (  # noqa: E402
    MISTAKES,
    TRAINING,
    VARIANTS,
    Answer,
    installed,
    installed_source,
    merge,
    read_all,
    solution_with,
)
from course.fingerprints import base_of, part_1  # noqa: E402
from training.arguments import OneLineParser, run_script  # noqa: E402
from training.files import atomic_write  # noqa: E402

ENOUGH = 0.9  # share of mistakes that have to be named


@dataclass(frozen=True)
class Row:
    """What the check made of one version of a mistake."""

    answer: Answer
    version: str
    findings: list[Finding]

    @property
    def caught(self) -> bool:
        """Whether fault is found."""
        return bool(faulty(self.findings))

    @property
    def named(self) -> bool:
        """Whether it is called by its name, and by no other."""
        return {found.name for found in self.findings if found.name} == {self.answer.named}

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
    """The tasks that a right answer answers: its folder's one, or all of its class."""
    if answer.folder == answer.task.id:
        return [answer.task]
    return [entry for entry in GRADED_TASKS if entry.id.startswith(f"{answer.folder}.")]


def checked(answer: Answer) -> dict[str, list[Finding]]:
    """What the checks of all that an answer answers say."""
    if answer.folder == TRAINING:
        return {"training loop": loop.check()}
    return {f"Task {entry.number}": sanity_check.examine(entry) for entry in tasks_of(answer)}


def rows_of(answers: list[Answer]) -> list[Row]:
    """Every version of every mistake, checked."""
    pairs = [(answer, version) for answer in answers for version in answer.versions]
    rows = []
    for answer, version in tqdm(pairs, desc="mistakes", disable=None):
        with installed(answer, version):
            (findings,) = checked(answer).values()
            rows.append(Row(answer, version, findings))
    return rows


def accused(answers: list[Answer]) -> list[str]:
    """The right answers with which the checks find fault, and what they say."""
    found = []
    pairs = [(answer, version) for answer in answers for version in answer.versions]
    for answer, version in tqdm(pairs, desc="right answers", disable=None):
        with installed(answer, version):
            for what, findings in checked(answer).items():
                for finding in findings:
                    if finding.kind != "hint":
                        place = f"{answer.folder}/{answer.name}, {version}, {what}"
                        found.append(f"{place}: {finding.text}")
    return found


def pairs_named(entries: list[GradedTask]) -> tuple[int, int]:
    """Of merged pairs of mistakes in one function: with one of the two named, and in all."""
    hit = total = 0
    for entry in (entry for entry in entries if entry in part_1()):
        base, answers = base_of(entry), read_all(MISTAKES, entry.id)
        for one, two in tqdm(list(itertools.combinations(answers, 2)), desc="pairs", disable=None):
            first, second = (answer.versions[answer.first] for answer in (one, two))
            methods = merge(base, first, second)
            if methods is None:
                continue
            source = solution_with(entry, methods, one.imports + two.imports)
            with installed_source(entry.file, source):
                findings = sanity_check.examine(entry)
            if faulty(findings):  # one may undo the other
                total += 1
                hit += any(found.name in (one.name, two.name) for found in findings)
    return hit, total


def forget_pairs() -> None:
    """Leave only what single mistakes compute, to see how pairs do that nobody has run before."""
    groups = [group for entry in part_1() for group in functions.groups_of(entry.id)]
    for known in (*map(functions.known_mistakes, groups), adamw.known_mistakes()):
        known.answers[:] = [answer for answer in known.answers if len(answer[0]) == 1]


def write_table(path: Path, rows: list[Row]) -> None:
    """A line for each mistake: its versions, how many are caught and named, what is said."""
    versions: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        versions.setdefault((row.answer.folder, row.answer.name), []).append(row)
    lines = ["| task | mistake | versions | caught | named | hint |", "|---|---|---|---|---|---|"]
    for (folder, name), group in versions.items():
        caught, said = sum(row.caught for row in group), sum(row.named for row in group)
        hint = " ".join(group[0].hint.replace("|", "\\|").split())
        lines.append(f"| {folder} | {name} | {len(group)} | {caught} | {said} | {hint} |")
    with atomic_write(path) as file:
        file.write("\n".join(lines) + "\n")


def with_other_inputs(seed: int, rest: list[str]) -> int:
    """Run this script in a copy of the repository whose references are made from another seed."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        ignored = shutil.ignore_patterns(".git", "runs", "*.pt", "*.csv", "__pycache__", ".*cache")
        shutil.copytree(ROOT, copy, ignore=ignored)
        python = [sys.executable]
        steps = (
            [*python, "-m", "tests.make_sanity_check", "--seed", str(seed)],
            [*python, "-m", "tests.make_optimizer_test", "--seed", str(seed)],
            [*python, "course/fingerprints.py"],
            [*python, "course/hint_table.py", *rest],
        )
        for step in steps:
            status = subprocess.run(step, cwd=copy, check=False).returncode
            if status:
                return status
    return 0


def main() -> None:
    """Fingerprint the table and the totals."""
    parser = OneLineParser(description="Count the mistakes that the checks catch and name.")
    parser.add_argument("--task", help=f"number or id of one task, or {TRAINING}")
    parser.add_argument("--seed", type=int, help="make new references and fingerprints from it")
    parser.add_argument("--singles", action="store_true", help="forget the fingerprints of pairs")
    parser.add_argument("--out", type=Path, help="write the lines of mistakes as a Markdown table")
    args = parser.parse_args()
    if args.seed is not None:
        rest = ["--task", args.task] if args.task else []
        sys.exit(with_other_inputs(args.seed, rest))
    if args.singles:
        forget_pairs()
    entries = (
        []
        if args.task == TRAINING
        else [graded_task(args.task)]
        if args.task
        else list(GRADED_TASKS)
    )
    folders = [entry.id for entry in entries] + [TRAINING] * (args.task in (None, TRAINING))
    rows = rows_of([answer for folder in folders for answer in read_all(MISTAKES, folder)])
    answers = [
        answer
        for answer in read_all(VARIANTS)
        if answer.folder in folders or any(entry in entries for entry in tasks_of(answer))
    ]
    blamed = accused(answers)
    hit, total = pairs_named(entries)
    for row in rows:
        marks = ("caught" if row.caught else "MISSED", "named" if row.named else "-----")
        print(f"{marks[0]}  {marks[1]}  {row.place:58}  {row.hint[:140]}")
    if args.out:
        write_table(args.out, rows)
    for text in blamed:
        print(f"ACCUSED  {text}")
    firsts = [row for row in rows if row.version == row.answer.first]
    again = [row for row in rows if row not in firsts]
    for what, group in (("mistakes", firsts), ("rewrites of them", again)):
        caught, said = (sum(getattr(row, key) for row in group) for key in ("caught", "named"))
        print(f"{len(group)} {what}: {caught} caught, {said} named")
    print(f"{hit} of {total} pairs of mistakes in one function have at least one of the two named")
    versions = sum(len(answer.versions) for answer in answers)
    print(f"{len(blamed)} accusations of {versions} right answers")
    good = all(row.caught for row in rows) and not blamed
    sys.exit(0 if good and sum(row.named for row in rows) >= ENOUGH * len(rows) else 1)


if __name__ == "__main__":
    run_script(main)
