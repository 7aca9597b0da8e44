"""Thousands of slips of the hand: right functions of part 1 mutated, and what the checks say.

    python course/mutations.py                        the totals, and each mutant that is missed,
                                                      a false positive, or only an exception
    python course/mutations.py --most 500 --seed 3    of each task 500, drawn at random
    python course/mutations.py --task 1.1 --out FILE  one task; a line of JSON for each mutant

checks/hunt/mutation_operators.py makes the mutants, course/equivalence.py tells which are wrong.
Each runs in a process of its own, which may hang or crash. A mutant that is in FILE already is not
run again. Exit status 1 if a wrong one is missed or an equivalent one is a false positive.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import io
import itertools
import json
import multiprocessing
import os
import random
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from checks import jobs
from checks.findings import Finding, faulty
from checks.graded_tasks import GRADED_TASKS, GradedTask, graded_task
from checks.hunt.installed import installed_source
from checks.hunt.mutants import attributes_of
from checks.hunt.mutation_operators import mutants
from course.answers import VARIANTS, Answer, read_all, solution_with
from course.equivalence import equivalent
from course.hint_table import HEADINGS, best_told
from training.cli.flags import OneLineParser, positive_float, positive_int
from training.cli.scripts import run_script
from training.files.writing import atomic_write

INIT, FORWARD = "classifier.init", "classifier.forward"
FORK = multiprocessing.get_context("fork")
LIMIT = 90.0  # seconds for one mutant, checked and compared


@dataclass(frozen=True)
class Mutant:
    """A correct solution with one change."""

    task: str  # its id
    version: str  # which correct solution: name/version
    method: str
    operator: str
    source: str  # of the method
    change: str  # the lines that go and come


@dataclass(frozen=True)
class Judgement:
    """What became of a mutant."""

    status: str  # "equivalent", "wrong"; or "timeout", "crash", where there is nothing else
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
    own = entry.function.rpartition(".")[2]
    graded = {other.function for other in GRADED_TASKS} - {entry.function}
    owner, by_source = entry.function.split(".")[0], {}
    attributes = attributes_of(entry, (ROOT / entry.file).read_text(encoding="utf-8"))
    for answer in correct_solutions(entry.id).values():
        for version, methods in answer.versions.items():
            for method, right in methods.items():
                if method != own and f"{owner}.{method}" in graded:
                    continue
                before = ast.unparse(ast.parse(right))
                for source, operator in mutants(right, attributes).items():
                    place = f"{answer.name}/{version}"
                    change = difference_of(before, source)
                    made = Mutant(entry.id, place, method, operator, source, change)
                    by_source.setdefault((version, source), made)
    return list(by_source.values())


def difference_of(before: str, after: str) -> str:
    """The lines that go and those that come."""
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return "\n".join(line[:2] + line[2:].strip() for line in lines if line[:1] in "+-")


def draw(population: Sequence[Mutant], most: int | None, seed: int) -> list[Mutant]:
    """Some mutants, drawn at random; the operators take turns."""
    shuffled = list(population)
    random.Random(seed).shuffle(shuffled)
    seen: Counter[str] = Counter()
    turns = []
    for mutant in shuffled:
        seen[mutant.operator] += 1
        turns.append((seen[mutant.operator], len(turns), mutant))
    return [mutant for *_, mutant in sorted(turns, key=lambda turn: turn[:2])[:most]]


def file_with(mutant: Mutant, mutated: bool = True) -> str:
    """A task's file with the mutant, or with the correct solution that it was made of."""
    name, _, version = mutant.version.partition("/")
    answer = correct_solutions(mutant.task)[name]
    methods = dict(answer.versions[version])
    if mutated:
        methods[mutant.method] = mutant.source + "\n"
    return solution_with(graded_task(mutant.task), methods, answer.imports)


@functools.cache
def correct_solutions(task_id: str) -> dict[str, Answer]:
    """The correct solutions to a task by name."""
    return {answer.name: answer for answer in read_all(VARIANTS, task_id)}


# ---------------------------------------------------------------------------------------------
# Running them


def outcome_of(mutant: Mutant) -> Judgement:
    """A mutant, checked and compared. What __init__ makes shows in forward, the next task."""
    entry, source = graded_task(mutant.task), file_with(mutant)
    with contextlib.redirect_stdout(io.StringIO()):
        status = "equivalent" if equivalent(entry, source, file_with(mutant, False)) else "wrong"
        with installed_source(entry.file, source):
            findings = jobs.examine(entry)
            if entry.id == INIT and status == "wrong" and not findings:
                findings = jobs.examine(graded_task(FORWARD))
            return Judgement(status, findings)


def answer(mutant: Mutant, connection: Connection) -> None:
    """The life of a child process."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        connection.send(outcome_of(mutant))
    except BaseException:  # a fault of the checks themselves
        connection.send(Judgement("crash", [Finding("error", traceback.format_exc())]))
    os._exit(0)


class Child:
    """A mutant in a process of its own, which is ended if it is late.

    What the correct solution computes is kept here, before the fork: the child needs it.
    """

    def __init__(self, mutant: Mutant, limit: float):
        run_correct_solution(mutant.task, file_with(mutant, False))
        self.mutant, self.end = mutant, time.monotonic() + limit
        self.connection, theirs = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=answer, args=(mutant, theirs))
        self.process.start()
        theirs.close()

    def judgement(self) -> Judgement:
        """What the process answers, if anything; it is gone afterwards."""
        try:
            answered = self.connection.poll(max(0.0, self.end - time.monotonic()))
            return self.connection.recv() if answered else Judgement("timeout")
        except EOFError:
            return Judgement("crash")
        finally:
            self.process.kill()
            self.process.join()
            self.connection.close()


def run_all(
    chosen: Iterable[Mutant], limit: float = LIMIT, processes: int = 2
) -> Iterator[tuple[Mutant, Judgement]]:
    """All outcomes in order, so many processes at a time."""
    running: deque[Child] = deque()
    for mutant in chosen:
        running.append(Child(mutant, limit))
        if len(running) == processes:
            child = running.popleft()
            yield child.mutant, child.judgement()
    yield from ((child.mutant, child.judgement()) for child in running)


@functools.cache
def run_correct_solution(task_id: str, source: str) -> None:
    """Fill the caches of equivalence.py."""
    equivalent(graded_task(task_id), source, source)


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
                outcomes[Mutant(**row["mutant"])] = Judgement(row["status"], findings)
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
        cells += [count["timeout"] + count["crash"]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def in_words(mutant: Mutant, outcome: Judgement) -> str:
    """A mutant and what was said about it."""
    lines = [f"{outcome.trouble or outcome.status}  {mutant.task}  {mutant.version}"]
    lines[0] += f"  {mutant.operator}"
    lines += [f"    {line}" for line in mutant.change.splitlines()]
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
    torch.set_num_threads(1)
    for entry in PART_1:  # load what every check needs, before the first fork
        jobs.examine(entry)
    with open(args.out or os.devnull, "a", encoding="utf-8") as file:
        results = run_all(missing, args.limit, args.jobs)
        for mutant, outcome in tqdm(results, total=len(missing), desc="mutants", disable=None):
            outcomes[mutant] = outcome
            print(as_line(mutant, outcome), end="", file=file, flush=True)
    for mutant, outcome in outcomes.items():
        if outcome.trouble or outcome.status in ("timeout", "crash"):
            print(in_words(mutant, outcome))
    print(table(outcomes))
    trouble = {outcome.trouble for outcome in outcomes.values()}
    sys.exit(1 if trouble & {"MISSED", "FALSE POSITIVE"} else 0)


if __name__ == "__main__":
    run_script(main)
