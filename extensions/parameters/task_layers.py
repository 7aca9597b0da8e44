"""Hard parameter sharing with a branching point: lower layers for all tasks, top layers for each.

Which layers to share is a choice between one encoder for all tasks and one for each (Caruana 1997):

    h = layer_N^task(… layer_{N−k+1}^task(layer_{N−k}(… layer_1(x))))   for k layers of each task

In the model, and in the loop:

    self.task_layers = split_top_layers(self.bert, 1, ("sst", "para", "sts"))
    output = encode(bert, ids, mask, layers=task_layers[task])
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

from torch import Tensor, nn

from training.files.errors import InputError
from utils import get_extended_attention_mask


def split_top_layers(bert: nn.Module, count: int, tasks: Iterable[str]) -> nn.ModuleDict:
    """Take the top ``count`` layers off ``bert`` and return a copy of them for each task.

    The copies can learn, even if ``bert`` is frozen.
    """
    layers = len(bert.bert_layers)
    if not 0 <= count <= layers:
        raise InputError(f"--separate_layers {count}: this BERT has {layers} layers to take from")
    top = bert.bert_layers[layers - count :]
    bert.bert_layers = bert.bert_layers[: layers - count]
    return nn.ModuleDict({task: copy.deepcopy(top).requires_grad_(True) for task in tasks})


def encode(
    bert: nn.Module,
    ids: Tensor,
    mask: Tensor,
    segments: Tensor | None = None,
    layers: Iterable[nn.Module] = (),
) -> dict[str, Tensor]:
    """What ``bert(ids, mask)`` does, with segment ids and with further layers on top.

    Args:
        ids, mask, segments: (B, L) each; without segments all are of the first.

    Returns:
        last_hidden_state (B, L, D), pooler_output (B, D).
    """
    hidden = bert.embed(ids) if segments is None else bert.embed(ids, segments)  # (B, L, D)
    hidden = bert.encode(hidden, mask)  # (B, L, D)
    additive_mask = get_extended_attention_mask(mask, bert.dtype)  # (B, 1, 1, L)
    for layer in layers:
        hidden = layer(hidden, additive_mask)  # (B, L, D)
    pooled = bert.pooler_af(bert.pooler_dense(hidden[:, 0]))  # (B, D)
    return {"last_hidden_state": hidden, "pooler_output": pooled}
