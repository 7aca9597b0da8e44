"""The tasks of part 2: MultitaskBERT is called in the sandbox, its results are judged here.

There is no one right answer: the properties of checks/part2/ are judged, for words and weights that
differ from student to student, and once more at weights that are chosen later (second_round.py).
bert.py is ours, so that a mistake of part 1 does not cost again; where __init__ or forward is
wrong, what waits for it is run once more with what it should find, as far as that can be given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from torch import Tensor

from checks.findings import Finding, Mistake, faulty
from checks.graded_tasks import GradedTask, graded_task
from checks.part2 import arrays
from checks.part2 import tasks as part2_tasks
from checks.part2.models import INIT
from checks.part2.tasks import CHECKED, KINDS
from course import table
from course.answers import MISTAKES, read_all
from course.grading.intake import parse
from course.grading.judging import judge, second_round, weights
from course.grading.judging.types import Submission
from course.grading.sandbox import protocol
from course.grading.sandbox.context import ROOT, GradingContext

REPAIRED = " in a repaired model"  # what jobs are called besides their task
Ask = Callable[[Mapping[str, dict], Mapping[str, Tensor]], dict[str, protocol.Reply]]
AGAIN = "judged with what is wrong in earlier tasks put right"


# ---------------------------------------------------------------------------------------------
# One submission


def grade(context: GradingContext, submission: Submission) -> dict[str, judge.Verdict]:
    """The verdict on each task, by its id."""
    if context.tasks[0].file not in submission.files:
        return {entry.id: judge.nothing(entry, "missing") for entry in context.tasks}
    files = submission.sources(table.read_table(ROOT).files[1])  # files of part 1 are ours

    def ask(jobs: Mapping[str, dict], tensors: Mapping[str, Tensor]) -> dict[str, protocol.Reply]:
        whole = [protocol.job(name, "part_2", given, files) for name, given in jobs.items()]
        return protocol.ask(context, whole, tensors)

    whose = (submission.student, submission.sha256)
    seed, secret = context.seed(*whose), context.seed(*whose, "later")
    findings = ask_all(ask, [entry.id for entry in context.tasks], seed, secret)
    return {entry.id: verdict(entry, findings) for entry in context.tasks}


def ask_all(ask: Ask, tasks: Sequence[str], seed: int, secret: int) -> Findings:
    """Both rounds; then both once more of what has to be judged in a repaired model.

    Args:
        ask: what runs jobs: their arguments by their names, and tensors.
        tasks: their ids.
        seed: of the first round's words and weights.
        secret: of all that is chosen later.
    """
    findings = both_rounds(ask, tasks, Findings(seed), secret)
    waiting = [f"{name}{REPAIRED}" for name in tasks if findings.repairable(graded_task(name))]
    return both_rounds(ask, waiting, findings, secret + 1) if waiting else findings


def both_rounds(ask: Ask, names: Sequence[str], findings: Findings, secret: int) -> Findings:
    """What is found, with some jobs' first and second rounds added."""
    answers = ask({name: arguments(name, findings.seed) for name in names}, {})
    findings = replace(findings, answers=findings.answers | answers, known={})
    encoders, parcel = weights.Encoders(findings.seed, secret), second_round.Parcel()
    jobs, second = {}, {}
    for name in filter(findings.goes_on, names):
        job = arguments(name, findings.seed)
        with contextlib.suppress(arrays.Stopped):  # what cannot be read is asked nothing more
            outputs = answers[name].outputs
            second[name] = second_round.plan(job["task_id"], findings.seed, outputs, encoders)
            jobs[name] = job | parcel.pack(second[name])
    replies = findings.replies | (ask(jobs, parcel.tensors) if jobs else {})
    return replace(findings, second=findings.second | second, replies=replies, known={})


def arguments(name: str, seed: int) -> dict[str, Any]:
    """Of runs.part_2, for a job: a task's id, and perhaps REPAIRED."""
    task_id = name.removesuffix(REPAIRED)
    return {"task_id": task_id, "seed": seed, "repaired": name != task_id}


# ---------------------------------------------------------------------------------------------
# Judging


@dataclass
class Findings:
    """What is wrong with each task, found out when it is asked for."""

    seed: int
    answers: dict[str, protocol.Reply] = field(default_factory=dict)
    second: dict[str, second_round.Second] = field(default_factory=dict)  # what is asked later
    replies: dict[str, protocol.Reply] = field(default_factory=dict)  # to that
    known: dict[str, list[Finding]] = field(default_factory=dict)
    flags: dict[str, list[str]] = field(default_factory=dict)

    def of(self, name: str) -> list[Finding]:
        """Findings of a job: a task's id, and perhaps REPAIRED."""
        if name not in self.known:
            first = self.first(name)
            self.known[name] = self.later(name, first) if self.goes_on(name) else first
        return self.known[name]

    def goes_on(self, name: str) -> bool:
        """Whether a job has points to lose in the second round."""
        rows = KINDS[name.removesuffix(REPAIRED)]
        return not name.startswith(INIT) and lost_rows(self.first(name)) <= {*rows}

    def first(self, name: str) -> list[Finding]:
        """What the first round shows."""
        answer = self.answers.get(name, protocol.Reply("missing"))
        if answer.status != "ran":
            return [Finding("error", protocol.LACKING[answer.status])]
        findings = part2_tasks.judge(name.removesuffix(REPAIRED), answer.outputs, self.seed)
        if error := arrays.error_of(answer.outputs, "result"):  # then no row can be right
            findings = [replace(f, kind=error.kind) for f in findings]
        return findings

    def later(self, name: str, findings: list[Finding]) -> list[Finding]:
        """What the second round adds to the first one's findings."""
        answer = self.replies.get(name, protocol.Reply("invalid answer"))
        if answer.status != "ran":
            return [Finding("error", protocol.LACKING[answer.status])]
        more, self.flags[name] = second_round.findings_and_flags(self.second[name], answer.outputs)
        return [*more, *findings]

    def conclude(self, entry: GradedTask) -> list[Finding]:
        """Which of a task's findings count."""
        return part2_tasks.conclude(entry, self.of, lambda: True)

    def repairable(self, entry: GradedTask) -> bool:
        """Whether a task is wrong perhaps because an earlier one is, and that can be put right."""
        there_is_a_model = lost_rows(self.of(INIT)) <= {*KINDS[INIT]}
        return there_is_a_model and any(f.kind == "waits" for f in self.conclude(entry))


def verdict(entry: GradedTask, findings: Findings) -> judge.Verdict:
    """What is right and wrong about one task, and what to look at."""
    made = without_flags(entry, findings)
    names = (entry.id, f"{entry.id}{REPAIRED}")
    flags = dict.fromkeys(text for name in names for text in findings.flags.get(name, ()))
    made.flags = [f"Task {entry.number}: {text}" for text in flags]
    return made


def without_flags(entry: GradedTask, findings: Findings) -> judge.Verdict:
    """What is right and wrong about one task."""
    answer = findings.answers.get(entry.id, protocol.Reply("missing"))
    again = f"{entry.id}{REPAIRED}"
    if again in findings.answers:
        task_findings = [part2_tasks.with_source(entry, finding) for finding in findings.of(again)]
        if lost_rows(task_findings) <= {*KINDS[entry.id]}:
            judged_again = judged(entry, task_findings, [AGAIN])
            if faulty(task_findings) and part2_tasks.faults(INIT, findings.of):
                messages = [f.text for f in findings.conclude(entry)]  # it may come from there
                return judge.Verdict("waits", judged_again.rows, messages)
            return judged_again
    if answer.status != "ran":
        return judge.nothing(entry, answer.status)
    if "error at import" in answer.outputs:
        texts = [str(text) for name, text in answer.outputs.items() if name.endswith("/error")]
        return judge.nothing(entry, "crashed", "".join(texts[:1]))
    return judged(entry, findings.conclude(entry), [])


def lost_rows(findings: list[Finding]) -> set[str]:
    """Rows that are lost; what is none of a task's rows counts as all of them."""
    return {finding.kind for finding in faulty(findings)}


def judged(entry: GradedTask, findings: list[Finding], messages: list[str]) -> judge.Verdict:
    """The rows of a task from its findings; those of no row fail all of them."""
    wrong = faulty(findings)
    hints = [f"hint: {finding.text}" for finding in findings if finding not in wrong]
    rows = KINDS[entry.id]
    if not wrong:
        return judge.Verdict("right", dict.fromkeys(rows, True), [*messages, *hints[:2]])
    status = wrong[0].kind
    if status == "not started":
        return judge.not_started(entry, wrong[0].text)
    if status == "waits":
        return judge.nothing(entry, "waits", f"waits {wrong[0].text}")
    kinds = lost_rows(wrong)
    right = {row: kinds <= {*rows} - {row} for row in rows}
    mistakes = {f.name: mistake_in(entry, f) for f in wrong if f.name}
    return judge.Verdict(
        "wrong", right, [*messages, *(f.text for f in wrong)][:4], [*mistakes.values()]
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
