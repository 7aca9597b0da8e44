"""Whether a changed function of part 1 still does what the right one does, by running both.

Both get the same random inputs. What they return, their gradients, what a change of padding does,
dropout along either axis, and their inputs afterwards are compared. Of the optimizer it is all of
its checks, with several parameters and resuming, and random cases in either order of weight decay.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from checks.differences import difference
from checks.errors import attempt, describe
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import GradedTask
from checks.hunt.installed import installed_source
from checks.hunt.random_inputs import make_inputs
from checks.part1 import adamw_cases, adamw_checks, references, runners

SEEDS = (101, 102)  # of random inputs
STORED = 0  # in the place of a seed: the inputs of sanity_check.data
# What is compared: the inputs, and the axis that dropout acts along
RUNS = [(SEEDS[0], -1), (SEEDS[0], -2), (SEEDS[1], -1), (STORED, -1)]
TOLERANCES = {torch.float64: 1e-5, torch.float32: 1e-3}  # what float32 inside may cost, and does
INIT = "classifier.init"
WORDS = {"values": "in evaluation mode", "dropout": "in training mode, with dropout"}

Outputs = Mapping[str, Any]  # or {"error": its text}


@dataclass(frozen=True)
class Comparison:
    """What becomes of a function by a change."""

    status: str  # "same", "differs", or "broken": it raises an exception, which any call shows
    where: str = ""  # of one that differs: an input on which both differ, and how
    behaviour: str = ""  # the same for two functions that compute the same


def compare(entry: GradedTask, source: str, right: str) -> Comparison:
    """What a file's function does that the right one does not."""
    if entry.id == "optimizer.step":
        return compare_optimizers(source, right)
    in_double = "error" not in run(entry, right, SEEDS[0], torch.float64, -1)
    dtype = torch.float64 if in_double else torch.float32
    runs = [(run(entry, source, seed, dtype, axis), seed, axis) for seed, axis in RUNS]
    if any("error" in outputs for outputs, *_ in runs):
        return Comparison("broken")
    behaviour = digest([outputs for outputs, *_ in runs])
    for outputs, seed, axis in runs:
        wanted = run(entry, right, seed, dtype, axis)
        for name, output in outputs.items():
            if not same(output, wanted.get(name), TOLERANCES[dtype]):
                where = told(seed, name, output, wanted.get(name))
                return Comparison("differs", where, behaviour)
    return Comparison("same")


def told(seed: int, name: str, output: Any, wanted: Any) -> str:
    """The input on which two functions differ, where they differ and by how much."""
    kind, _, what = name.partition("/")
    if kind == "inputs":
        return f"{given(seed)}: `{what}` is changed in place"
    mode = f", {WORDS[kind]}" if kind in WORDS else ""
    finding = difference(kind, what, output, wanted, TOLERANCES[torch.float64])
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


def digest(outputs: Any) -> str:
    """A short text that is the same for equal outputs, rounded."""
    made = hashlib.blake2b(digest_size=8)
    for output in outputs if isinstance(outputs, list) else [outputs]:
        for name, value in sorted(output.items()):
            rounded = value.double().mul(1e4).round() if isinstance(value, Tensor) else value
            text = rounded.tolist() if isinstance(value, Tensor) else str(value)
            made.update(f"{name} {text}".encode())
    return made.hexdigest()


@functools.lru_cache(maxsize=4000)
def run(entry: GradedTask, source: str, seed: int, dtype: torch.dtype, axis: int) -> Outputs:
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
    return make_inputs(seed, stand_ins=False) if seed else references.load_references(torch.float64)


# ---------------------------------------------------------------------------------------------
# The optimizer


def compare_optimizers(source: str, right: str) -> Comparison:
    """The same of an optimizer.py; weight decay may come before the update or after it."""
    with installed_source("optimizer.py", source) as module:
        first = attempt(adamw_cases.run_case, module.AdamW, adamw_cases.CASES[0])
        if isinstance(first, Exception) and not isinstance(first, adamw_cases.CheckFailed):
            return Comparison("broken")
        if failed := adamw_checks.failures(module.AdamW):
            name, text = next(iter(failed.items()))
            where = f"{adamw_checks.TITLES.get(name, name)}: {' '.join(text.split())}"
            return Comparison("differs", where, digest(failed))
        paths = random_paths(module.AdamW)
    with installed_source("optimizer.py", right) as module:
        wanted = random_paths(module.AdamW)
    if paths.pop("order") == wanted.pop("order"):
        for name, path in paths.items():
            if not same(path, wanted[name], TOLERANCES[torch.float64]):
                return Comparison("differs", f"{name}, with other numbers", digest(paths))
    return Comparison("same")


def random_paths(opt_class: type) -> dict[str, Any]:
    """Where parameters go in the checks' cases with random settings; the order of the decay."""
    paths = {"order": adamw_checks.check_trajectory(adamw_cases.CASES[1], opt_class)}
    for case in adamw_cases.make_cases(SEEDS[0]):
        path = attempt(adamw_cases.run_case, opt_class, case, torch.float64, SEEDS[0])
        failed = isinstance(path, BaseException)
        paths[case.about] = describe(path).text if failed else torch.from_numpy(path)
    return paths
