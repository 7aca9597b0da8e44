"""The comparison of outputs, by name, with what they should be: what is wrong, in words.

There is one tolerance for each floating-point type. In float64 it is what computing in float32
inside may cost, which is no mistake; a result of that type is compared in float32 as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from checks.errors import describe
from checks.findings import CHANGED_IN_PLACE, Finding
from checks.references import in_dtype, load_references, under
from checks.task import ERROR, KINDS, Inputs, Outputs, outputs_of, task_of

TOLERANCES = {torch.float64: 1e-5, torch.float32: 1e-3}  # relative where the right value is above 1
KEYS_FIRST = " (keys first)"  # the end of names of outputs that are as right: of scores
# (B, H, keys, queries), along whose last axis dropout drops queries
MODULES = {"dense_layer": "Linear", "dropout": "Dropout", "ln_layer": "LayerNorm"}  # of add_norm
ARGUMENTS = {  # what students' functions call some of the stored inputs
    "hidden": "hidden_states", "mask": "attention_mask", "ids": "input_ids",
    "attended": "output", "expanded": "output",
}  # fmt: skip
# In names of outputs that are not returned but passed on:
PASSED_ON = (" of add_norm's call ", " of attention", " given to ")
OTHER_MODE = {  # kind → the kind with which it may be mistaken, and what to say then
    "values": ("dropout", "dropout was applied in evaluation mode"),
    "dropout": ("values", "no dropout was applied in training mode"),
}


def check(task_id: str) -> list[Finding]:
    """What is wrong with the function that is installed: in float64, then as it will be used."""
    findings = compare(task_id, outputs_of(task_id))
    if any(not finding.slight for finding in findings):
        return findings
    used = compare(task_id, outputs_of(task_id, dtype=torch.float32), torch.float32)
    return [replace(finding, text=f"in float32, {finding.text}") for finding in used]


def compare(
    task_id: str,
    outputs: Outputs,
    dtype: torch.dtype = torch.float64,
    references: Inputs | None = None,
    reveal: bool = True,
) -> list[Finding]:
    """Findings about a student's outputs, in the order of KINDS; none if they are correct.

    Args:
        references: the correct outputs, if they are not those that are stored.
        reveal: whether findings may say what is correct.
    """
    task = task_of(task_id)
    references = load_references(dtype) if references is None else in_dtype(references, dtype)
    if ERROR in outputs:
        error = outputs[ERROR]
        given = {name: x for name, x in outputs.items() if name.startswith("inputs/")}
        right = expected_of(task_id, references)[0]
        changed = list(differences(given, right, dtype, reveal))  # autograd may refuse it later
        return [*changed, describe(error) if isinstance(error, BaseException) else error]
    if task.judge:
        return task.judge(outputs, references)
    ways = expected_of(task_id, references)
    return min((list(differences(outputs, right, dtype, reveal)) for right in ways), key=len)


def expected_of(task_id: str, references: Inputs) -> list[Outputs]:
    """The correct outputs of a task by name: in each way in which they are correct."""
    stored = under(f"{task_id}/", references) or under(f"{task_id.partition(',')[0]}/", references)
    usual = {name: output for name, output in stored.items() if not name.endswith(KEYS_FIRST)}
    others = {name.removesuffix(KEYS_FIRST): stored[name] for name in stored.keys() - usual.keys()}
    return [usual, usual | others] if others else [usual]


def differences(
    outputs: Outputs, right: Outputs, dtype: torch.dtype, reveal: bool
) -> Iterator[Finding]:
    """A finding for each output that is not as it should be; of one mode if that follows."""
    values_are_right = True
    for name in sorted(outputs, key=lambda name: KINDS.index(name.split("/")[0])):
        kind, _, what = name.partition("/")
        if kind in ("gradients", "dropout") and not values_are_right:
            continue  # they cannot be correct either
        finding = difference(kind, what, outputs[name], right.get(name), TOLERANCES[dtype], reveal)
        if finding is None:
            continue
        values_are_right &= kind != "values"
        other, text = OTHER_MODE.get(kind, ("", ""))
        alike = right.get(f"{other}/{what}")
        if alike is not None and is_close(outputs[name], alike, TOLERANCES[dtype]):
            finding = Finding(kind, f"{kind} of {what}: {text}", output=f"modes/{what}")
        yield replace(finding, output=finding.output or name)


def is_close(got: Any, expected: Any, tolerance: float) -> bool:
    """Whether both are the same tensor up to rounding, or neither is a tensor and they are equal.

    Two exceptions are the same if they are of one type and say the same.
    """
    if not is_dense(got) or not is_dense(expected):
        return type(got) is type(expected) and str(got) == str(expected)
    if got.shape != expected.shape or got.is_floating_point() != expected.is_floating_point():
        return False
    return not differing(got, expected, tolerance).any()


def is_dense(output: Any) -> bool:
    """Whether an output is a tensor of real numbers, whose places are all there."""
    is_tensor = isinstance(output, Tensor)
    return is_tensor and output.layout == torch.strided and not output.is_complex()


def differing(got: Tensor, expected: Tensor, tolerance: float) -> Tensor:
    """Which numbers of a tensor are not those expected; NaN never is."""
    off = (got.double() - expected.double()).abs()
    return ~(off <= tolerance * expected.double().abs().clamp(min=1))


def difference(
    kind: str, what: str, got: Any, expected: Any, tolerance: float, reveal: bool = True
) -> Finding | None:
    """The first number of one output that is not what it should be, in words.

    Right values are said only if ``reveal``.
    """
    label = f"{kind} of {what}"
    if kind == "inputs":
        text = CHANGED_IN_PLACE.format(ARGUMENTS.get(what, what))
        changed = Finding(kind, text, name="input_changed")
        return None if torch.equal(got, expected) else changed
    if got is None and kind == "gradients":
        return Finding(kind, f"{label}: no gradient arrives (detached, or under no_grad?)")
    if not is_dense(got):
        return no_tensor(kind, what, got)
    if kind == "padding":
        most = got.abs().max().item()
        change = f"{label}: a change of padded tokens changes real ones by up to {most:.1e}"
        return None if most <= tolerance else Finding(kind, change)
    if got.shape != expected.shape:
        shapes = f"shape {tuple(got.shape)} instead of {tuple(expected.shape)}"
        return Finding(kind, f"{label}: {shapes}")
    is_right_type = got.dtype == expected.dtype or (
        got.is_floating_point() and expected.dtype == torch.float64  # it was computed in float32
    )
    if not is_right_type:
        return Finding(kind, f"{label}: type {got.dtype} instead of {expected.dtype}")
    wrong = differing(got, expected, tolerance)
    if not wrong.any():
        return None
    if expected.dtype == torch.bool and expected.numel() == 1:  # the name is a sentence
        return Finding(kind, f"{what}: {got.item()}, expected {expected.item()}")
    return Finding(kind, f"{label}: {in_words(got, expected, wrong, reveal)}")


def no_tensor(kind: str, what: str, got: Any) -> Finding:
    """What to say about an output that is not a tensor: its type, and the one expected."""
    name = "sparse or complex tensor" if isinstance(got, Tensor) else type(got).__name__
    name = f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
    if got is None or isinstance(got, type):
        name = repr(got)
    wanted = MODULES.get(what.partition(" of ")[0], "tensor")
    text = f"{kind} of {what}: {name} instead of a {wanted}"
    if any(words in what for words in PASSED_ON):
        return Finding(kind, text)
    if got is None:
        return Finding(kind, f"{text}: did you forget `return`?", name="nothing_returned")
    if isinstance(got, tuple | dict):
        text += ": return the one tensor that the docstring names, which the caller computes with"
    return Finding(kind, text, name="no_tensor_returned")


def in_words(got: Tensor, expected: Tensor, wrong: Tensor, reveal: bool) -> str:
    """Where a tensor is first not finite or else wrong, and how much; that it is a multiple."""
    odd = ~got.isfinite()
    index = (odd if odd.any() else wrong).nonzero()[0].tolist()
    value, wanted = got[tuple(index)].item(), expected[tuple(index)].item()
    right = f", expected {wanted:.6g}" if reveal else ""
    if not math.isfinite(value):
        return f"{value} at {index}{right}"
    off = (got.double() - expected.double()).abs().max()
    where = f"off by up to {off:.1e}, in {int(wrong.sum())} of {wrong.numel()} numbers"
    factor = factor_of(got, expected) if reveal else None
    times = f"; all are {factor:.6g} times what is expected" if factor is not None else ""
    return f"first difference at {index}: got {value:.6g}{right} ({where}{times})"


def factor_of(got: Tensor, expected: Tensor) -> float | None:
    """The one factor between two tensors, where there is one."""
    got, expected = got.double().flatten(), expected.double().flatten()
    factor = (got @ expected) / (expected @ expected)
    near = torch.allclose(got, factor * expected, rtol=1e-6, atol=1e-9)
    return factor.item() if near and got.numel() > 1 and factor else None
