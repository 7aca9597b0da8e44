"""What is probably wrong with a function that differs from the references.

First its known mistakes, by their fingerprints; of what they leave open, or where none is known,
what was measured.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from checks.errors import attempt
from checks.findings import Finding, Mistake, named
from checks.fingerprints import KnownMistakes, projections, same_projections
from checks.first_nan import FirstNaN
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.part1 import attention_probes as attention
from checks.part1 import embed_probes as embed
from checks.part1 import layer_probes as layer
from checks.part1.classifier_probes import classifier_formula
from checks.part1.compare import compare
from checks.part1.measuring import Cause, Probe, same
from checks.part1.references import inputs_of, known_mistakes, load_references, student_model
from checks.part1.runners import Outputs, groups_of, layers_lost, outputs_or_error

LOST_DIGITS = (
    "all of this is right in float64, but in float32, in which models are trained, digits get "
    "lost: is a large number added to small ones?"
)
RANDOM = (
    "the same inputs give other results in every run{}: random numbers are in it that are not "
    "those of nn.Dropout, as the initial weights of a layer that you have added"
)
UNSEEN_DROPOUT = ("dropout_before_mask", "dropout_on_scores", "no_dropout")
PROBES: dict[str, tuple[Probe, ...]] = {  # the last one with dropout as it is, others without
    "bert.attention": (
        attention.order_of_axes,
        attention.arguments,
        attention.weights,
        attention.attention_dropout,
    ),
    "bert.add_norm": (layer.frame_modules, layer.frame_formula),
    "bert.layer": (layer.layer_trace,),
    "bert.embed": (embed.lookups, embed.embed_formula),
    "classifier.forward": (classifier_formula,),
}


def explain(task_id: str, findings: Sequence[Finding]) -> list[Finding]:
    """The known mistakes that a wrong function makes, and facts on what they leave unexplained.

    Args:
        findings: what is wrong with it. Some need no further explanation; of results that are not
            numbers only where they arise is reported.
    """
    if all(finding.name for finding in findings):
        return []
    results = {}
    with FirstNaN() as nan:
        for group, options in groups_of(task_id).items():
            results[group] = outputs_or_error(task_id, **options)
    known = {group: known_mistakes(group) for group in results}
    mistakes, outputs, unexplained = first_known(task_id, results, known)
    if task_id == "classifier.init":
        lost = attempt(lambda: list(layers_lost(load_references())))
        texts = [] if isinstance(lost, BaseException) else lost
        return named(mistakes) + [Finding("hint", text) for text in texts]
    if mistakes:
        return named(mistakes) + facts_about(task_id, outputs, unexplained)
    if nan.text:
        return [Finding("fact", nan.text)]
    if text := random_numbers(task_id, results):
        return [Finding("fact", text)]
    right = all(isinstance(run, dict) and not compare(task_id, run) for run in results.values())
    facts = [Finding("cause", LOST_DIGITS)] if right and findings[0].kind != "error" else []
    return facts + measured(task_id)


def random_numbers(task_id: str, results: Mapping[str, Outputs | Finding]) -> str:
    """What is said where a second run gives other results: the checks leave dropout no chance."""
    group, first = next(iter(results.items()))
    again = outputs_or_error(task_id, **groups_of(task_id)[group])
    if isinstance(first, Finding) or isinstance(again, Finding):
        return ""
    changed = {
        name.split("/")[0]
        for name, output in first.items()
        if isinstance(output, Tensor) and not same(output, again.get(name))
    }
    when = "" if "values" in changed else " in training mode"
    return RANDOM.format(when) if changed & {"values", "dropout"} else ""


def first_known(
    task_id: str, results: Mapping[str, Outputs | Finding], known: Mapping[str, KnownMistakes]
) -> tuple[list[Mistake], Outputs | Finding, list[str]]:
    """The mistakes in the first way of running a function that shows any; see mistakes_in.

    Args:
        results: outputs, or the error, in each way.
        known: mistakes by the same names.

    Returns:
        The mistakes, that way's outputs, and the names of those that they do not explain.
    """
    wrong_before = False  # in an earlier way, where it ran
    for group, outputs in results.items():
        if isinstance(outputs, Finding) and wrong_before:
            break  # many mistakes fail here, too
        mistakes, unexplained = mistakes_in(task_id, outputs, known[group])
        if mistakes:
            return mistakes, outputs, unexplained
        wrong_before |= isinstance(outputs, Finding) or bool(compare(task_id, outputs))
    return [], {}, []


def mistakes_in(
    task_id: str, outputs: Outputs | Finding, known: KnownMistakes
) -> tuple[list[Mistake], list[str]]:
    """The known mistakes that outputs, or an exception, show, and the outputs left unexplained.

    None if the outputs are correct. Dropout that never acts is named next to any other mistake.
    """
    if isinstance(outputs, Finding):
        return known.find(outputs.text)
    findings = compare(task_id, outputs)
    if not findings:
        return [], []
    # Correct values are those of many mistakes: only wrong ones reveal which it is.
    wrong_kinds = {finding.kind for finding in findings if not finding.slight}
    mistakes, others = known.find(outputs, "values" if "values" in wrong_kinds else "")
    unexplained = [name for name in others if is_wrong(task_id, name, outputs[name])]
    dropped = [name for name in unexplained if name.startswith("dropout/")]
    no_dropout = known.mistakes.get("no_dropout")
    dropouts = [name for name in outputs if name.startswith("dropout/")]
    if len(mistakes) > 1 and no_dropout and all(never_drops(outputs, name) for name in dropouts):
        # next to numbers as large as a mask's, where dropout acts is not seen
        others = [mistake for mistake in mistakes if mistake.name not in UNSEEN_DROPOUT]
        mistakes = others if others == mistakes else [*others, no_dropout]
    if dropped and no_dropout and all(never_drops(outputs, name) for name in dropped):
        mistakes = [*mistakes, no_dropout]
        unexplained = [name for name in unexplained if name not in dropped]
    return mistakes, unexplained


def is_wrong(task_id: str, name: str, output: Any) -> bool:
    """Whether an output that a named mistake does not explain shows that there is another one.

    Gradients may differ by rounding alone; where one is missing, something is wrong.
    """
    if task_id == "classifier.init" or name.startswith("gradients/"):
        return output is None
    return bool(compare(task_id, {name: output}))


def never_drops(outputs: Mapping[str, Any], name: str) -> bool:
    """Whether a result in training mode is that of evaluation mode."""
    values = outputs.get(name.replace("dropout/", "values/", 1))
    return isinstance(values, Tensor) and same_projections(
        projections(outputs[name]), projections(values)
    )


def facts_about(task_id: str, outputs: Outputs, unexplained: Sequence[str]) -> list[Finding]:
    """What the named mistakes do not explain, and facts on that."""
    if not unexplained:
        return []
    pairs = [tuple(name.split("/", 1)) for name in unexplained]
    places = ", ".join(f"{kind} of {what}" for kind, what in pairs[:3])
    texts = [f"that is not all: it does not explain {places}"]
    cut = [
        what for kind, what in pairs if kind == "gradients" and outputs[f"{kind}/{what}"] is None
    ]
    if cut:
        texts.append(f"no gradient arrives at {', '.join(cut)} (detached, or under no_grad?)")
    facts = [Finding("fact", text) for text in texts]
    if any(kind == "dropout" for kind, _ in pairs):
        facts += measured(task_id, only_dropout=True)
    return facts


def measured(task_id: str, only_dropout: bool = False) -> list[Finding]:
    """Facts about a wrong function that makes no known mistake, or none in its dropout.

    A probe in which the student's code fails says nothing.
    """
    references, prefix = load_references(), f"{task_id}/values/"
    correct = {k.removeprefix(prefix): v for k, v in references.items() if k.startswith(prefix)}
    probes = PROBES.get(task_id, ())
    texts: dict[str, None] = {}  # in order, each once
    with default_dtype(torch.float64), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for probe in probes[-1:] if only_dropout else probes:
            # Wrong dropout must disturb no other probe.
            mode = FixedDropout(drops=False) if probe != probes[-1] else contextlib.nullcontext()
            with contextlib.suppress(Exception, SystemExit), mode:
                model, stored = student_model(references), inputs_of(task_id, references)
                for text in probe(model, stored, correct):
                    texts[text] = None
    return [Finding("cause" if isinstance(text, Cause) else "fact", text) for text in texts]
