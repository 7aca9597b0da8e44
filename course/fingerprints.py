"""Run the mistakes of course/mistakes/ and store what they compute, so that checks can name them.

    python course/fingerprints.py    minutes; again whenever a mistake is added

Reads sanity_check.data and optimizer_test.npy, as tests/make_sanity_check.py and
tests/make_optimizer_test.py write them, and adds the fingerprints (checks/fingerprints.py) of every
mistake, of mistakes merged with another correct solution, and of two mistakes in one function whose
lines can be merged and which are not both known without. A file that has them already, up to
rounding, is left alone. It refuses a mistake that is none, and two that compute the same. Mistakes
are changes to course/variants/<task>/plain.py: the solution in bert.py, optimizer.py and
classifier.py has no part in them. Part 2 has no fingerprints: there, checks/part2/properties.py
measures properties.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import pickle
import re
import sys
from collections.abc import Iterator, Mapping
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
    same_projections,
)
from checks.graded_tasks import GRADED_TASKS, GradedTask
from checks.part1 import adamw_cases, adamw_mistakes, explain, references, runners
from course.answers import (
    MISTAKES,
    VARIANTS,
    Answer,
    Methods,
    installed_source,
    merge,
    read,
    read_all,
    solution_with,
)
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import atomic_write, write_whole

OPTIMIZER = "optimizer.step"
ORDERS_OF_DECAY = ("decay_before", "decay_first")  # correct, and other trajectories than plain's
# Two that can be merged, although what is said of one is false where the other one is made.
CONTRADICTORY = (
    {"corrected_twice", "no_bias_correction"},
    {"corrected_twice", "correct_bias_inverted"},
    {"corrected_twice", "one_beta_for_both"},  # as √(1 − β₁ᵗ) alone would
    {"no_softmax", "mask_zeroed_after_softmax"},
    {"step_from_zero", "steps_from_two"},  # together they count from one
)
LACKING = re.compile("NameError|UnboundLocalError")
Outputs = Mapping[str, Any]  # way of running a function → its outputs, or its error's Finding


@dataclass(frozen=True)
class Candidate:
    """An incorrect solution to run: the names of its mistakes and its methods."""

    names: tuple[str, ...]
    methods: Methods
    imports: tuple[str, ...]
    merged: bool = True


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


def lacks_names(outputs: Outputs) -> bool:
    """Whether a mistake is put into a solution that does not set the names that it uses."""
    (first, *_) = outputs.values()
    text = first.text if isinstance(first, Finding) else next(iter(first.values()))
    return isinstance(text, str) and LACKING.match(text) is not None


def base_of(entry: GradedTask) -> Methods:
    """The plain correct solution, along whose lines mistakes are written."""
    plain = read(VARIANTS, f"{entry.id}/plain")
    return plain.versions[plain.first]


def candidates(entry: GradedTask) -> Iterator[Candidate]:
    """All incorrect solutions to run: mistakes, mistakes in other solutions, then two at once.

    Rewrites of a mistake in AdamW may compute something else: they are run as mistakes are.
    """

    def first(answer: Answer) -> Methods:
        return answer.versions[answer.first]

    base, mistakes = base_of(entry), read_all(MISTAKES, entry.id)
    others = [answer for answer in read_all(VARIANTS, entry.id) if answer.name != "plain"]
    for mistake in mistakes:
        yield Candidate((mistake.name,), first(mistake), mistake.imports, merged=False)
    for mistake in mistakes:
        versions = [*mistake.versions.values()] if entry.id == OPTIMIZER else [first(mistake)]
        for methods in versions[1:]:
            yield Candidate((mistake.name,), methods, mistake.imports)
        for methods, other in itertools.product(versions, others):
            if methods := merge(base, methods, first(other)):
                yield Candidate((mistake.name,), methods, mistake.imports + other.imports)
    orders = [first(answer) for answer in others if answer.name in ORDERS_OF_DECAY]
    for mistake, other in itertools.combinations(mistakes, 2):
        if {mistake.name, other.name} in CONTRADICTORY:
            continue
        if both := merge(base, first(mistake), first(other)):
            other_order = filter(None, (merge(base, both, order) for order in orders))
            for methods in [both, *itertools.islice(other_order, 1)]:
                names, imports = (mistake.name, other.name), mistake.imports + other.imports
                yield Candidate(names, methods, imports)


def known_of(entry: GradedTask) -> dict[str, KnownMistakes]:
    """The fingerprints of a task's mistakes, in each way of running its function.

    A merge that computes nothing new is left out, and so are two mistakes of which the check names
    one without: who has put that right is told the other one. Of AdamW's it has to name all that
    it finds, with nothing left that it could call unexplained.

    Raises:
        InputError: a mistake computes what is correct, or the same as another one.
    """
    right = fingerprints_of(outputs_of(entry, base_of(entry)))
    mistakes = {answer.name: answer.mistake for answer in read_all(MISTAKES, entry.id)}
    known = {group: KnownMistakes([], mistakes) for group in right}
    named: list[tuple[tuple[str, ...], Outputs]] = []  # two at once, without being stored
    for candidate in tqdm(list(candidates(entry)), desc=f"{entry.id:18}", disable=None):
        names, outputs = candidate.names, outputs_of(entry, candidate.methods, candidate.imports)
        if candidate.merged and len(names) == 1 and lacks_names(outputs):
            continue
        if len(names) == 2 and are_known(entry, names, outputs, known):
            named.append((names, outputs))
        elif not store(names, fingerprints_of(outputs), known, right) and not candidate.merged:
            same = names_in(entry, outputs, known) - {""}
            what = f"the same as {', '.join(same)}" if same else "what is correct"
            raise InputError(f"{entry.id}: the mistake {names[0]} computes {what}")
    # Two that are stored may be found where others were named before them.
    while lost := [pair for pair in named if not are_known(entry, *pair, known)]:
        for names, outputs in lost:
            store(names, fingerprints_of(outputs), known, right)
        gone = {names for names, _ in lost}
        named = [pair for pair in named if pair[0] not in gone]
    return known


def store(
    names: tuple[str, ...],
    prints: Mapping[str, Fingerprint],
    known: Mapping[str, KnownMistakes],
    right: Mapping[str, Fingerprint],
) -> bool:
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


def are_known(
    entry: GradedTask,
    names: tuple[str, ...],
    outputs: Outputs,
    known: Mapping[str, KnownMistakes],
) -> bool:
    """Whether the check names these mistakes, or one of them, and nothing else."""
    mistakes, unexplained = mistakes_of(entry, outputs, known)
    if unexplained and entry.id == OPTIMIZER:
        return False
    return {mistake.name for mistake in mistakes} <= {*names} and bool(mistakes)


def names_in(entry: GradedTask, outputs: Outputs, known: Mapping[str, KnownMistakes]) -> set[str]:
    """The names that the check has for what an answer computes; of none, an empty one."""
    return {mistake.name for mistake in mistakes_of(entry, outputs, known)[0]} or {""}


def mistakes_of(
    entry: GradedTask, outputs: Outputs, known: Mapping[str, KnownMistakes]
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


def data_with(known: Mapping[str, KnownMistakes], path: Path) -> bytes:
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


def is_stored(known: KnownMistakes, stored: KnownMistakes) -> bool:
    """Whether these fingerprints are the stored ones, up to the rounding of another machine."""
    if known.mistakes != stored.mistakes or len(known.answers) != len(stored.answers):
        return False
    return all(
        names == old_names
        and prints.error == old.error
        and prints.outputs.keys() == old.outputs.keys()
        and all(
            torch.equal(row.float(), old.outputs[name].float())  # those of outputs without a number
            or same_projections(row, old.outputs[name])
            for name, row in prints.outputs.items()
        )
        for (names, prints), (old_names, old) in zip(known.answers, stored.answers, strict=True)
    )


def known_bytes(entry: GradedTask) -> bytes:
    """What known_of returns, as bytes: of thousands of tensors each would be an open file."""
    return pickle.dumps(known_of(entry))


def all_known() -> dict[str, KnownMistakes]:
    """The fingerprints of all tasks, each computed in a process of its own."""
    entries = sorted(with_fingerprints(), key=lambda entry: -len(read_all(MISTAKES, entry.id)))
    with multiprocessing.get_context("fork").Pool(
        initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        made = map(pickle.loads, pool.map(known_bytes, entries, 1))
        tables = dict(zip(entries, made, strict=True))
    return {group: known for entry in with_fingerprints() for group, known in tables[entry].items()}


def file_of(group: str) -> Path:
    """The file of references that a way of running a task's function belongs to."""
    entry = next(entry for entry in with_fingerprints() if group.startswith(entry.id))
    return references.DATA if entry.part == 1 else ROOT / f"checks/part{entry.part}/references.data"


def write_into(path: Path, known: Mapping[str, KnownMistakes]) -> None:
    """Put fingerprints into a file of references that lacks some."""
    stored = references.metadata(path).get("mistakes", {})
    if known.keys() == stored.keys() and all(
        is_stored(made, references.known_mistakes(group)) for group, made in known.items()
    ):
        print(f"{path.name}: as stored")
        return
    data = data_with(known, path)
    write_whole(path, data)
    print(f"{path.name}: written")


def main() -> None:
    """Make all fingerprints; write the files that lack some."""
    OneLineParser(description="Store the fingerprints of known mistakes.").parse_args()
    known = all_known()
    optimizer = known.pop(OPTIMIZER)
    for path in references.DATA_FILES:
        write_into(path, {group: known[group] for group in known if path == file_of(group)})
    if is_stored(optimizer, adamw_mistakes.known_mistakes()):
        print(f"{adamw_cases.REFERENCE.name}: as stored")
    else:
        array = optimizer_reference(optimizer)
        with atomic_write(adamw_cases.REFERENCE, "wb") as file:
            np.save(file, array, allow_pickle=False)
        print(f"{adamw_cases.REFERENCE.name}: written")


if __name__ == "__main__":
    run_script(main)
