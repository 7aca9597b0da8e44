"""Facts about a wrong function of bert.py that makes no known mistake: all probes of its task."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from checks.findings import Finding
from checks.fixed_dropout import NoDropout
from checks.part1 import attention_probes as attention
from checks.part1 import embed_probes as embed
from checks.part1 import layer_probes as layer
from checks.part1.measuring import Probe

PROBES: dict[str, tuple[Probe, ...]] = {
    "bert.attention": (attention.arguments, attention.weights),
    "bert.add_norm": (layer.frame_modules, layer.frame_sum, layer.frame_norm),
    "bert.embed": (embed.lookups, embed.embed_sum, embed.embed_norm, embed.embed_length),
}
PROBES_OF_DROPOUT: dict[str, Probe] = {
    "bert.attention": attention.attention_dropout,
    "bert.add_norm": layer.frame_dropout,
    "bert.layer": layer.layer_trace,
    "bert.embed": embed.embed_dropout,
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
    of_dropout = PROBES_OF_DROPOUT.get(task_id)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for probe in filter(None, (*probes, of_dropout)):
            # Wrong dropout must disturb no other probe.
            mode = contextlib.nullcontext() if probe is of_dropout else NoDropout()
            with contextlib.suppress(Exception, SystemExit), mode:
                for text in probe(make_model(), stored, correct):
                    texts[text] = None
    return [Finding("fact", text) for text in texts]
