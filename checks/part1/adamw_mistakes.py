"""The known mistakes in AdamW.step: recognised by what a wrong optimizer computes."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from checks.errors import attempt, describe
from checks.findings import Finding, Mistake, named
from checks.fingerprints import (
    Fingerprint,
    KnownMistakes,
    fingerprint_of,
    load_known,
    projections,
    same_projections,
)
from checks.first_nan import FirstNaN
from checks.part1.adamw_cases import (
    CASES,
    ORDERS,
    Case,
    first_difference,
    gradient,
    reference,
    run_case,
    start_value,
)
from checks.part1.adamw_parts import wrong_parts
from checks.part1.adamw_probes import eps_counts, facts

# A case's fingerprint is filed under the part of AdamW that it shows.
PARTS = {"adam": ("plain", "large_eps", "tiny_gradients"), "decay": ("decay", "long")}
# Names of fingerprints begin with these. Two mistakes at once may be of different parts: where all
# of a part is as one of them makes it, that one is named.
DECISIVE = ("adam/", "decay/", "uncorrected", "missing_gradients")
NO_NUMBER = torch.full((1,), 9.0)  # in place of a trajectory without a finite number


def fingerprint_name(case: Case) -> str:
    """``adam/plain``, or the case's name alone."""
    return next((f"{part}/{case.name}" for part in PARTS if case.name in PARTS[part]), case.name)


def outputs_of(opt_class: type) -> dict[str, torch.Tensor | str | None]:
    """What a wrong optimizer is recognised by: trajectories, and the gradient after a step.

    A division by zero is the same whether Python refuses it or torch makes NaN of it. After any
    other exception the output is its text.
    """
    outputs: dict[str, torch.Tensor | str | None] = {}
    for case in CASES:
        path = attempt(run_case, opt_class, case)
        if isinstance(path, ZeroDivisionError):
            output = NO_NUMBER
        elif isinstance(path, BaseException):
            output = describe(path).text
        elif np.isfinite(path).any():  # where single NaNs are tells mistakes apart
            output = torch.from_numpy(np.nan_to_num(path, nan=9.0, posinf=8.0, neginf=7.0))
        else:
            output = NO_NUMBER
        outputs[fingerprint_name(case)] = output
    parameter = torch.nn.Parameter(torch.as_tensor(start_value(0, (2, 3))))
    parameter.grad = torch.as_tensor(gradient(CASES[0], 1, 0))
    with contextlib.suppress(Exception, SystemExit):
        opt_class([parameter], lr=0.1, weight_decay=0.5).step()
    return outputs | {"gradient": parameter.grad}


@functools.cache
def known_mistakes() -> KnownMistakes:
    """The fingerprints in the reference file."""
    stored = reference()
    words = json.loads(bytes(stored["mistakes"])) if "mistakes" in stored.dtype.names else {}
    tables = stored["fingerprints"] if words else np.zeros((), [])
    prints = {name: torch.from_numpy(tables[name].copy()) for name in tables.dtype.names or ()}
    return load_known(words, prints)


def explain(opt_class: type) -> list[Finding]:
    """The known mistakes that a wrong optimizer makes; if it makes none of them, what it does."""
    with FirstNaN() as nan:
        mistakes, unexplained = mistakes_in(outputs_of(opt_class), known_mistakes())
    if attempt(eps_counts, opt_class) is True:  # another mistake divides by 0
        mistakes = [mistake for mistake in mistakes if mistake.name != "no_eps"]
    if nan.text and not mistakes:
        return [Finding("fact", nan.text)]
    findings = named(mistakes)
    if len(mistakes) == 1 and unexplained:  # of several nobody knows what they give together
        cases = ", ".join(name.rpartition("/")[2] for name in unexplained)
        findings.append(Finding("fact", f"that is not all: it does not explain {cases}"))
    if unexplained or not mistakes:
        kind = "fact" if mistakes else "cause"
        texts = wrong_parts(opt_class) + facts(opt_class)
        findings += [Finding(kind, text) for text in texts]
    return findings


def mistakes_in(
    outputs: Mapping[str, Any], known: KnownMistakes
) -> tuple[list[Mistake], list[str]]:
    """The known mistakes that a wrong optimizer's outputs show, and the outputs left unexplained.

    Of two mistakes each may be the only one in a part of the outputs.

    Args:
        outputs: by name; they may be of any type.
    """
    if not isinstance(outputs.get(fingerprint_name(CASES[0])), torch.Tensor):
        return [], []  # the exception says what is wrong
    mistakes, unexplained = known.find(outputs)
    if mistakes:
        return mistakes, unexplained
    names = {fingerprint_name(case): case for case in CASES}
    wrong = [name for name, case in names.items() if not is_correct(case, outputs.get(name))]
    unexplained = wrong
    for part in DECISIVE:
        names_here = [name for name in unexplained if name.startswith(part)]
        here = [outputs[name] for name in names_here]
        empty = any(output is NO_NUMBER for output in here)  # as of many mistakes
        slight = all(map(is_nearly_correct, (names[name] for name in names_here), here))
        if here and not slight and not (empty and "uncorrected" in wrong):
            # without bias correction much is alike: it has to go with what is named already
            prefix = (part, "adam/plain") if part == "uncorrected" and mistakes else part
            matches, others = known.find(outputs, prefix, correct_adam())
            mistakes += [mistake for mistake in matches if mistake not in mistakes]
            if matches:
                unexplained = [name for name in unexplained if name in others]
    return mistakes, unexplained


@functools.cache
def correct_adam() -> Fingerprint:
    """The correct outputs without weight decay, which are the same for both orders of decay."""
    paths = {f"adam/{name}": reference()[name]["after"] for name in PARTS["adam"]}
    return fingerprint_of({name: torch.from_numpy(path.copy()) for name, path in paths.items()})


def is_nearly_correct(case: Case, output: Any) -> bool:
    """Whether the fingerprint of an output is that of a correct one: it tells of no mistake."""
    paths = [torch.from_numpy(reference()[case.name][order].copy()) for order in ORDERS]
    return any(same_projections(projections(output), projections(path)) for path in paths)


def is_correct(case: Case, output: Any) -> bool:
    """Whether this is the reference's trajectory, for either order of decay."""
    expected = [reference()[case.name][order] for order in ORDERS]
    if not isinstance(output, torch.Tensor) or output.shape != expected[0].shape:
        return False
    return any(first_difference(output.double().numpy(), path) is None for path in expected)
