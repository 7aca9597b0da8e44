"""What a wrong classifier, Tasks 1.6 and 1.7, does, as measured."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from checks.part1.data_flow import formula_facts
from checks.part1.references import load_references, under
from checks.part1.runners import student_classifier


def classifier_formula(_, stored, correct) -> Iterator[str]:
    """When dropout acts, and what is made of what the encoder returns."""
    references = load_references()
    model, encoder, own = student_classifier(references, "finetune")
    states, pooled = stored.last_hidden_state, stored.pooler_output
    mask = stored.attention_mask[..., None].to(states)  # (B, L, 1)
    known = {
        "last_hidden_state": states,
        "the mean of last_hidden_state, padding included": states.mean(1),
        "the mean of last_hidden_state": (states * mask).sum(1) / mask.sum(1),
        "the maximum of last_hidden_state, padding included": states.amax(1),
        "the maximum of last_hidden_state": states.masked_fill(mask == 0, -torch.inf).amax(1),
        "last_hidden_state of [CLS]": states[:, 0],
        "pooler_output": pooled,
    }
    encoder.forward = lambda *_, **__: {
        "last_hidden_state": states.clone(),
        "pooler_output": pooled.clone(),
    }

    def call() -> torch.Tensor:
        return model(stored.input_ids.clone(), stored.attention_mask.clone())

    modules = {}
    for kind, name in ((nn.Dropout, "dropout"), (nn.Linear, "linear")):
        parts = [part for part in own if isinstance(part, kind)]
        if len(parts) == 1:
            modules[name] = parts[0]
    if "linear" in modules:
        modules["linear"].load_state_dict(under("weights/head.", references))
    right, asked = "classifier.forward/dropout/logits", "what the task's comment lists"
    return formula_facts(model, call, known, modules, right, asked)
