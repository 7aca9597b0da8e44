"""What a wrong classifier, Tasks 1.6 and 1.7, does, as measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from checks.fixed_dropout import FixedDropout
from checks.part1.data_flow import Call, Flow, Trace
from checks.part1.measuring import dropout_facts
from checks.part1.references import NUM_LABELS, TINY, load_references
from checks.part1.runners import student_classifier

# The order that the task's comment gives: pooler_output, dropout, the linear layer.
FLOW = Flow(
    (
        Call("dropout", {"0": "pooler_output"}),
        Call("linear", {"0": "what dropout gave"}),
    ),
    "what linear gave",
)


def classifier_trace(_, stored, correct) -> Iterator[str]:
    """What dropout and the linear layer are given, of what the encoder returns."""
    model, encoder, own = student_classifier(load_references(), "finetune")
    states, pooled = stored.last_hidden_state, stored.pooler_output
    mask = stored.attention_mask[..., None].to(states)  # (B, L, 1)
    known = {
        "last_hidden_state": states,
        "the mean of last_hidden_state, padding included": states.mean(1),
        "the mean of last_hidden_state": (states * mask).sum(1) / mask.sum(1),
        "the maximum of last_hidden_state, padding included": states.amax(1),
        "the maximum of last_hidden_state": states.masked_fill(mask == 0, -torch.inf).amax(1),
        "the sum of last_hidden_state": states.sum(1),
        "the last column of last_hidden_state": states[:, -1],
        "the second column of last_hidden_state": states[:, 1],
        "the first sentence's last_hidden_state": states[0],
        "last_hidden_state of [CLS]": states[:, 0],
        "pooler_output": pooled,
    }
    encoder.forward = lambda *_, **__: {
        "last_hidden_state": states.clone(),
        "pooler_output": pooled.clone(),
    }

    def call() -> torch.Tensor:
        return model(stored.input_ids.clone(), stored.attention_mask.clone())

    with torch.no_grad():
        yield from dropout_facts(model, call)
        trace = Trace(known)
        for kind, name in ((nn.Dropout, "dropout"), (nn.Linear, "linear")):
            parts = [part for part in own if isinstance(part, kind)]
            if len(parts) == 1:
                trace.note({name: parts[0]})
        with FixedDropout():
            model.train()
            result = call()
        yield from trace.report(result, FLOW)


def init_causes(outputs: Mapping[str, Any]) -> Iterator[str]:
    """Why the linear layers of a classifier are not the one that is asked for."""
    sizes = {"config.hidden_size": TINY["hidden_size"], "config.num_labels": NUM_LABELS}
    made = outputs["sizes"].tolist()
    if len(made) > 1:
        yield f"{len(made)} linear layers are made, where the task asks for one"
    foreign = dict.fromkeys(size for pair in made for size in pair if size not in sizes.values())
    if foreign:
        asked = " and ".join(f"{name} (here {size})" for name, size in sizes.items())
        numbers = ", ".join(map(str, foreign))
        yield f"a linear layer has a size of {numbers}: the sizes to take are {asked}"
    if made == [list(sizes.values())[::-1]]:
        yield "the linear layer's two sizes are swapped: nn.Linear takes the inputs' size first"
    if not made:
        yield "no nn.Linear is part of the model: self.name = nn.Linear(…) makes it one"
