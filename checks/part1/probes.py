"""Facts about a wrong function of bert.py that makes no known mistake: all probes of its task."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from checks.findings import Finding
from checks.fixed_dropout import NoDropout
from checks.part1 import attention_probes, embed_probes, layer_probes
from checks.part1.measuring import Probe

PROBES: dict[str, tuple[Probe, ...]] = {
    "bert.attention": (
        attention_probes.arguments,
        attention_probes.weight_sums,
        attention_probes.weight_places,
        attention_probes.score_scale,
        attention_probes.head_order,
    ),
    "bert.add_norm": (layer_probes.frame_modules, layer_probes.frame_sum, layer_probes.frame_norm),
    "bert.embed": (
        embed_probes.lookups,
        embed_probes.embed_sum,
        embed_probes.embed_norm,
        embed_probes.embed_length,
    ),
}
PROBES_OF_DROPOUT: dict[str, tuple[Probe, ...]] = {
    "bert.attention": (attention_probes.attention_dropout,),
    "bert.add_norm": (layer_probes.frame_dropout,),
    "bert.layer": (layer_probes.layer_trace,),
    "bert.embed": (embed_probes.embed_dropout,),
}


def facts_of(
    task_id: str,
    make_model: Callable[[], nn.Module],
    stored: SimpleNamespace,
    correct: Mapping[str, Tensor],
    only_dropout: bool = False,
) -> list[Finding]:
    """What the probes of a task measure. A probe in which the student's code fails says nothing."""
    texts: dict[str, None] = {}  # in order, each once
    probes = () if only_dropout else PROBES.get(task_id, ())
    of_dropout = PROBES_OF_DROPOUT.get(task_id, ())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for probe in (*probes, *of_dropout):
            model = make_model()
            # Wrong dropout must disturb no other probe.
            mode = contextlib.nullcontext() if probe in of_dropout else NoDropout()
            try:
                with mode:
                    for text in probe(model, stored, correct):
                        texts[text] = None
            except (Exception, SystemExit):
                continue
    return [Finding("fact", text) for text in texts]
