"""Run the mistakes of course/mistakes/ and store what they compute, so that checks can name them.

    python course/fingerprints.py    minutes; again whenever a mistake is added

Reads sanity_check.data and optimizer_test.npy, as tests/make_sanity_check.py and
tests/make_optimizer_test.py write them, and adds the fingerprints (checks/fingerprints.py) of every
mistake, and of two mistakes in one function whose lines can be merged and which are not both known
without; of AdamW in either order of weight decay. A mistake that computes what is correct is
refused, and so are two that compute the same. Mistakes are changes to
course/variants/<task>/plain.py: the solution in bert.py, optimizer.py and classifier.py has no part
in them. Part 2 has no fingerprints: there, checks/part2/properties.py measures properties.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import itertools
import json
import sys
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from checks.findings import Finding, Mistake
from checks.fingerprints import (
    WIDTH,
    Fingerprint,
    KnownMistakes,
    fingerprint_of,
)
from checks.graded_tasks import GRADED_TASKS, GradedTask, graded_task
from checks.part1 import adamw_cases, adamw_mistakes, explain, references, runners
from course.answers import (
    MISTAKES,
    VARIANTS,
    Methods,
    installed_source,
    read,
    read_all,
    solution_with,
)
from course.patches import patched
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import atomic_write, write_whole

OPTIMIZER = "optimizer.step"
# What makes the plain step decay before the update, which is correct, too
DECAY_BEFORE = ("- p.sub_(update)", "  p.sub_(decay * p)", "+ p.sub_(update)")
# Two that can be merged, although what is said of one is false where the other one is made.
CONTRADICTORY = (
    {"corrected_twice", "no_bias_correction"},
    {"corrected_twice", "correct_bias_inverted"},
    {"corrected_twice", "one_beta_for_both"},  # as √(1 − β₁ᵗ) alone would
    {"no_softmax", "mask_zeroed_after_softmax"},
    {"step_from_zero", "steps_from_two"},  # together they count from one
)
# Way of running a function → its outputs, or its error's Finding; their fingerprints; mistakes
Outputs, Prints = Mapping[str, Any], Mapping[str, Fingerprint]
Known = Mapping[str, KnownMistakes]


@dataclass(frozen=True)
class Candidate:
    """An incorrect solution to run: the names of its mistakes and its methods."""

    names: tuple[str, ...]
    methods: Methods
    imports: tuple[str, ...]
    rewrite: bool = True  # may compute what another one computes


def with_fingerprints() -> list[GradedTask]:
    """The tasks whose mistakes have fingerprints."""
    return [entry for entry in GRADED_TASKS if entry.part != 2]


def outputs_of(entry: GradedTask, methods: Methods, imports: tuple[str, ...] = ()) -> Outputs:
    """What an answer computes, in each way of running the task's function."""
    with installed_source(entry.file, solution_with(entry, methods, imports)) as module:
        if entry.id == OPTIMIZER:
            return {entry.id: adamw_mistakes.outputs_of(module.AdamW)}
        return {
            group: runners.outputs_or_error(entry.id, **options)
            for group, options in runners.groups_of(entry.id).items()
        }


def fingerprints_of(outputs: Outputs) -> dict[str, Fingerprint]:
    """The fingerprints of what an answer computes."""
    return {
        group: fingerprint_of(output.text if isinstance(output, Finding) else output)
        for group, output in outputs.items()
    }


def base_of(entry: GradedTask) -> Methods:
    """The plain correct solution, along whose lines mistakes are written."""
    plain = read(VARIANTS, f"{entry.id}/plain")
    return plain.versions[plain.first]


def candidates(entry: GradedTask) -> Iterator[Candidate]:
    """All incorrect solutions to run: mistakes, those of AdamW as rewritten, then two at once.

    Rewrites of a mistake in AdamW may compute something else: they are run as mistakes are.
    """
    base, mistakes = base_of(entry), read_all(MISTAKES, entry.id)
    for mistake in mistakes:
        first = mistake.versions[mistake.first]
        yield Candidate((mistake.name,), first, mistake.imports, rewrite=False)
    for mistake in mistakes if entry.id == OPTIMIZER else []:
        for methods in [*mistake.versions.values(), *decaying_before(mistake.versions.values())]:
            yield Candidate((mistake.name,), methods, mistake.imports)
    for mistake, other in itertools.combinations(mistakes, 2):
        both = merge(base, mistake.versions[mistake.first], other.versions[other.first])
        if both and {mistake.name, other.name} not in CONTRADICTORY:
            names, imports = (mistake.name, other.name), mistake.imports + other.imports
            for methods in [both, *decaying_before([both])]:
                yield Candidate(names, methods, imports)


def decaying_before(steps: Iterable[Methods]) -> Iterator[Methods]:
    """Steps of AdamW with weight decay before the update, of those that have the plain lines."""
    for methods in steps:
        with contextlib.suppress(InputError, KeyError):
            yield {**methods, "step": patched(methods["step"], DECAY_BEFORE)}


def merge(base: Methods, first: Methods, second: Methods) -> Methods | None:
    """Both changes made to one base; None where they touch the same lines or do not fit."""
    merged = {}
    for name in {**base, **first, **second}:
        old = base.get(name, "")
        texts = (methods.get(name, old).splitlines() for methods in (base, first, second))
        if (lines := merge_lines(*texts)) is None:
            return None
        merged[name] = "\n".join(lines) + "\n"
    try:
        ast.parse("".join(merged.values()))
    except SyntaxError:
        return None
    return merged


def merge_lines(base: list[str], first: list[str], second: list[str]) -> list[str] | None:
    """A three-way merge; None where both change a line, or insert at the same place."""
    changes = []
    for text in (first, second):
        match = difflib.SequenceMatcher(None, base, text, autojunk=False)
        changes += [(i, j, text[k:m]) for tag, i, j, k, m in match.get_opcodes() if tag != "equal"]
    changes.sort(key=lambda change: change[:2])
    for (start, end, _), (start_2, _, _) in itertools.pairwise(changes):
        if start_2 < end or start_2 == start:
            return None
    lines = list(base)
    for start, end, new in reversed(changes):
        lines[start:end] = new
    return lines


def known_of(entry: GradedTask) -> dict[str, KnownMistakes]:
    """The fingerprints of a task's mistakes, in each way of running its function.

    A rewrite that computes nothing new is left out, and so are two mistakes of which the check
    names one without: a student who fixes that one is told the other. Of AdamW's it has to name
    all that it finds, with nothing left that it could call unexplained.

    Raises:
        InputError: a mistake computes what is correct, or the same as another one.
    """
    right = fingerprints_of(outputs_of(entry, base_of(entry)))
    mistakes = {answer.name: answer.mistake for answer in read_all(MISTAKES, entry.id)}
    known = {group: KnownMistakes([], mistakes) for group in right}
    named: list[tuple[tuple[str, ...], Outputs]] = []  # two at once, without being stored
    for candidate in tqdm(list(candidates(entry)), desc=f"{entry.id:18}", disable=None):
        names, outputs = candidate.names, outputs_of(entry, candidate.methods, candidate.imports)
        if len(names) == 2 and are_known(entry, names, outputs, known):
            named.append((names, outputs))
        elif not store(names, fingerprints_of(outputs), known, right) and not candidate.rewrite:
            same = ", ".join(mistake.name for mistake in mistakes_of(entry, outputs, known)[0])
            what = f"the same as {same}" if same else "what is correct"
            raise InputError(f"{entry.id}: the mistake {names[0]} computes {what}")
    # Two that are stored may be found where others were named before them.
    while lost := [pair for pair in named if not are_known(entry, *pair, known)]:
        for names, outputs in lost:
            store(names, fingerprints_of(outputs), known, right)
        gone = {names for names, _ in lost}
        named = [pair for pair in named if pair[0] not in gone]
    return known


def store(names: tuple[str, ...], prints: Prints, known: Known, right: Prints) -> bool:
    """Add what is new; of two mistakes in the first way of running only. False if nothing is."""
    new = [
        group
        for group, fingerprint in prints.items()
        if not fingerprint.matches(right[group])
        and not any(fingerprint.matches(other) for _, other in known[group].answers)
    ]
    for group in new[:1] if len(names) == 2 else new:  # the check stops at the first
        known[group].answers.append((names, prints[group]))
    return bool(new)


def are_known(entry: GradedTask, names: tuple[str, ...], outputs: Outputs, known: Known) -> bool:
    """Whether the check names these mistakes, or one of them, and nothing else."""
    mistakes, unexplained = mistakes_of(entry, outputs, known)
    if unexplained and entry.id == OPTIMIZER:
        return False
    return {mistake.name for mistake in mistakes} <= {*names} and bool(mistakes)


def mistakes_of(
    entry: GradedTask, outputs: Outputs, known: Known
) -> tuple[list[Mistake], list[str]]:
    """The mistakes that the check names for what an answer computes, and what they leave open."""
    if entry.id == OPTIMIZER:
        return adamw_mistakes.mistakes_in(outputs[entry.id], known[entry.id])
    return explain.first_known(entry.id, outputs, known)[:2]


# ---------------------------------------------------------------------------------------------
# The two files


def words_of(known: KnownMistakes) -> dict[str, Any]:
    """All but the numbers, as JSON can hold it."""
    return {
        "answers": [[list(names), made.error] for names, made in known.answers],
        "mistakes": [asdict(mistake) for mistake in known.mistakes.values()],
    }


def tables_of(known: KnownMistakes) -> dict[str, Tensor]:
    """The numbers: of each output (answers, WIDTH), NaN where an answer has no such output.

    In float32: its rounding is far below the tolerance.
    """
    nothing = torch.full((WIDTH,), torch.nan)
    rows = [{n: row.float() for n, row in made.outputs.items()} for _, made in known.answers]
    names = sorted({name for outputs in rows for name in outputs})
    return {n: torch.stack([outputs.get(n, nothing) for outputs in rows]) for n in names}


def data_with(known: Known, path: Path) -> bytes:
    """A file of references with these fingerprints in place of those that it has."""
    with safe_open(path, framework="pt") as file:
        tensors = {
            name: file.get_tensor(name)
            for name in file.keys()
            if not name.startswith(references.FINGERPRINTS)
        }
    for group, made in known.items():
        for name, table in tables_of(made).items():
            tensors[f"{references.FINGERPRINTS}{group}/{name}"] = table
    about = references.metadata(path) | {
        "mistakes": {k: words_of(made) for k, made in known.items()}
    }
    return save({k: tensors[k] for k in sorted(tensors)}, metadata={"about": json.dumps(about)})


def optimizer_reference(known: KnownMistakes) -> np.ndarray:
    """optimizer_test.npy's array with these fingerprints in place of those that it has."""
    before = adamw_cases.reference()
    kept = [name for name in before.dtype.names if name not in ("mistakes", "fingerprints")]
    words = json.dumps(words_of(known)).encode()
    tables = {name: table.numpy() for name, table in tables_of(known).items()}
    layout = [(name, before.dtype[name]) for name in kept]
    layout += [("mistakes", f"S{len(words)}")]
    layout += [("fingerprints", [(name, "<f4", table.shape) for name, table in tables.items()])]
    array = np.zeros((), layout)
    for name in kept:
        array[name] = before[name]
    array["mistakes"] = words
    for name, table in tables.items():
        array["fingerprints"][name] = table
    return array


def main() -> None:
    """Make all fingerprints and write the three files."""
    OneLineParser(description="Store the fingerprints of known mistakes.").parse_args()
    torch.set_num_threads(1)
    known = {entry: known_of(entry) for entry in with_fingerprints()}
    for path, part in zip(references.DATA_FILES, (1, 3), strict=True):
        groups = [known[e] for e in known if e.part == part and e.id != OPTIMIZER]
        write_whole(path, data_with(dict(ChainMap(*groups)), path))
    optimizer = known[graded_task(OPTIMIZER)][OPTIMIZER]
    with atomic_write(adamw_cases.REFERENCE, "wb") as file:
        np.save(file, optimizer_reference(optimizer), allow_pickle=False)


if __name__ == "__main__":
    run_script(main)
