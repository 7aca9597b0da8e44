"""The tasks of part 2: MultitaskBERT is called in the sandbox, its results are judged here.

There is no one right answer: the properties of checks/part2/ are judged, for words and weights that
differ from student to student. One batch more, whose order only this process knows, has to give
the same results once more: whoever makes up results has to make up a function. bert.py is ours, so
that a mistake of part 1 does not cost again; where __init__ or forward is wrong, what waits for it
is run once more with what it should find, as far as that can be given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from checks.findings import Finding, Mistake, faulty
from checks.graded_tasks import GradedTask
from checks.part2 import properties
from checks.part2.calls import CAME, INIT, Batch, batch_for, changed, other_words
from checks.part2.properties import CHECKED, KINDS, SIDES, TOLERANCE
from course import table
from course.answers import MISTAKES, read_all
from course.grading import asking, judge, parse
from course.grading.context import ROOT, GradingContext
from course.grading.types import Submission

RUN = "course.grading.runs:part_2"
ROWS = 12  # of the batch whose order is not told
OWN, REPAIRED = "", " in a repaired model"  # what jobs are called besides their task
AGAIN = "judged with what is wrong in earlier tasks put right"
NOT_THE_SAME = "the same words give other results in another batch, among other rows"
Order = Tensor  # (ROWS, 2): which change of the batch, which row of it


@dataclass(frozen=True)
class HiddenBatches:
    """What one student's functions are called with."""

    seed: int
    orders: Mapping[str, Order]  # by task; it stays in this process
    tensors: Mapping[str, Tensor]  # by task/side/name; their order is in ``orders``


def make(seed: int, secret: int) -> HiddenBatches:
    """Batches of rows that are known already, in an order that follows from the secret."""
    generator = torch.Generator().manual_seed(secret)
    orders, tensors = {}, {}
    for task_id in (name for name in CHECKED if name != INIT):
        batches = known_batches(task_id, seed)
        rows = len(batches[0][0][0])
        order = torch.randint(0, len(batches) * rows, (ROWS,), generator=generator)
        orders[task_id] = torch.stack((order // rows, order % rows), dim=1)
        for side in range(len(batches[0])):
            for i, name in enumerate(CAME):
                picked = [batches[change][side][i][row] for change, row in orders[task_id].tolist()]
                tensors[f"{task_id}/{side}/{name}"] = torch.stack(picked)
    return HiddenBatches(seed, orders, tensors)


def known_batches(task_id: str, seed: int) -> list[Batch]:
    """The batch that a task's function is called with, then with other words on each side."""
    batch = batch_for(task_id, seed)
    sides = range(len(batch))
    return [batch, *(changed(batch, s, other_words) for s in sides)]


# ---------------------------------------------------------------------------------------------
# One submission


def grade(
    context: GradingContext, submission: Submission, slot: int
) -> tuple[dict[str, judge.Verdict], list[str]]:
    """The verdict on each task, by its id, and the sandbox's layers."""
    if context.tasks[0].file not in submission.files:
        return {entry.id: judge.nothing(entry, "missing") for entry in context.tasks}, []
    hidden = make(context.seed(submission.student), context.seed(f"{submission.student} order"))

    def ask(names: list[str], way: str) -> tuple[dict[str, asking.Reply], list[str]]:
        jobs = [job_for(context, submission, name, way, hidden.seed) for name in names]
        return asking.ask(context, jobs, hidden.tensors, slot)

    answers, layers = ask([entry.id for entry in context.tasks], OWN)
    found = Findings(hidden, answers)
    if waiting := [entry.id for entry in context.tasks if found.repairable(entry)]:
        more, _ = ask(waiting, REPAIRED)
        found = Findings(hidden, answers | more)
    return {entry.id: verdict(entry, found) for entry in context.tasks}, layers


def job_for(
    context: GradingContext, submission: Submission, task_id: str, way: str, seed: int
) -> dict[str, Any]:
    """What the sandbox is to do for one task."""
    return {
        "name": f"{task_id}{way}",
        "run": RUN,
        "arguments": {"task_id": task_id, "seed": seed, "repaired": way == REPAIRED},
        "files": own_files(submission),
        "folders": [str(context.stage / "solution")],
        "seconds": context.seconds,
    }


def own_files(submission: Submission) -> dict[str, str]:
    """Part 2's script and the student's own modules; files of part 1 are ours."""
    of_part_1 = table.read_table(ROOT).files[1]
    return {
        name: content.decode("utf-8")
        for name, content in submission.files.items()
        if name.endswith(".py") and name not in of_part_1
    }


# ---------------------------------------------------------------------------------------------
# Judging


@dataclass
class Findings:
    """What is wrong with each task, found out when it is asked for."""

    hidden: HiddenBatches
    answers: Mapping[str, asking.Reply]
    known: dict[str, list[Finding]] = field(default_factory=dict)

    def of(self, name: str) -> list[Finding]:
        """Findings of a job: a task's id, and perhaps REPAIRED."""
        if name not in self.known:
            self.known[name] = self.judge(name)
        return self.known[name]

    def judge(self, name: str) -> list[Finding]:
        """The properties of a task's function, then the batch whose order was not told."""
        answer, task_id = (
            self.answers.get(name, asking.Reply("missing")),
            name.removesuffix(REPAIRED),
        )
        if answer.status != "ran":
            return [Finding("error", judge.LACKING[answer.status])]
        findings = properties.judge(task_id, answer.outputs, self.hidden.seed)
        if (
            faulty(findings)
            or task_id == INIT
            or in_any_order(task_id, answer.outputs, self.hidden)
        ):
            return findings
        return [Finding("values", NOT_THE_SAME, name="rows_mixed"), *findings]

    def conclude(self, entry: GradedTask) -> list[Finding]:
        """Which of a task's findings count."""
        return properties.conclude(entry, self.of, lambda: True)

    def init_is_wrong(self) -> bool:
        """Whether Task 2.1 is."""
        return bool(properties.faults(INIT, self.of))

    def repairable(self, entry: GradedTask) -> bool:
        """Whether a task is wrong perhaps because an earlier one is, and that can be put right."""
        there_is_a_model = lost_rows(self.of(INIT)) <= {*KINDS[INIT]}
        return there_is_a_model and any(f.kind == "waits" for f in self.conclude(entry))


def in_any_order(task_id: str, measured: Mapping[str, Any], hidden: HiddenBatches) -> bool:
    """Whether rows give what they gave before, wherever they are and among which others."""
    names = ["values", *(f"other words {side}" for side in range(len(SIDES)))]
    known = [measured[name].double() for name in names if name in measured]  # judged already
    order, got = hidden.orders[task_id], measured.get("in another order")
    wanted = torch.stack([known[change][row] for change, row in order.tolist()])  # (ROWS, …)
    if not isinstance(got, Tensor) or got.shape != wanted.shape or not got.is_floating_point():
        return False
    limit = TOLERANCE * max(1.0, wanted.abs().max().item())
    return bool(((got.double() - wanted).abs() < limit).all())


def verdict(entry: GradedTask, found: Findings) -> judge.Verdict:
    """What is right and wrong about one task."""
    answer = found.answers.get(entry.id, asking.Reply("missing"))
    again = f"{entry.id}{REPAIRED}"
    if again in found.answers:
        findings = [properties.with_source(entry, finding) for finding in found.of(again)]
        if lost_rows(findings) <= {*KINDS[entry.id]}:
            judged_again = judged(entry, findings, [AGAIN])
            if faulty(findings) and found.init_is_wrong():  # what is left may still come from there
                said = [finding.text for finding in found.conclude(entry)]
                return judge.Verdict("waits", judged_again.rows, said)
            return judged_again
    if answer.status != "ran":
        return judge.nothing(entry, answer.status)
    return judged(entry, found.conclude(entry), [])


def lost_rows(findings: list[Finding]) -> set[str]:
    """Rows that are lost; what is none of a task's rows counts as all of them."""
    return {finding.kind for finding in faulty(findings)}


def judged(entry: GradedTask, findings: list[Finding], said: list[str]) -> judge.Verdict:
    """The rows of a task from its findings; those of no row fail all of them."""
    wrong = faulty(findings)
    hints = [f"hint: {finding.text}" for finding in findings if finding not in wrong]
    rows = KINDS[entry.id]
    if not wrong:
        return judge.Verdict("right", dict.fromkeys(rows, True), [*said, *hints[:2]])
    status = wrong[0].kind
    if status == "not started":
        return judge.nothing(entry, status)
    if status == "waits":
        return judge.nothing(entry, status, f"waits {wrong[0].text}")
    kinds = lost_rows(wrong)
    right = {row: kinds <= {*rows} - {row} for row in rows}
    mistakes = {f.name: mistake_in(entry, f) for f in wrong if f.name}
    return judge.Verdict(
        "wrong", right, [*said, *(f.text for f in wrong)][:4], [*mistakes.values()]
    )


def mistake_in(entry: GradedTask, finding: Finding) -> Mistake:
    """The mistake that a finding names; in its own words where several have that name."""
    known = known_mistakes(entry.id)[finding.name]
    if known.name == finding.name:
        return known
    return Mistake(finding.name, finding.text.partition(" (read ")[0], "", known.read)


@cache
def known_mistakes(task_id: str) -> dict[str, Mistake]:
    """The mistakes by the names that the check has for them, this task's own ones before others."""
    with parse.ONE_AT_A_TIME:
        answers = [answer for name in CHECKED for answer in read_all(MISTAKES, name)]
    answers.sort(key=lambda a: (a.task.id == task_id, a.named == a.name))
    return {answer.named: answer.mistake for answer in answers}  # the last one counts
