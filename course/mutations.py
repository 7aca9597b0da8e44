"""Thousands of slips of the hand: right functions of part 1 mutated, and what the checks say.

    python course/mutations.py                        the totals, and each mutant that is missed,
                                                      a false positive, or only an exception
    python course/mutations.py --most 500 --seed 3    of each task 500, drawn at random
    python course/mutations.py --task 1.1 --out FILE  one task; a line of JSON for each mutant

checks/hunt/mutants.py makes the mutants, course/equivalence.py tells which are wrong. They run in
other processes, which they may hang or crash. A mutant that is in FILE already is not run again.
Exit status 1 if a wrong one is missed or an equivalent one is a false positive.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import json
import os
import queue
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from checks import jobs
from checks.child import Child
from checks.findings import Finding, Outcome, faulty
from checks.graded_tasks import GRADED_TASKS, GradedTask, graded_task
from checks.hunt.installed import installed_source
from checks.hunt.mutants import Edit, FunctionText, in_turns
from course.answers import VARIANTS, Answer, read_all, solution_with
from course.equivalence import equivalent
from course.hint_table import HEADINGS, best_told
from training.cli.flags import OneLineParser, positive_float, positive_int
from training.cli.scripts import run_script
from training.files.writing import atomic_write

INIT, FORWARD = "classifier.init", "classifier.forward"
LIMIT = 90.0  # seconds for one mutant, checked and compared
COMPARED = "checked and compared"


@dataclass(frozen=True)
class Mutant:
    """A correct solution with one change."""

    task: str  # its id
    version: str  # which correct solution: name/version
    method: str
    operator: str
    edit: Edit  # of the solution's file


@dataclass(frozen=True)
class Judgement:
    """What became of a mutant."""

    status: str  # "equivalent", "wrong", or "lost": it ended its process, or did not end
    findings: list[Finding] = field(default_factory=list)

    @property
    def caught(self) -> bool:
        """Whether the check finds fault."""
        return bool(faulty(self.findings))

    @property
    def told(self) -> str:
        """The best that is told of it."""
        return best_told(self.findings)

    @property
    def trouble(self) -> str:
        """What the checks have to answer for; "" if nothing."""
        if self.status == "wrong" and not self.caught:
            return "MISSED"
        explained = any(finding.kind != "hint" for finding in self.findings)
        if self.status == "equivalent" and explained:
            return "FALSE POSITIVE"
        return "BARE" if self.status == "wrong" and self.told == "bare" else ""


# ---------------------------------------------------------------------------------------------
# Mutants


def mutants_of(entry: GradedTask) -> list[Mutant]:
    """All mutants of all correct solutions to a task: of its function, and of helpers to it."""
    owner, own = entry.function.split(".")
    graded = {other.function for other in GRADED_TASKS} - {entry.function}
    by_source: dict[tuple[str, str], Mutant] = {}
    for answer in correct_solutions(entry.id).values():
        for version, methods in answer.versions.items():
            source = solution_with(entry, methods, answer.imports)
            for method in methods:
                if method != own and f"{owner}.{method}" in graded:
                    continue
                text = FunctionText(entry, source, method)
                for operator, edits in text.edits().items():
                    for edit in text.distinct(edits):
                        place = f"{answer.name}/{version}"
                        made = Mutant(entry.id, place, method, operator, edit)
                        by_source.setdefault((version, ast.unparse(text.tree(edit))), made)
    return list(by_source.values())


def draw(population: Sequence[Mutant], most: int | None, seed: int) -> list[Mutant]:
    """Some mutants, drawn at random; the operators take turns."""
    return in_turns(population, lambda mutant: mutant.operator, seed)[:most]


def solution_of(mutant: Mutant) -> str:
    """The file of a task with the correct solution that a mutant was made of."""
    name, _, version = mutant.version.partition("/")
    answer = correct_solutions(mutant.task)[name]
    return solution_with(graded_task(mutant.task), answer.versions[version], answer.imports)


@functools.cache
def correct_solutions(task_id: str) -> dict[str, Answer]:
    """The correct solutions to a task by name."""
    return {answer.name: answer for answer in read_all(VARIANTS, task_id)}


# ---------------------------------------------------------------------------------------------
# Running them


def run(job: str) -> Outcome:
    """A mutant, checked and compared, as a job of checks/child.py: the mutant as JSON.

    What __init__ makes shows in forward, the next task.
    """
    torch.set_num_threads(1)
    mutant = mutant_from(json.loads(job))
    entry, right = graded_task(mutant.task), solution_of(mutant)
    source = "\n".join(mutant.edit.of(right.split("\n")))
    status = "equivalent" if equivalent(entry, source, right) else "wrong"
    with installed_source(entry.file, source):
        findings = jobs.examine(entry)
        if entry.id == INIT and status == "wrong" and not findings:
            findings = jobs.examine(graded_task(FORWARD))
    return Outcome(entry.title, status, COMPARED, tuple(findings))


def mutant_from(fields: dict[str, Any]) -> Mutant:
    """A mutant from JSON."""
    return Mutant(**{**fields, "edit": Edit(**fields["edit"])})


def run_all(
    chosen: Sequence[Mutant], limit: float = LIMIT, processes: int = 2
) -> Iterator[tuple[Mutant, Judgement]]:
    """All outcomes in order, so many processes at a time."""
    free: queue.SimpleQueue[Child] = queue.SimpleQueue()

    def judgement(mutant: Mutant) -> Judgement:
        child = free.get()
        outcome = child.run(json.dumps(asdict(mutant)), mutant.task)
        free.put(child)
        ran = outcome.about == COMPARED
        return Judgement(outcome.status if ran else "lost", list(outcome.findings))

    with contextlib.ExitStack() as opened:
        for _ in range(processes):
            free.put(opened.enter_context(Child(limit, "course.mutations")))
        pool = opened.enter_context(ThreadPoolExecutor(processes))
        yield from zip(chosen, pool.map(judgement, chosen), strict=True)


PART_1 = [entry for entry in GRADED_TASKS if entry.part == 1]

# ---------------------------------------------------------------------------------------------
# What is kept, and the table


def read_outcomes(path: Path | None) -> dict[Mutant, Judgement]:
    """The outcomes of an earlier run; a line that was cut off does not count."""
    outcomes = {}
    if path and path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                row = json.loads(line)
                findings = [Finding(**finding) for finding in row["findings"]]
                outcomes[mutant_from(row["mutant"])] = Judgement(row["status"], findings)
    return outcomes


def as_line(mutant: Mutant, outcome: Judgement) -> str:
    """Both as a line of JSON."""
    row = {"mutant": asdict(mutant), **asdict(outcome)}
    return json.dumps(row, ensure_ascii=False) + "\n"


def table(outcomes: dict[Mutant, Judgement]) -> str:
    """A row of counts for each task, as Markdown."""
    headings = ["task", "mutants", "equivalent", "false positives", "wrong", "missed", "caught"]
    headings += [*HEADINGS.values(), "timeouts, crashes"]
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    tasks = [entry for entry in PART_1 if any(m.task == entry.id for m in outcomes)]
    groups = [(t.number, [o for m, o in outcomes.items() if m.task == t.id]) for t in tasks]
    for name, group in [*groups, ("all", list(outcomes.values()))]:
        count = Counter(outcome.status for outcome in group)
        trouble = Counter(outcome.trouble for outcome in group)
        caught = [o for o in group if o.status == "wrong" and o.caught]
        told = Counter(outcome.told for outcome in caught)
        cells = [name, len(group), count["equivalent"], trouble["FALSE POSITIVE"], count["wrong"]]
        cells += [trouble["MISSED"], len(caught), *(told[key] for key in HEADINGS)]
        cells += [count["lost"]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def in_words(mutant: Mutant, outcome: Judgement) -> str:
    """A mutant and what was said about it."""
    lines = [f"{outcome.trouble or outcome.status}  {mutant.task}  {mutant.version}"]
    lines[0] += f"  {mutant.operator}"
    right = solution_of(mutant).split("\n")[mutant.edit.first - 1 : mutant.edit.last]
    lines += [f"    - {line.strip()}" for line in right]
    lines += [f"    + {line.strip()}" for line in mutant.edit.text.splitlines()]
    lines += [f"      {f.name or f.kind}: {f.text[:300]}" for f in outcome.findings[:6]]
    return "\n".join(lines)


def main() -> None:
    """Mutate, run, count."""
    parser = OneLineParser(description="Mutate right functions, and count what the checks catch.")
    parser.add_argument("--task", help="number or id of one task of part 1")
    parser.add_argument("--most", type=positive_int, help="mutants of a task, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=positive_int, default=2, help="processes at a time")
    parser.add_argument("--limit", type=positive_float, default=LIMIT, help="seconds for a mutant")
    parser.add_argument("--out", type=Path, help="keep all outcomes there, and go on from there")
    args = parser.parse_args()
    try:
        entries = [graded_task(args.task)] if args.task else PART_1
    except KeyError as error:
        parser.error(error.args[0])
    drawn = [draw(mutants_of(entry), args.most, args.seed) for entry in entries]
    chosen = [mutant for row in itertools.zip_longest(*drawn) for mutant in row if mutant]
    kept = read_outcomes(args.out)
    if kept:
        with atomic_write(args.out) as file:
            file.writelines(itertools.starmap(as_line, kept.items()))
    outcomes = {mutant: kept[mutant] for mutant in chosen if mutant in kept}
    missing = [mutant for mutant in chosen if mutant not in kept]
    with open(args.out or os.devnull, "a", encoding="utf-8") as file:
        results = run_all(missing, args.limit, args.jobs)
        for mutant, outcome in tqdm(results, total=len(missing), desc="mutants", disable=None):
            outcomes[mutant] = outcome
            print(as_line(mutant, outcome), end="", file=file, flush=True)
    for mutant, outcome in outcomes.items():
        if outcome.trouble or outcome.status == "lost":
            print(in_words(mutant, outcome))
    print(table(outcomes))
    trouble = {outcome.trouble for outcome in outcomes.values()}
    sys.exit(1 if trouble & {"MISSED", "FALSE POSITIVE"} else 0)


if __name__ == "__main__":
    run_script(main)
