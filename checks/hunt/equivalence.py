"""Whether a changed function of part 1 still does what the right one does, by running both.

Both get the same random inputs. What they return, their gradients, what a change of padding does,
dropout along either axis, and their inputs afterwards are compared. Of the optimizer it is all of
its checks, with several parameters and resuming, and random cases in either order of weight decay.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from checks.differences import difference
from checks.errors import attempt, describe
from checks.findings import Finding, Outcome
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import GradedTask
from checks.hunt.installed import installed_source
from checks.hunt.random_inputs import make_inputs
from checks.part1 import adamw_cases, adamw_checks, references, runners

SEEDS = (101, 102, 103)  # of random inputs
STORED = 0  # in the place of a seed: the inputs of sanity_check.data
# What is compared: the inputs, and the axis that dropout acts along
RUNS = [*itertools.product(SEEDS, (-1, -2)), (STORED, -1)]
TOLERANCES = {torch.float64: 1e-5, torch.float32: 1e-3}  # what float32 inside may cost, and does
OTHER_TYPES = re.compile(r"dtype|Double|Float|expected scalar type")
INIT = "classifier.init"
WORDS = {"values": "in evaluation mode", "dropout": "in training mode, with dropout"}

Outputs = Mapping[str, Any]  # or {"error": its text}


def compare(entry: GradedTask, source: str, right: str, of: tuple[str, ...] = ("",)) -> Outcome:
    """What a file's function does that the right one does not.

    The status is "same", "differs", or "broken": it raises an exception, which any call shows. Of
    one that differs there is a finding: an input on which both do, and how; its name is the same
    for two functions that compute the same. A function that mixes types works in float32 only.

    Args:
        of: how the names of outputs begin that are compared.
    """
    if entry.id == "optimizer.step":
        return compare_optimizers(entry, source, right)
    texts = (source, right)
    error, unexpected = (run(entry, t, *RUNS[0], torch.float64).get("error", "") for t in texts)
    mixed = unexpected or OTHER_TYPES.search(error)
    dtype = torch.float32 if mixed else torch.float64
    computed, where = [], ""
    for seed, axis in RUNS:
        outputs, wanted = (run(entry, text, seed, axis, dtype) for text in texts)
        if "error" in outputs:
            return Outcome(entry.title, "broken")
        computed.append(outputs)
        for name in {**outputs, **wanted}:
            pair = outputs.get(name), wanted.get(name)
            if name.startswith(of) and not same(*pair, TOLERANCES[dtype]):
                where = where or told(seed, name, *pair)
    return differing(entry, where, computed) if where else Outcome(entry.title, "same")


def differing(entry: GradedTask, where: str, outputs: Sequence[Outputs]) -> Outcome:
    """The outcome of a function that differs."""
    finding = Finding("fact", where, name=digest(outputs))
    return Outcome(entry.title, "differs", place_of_inputs(entry), (finding,))


def told(seed: int, name: str, output: Any, wanted: Any) -> str:
    """The input on which two functions differ, where they differ and by how much."""
    kind, _, what = name.partition("/")
    if kind == "inputs":
        return f"{given(seed)}: `{what}` is changed in place"
    mode = f", {WORDS[kind]}" if kind in WORDS else ""
    known = isinstance(wanted, Tensor)
    finding = difference(kind, what, output, wanted, TOLERANCES[torch.float64]) if known else None
    return f"{given(seed)}{mode}: {finding.text if finding else f'{kind} of {what}'}"


def given(seed: int) -> str:
    """The name of an input; ``place_of_inputs`` says where it is."""
    return f"on input {seed}" if seed else f"on that of {references.DATA.name}"


def place_of_inputs(entry: GradedTask) -> str:
    """Where the inputs are on which functions differ, and their shapes."""
    if entry.id == "optimizer.step":
        return "the cases of checks/part1/adamw_cases.py"
    tensors = vars(references.inputs_of(entry.id, inputs(SEEDS[0]))).items()
    shapes = ", ".join(f"{n} {tuple(t.shape)}" for n, t in tensors if "cotangent" not in n)
    place = f'make_inputs({SEEDS[0]})["{entry.id}/inputs/…"] of checks/hunt/random_inputs.py'
    return f"input {SEEDS[0]} is {place}: {shapes}"


def same(got: Any, wanted: Any, tolerance: float) -> bool:
    """Whether both are the same tensor up to rounding, or both are no tensor but equal."""
    if not isinstance(got, Tensor) or not isinstance(wanted, Tensor):
        return got is None and wanted is None
    if got.shape != wanted.shape or got.is_floating_point() != wanted.is_floating_point():
        return False
    if not wanted.numel():
        return True
    off = (got.double() - wanted.double()).abs().max().item()
    return off <= tolerance * max(1.0, wanted.double().abs().max().item())


def digest(outputs: Sequence[Outputs]) -> str:
    """A short text that is the same for equal outputs, rounded."""
    made = hashlib.blake2b(digest_size=8)
    for name, value in (pair for each in outputs for pair in sorted(each.items())):
        if isinstance(value, Tensor):
            value = value.double().mul(1e4).round().tolist()
        made.update(f"{name} {value}".encode())
    return made.hexdigest()


@functools.lru_cache(maxsize=4000)
def run(entry: GradedTask, source: str, seed: int, axis: int, dtype: torch.dtype) -> Outputs:
    """All outputs of a task's function, those of forward besides for the classifier's __init__."""
    tensors = references.in_dtype(inputs(seed), dtype)
    options = {"alone": False} if entry.id == "bert.layer" else {}
    runs = [functools.partial(runners.RUNS[entry.id], **options)]
    runs += [runners.RUNS["classifier.forward"]] * (entry.id == INIT)
    outputs: dict[str, Any] = {}
    try:
        with installed_source(entry.file, source), default_dtype(dtype), FixedDropout(axis=axis):
            for runner in runs:
                outputs |= runner(tensors)
    except (Exception, SystemExit) as error:
        outputs["error"] = f"{type(error).__name__}: {error}"
    return {k: v.detach() if isinstance(v, Tensor) else v for k, v in outputs.items()}


@functools.cache
def inputs(seed: int) -> dict[str, Tensor]:
    """Fresh inputs of all tasks but the optimizer's, or those that are stored."""
    return make_inputs(seed) if seed else references.load_references(torch.float64)


# ---------------------------------------------------------------------------------------------
# The optimizer


def compare_optimizers(entry: GradedTask, source: str, right: str) -> Outcome:
    """The same of an optimizer.py; weight decay may come before the update or after it."""
    with installed_source(entry.file, source) as module:
        first = attempt(adamw_cases.run_case, module.AdamW, adamw_cases.CASES[0])
        if isinstance(first, Exception) and not isinstance(first, adamw_cases.CheckFailed):
            return Outcome(entry.title, "broken")
        if failed := adamw_checks.failures(module.AdamW):
            name, text = next(iter(failed.items()))
            title = adamw_checks.TITLES.get(name, name)
            return differing(entry, f"{title}: {' '.join(text.split())}", [failed])
        paths = random_paths(module.AdamW)
    with installed_source(entry.file, right) as module:
        wanted = random_paths(module.AdamW)
    if paths.pop("order") == wanted.pop("order"):
        for name, path in paths.items():
            if not same(path, wanted[name], TOLERANCES[torch.float64]):
                return differing(entry, f"{name}, with other numbers", [paths])
    return Outcome(entry.title, "same")


def random_paths(opt_class: type) -> dict[str, Any]:
    """Where parameters go in the checks' cases with random settings; the order of the decay."""
    paths = {"order": adamw_checks.check_trajectory(adamw_cases.CASES[1], opt_class)}
    for case in adamw_cases.make_cases(SEEDS[0]):
        path = attempt(adamw_cases.run_case, opt_class, case, torch.float64, SEEDS[0])
        failed = isinstance(path, BaseException)
        paths[case.about] = describe(path).text if failed else torch.from_numpy(path)
    return paths
