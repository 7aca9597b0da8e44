"""Comparison of what a student's function computed with the references: what is wrong, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from checks.differences import difference
from checks.findings import CHANGED_IN_PLACE, Finding
from checks.part1.references import TINY, in_dtype, load_references, under
from checks.part1.runners import INIT_DROPOUT, OF_ONE, outputs_or_error

TOLERANCES = {  # of values and of gradients, relative where the correct value is above 1
    torch.float64: (1e-10, 1e-8),
    torch.float32: (1e-5, 1e-4),
}
KINDS = ("values", "gradients", "padding", "dropout", "inputs")
OTHER_MODE = {  # kind → the kind with which it may be mistaken, and what to say then
    "values": ("dropout", "dropout was applied in evaluation mode"),
    "dropout": ("values", "no dropout was applied in training mode"),
}


def compare(
    task_id: str,
    outputs: dict[str, Any],
    dtype: torch.dtype = torch.float64,
    references: Mapping[str, Tensor] | None = None,
    reveal: bool = True,
    slack: float = 1.0,
) -> list[Finding]:
    """Findings about a student's outputs, in the order of KINDS; none if they are correct.

    Args:
        references: the correct outputs, if they are not those of sanity_check.data.
        reveal: whether findings may say what is correct.
        slack: by how much tolerances are multiplied.
    """
    if references is None:
        references = load_references(dtype)
    if task_id == "classifier.init":
        return compare_classifier_init(outputs, len(references["weights/head.bias"]))
    own = under(f"{task_id}/", in_dtype(references, dtype))
    findings: list[Finding] = []
    for name, got in sorted(outputs.items(), key=lambda item: KINDS.index(item[0].split("/")[0])):
        follows = name.startswith(("gradients/", "dropout/")) or name == OF_ONE
        if follows and any(finding.kind == "values" for finding in findings):
            continue  # they cannot be correct either
        tolerance = slack * TOLERANCES[dtype][name.startswith("gradients/")]
        if finding := compare_output(name, got, own, tolerance, reveal):
            findings.append(finding)
    return findings


def compare_output(
    name: str, got: Any, references: Mapping[str, Tensor], tolerance: float, reveal: bool
) -> Finding | None:
    """What is wrong with one output, ``kind/what``."""
    kind, _, what = name.partition("/")
    if kind == "inputs":
        if difference(kind, what, got, references[name], 0.0):
            return Finding(kind, CHANGED_IN_PLACE.format(what), name="input_changed")
        return None
    if kind == "padding":
        return difference(kind, what, got, torch.zeros(()), tolerance, reveal)

    def is_close(reference: str) -> bool:
        expected = references.get(reference)
        return expected is not None and not difference(kind, what, got, expected, tolerance)

    finding = difference(kind, what, got, references[name], tolerance, reveal)
    if finding is None or is_close(f"{name} (keys first)"):
        return None
    if kind in OTHER_MODE and is_close(f"{OTHER_MODE[kind][0]}/{what}"):
        return Finding(kind, f"{kind} of {what}: {OTHER_MODE[kind][1]}")
    return finding


def compare_classifier_init(outputs: dict[str, Any], num_labels: int) -> list[Finding]:
    """One Linear of the right size, dropout as configured, the encoder frozen as asked."""
    texts = []
    sizes, biases = outputs["sizes"].tolist(), outputs["values/Linear layers: with a bias"].tolist()
    expected = [TINY["hidden_size"], num_labels]
    if (sizes, biases) != ([expected], [True]):
        pairs = zip(sizes, biases, strict=True)
        layers = [f"{a} → {b}" + ("" if bias else " without bias") for (a, b), bias in pairs]
        texts.append(
            f"expected one Linear {expected[0]} → {expected[1]} (config.hidden_size → "
            f"config.num_labels) besides self.bert, found {', '.join(layers) or 'none'}"
        )
    as_configured = outputs["values/dropout probabilities that are it"].tolist()
    texts += [
        f"dropout probability {p:.6g} instead of config.hidden_dropout_prob, here {INIT_DROPOUT}"
        for p, fits in zip(outputs["rates"].tolist(), as_configured, strict=True)
        if not fits
    ]
    if not outputs["values/dropout: made, or its probability kept"].all():
        texts.append(
            "no dropout is an attribute of the model, and config.hidden_dropout_prob is not kept "
            "for forward"
        )
    for option, trains in (("pretrain", False), ("finetune", True)):
        if outputs[f"values/option {option}: the encoder trains"].tolist() != [trains]:
            state = "trainable" if trains else "frozen"
            texts.append(f"option {option}: self.bert's parameters are not all {state}")
        if sizes and outputs[f"values/option {option}: the Linear trains"].tolist() != [True]:
            texts.append(f"option {option}: the Linear's parameters are frozen")
    return [Finding("values", text) for text in texts]


def run_and_compare(task_id: str, dtype: torch.dtype, **options: Any) -> list[Finding]:
    """Findings of one task in one floating-point type, an exception being one of them."""
    outputs = outputs_or_error(task_id, dtype, **options)
    if isinstance(outputs, Finding):
        return [outputs]
    return compare(task_id, outputs, dtype)


def check_model(task_id: str, **options: Any) -> list[Finding]:
    """Sharply in float64, then as it will be used, in float32."""
    sharp = run_and_compare(task_id, torch.float64, **options)
    if any(not finding.slight for finding in sharp):
        return sharp
    return run_and_compare(task_id, torch.float32, **options)
