"""Thousands of slips of the hand: correct functions of part 1 mutated, and what the checks say.

    python course/mutations.py                        the totals, and each mutant that is missed
                                                      or a false positive
    python course/mutations.py --most 500 --seed 3    of each task 500, drawn at random
    python course/mutations.py --task 1.1             one task

checks/hunt/mutants.py makes the mutants, checks/hunt/equivalence.py tells which are wrong: on
random inputs, without what the checks store. They run in another process, which they may hang or
crash. Exit status 1 if a wrong one is missed or an equivalent one is a false positive.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from checks import jobs
from checks.child import Child
from checks.findings import Outcome, faulty
from checks.graded_tasks import GRADED_TASKS, GradedTask, graded_task
from checks.hunt.equivalence import INIT, compare
from checks.hunt.installed import installed_source
from checks.hunt.mutants import Edit, FunctionText, in_turns
from course.answers import VARIANTS, read, read_all, solution_with
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script

FORWARD = "classifier.forward"
LIMIT = 90.0  # seconds for one mutant, checked and compared
COMPARED = "checked and compared"
PART_1 = [entry for entry in GRADED_TASKS if entry.part == 1]


@dataclass(frozen=True)
class Mutant:
    """A correct solution with one change."""

    task: str  # its id
    version: str  # which correct solution: name/version
    method: str
    operator: str
    edit: Edit  # of the solution's file


# ---------------------------------------------------------------------------------------------
# Mutants


def mutants_of(entry: GradedTask) -> list[Mutant]:
    """All mutants of all correct solutions to a task: of its function, and of helpers to it."""
    owner, own = entry.function.split(".")
    graded = {other.function for other in GRADED_TASKS} - {entry.function}
    by_source: dict[tuple[str, str], Mutant] = {}
    for answer in read_all(VARIANTS, entry.id):
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


def solution_of(mutant: Mutant) -> str:
    """The file of a task with the correct solution that a mutant was made of."""
    name, _, version = mutant.version.partition("/")
    answer = read(VARIANTS, f"{mutant.task}/{name}")
    return solution_with(graded_task(mutant.task), answer.versions[version], answer.imports)


# ---------------------------------------------------------------------------------------------
# Running them


def run(job: str) -> Outcome:
    """A mutant, checked and compared, as a job of checks/child.py: the mutant as JSON.

    What __init__ makes shows in forward, the next task.
    """
    torch.set_num_threads(1)
    fields = json.loads(job)
    mutant = Mutant(**{**fields, "edit": Edit(**fields["edit"])})
    entry, right = graded_task(mutant.task), solution_of(mutant)
    source = "\n".join(mutant.edit.of(right.split("\n")))
    status = "equivalent" if compare(entry, source, right).status == "same" else "wrong"
    with installed_source(entry.file, source):
        findings = jobs.examine(entry)
        if entry.id == INIT and status == "wrong" and not findings:
            findings = jobs.examine(graded_task(FORWARD))
    return Outcome(entry.title, status, COMPARED, tuple(findings))


def trouble(outcome: Outcome) -> str:
    """What the checks have to answer for; "" if nothing."""
    if outcome.about != COMPARED:
        return "LOST"  # it ended its process, or did not end
    if outcome.status == "wrong":
        return "" if faulty([*outcome.findings]) else "MISSED"
    explained = any(finding.kind != "hint" for finding in outcome.findings)
    return "FALSE POSITIVE" if explained else ""


def is_named(outcome: Outcome) -> bool:
    """Whether a mutant is told as a known mistake or as a measured cause."""
    return any(finding.name or finding.kind == "cause" for finding in outcome.findings)


def table(outcomes: Mapping[Mutant, Outcome]) -> str:
    """A row of counts for each task, as Markdown."""
    headings = (
        "task",
        "mutants",
        "equivalent",
        "false positives",
        "wrong",
        "missed",
        "named",
        "lost",
    )
    lines = [f"| {' | '.join(headings)} |", "|---" + "|--:" * (len(headings) - 1) + "|"]
    tasks = [entry for entry in PART_1 if any(m.task == entry.id for m in outcomes)]
    groups = [(t.number, [o for m, o in outcomes.items() if m.task == t.id]) for t in tasks]
    for name, group in [*groups, ("all", list(outcomes.values()))]:
        count = Counter(outcome.status for outcome in group if trouble(outcome) != "LOST")
        of = Counter(map(trouble, group))
        named = sum(is_named(o) for o in group if o.status == "wrong")
        cells = [name, len(group), count["equivalent"], of["FALSE POSITIVE"], count["wrong"]]
        lines.append(f"| {' | '.join(map(str, [*cells, of['MISSED'], named, of['LOST']]))} |")
    return "\n".join(lines)


def in_words(mutant: Mutant, outcome: Outcome) -> str:
    """A mutant and what was said about it."""
    head = f"{trouble(outcome)}  {mutant.task}  {mutant.version}  {mutant.operator}: {mutant.edit}"
    said = [f"      {f.name or f.kind}: {f.text[:300]}" for f in outcome.findings[:6]]
    return "\n".join([head, *said])


def main() -> None:
    """Mutate, run, count."""
    parser = OneLineParser(description="Mutate correct functions; count what the checks catch.")
    numbers = [entry.number for entry in PART_1]
    parser.add_argument("--task", choices=numbers, help="number of one task of part 1")
    parser.add_argument("--most", type=positive_int, help="mutants of a task, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    args = parser.parse_args()
    entries = [graded_task(args.task)] if args.task else PART_1
    chosen = []
    for entry in entries:  # the operators take turns
        chosen += in_turns(mutants_of(entry), lambda m: m.operator, args.seed)[: args.most]
    outcomes = {}
    with Child(LIMIT, "course.mutations") as child:
        for mutant in tqdm(chosen, desc="mutants", disable=None):
            outcomes[mutant] = child.run(json.dumps(asdict(mutant)), mutant.task)
            if trouble(outcomes[mutant]):
                print(in_words(mutant, outcomes[mutant]))
    print(table(outcomes))
    sys.exit(1 if {*map(trouble, outcomes.values())} & {"MISSED", "FALSE POSITIVE"} else 0)


if __name__ == "__main__":
    run_script(main)
