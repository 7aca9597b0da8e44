"""Check what you write, one function at a time: ``python sanity_check.py``.

Each function is checked alone, so a mistake in one task does not fail another; no pretrained
weights and no network are needed. This file is the command line and the report; the checks are in
checks/: part1 (bert.py, optimizer.py, classifier.py) and part2 (multitask_classifier.py, its
functions and its training loop). It does not know how any task is solved.

    checks                                  minutes   expected
    python sanity_check.py                  < 1       "ok" for every task, exit status 0
    python sanity_check.py --part 2         < 1       the same for the tasks of one part
    python sanity_check.py --task 1.2       < 1       the same for one task, by number or id

Without a choice, part 2 is checked once part 1 is right and part 2 begun. For use from Python:
``check(task)`` gives the findings.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from checks.findings import ROOT, Finding, describe, difference, explanations, faulty
from checks.graded_tasks import GRADED_TASKS, GradedTask, graded_task
from checks.part1 import functions
from training.arguments import OneLineParser, run_script
from training.errors import InputError
from training.files import sha256_of
from training.hub import WEIGHT_FILES, default_model, find_model

MAKE = "python -m tests.make_sanity_check"
PRETRAINED_TOLERANCE = 1e-4
PART_2 = ("multitask_classifier.py", "checks/part2")  # what its handout adds


def examine(entry: GradedTask) -> list[Finding]:
    """What is wrong with the student's function for a task, and hints about it."""
    return checks_of(entry).check(entry)


def checks_of(entry: GradedTask) -> ModuleType:
    """The module that checks a task; that of part 2 comes with the handout of part 2."""
    if entry.part == 1:
        return functions
    if missing := missing_of_part_2():
        raise InputError(f"{missing[0]} is not here: it comes with the handout of part 2")
    return importlib.import_module("checks.part2.properties")


def missing_of_part_2() -> list[str]:
    """What is not here of PART_2."""
    return [name for name in PART_2 if not (ROOT / name).exists()]


def check(entry: GradedTask) -> list[Finding]:
    """What is wrong with the student's function for a task; nothing if it is right."""
    return faulty(examine(entry))


# ---------------------------------------------------------------------------------------------
# The script


def report(entry: GradedTask, findings: list[Finding]) -> None:
    """One line for a task, and one for each further finding and each hint."""
    wrong = faulty(findings)
    if not wrong:
        print(f"  ok    {entry.title}: {checks_of(entry).CHECKED[entry.id]}")
    elif wrong[0].kind == "not started":
        print(f"  not started  {entry.title}")
    elif wrong[0].kind == "waits":
        print(f"  waits {entry.title}: {wrong[0].text}")
    else:
        print(f"  WRONG {entry.title}: {wrong[0].text}")
        for finding in wrong[1:4]:
            print(f"        {finding.text}")
        if len(wrong) > 4:
            print(f"        … and {len(wrong) - 4} more")
    for line in explanations(findings):
        print(f"        {line}")


def check_tasks(entries: list[GradedTask]) -> list[GradedTask]:
    """Check and report tasks in order; those that are not right yet."""
    todo = []
    for entry in entries:
        findings = examine(entry)
        report(entry, findings)
        if faulty(findings):
            todo.append(entry)
    return todo


def check_whole(todo: list[GradedTask]) -> bool:
    """The whole BertModel, tiny and pretrained, unless bert.py is in ``todo``: whether it is wrong.

    The functions can each be right and still not the model: not all of it is graded.
    """
    if any(entry.file == "bert.py" for entry in todo):
        print("  --    the whole model is checked once all of bert.py is right")
        return False
    findings = functions.check_model(functions.WHOLE)
    for finding in findings:
        print(f"  WRONG the whole BertModel: {finding.text}")
    if not findings:
        print("  ok    the whole BertModel: values, gradients, padding, dropout")
    return bool(findings) or bool(check_pretrained())


def check_pretrained() -> list[Finding]:
    """Two sentences through the pretrained model that is on this machine, if there is one.

    The hub is not asked: that would mean a download.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            default = default_model(local_files_only=True)
            folder = find_model(default, local_files_only=True)
            files = [folder / file for file in WEIGHT_FILES if (folder / file).is_file()]
            digest = sha256_of(files[0]) if files else ""
    except (InputError, OSError) as error:
        print(f"  --    two sentences through a pretrained model: {error}")
        return []
    known = functions.facts()["pretrained"]
    name = next((name for name, sha256 in known.items() if sha256 == digest), None)
    if name is None:
        staff = f" ({MAKE} --model {default} makes it)" if (ROOT / "tests").is_dir() else ""
        print(f"  --    no reference yet for {default}{staff}")
        return []
    findings = []
    try:
        outputs = pretrained_outputs(folder, name)
    except (Exception, SystemExit) as error:
        findings.append(describe(error))
    else:
        references = functions.load_references(torch.float32)
        for what, got in outputs.items():
            expected = references[f"pretrained/{name}/{what}"]
            findings.append(difference("values", what, got, expected, PRETRAINED_TOLERANCE))
    findings = [finding for finding in findings if finding is not None]
    for finding in findings:
        print(f"  WRONG two sentences through {name}: {finding.text}")
    if not findings:
        print(f"  ok    two sentences through {name}: values")
    return findings


def pretrained_outputs(folder: Path, name: str) -> dict[str, Tensor]:
    """The first numbers of each token (B, L, 8) and of each sentence (B, 8), padding set to 0."""
    stored = functions.load_references(torch.float32)
    real = stored[f"pretrained/{name}/inputs/attention_mask"]  # (B, L)
    with contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        model = importlib.import_module("bert").BertModel.from_pretrained(str(folder))
        results = model(stored[f"pretrained/{name}/inputs/input_ids"], real)
    hidden = results["last_hidden_state"] * real[..., None]  # (B, L, D)
    return {"last_hidden_state": hidden[..., :8], "pooler_output": results["pooler_output"][:, :8]}


def entries_of_part_2(part_1_is_right: bool) -> list[GradedTask]:
    """The tasks of part 2 where they are to be checked now; a line says why if they are not."""
    entries = [entry for entry in GRADED_TASKS if entry.part == 2]
    if missing_of_part_2():
        return []
    if not part_1_is_right:
        print("  --    part 2 is checked once part 1 is right, or with --part 2")
        return []
    if all(found and found[0].kind == "not started" for found in map(check, entries)):
        print("  --    part 2 is not begun (python sanity_check.py --part 2)")
        return []
    return entries


def main() -> None:
    """Check one task or more; exit status 0 only if all that were checked are right."""
    parser = OneLineParser(description="Check the functions of the tasks, each alone.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--task", help="number or id of one task: 1.2 or bert.add_norm")
    choice.add_argument("--part", type=int, choices=(1, 2), help="the tasks of one part only")
    args = parser.parse_args()
    try:
        entries = [graded_task(args.task)] if args.task else []
    except KeyError as error:
        parser.error(error.args[0])
    entries = entries or [entry for entry in GRADED_TASKS if entry.part == (args.part or 1)]
    functions.load_references()
    todo = check_tasks(entries)
    trouble = bool(todo)
    if not args.task and args.part != 2:
        trouble |= check_whole(todo)
    if not args.task and not args.part:
        more = entries_of_part_2(part_1_is_right=not trouble)
        entries += more
        todo += check_tasks(more)
    if not args.task and any(entry.part == 2 for entry in todo):
        print("  --    the training loop is checked once all tasks of part 2 are right")
    elif not args.task and any(entry.part == 2 for entry in entries):
        trouble |= importlib.import_module("checks.part2.loop").report()
    right = len(entries) - len(todo)
    print(f"{right} of {len(entries)} task{'s' * (len(entries) > 1)} right")
    if todo:
        print(f"next: {todo[0].title} ({todo[0].check}), see {todo[0].paper}")
    sys.exit(1 if trouble or todo else 0)


if __name__ == "__main__":
    run_script(main)
